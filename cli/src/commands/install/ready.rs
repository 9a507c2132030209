//! Readiness of causeway on a hub that runs it: its pods are ready, the webhook configurations hold
//! a caBundle, and the API server calls the webhook.

use std::fmt::Debug;
use std::time::Duration;

use causeway::domain::protected::DEFAULT_NAMESPACE;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::cluster::api_server::ApiServer;
use crate::cluster::wait::{self, TimedOut};
use crate::observe::installation::creation::{self, Creation};
use crate::observe::installation::{has_bundle, rollout};
use crate::term::exit::{CommandError, Failure};
use crate::term::output::{self, OutputError};

/// Name of causeway's webhook configurations.
const REGISTRATION: &str = "causeway";

/// Timeout while waiting for causeway.
#[derive(Debug, thiserror::Error)]
#[error(
    "causeway is applied but not ready within {seconds} s{late}: {what}: {state}{why}; see kubectl -n {DEFAULT_NAMESPACE} get pods, \
     fix the cause, and run this again"
)]
pub(crate) struct NotReady {
    what: String,
    state: String,
    /// Problem of the pods in parentheses, or an empty string.
    why: String,
    seconds: u64,
    late: TimedOut,
}

impl CommandError for NotReady {
    fn exit_code(&self) -> u8 {
        self.late.exit_code()
    }
}

/// Timeout while waiting for the API server to call the webhook.
#[derive(Debug, thiserror::Error)]
#[error(
    "causeway is applied but no MultiClusterService can be created within {seconds} s: {message}; \
     see docs/troubleshooting.md#the-webhook-cannot-be-called, fix the cause, and run this again"
)]
struct NotCalled {
    message: String,
    seconds: u64,
}

impl CommandError for NotCalled {}

/// Waits until the pods of these Deployments are ready, then until the webhook configurations hold
/// a caBundle, and then until the API server calls the webhook.
pub(super) async fn wait(
    hub: &ApiServer,
    names: impl Iterator<Item = &str>,
    deadline: Instant,
    timeout: Duration,
) -> Result<(), Failure> {
    let time = (deadline, timeout);
    for name in names {
        let what = format!("deployment.apps/{name}");
        let deployments = hub.within(DEFAULT_NAMESPACE);
        if let Err(mut not_ready) = until(deployments, name, &what, time, rollout).await? {
            // If the user may not list pods, the error contains only the state of the Deployment.
            let pods = hub.within(DEFAULT_NAMESPACE);
            let pods = hub.list(pods, &of_deployment(name)).await;
            let why = pods.ok().and_then(|pods| pod_problem(&pods));
            not_ready.why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            return Err(not_ready.into());
        }
    }
    let what = "mutatingwebhookconfiguration.admissionregistration.k8s.io/causeway";
    let mutating = hub.all::<MutatingWebhookConfiguration>();
    let registered = until(mutating, REGISTRATION, what, time, |one| {
        let webhooks = one.webhooks.iter().flatten();
        unregistered(webhooks.map(|webhook| &webhook.client_config))
    });
    registered.await??;
    let what = "validatingwebhookconfiguration.admissionregistration.k8s.io/causeway";
    let validating = hub.all::<ValidatingWebhookConfiguration>();
    let registered = until(validating, REGISTRATION, what, time, |one| {
        let webhooks = one.webhooks.iter().flatten();
        unregistered(webhooks.map(|webhook| &webhook.client_config))
    });
    registered.await??;
    until_called(hub, time).await
}

/// Waits until the API server calls the webhook. Prints a note if a dry run does not show that.
///
/// # Errors
/// [`NotCalled`] at the deadline, or that of the request if the hub does not respond then.
async fn until_called(
    hub: &ApiServer,
    (deadline, timeout): (Instant, Duration),
) -> Result<(), Failure> {
    let mut is_reached = true;
    let failing = wait::none_left(deadline, "the webhook: ", async || {
        let creation = creation::dry_run(hub).await;
        is_reached = !matches!(creation, Creation::Unreachable(_));
        Ok(match creation {
            Creation::Accepted | Creation::Denied => None,
            Creation::Failed(why) | Creation::Unreachable(why) => Some(why),
            Creation::Unknown(why) => {
                output::progress(format_args!(
                    "note: it is unknown whether the API server calls the webhook: {why}"
                ))?;
                None
            }
        })
    });
    match failing.await? {
        None => Ok(()),
        Some(why) if !is_reached => Err(hub.unreachable(why).into()),
        Some(message) => {
            let seconds = timeout.as_secs();
            Err(NotCalled { message, seconds }.into())
        }
    }
}

/// Watches an object until `missing` returns `None`, and prints each state. Returns the last state
/// at the deadline, without the problem of its pods.
async fn until<K>(
    api: Api<K>,
    name: &str,
    what: &str,
    (deadline, timeout): (Instant, Duration),
    missing: impl Fn(&K) -> Option<String>,
) -> Result<Result<(), NotReady>, OutputError>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let waiting = format!("{what}: ");
    let followed = wait::until_shown(api, name, deadline, &waiting, |object| {
        let gap = object.map_or_else(|| Some("not found".to_owned()), &missing);
        gap.map_or(Ok(()), Err)
    });
    match followed.await? {
        Ok(()) => Ok(Ok(output::result(format_args!("hub: {what} is ready"))?)),
        Err((late, last)) => Ok(Err(NotReady {
            what: what.to_owned(),
            state: last.unwrap_or_else(|| "not read from the hub yet".to_owned()),
            why: String::new(),
            seconds: timeout.as_secs(),
            late,
        })),
    }
}

fn of_deployment(name: &str) -> ListParams {
    let component = name.strip_prefix("causeway-").unwrap_or(name);
    ListParams::default().labels(&format!(
        "app.kubernetes.io/name=causeway,app.kubernetes.io/component={component}"
    ))
}

/// Returns the reason that a webhook configuration is incomplete, or `None` if every webhook has a
/// caBundle.
fn unregistered<'a>(mut clients: impl Iterator<Item = &'a WebhookClientConfig>) -> Option<String> {
    match clients.next() {
        Some(first) if has_bundle(first) && clients.all(has_bundle) => None,
        Some(_) => Some("its caBundle is not published yet".to_owned()),
        None => Some("contains no webhook".to_owned()),
    }
}

/// Returns the problem of the first pod that is not ready.
fn pod_problem(pods: &[Pod]) -> Option<String> {
    pods.iter().find_map(|pod| {
        let status = pod.status.as_ref()?;
        let why = waiting(status).or_else(|| unscheduled(status))?;
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        Some(format!("pod {name}: {why}"))
    })
}

fn waiting(status: &PodStatus) -> Option<String> {
    let mut containers = status.container_statuses.iter().flatten();
    containers.find_map(|container| {
        let state = container.state.as_ref()?.waiting.as_ref()?;
        let reason = state.reason.as_deref()?;
        Some(match state.message.as_deref() {
            Some(message) => format!("{reason} of {}: {message}", container.image),
            None => format!("{reason} of {}", container.image),
        })
    })
}

fn unscheduled(status: &PodStatus) -> Option<String> {
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
    condition.message.clone()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::unreachable;
    use crate::term::exit::UNKNOWN;

    #[tokio::test]
    async fn hub_that_does_not_respond_at_the_deadline_is_unreachable() {
        let hub = unreachable(Side::Hub);
        let waited = until_called(&hub, (Instant::now(), Duration::ZERO)).await;
        let error = waited.expect_err("no response");
        assert_eq!(error.exit_code(), UNKNOWN, "{error}");
    }

    #[test]
    fn a_webhook_is_known_by_its_authority() {
        let client = |bundle: &str| -> WebhookClientConfig {
            serde_json::from_value(json!({ "caBundle": bundle })).expect("a client")
        };
        let unregistered = |clients: &[WebhookClientConfig]| unregistered(clients.iter());
        assert_eq!(unregistered(&[client("eA==")]), None);
        for clients in [&[][..], &[client("")], &[client("eA=="), client("")]] {
            assert!(unregistered(clients).is_some(), "not known");
        }
    }

    #[test]
    fn the_problem_of_a_pod_is_reported_with_its_image() {
        let pod = |status: Value| -> Pod {
            let pod = json!({ "metadata": { "name": "a" }, "status": status });
            serde_json::from_value(pod).expect("a Pod")
        };
        let waiting = json!({"containerStatuses": [{
            "name": "webhook", "image": "causeway/causeway-webhook:0", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}},
        }]});
        let unscheduled = json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]});
        let running = json!({"containerStatuses": []});
        for (pods, expected) in [
            (
                vec![pod(running.clone()), pod(waiting)],
                Some(
                    "pod a: ImagePullBackOff of causeway/causeway-webhook:0: Back-off pulling image",
                ),
            ),
            (
                vec![pod(unscheduled)],
                Some("pod a: 0/1 nodes are available"),
            ),
            (vec![pod(running)], None),
            (Vec::new(), None),
        ] {
            assert_eq!(pod_problem(&pods).as_deref(), expected);
        }
    }
}
