//! The certificate authority of a hub's tunnel, and the certificates that it signs. Reads neither a
//! clock nor the hub.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use causeway::api::labels;
use causeway::domain::ClusterName;
use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway_certs::{
    Authority, CA_CERTIFICATE, CA_KEY, CERTIFICATE, Contents, Fault, KEY, Leaf, Names, Purpose,
    Secrets, Signer, Stored, bundle_pem,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use serde_json::json;

use super::TunnelError;
use super::address::{Host, TunnelAddress};
use crate::cluster::objects::{self, ObjectError};

/// Service of causeway-tunnel for clients with passwords.
const CLIENTS: &str = "causeway-tunnel-clients";
/// Service, account and Secret of the way through the API server of the hub.
pub(crate) const UPGRADE: &str = "causeway-tunnel-upgrade";

/// Secret with the certificate and key of the authority.
pub(crate) const AUTHORITY_SECRET: &str = "causeway-tunnel-ca";
/// Secret with the certificate and key of the authority by which causeway-tunnel gives agents their
/// certificates.
pub(crate) const ENROLMENT_SECRET: &str = "causeway-tunnel-enrolment";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_VALIDITY: Duration = Duration::from_secs(3650 * DAY.as_secs());
/// Validity of the certificates of causeway-tunnel and of agents.
const LEAF_VALIDITY: Duration = Duration::from_secs(365 * DAY.as_secs());
/// Divisor of the life of a certificate that gives the time before its end in which it is due.
const DUE_SHARE: u32 = 3;
/// Maximum number of earlier names, and of earlier addresses, in a certificate of causeway-tunnel.
const EARLIER_HOSTS: usize = 8;

/// Reason why the stored authority cannot sign.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AuthorityError(Fault);

/// Data of a Secret, by key: a certificate, its key and the authorities of the other side.
pub(crate) type Data = BTreeMap<&'static str, ByteString>;

/// Certificate authority of a hub's tunnel.
#[derive(Debug)]
pub(crate) struct TunnelAuthority(Contents);

impl TunnelAuthority {
    /// Creates an authority, whose subject is the name of its Secret.
    pub(crate) fn create(name: &str, now: SystemTime) -> Result<Self, TunnelError> {
        let authority = Authority::new(name, AUTHORITY_VALIDITY, now)?;
        let (certificate, key) = (authority.pem().as_bytes(), authority.key_pem());
        Ok(Self(Contents::gather(|name| match name {
            CA_CERTIFICATE => Some(certificate),
            CA_KEY => Some(key.as_bytes()),
            _ => None,
        })))
    }

    /// Reads a stored authority, which has to be able to sign.
    pub(crate) fn read(secret: &Secret, now: SystemTime) -> Result<Self, AuthorityError> {
        let authority = Self(contents(secret, &[CA_CERTIFICATE, CA_KEY]));
        authority.signer(&authority.stored(None), now)?;
        Ok(authority)
    }

    /// Returns the Secret of that name that stores the authority.
    pub(crate) fn secret(&self, name: &str) -> Result<DynamicObject, ObjectError> {
        let values = self.0.entries();
        let values = values.filter_map(|(key, value)| Some((key, ByteString(value?.to_vec()))));
        named(name, values.collect())
    }

    /// Returns the certificates that trust it, PEM.
    pub(crate) fn bundle(&self) -> Option<ByteString> {
        Some(ByteString(self.0.get(CA_CERTIFICATE)?.to_vec()))
    }

    /// Returns the contents with the hosts of the stored certificate too, because each agent
    /// verifies the host that it dials. The earliest hosts beyond the maximum are left out.
    pub(crate) fn with_earlier_hosts(&self, leaf: Leaf, stored: Option<&Secret>) -> Leaf {
        let serving = stored.map(|secret| contents(secret, &[CERTIFICATE, KEY]));
        let Names { names, addresses } = self.stored(serving).leaf_names();
        Leaf {
            names: extended(names, &leaf.names),
            addresses: extended(addresses, &leaf.addresses),
            ..leaf
        }
    }

    /// Returns a certificate with these contents: the stored one unless it is due, or differs.
    ///
    /// # Errors
    /// [`TunnelError::Foreign`] if another authority signed the stored one.
    pub(crate) fn certificate(
        &self,
        leaf: Leaf,
        stored: Option<&Secret>,
        now: SystemTime,
    ) -> Result<Data, TunnelError> {
        let serving = stored.map(|secret| contents(secret, &[CA_CERTIFICATE, CERTIFICATE, KEY]));
        let both = self.stored(serving.clone());
        let signer = self.signer(&both, now)?;
        let authorities = bundle_pem(&both.trust(now)).into_bytes();
        match both.leaf(&Names::default(), now) {
            Ok(served) if served.is_as(&leaf) && !is_due(&served.period, now) => {
                let serving = serving.unwrap_or_default();
                let value = |key| Some((key, ByteString(serving.get(key)?.to_vec())));
                let mut data: Data = [CERTIFICATE, KEY].into_iter().filter_map(value).collect();
                data.insert(CA_CERTIFICATE, ByteString(authorities));
                return Ok(data);
            }
            Err(Fault::UnknownIssuer) => return Err(TunnelError::Foreign),
            Ok(_) | Err(_) => {}
        }
        let validity = LEAF_VALIDITY.min(signer.certificate.period().left(now));
        let issued = signer.authority()?.issue(&Leaf { validity, ..leaf }, now)?;
        let data = [
            (CERTIFICATE, issued.certificate.into_bytes()),
            (KEY, issued.key.into_bytes()),
            (CA_CERTIFICATE, authorities),
        ];
        Ok(data.map(|(key, value)| (key, ByteString(value))).into())
    }

    /// Returns a certificate as [`TunnelAuthority::certificate`] does. Replaces that of another
    /// authority, because the authority decides about the other side.
    pub(crate) fn renewed(
        &self,
        leaf: Leaf,
        stored: Option<&Secret>,
        now: SystemTime,
    ) -> Result<Data, TunnelError> {
        match self.certificate(leaf.clone(), stored, now) {
            Err(TunnelError::Foreign) => self.certificate(leaf, None, now),
            certificate => certificate,
        }
    }

    fn stored(&self, serving: Option<Contents>) -> Stored {
        let authority = Some(self.0.clone());
        Stored::read(Secrets { serving, authority })
    }

    fn signer<'a>(
        &self,
        stored: &'a Stored,
        now: SystemTime,
    ) -> Result<&'a Signer, AuthorityError> {
        stored.signing(now).map_err(AuthorityError)
    }
}

fn is_due(period: &causeway_certs::Period, now: SystemTime) -> bool {
    period.left(now) < period.life() / DUE_SHARE
}

/// Returns the stored hosts, in their order, and then those of `wanted` that are not among them.
fn extended<T: Clone + PartialEq>(mut stored: Vec<T>, wanted: &[T]) -> Vec<T> {
    let earlier = stored.iter().filter(|host| !wanted.contains(host)).count();
    let mut surplus = earlier.saturating_sub(EARLIER_HOSTS);
    stored.retain(|host| {
        let is_dropped = surplus > 0 && !wanted.contains(host);
        surplus -= usize::from(is_dropped);
        !is_dropped
    });
    for host in wanted {
        if !stored.contains(host) {
            stored.push(host.clone());
        }
    }
    stored
}

fn contents(secret: &Secret, keys: &[&str]) -> Contents {
    let value = |key: &str| Some(secret.data.as_ref()?.get(key)?.0.as_slice());
    Contents::gather(|key| value(key).filter(|_| keys.contains(&key)))
}

/// Returns a Secret of causeway-tunnel in causeway's namespace.
pub(crate) fn named(name: &str, data: Data) -> Result<DynamicObject, ObjectError> {
    secret_of("tunnel", name, data)
}

/// Returns a Secret of a component in causeway's namespace.
pub(crate) fn secret_of(
    component: &str,
    name: &str,
    data: Data,
) -> Result<DynamicObject, ObjectError> {
    objects::object(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": DEFAULT_NAMESPACE,
            "labels": {
                labels::NAME: labels::MANAGER,
                labels::MANAGED_BY: labels::MANAGER,
                "app.kubernetes.io/component": component,
            },
        },
        "type": "Opaque",
        "data": data,
    }))
}

/// Returns the names of the Services of causeway-tunnel that clients and agents verify.
fn services() -> [String; 2] {
    [CLIENTS, UPGRADE].map(|service| format!("{service}.{DEFAULT_NAMESPACE}.svc"))
}

/// Returns the hosts at which agents may dial causeway-tunnel with a certificate of these contents.
pub(crate) fn hosts(leaf: &Leaf) -> Vec<String> {
    let services = services();
    let names = leaf.names.iter().filter(|name| !services.contains(name));
    let addresses = leaf.addresses.iter().map(ToString::to_string);
    names.cloned().chain(addresses).collect()
}

/// Returns the contents of the certificate of causeway-tunnel at an address.
pub(crate) fn server(hub_uid: &str, address: &TunnelAddress) -> Leaf {
    let mut leaf = Leaf {
        common_name: "causeway-tunnel".to_owned(),
        // Clients with passwords, and agents that come through the API server, verify the name of
        // their Service on the hub.
        names: services().to_vec(),
        uris: vec![format!("causeway://{hub_uid}/tunnel")],
        purpose: Purpose::Server,
        ..Leaf::default()
    };
    match &address.host {
        Host::Name(name) => leaf.names.push(name.clone()),
        Host::Ip(ip) => leaf.addresses.push(*ip),
    }
    leaf
}

/// Adds an authority to those that a certificate's Secret trusts, unless it is among them.
pub(crate) fn trust(certificate: &mut Data, authority: &ByteString) {
    let trusted = certificate.entry(CA_CERTIFICATE).or_default();
    let text = String::from_utf8_lossy(&trusted.0);
    let added = String::from_utf8_lossy(&authority.0);
    if !text.contains(added.trim()) {
        trusted.0 = format!("{}\n{}\n", text.trim_end(), added.trim()).into_bytes();
    }
}

/// Returns the contents of the certificate of causeway-controller, a client of agents.
pub(crate) fn controller(hub_uid: &str) -> Leaf {
    Leaf {
        common_name: "causeway-controller".to_owned(),
        uris: vec![format!("causeway://{hub_uid}/controller")],
        purpose: Purpose::Client,
        ..Leaf::default()
    }
}

/// Returns the contents of the certificate of a member's agent.
pub(crate) fn agent(hub_uid: &str, name: &ClusterName) -> Leaf {
    Leaf {
        common_name: name.to_string(),
        uris: vec![format!("causeway://{hub_uid}/member/{name}")],
        purpose: Purpose::Client,
        ..Leaf::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUB: &str = "0b6e3c1e-93cb-4e0f-8f0e-6f0a4c9d1a55";

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * 20_000
    }

    fn stored(object: DynamicObject) -> Secret {
        object.try_parse().expect("a Secret")
    }

    fn at(address: &str) -> Leaf {
        server(HUB, &address.parse().expect("an address"))
    }

    fn created() -> TunnelAuthority {
        TunnelAuthority::create(AUTHORITY_SECRET, now()).expect("an authority")
    }

    /// Returns a new certificate of causeway-tunnel at a.example.
    fn issued(authority: &TunnelAuthority, now: SystemTime) -> Data {
        let issued = authority.certificate(at("a.example"), None, now);
        issued.expect("a certificate")
    }

    #[test]
    fn stored_authority_signs_again() {
        let first = created();
        let secret = stored(first.secret(AUTHORITY_SECRET).expect("a Secret"));
        let second = TunnelAuthority::read(&secret, now()).expect("the same");
        let issued = issued(&first, now());
        let kept = stored(named("a", issued.clone()).expect("a Secret"));
        let again = second.certificate(at("a.example:8443"), Some(&kept), now());
        assert_eq!(again.expect("a certificate"), issued);
    }

    #[test]
    fn certificate_is_renewed_if_it_is_due_or_of_another_host() {
        let authority = created();
        let data = issued(&authority, now());
        let secret = stored(named("a", data.clone()).expect("a Secret"));
        for (leaf, days, is_kept) in [
            (at("a.example"), 0, true),
            (at("A.example"), 240, true),
            (at("a.example"), 250, false),
            (at("a.example"), 400, false),
            (at("b.example"), 0, false),
            (at("192.0.2.1"), 0, false),
            (
                agent(HUB, &ClusterName::try_from("edge1").expect("a name")),
                0,
                false,
            ),
            (
                server("other", &"a.example".parse().expect("one")),
                0,
                false,
            ),
            (controller(HUB), 0, false),
        ] {
            let name = format!("{leaf:?} after {days} days");
            let next = authority.certificate(leaf, Some(&secret), now() + DAY * days);
            let next = next.expect("a certificate");
            assert_eq!(next == data, is_kept, "{name}");
        }
    }

    #[test]
    fn certificate_of_another_host_retains_earlier_hosts() {
        let authority = created();
        let mut secret = stored(named("a", issued(&authority, now())).expect("a Secret"));
        for (host, expected, is_kept) in [
            ("a.example", "a.example", true),
            ("192.0.2.1", "a.example 192.0.2.1", false),
            ("b.example", "a.example b.example 192.0.2.1", false),
            ("a.example", "a.example b.example 192.0.2.1", true),
        ] {
            let leaf = authority.with_earlier_hosts(at(host), Some(&secret));
            assert_eq!(hosts(&leaf).join(" "), expected, "{host}");
            let next = authority.certificate(leaf, Some(&secret), now());
            let next = stored(named("a", next.expect("a certificate")).expect("a Secret"));
            assert_eq!(next.data == secret.data, is_kept, "{host}");
            secret = next;
        }
    }

    #[test]
    fn earliest_hosts_beyond_the_maximum_are_left_out() {
        let authority = created();
        let mut secret = None;
        for number in 0..2 * EARLIER_HOSTS {
            let leaf = at(&format!("host{number}.example"));
            let leaf = authority.with_earlier_hosts(leaf, secret.as_ref());
            let latest = number.saturating_sub(EARLIER_HOSTS)..=number;
            let expected = latest.map(|number| format!("host{number}.example"));
            assert_eq!(hosts(&leaf), expected.collect::<Vec<_>>());
            let next = authority.certificate(leaf, secret.as_ref(), now());
            secret = Some(stored(named("a", next.expect("one")).expect("a Secret")));
        }
    }

    #[test]
    fn certificate_of_another_authority_is_not_replaced() {
        let (ours, other) = (created(), created());
        let foreign = stored(named("a", issued(&other, now())).expect("a Secret"));
        let refused = ours.certificate(at("a.example"), Some(&foreign), now());
        assert!(matches!(refused, Err(TunnelError::Foreign)), "{refused:?}");
    }

    #[test]
    fn authority_that_cannot_sign_is_an_error() {
        let (one, other) = (created(), created());
        let secret = stored(one.secret(AUTHORITY_SECRET).expect("a Secret"));
        let mut mixed = secret.clone();
        let other = stored(other.secret(AUTHORITY_SECRET).expect("a Secret"));
        let key = other.data.expect("data")[CA_KEY].clone();
        let data = mixed.data.as_mut().expect("data");
        data.insert(CA_KEY.to_owned(), key);
        let fault = |secret: &Secret, now| TunnelAuthority::read(secret, now).expect_err("none").0;
        assert_eq!(fault(&mixed, now()), Fault::KeyMismatch);
        assert_eq!(fault(&Secret::default(), now()), Fault::Missing);
        assert_eq!(fault(&secret, now() + AUTHORITY_VALIDITY), Fault::Expired);
    }

    #[test]
    fn certificate_ends_with_its_authority() {
        let authority = created();
        let late = now() + AUTHORITY_VALIDITY - DAY * 10;
        let secret = stored(named("a", issued(&authority, late)).expect("a Secret"));
        let read = authority.stored(Some(contents(&secret, &[CERTIFICATE, KEY])));
        let served = read.leaf(&Names::default(), late).expect("a certificate");
        assert_eq!(served.period.left(late), DAY * 10);
    }
}
