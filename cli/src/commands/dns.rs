//! `kubectl mcs dns`: checks and sets up a member's CoreDNS for the zone of the clusterset.

mod corefile;
mod diagnosis;
mod fix;
mod gather;
mod image;
mod plan;
mod site;
#[cfg(test)]
mod tests;

use kube::ResourceExt as _;

use self::plan::ByHand;
use crate::args::DnsArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::ApiServer;
use crate::cluster::identity::{AnotherCluster, check_identity};
use crate::commands::membership::hub::{self, HubError};
use crate::observe::once;
use crate::term::exit::{CommandError, ExitState, Failure};
use crate::term::output;
use crate::views::check::{Check, Report};

/// Failure to check or to set up the DNS of a member.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DnsError {
    #[error("the member's kubeconfig is of {0}; name the right one")]
    AnotherCluster(AnotherCluster),
    #[error("nothing was changed: {0}")]
    Refused(Check),
    #[error(
        "the Corefile was not changed: {}. Add the lines above, then run kubectl mcs dns {name} \
         --member-kubeconfig FILE",
        .by_hand.why
    )]
    ByHand { name: String, by_hand: Box<ByHand> },
    #[error(
        "account {account} of CoreDNS still may not list and watch ServiceImports after {seconds} s, so the Corefile was not changed; \
         see kubectl describe clusterrolebinding coredns-serviceimports there"
    )]
    NoRights { account: String, seconds: u64 },
}

impl CommandError for DnsError {}

/// Checks a member's DNS, sets it up with `--fix`, and returns the exit state of the checks.
pub(crate) async fn run(hub: &HubArgs, args: &DnsArgs) -> Result<ExitState, Failure> {
    let name = hub::cluster_name(&args.name)?;
    let hub = ApiServer::hub(hub).await?;
    let member = ApiServer::member(
        Some(&args.member.member_kubeconfig),
        args.member.member_context.as_deref(),
    )
    .await?;
    let clusters = once::clusters(&hub).await?.unwrap_or_default();
    let known = clusters.iter().find(|one| one.name_any() == name.as_str());
    let known = known.ok_or_else(|| HubError::NotJoined(name.clone()))?;
    let id = known.spec.id.as_deref();
    let checked = check_identity(name.as_str(), id, &member.uid().await?);
    checked.map_err(DnsError::AnotherCluster)?;
    let fix = format!("kubectl mcs dns {name} --member-kubeconfig FILE --fix");
    if args.fix {
        let found = gather::read(&member).await?;
        if !fix::fix(&member, &found, &fix, args).await? {
            return Ok(ExitState::Good);
        }
    }
    let found = gather::read(&member).await?;
    let report = Report::new(diagnosis::diagnose(&found, &fix, args.image_has));
    output::report(&report, args.output.format, || report.render())?;
    Ok(report.exit_state())
}
