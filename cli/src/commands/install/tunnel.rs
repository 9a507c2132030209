//! The tunnel of an installation, and its Secrets. An existing certificate authority is kept,
//! because the agents of all members trust it.

use std::time::SystemTime;

use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway::target::is_tunnelled;
use causeway_certs::{CA_CERTIFICATE, Leaf};
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::InstallError;
use crate::cluster::api_server::ApiServer;
use crate::cluster::bundle;
use crate::cluster::bundle::parts::PartArgs;
use crate::cluster::objects;
use crate::cluster::tunnel::address::TunnelAddress;
use crate::cluster::tunnel::authority::{
    self, AUTHORITY_SECRET, ENROLMENT_SECRET, TunnelAuthority, UPGRADE,
};
use crate::cluster::tunnel::{self, CONTROLLER_SECRET, SERVER_SECRET, TunnelError};
use crate::observe::once;
use crate::term::exit::Failure;
use crate::term::output::{self, OutputError};
use crate::term::table::listed;

/// Checks that the objects give the controller the front of the tunnel if the hub reaches members
/// by it.
///
/// # Errors
/// [`InstallError::LosesTunnel`].
pub(super) async fn check(hub: &ApiServer, chosen: &[DynamicObject]) -> Result<(), Failure> {
    for deployment in chosen.iter().filter(|one| bundle::is_deployment(one)) {
        let stored = objects::get(hub, deployment).await?;
        if !bundle::loses_tunnel(stored.as_ref(), deployment) {
            continue;
        }
        let clusters = once::clusters(hub).await?.unwrap_or_default();
        let tunnelled = clusters.iter().filter(|cluster| is_tunnelled(*cluster));
        let names: Vec<_> = tunnelled.map(|cluster| cluster.name_any()).collect();
        if !names.is_empty() {
            return Err(InstallError::LosesTunnel(listed(&names)).into());
        }
    }
    Ok(())
}

/// Adds the options of causeway-tunnel that the hub has and the flags leave out. The Secret of an
/// option outlives an upgrade without its flag, which would lock out the members that have joined
/// by a file, or that reach only the API server. Returns true if it added one.
pub(super) async fn keep_options(hub: &ApiServer, parts: &mut PartArgs) -> Result<bool, Failure> {
    if parts.tunnel.is_none() {
        return Ok(false);
    }
    let enrols = !parts.enrolment && tunnel::secret(hub, ENROLMENT_SECRET).await?.is_some();
    // Neither kind of hub has pods that its API server reaches.
    let has_no_pods = parts.external || parts.karmada;
    let upgrades =
        !parts.through_api_server && !has_no_pods && tunnel::secret(hub, UPGRADE).await?.is_some();
    parts.enrolment |= enrols;
    parts.through_api_server |= upgrades;
    Ok(enrols || upgrades)
}

/// Adds the Secret of a new authority, and those of the certificates for this address and for the
/// controller, to the objects of an installation, before the Deployments that use them.
///
/// # Errors
/// The identity of the hub is not verified, or the authority is lost.
pub(super) async fn add_secrets(
    hub: &ApiServer,
    address: &TunnelAddress,
    enrols: bool,
    chosen: &mut Vec<DynamicObject>,
) -> Result<(), Failure> {
    hub.check_verified("the key of the tunnel's CA")?;
    let now = SystemTime::now();
    let stored = tunnel::secret(hub, SERVER_SECRET).await?;
    let mut secrets = Vec::new();
    let authority = match tunnel::authority(hub).await? {
        Some(authority) => {
            let title = objects::title(&authority.secret(AUTHORITY_SECRET)?);
            output::result(format_args!("hub: {title} unchanged"))?;
            authority
        }
        None if stored.is_some() => return Err(TunnelError::Foreign.into()),
        None => {
            let authority = TunnelAuthority::create(AUTHORITY_SECRET, now)?;
            secrets.push(authority.secret(AUTHORITY_SECRET)?);
            authority
        }
    };
    let mut enrolled = None;
    if enrols {
        // A second authority, whose key causeway-tunnel has. It signs agents, and agents do not
        // trust it.
        enrolled = match tunnel::secret(hub, ENROLMENT_SECRET).await? {
            Some(stored) => stored.data.and_then(|mut data| data.remove(CA_CERTIFICATE)),
            None => {
                let enrolment = TunnelAuthority::create(ENROLMENT_SECRET, now)?;
                secrets.push(enrolment.secret(ENROLMENT_SECRET)?);
                enrolment.bundle()
            }
        };
    }
    let hub_uid = hub.uid().await?;
    let leaf = authority::server(&hub_uid, address);
    let leaf = authority.with_earlier_hosts(leaf, stored.as_ref());
    note_hosts(&leaf)?;
    let certificate = authority.certificate(leaf, stored.as_ref(), now)?;
    secrets.push(authority::named(SERVER_SECRET, certificate)?);
    let stored = tunnel::secret(hub, CONTROLLER_SECRET).await?;
    let mut certificate =
        authority.renewed(authority::controller(&hub_uid), stored.as_ref(), now)?;
    if let Some(enrolled) = enrolled {
        authority::trust(&mut certificate, &enrolled);
    }
    secrets.push(authority::named(CONTROLLER_SECRET, certificate)?);
    let first = chosen.iter().position(bundle::is_deployment);
    let at = first.unwrap_or(chosen.len());
    chosen.splice(at..at, secrets);
    Ok(())
}

/// Prints the hosts of a certificate that retains earlier ones.
fn note_hosts(leaf: &Leaf) -> Result<(), OutputError> {
    let hosts = authority::hosts(leaf);
    if hosts.len() < 2 {
        return Ok(());
    }
    output::progress(format_args!(
        "note: the certificate of causeway-tunnel covers {}: agents may go on dialling an earlier \
         host. To leave earlier ones out, delete Secret {DEFAULT_NAMESPACE}/{SERVER_SECRET} and \
         run this again",
        listed(&hosts)
    ))
}
