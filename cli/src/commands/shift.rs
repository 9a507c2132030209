//! `kubectl mcs shift`: moves the traffic of a service to a cluster, step by step.

use std::time::Duration;

use causeway::api::condition::{self, FALSE};
use causeway::api::{MultiClusterService, labels};
use causeway::domain::{ClusterName, Failover, FieldErrors, Share};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::args::ShiftArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::objects::FIELD_MANAGER;
use crate::commands::membership::hub::{self, HubError};
use crate::term::exit::{CommandError, PROBLEM};
use crate::term::output::{self, OutputError};

/// Failed shift of traffic. The share of the last step stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShiftError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("the hub has no MultiClusterService {0}; kubectl mcs status lists them")]
    NotFound(String),
    #[error("{0}; correct or remove the annotation")]
    Wrong(FieldErrors),
    #[error(
        "the other shares of {before} leave less than {percent}% to {cluster}; lower --until or these shares"
    )]
    TooMuch {
        before: String,
        cluster: ClusterName,
        percent: u8,
    },
    #[error("stopped at {share:?}: {name} is not ready: {message}")]
    NotReady {
        name: String,
        share: String,
        message: String,
    },
    #[error("stopped: {name} has another share meanwhile, {found:?}")]
    Changed { name: String, found: String },
}

impl CommandError for ShiftError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Request(error) => error.exit_code(),
            Self::Hub(error) => error.exit_code(),
            _ => PROBLEM,
        }
    }
}

/// Interval at which the service is read between two steps.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Writes one share after another, as long as the service is ready.
pub(crate) async fn run(hub: &HubArgs, args: &ShiftArgs) -> Result<(), ShiftError> {
    let cluster = hub::cluster_name(&args.to)?;
    let hub = ApiServer::hub(hub).await?;
    let services: Api<MultiClusterService> = Api::default_namespaced(hub.client.clone());
    let found = hub.request(services.get_opt(&args.name)).await?;
    let service = found.ok_or_else(|| ShiftError::NotFound(args.name.clone()))?;
    let (failover, errors) = Failover::of(&service.metadata);
    if !errors.is_empty() {
        return Err(ShiftError::Wrong(errors));
    }
    let steps = steps(failover.share.as_ref(), &cluster, args)?;
    let name = format!("multiclusterservice.networking.karmada.io/{}", args.name);
    let before = text(&service).unwrap_or_default();
    check(&service, &name, before)?;
    if steps.is_empty() {
        output::result(format_args!(
            "{name}: {cluster} has {}% already",
            args.until
        ))?;
    }
    for (index, share) in steps.iter().enumerate() {
        if args.dry_run {
            let after = args.every.as_secs() * index as u64;
            output::result(format_args!("after {after} s: {share}"))?;
            continue;
        }
        write(&hub, &services, &args.name, share).await?;
        output::result(format_args!("{name}: {share}"))?;
        if index + 1 < steps.len() {
            watch(&hub, &services, args, (&name, &share.to_string())).await?;
        }
    }
    Ok(())
}

/// Returns the shares to write, in turn.
fn steps(
    before: Option<&Share>,
    cluster: &ClusterName,
    args: &ShiftArgs,
) -> Result<Vec<Share>, ShiftError> {
    let from = before
        .and_then(|share| share.of(cluster))
        .unwrap_or_default();
    let step = usize::from(args.step.max(1));
    let next = from.saturating_add(args.step.max(1));
    let percents = (next..args.until).step_by(step);
    let percents = percents.chain((from < args.until).then_some(args.until));
    let share = |percent| {
        Share::with(before, cluster, percent).ok_or_else(|| ShiftError::TooMuch {
            before: before.map(ToString::to_string).unwrap_or_default(),
            cluster: cluster.clone(),
            percent,
        })
    };
    percents.map(share).collect()
}

fn text(service: &MultiClusterService) -> Option<&str> {
    service.annotations().get(labels::SHARE).map(String::as_str)
}

/// Checks that a service with that share is ready, or that its readiness is unknown.
fn check(service: &MultiClusterService, name: &str, share: &str) -> Result<(), ShiftError> {
    let status = service.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let conditions = conditions.unwrap_or_default();
    let ready = condition::find(conditions, condition::READY);
    match ready.filter(|ready| ready.status == FALSE) {
        None => Ok(()),
        Some(ready) => Err(ShiftError::NotReady {
            name: name.to_owned(),
            share: share.to_owned(),
            message: ready.message.clone(),
        }),
    }
}

async fn write(
    hub: &ApiServer,
    services: &Api<MultiClusterService>,
    name: &str,
    share: &Share,
) -> Result<(), ShiftError> {
    let annotations = json!({ labels::SHARE: share.to_string() });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    hub.request(services.patch_metadata(name, &parameters, &patch))
        .await?;
    Ok(())
}

/// Waits for the next step while the service is ready and has the share of the last one.
async fn watch(
    hub: &ApiServer,
    services: &Api<MultiClusterService>,
    args: &ShiftArgs,
    (name, share): (&str, &str),
) -> Result<(), ShiftError> {
    let until = Instant::now() + args.every;
    while Instant::now() < until {
        sleep_until(until.min(Instant::now() + POLL_INTERVAL)).await;
        let found = hub.request(services.get_opt(&args.name)).await?;
        let service = found.ok_or_else(|| ShiftError::NotFound(args.name.clone()))?;
        if text(&service) != Some(share) {
            return Err(ShiftError::Changed {
                name: name.to_owned(),
                found: text(&service).unwrap_or_default().to_owned(),
            });
        }
        check(&service, name, share)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(text: &str) -> Share {
        let annotations = [(labels::SHARE.to_owned(), text.to_owned())];
        let meta = kube::api::ObjectMeta {
            annotations: Some(annotations.into()),
            ..Default::default()
        };
        Failover::of(&meta).0.share.expect("a share")
    }

    #[test]
    fn steps_add_to_the_present_share() {
        let new = ClusterName::try_from("new").expect("a name");
        for (before, step, until, expected) in [
            (
                None,
                50,
                100,
                "cluster/new=50%, rest; cluster/new=100%, rest",
            ),
            (
                None,
                40,
                100,
                "cluster/new=40%, rest; cluster/new=80%, rest; cluster/new=100%, rest",
            ),
            (
                Some("cluster/new=20%, rest"),
                10,
                30,
                "cluster/new=30%, rest",
            ),
            (Some("cluster/new=30%, rest"), 10, 30, ""),
            (
                Some("cluster/old=5%, rest"),
                10,
                10,
                "cluster/old=5%, cluster/new=10%, rest",
            ),
        ] {
            let args = ShiftArgs {
                name: "foo".to_owned(),
                to: "new".to_owned(),
                step,
                every: Duration::ZERO,
                until,
                dry_run: false,
            };
            let steps = steps(before.map(share).as_ref(), &new, &args).expect("steps");
            let steps: Vec<_> = steps.iter().map(ToString::to_string).collect();
            assert_eq!(steps.join("; "), expected);
        }
        let args = ShiftArgs {
            name: "foo".to_owned(),
            to: "new".to_owned(),
            step: 50,
            every: Duration::ZERO,
            until: 100,
            dry_run: false,
        };
        let error = steps(Some(&share("cluster/old=5%, rest")), &new, &args).expect_err("105%");
        let expected = "the other shares of cluster/old=5%, rest leave less than 100% to new; lower \
                        --until or these shares";
        assert_eq!(error.to_string(), expected);
    }
}
