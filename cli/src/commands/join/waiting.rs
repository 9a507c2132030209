//! Wait until the controller watches the member.

use std::fmt;

use causeway::api::{Cluster, condition};
use causeway::domain::ClusterName;
use causeway_engine::reasons::Reason;
use tokio::time::Instant;

use super::JoinError;
use crate::args::JoinArgs;
use crate::cluster::api_server::ApiServer;
use crate::cluster::conditions::Conditions as _;
use crate::cluster::lease;
use crate::cluster::tunnel::address::TunnelAddress;
use crate::cluster::wait;
use crate::term::exit::Failure;
use crate::term::output;

/// Waits until the controller reports that it watches the member.
///
/// # Errors
/// [`JoinError::NotSynced`] at the deadline. [`JoinError::NoController`] if the controller is known
/// not to run: the condition is then older than this run.
pub(super) async fn synced(
    hub: &ApiServer,
    name: &ClusterName,
    endpoint: &str,
    args: &JoinArgs,
) -> Result<(), Failure> {
    let deadline = Instant::now() + args.timeout;
    let (clusters, waiting) = (hub.all::<Cluster>(), format!("{name}: "));
    let found = wait::until_shown(clusters, name.as_str(), deadline, &waiting, |cluster| {
        watched(cluster)?;
        let status = cluster.and_then(|cluster| cluster.status.clone());
        Ok(status.unwrap_or_default())
    });
    match found.await? {
        Ok(status) => {
            check_controller(hub, name, deadline).await?;
            let version = status.kubernetes_version.unwrap_or_default();
            let through = match &args.tunnel {
                Some(address) => format!(" through causeway-tunnel at {address}"),
                None => String::new(),
            };
            Ok(output::result(format_args!(
                "{name} is synced, Kubernetes {version} at {endpoint}{through}"
            ))?)
        }
        Err((late, last)) => {
            let last = last.unwrap_or(Waiting::Unseen);
            if matches!(last, Waiting::Agent { .. }) && !late.is_unread() {
                check_controller(hub, name, deadline).await?;
            }
            Err(JoinError::NotSynced {
                name: name.clone(),
                seconds: args.timeout.as_secs(),
                state: last.to_string(),
                remedy: last.remedy(name, endpoint, args.tunnel.as_ref()),
                late,
            }
            .into())
        }
    }
}

/// Waits until the controller is not known to be stopped.
async fn check_controller(
    hub: &ApiServer,
    name: &ClusterName,
    deadline: Instant,
) -> Result<(), Failure> {
    match lease::stopped(hub, deadline).await? {
        None => Ok(()),
        Some(why) => Err(JoinError::NoController {
            name: name.clone(),
            why,
        }
        .into()),
    }
}

const CHECK_CONTROLLER: &str = "check that causeway-controller is running for this hub, e.g. \
                                kubectl -n causeway-system get pods";

fn check_agent(address: &TunnelAddress) -> String {
    format!(
        "causeway-agent must reach {address} from the member: see kubectl mcs tunnel; in the \
         member: kubectl -n causeway-system logs deployment/causeway-agent"
    )
}

/// State of a member that the controller does not watch yet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Waiting {
    /// The controller has not reported on the current generation of the Cluster.
    Unseen,
    /// The same for a member whose agent provides the token: the controller may lack one. `last` is
    /// its report on an earlier generation.
    Agent {
        last: String,
    },
    Gone,
    Not {
        reason: String,
        message: String,
    },
}

/// Checks that the controller watches the member.
fn watched(cluster: Option<&Cluster>) -> Result<(), Waiting> {
    let cluster = cluster.ok_or(Waiting::Gone)?;
    let ready = cluster.condition(condition::READY);
    let ready = ready.ok_or(Waiting::Unseen)?;
    if ready.observed_generation < cluster.metadata.generation {
        return Err(match cluster.has_agent_credentials() {
            true => Waiting::Agent {
                last: format!("{} ({})", ready.reason, ready.message),
            },
            false => Waiting::Unseen,
        });
    }
    match ready.status == condition::TRUE {
        true => Ok(()),
        false => Err(Waiting::Not {
            reason: ready.reason.clone(),
            message: ready.message.clone(),
        }),
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unseen => out.write_str("not processed by the controller yet"),
            Self::Agent { last } => write!(
                out,
                "not processed by the controller yet, which may lack a token of the member's \
                 agent; it last reported {last}"
            ),
            Self::Gone => out.write_str("its Cluster object was deleted"),
            Self::Not { reason, message } => write!(out, "{reason} ({message})"),
        }
    }
}

impl Waiting {
    fn remedy(&self, name: &ClusterName, endpoint: &str, tunnel: Option<&TunnelAddress>) -> String {
        let is_unreachable =
            matches!(self, Self::Not { reason, .. } if *reason == Reason::Unreachable);
        match (self, tunnel) {
            (Self::Unseen, _) => CHECK_CONTROLLER.to_owned(),
            (Self::Agent { .. }, Some(address)) => {
                format!("{CHECK_CONTROLLER}; {}", check_agent(address))
            }
            (_, Some(address)) if is_unreachable => check_agent(address),
            (_, None) if is_unreachable => format!(
                "the controller must reach {endpoint} from where it runs; if it needs another \
                 address, join again with --api-endpoint"
            ),
            (Self::Gone | Self::Not { .. } | Self::Agent { .. }, _) => {
                format!("see kubectl get cluster {name} -o wide")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use causeway::api::labels;
    use kube::ResourceExt as _;
    use serde_json::{Value, json};

    use super::*;

    fn cluster(generation: i64, conditions: Value) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": { "name": "a", "generation": generation },
            "spec": {},
            "status": { "conditions": conditions },
        }))
        .expect("a Cluster")
    }

    fn ready(status: &str, reason: &str, generation: i64) -> Value {
        json!([{
            "type": "Ready", "status": status, "reason": reason, "message": "why",
            "observedGeneration": generation, "lastTransitionTime": "2026-11-21T00:00:00Z",
        }])
    }

    #[test]
    fn only_what_the_controller_said_of_this_generation_counts() {
        let not = |reason: &str| Waiting::Not {
            reason: reason.to_owned(),
            message: "why".to_owned(),
        };
        for (cluster, expected) in [
            (None, Err(Waiting::Gone)),
            (Some(cluster(1, json!([]))), Err(Waiting::Unseen)),
            (
                Some(cluster(2, ready("True", "Synced", 1))),
                Err(Waiting::Unseen),
            ),
            (Some(cluster(2, ready("True", "Synced", 2))), Ok(())),
            (
                Some(cluster(1, ready("False", "Unreachable", 1))),
                Err(not("Unreachable")),
            ),
        ] {
            assert_eq!(watched(cluster.as_ref()), expected);
        }
    }

    #[test]
    fn absent_token_of_an_agent_is_reported() {
        let mut cluster = cluster(2, ready("False", "Unreachable", 1));
        let by_agent = [
            (labels::TUNNEL, "true"),
            (labels::CREDENTIALS, labels::FROM_AGENT),
        ];
        let by_agent = by_agent.map(|(name, value)| (name.to_owned(), value.to_owned()));
        cluster.annotations_mut().extend(by_agent);
        let waiting = watched(Some(&cluster)).expect_err("it is not current");
        assert_eq!(
            waiting.to_string(),
            "not processed by the controller yet, which may lack a token of the member's agent; it \
             last reported Unreachable (why)"
        );
        let name = ClusterName::try_from("a").expect("a name");
        let address = "tunnel.example".parse().expect("an address");
        let remedy = waiting.remedy(&name, "https://a:1", Some(&address));
        for check in ["causeway-controller is running", "kubectl mcs tunnel"] {
            assert!(remedy.contains(check), "{remedy}");
        }
        cluster.metadata.generation = Some(1);
        let current = watched(Some(&cluster)).expect_err("it is not ready");
        assert!(matches!(current, Waiting::Not { .. }), "{current:?}");
    }

    #[test]
    fn an_error_says_what_to_do() {
        let name = ClusterName::try_from("a").expect("a name");
        let text = |waiting: Waiting| waiting.remedy(&name, "https://a:1", None);
        assert!(text(Waiting::Unseen).contains("causeway-controller"));
        let unreachable = Waiting::Not {
            reason: "Unreachable".to_owned(),
            message: String::new(),
        };
        assert!(text(unreachable.clone()).contains("--api-endpoint"));
        let address = "tunnel.example".parse().expect("an address");
        let text = unreachable.remedy(&name, "https://a:1", Some(&address));
        assert!(
            text.contains("tunnel.example:443") && text.contains("kubectl mcs tunnel"),
            "{text}"
        );
    }
}
