//! Sentences about Clusters: their conditions, and members that take no part in a service.

use std::fmt;

use causeway::api::labels;
use causeway::domain::{ClusterName, Reach};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::remarks::TTL_EXPIRED;
use super::{Diagnosis, join, quote};
use crate::model::slice::MOST_NAMES;
use crate::model::{Configuration, ConfigurationError, LeftOut, MemberState, Refusal};
use crate::observed::Index;
use crate::observed::hub::{ClusterView, DeclaredWatch};
use crate::observed::member::{Member, Membership};
use crate::plan::provider_use::Unused;
use crate::problem::IdProblem;
use crate::reasons::Reason;

/// Remedy for a cluster in Pull mode without credentials.
pub const REPORT_SECRETS: &str = "register it with Karmada again: its karmada-agent reports credentials by \
     default (--report-secrets, --cluster-api-endpoint), and may not add them to a Cluster that exists \
     (docs/karmada.md#credentials-of-members)";

/// Remedy for credentials on the hub that are missing, or that a member rejects.
pub const JOIN_AGAIN: &str = "join it again: kubectl mcs join, or on a Karmada control plane as \
     docs/karmada.md#credentials-of-members says";

/// Source of the address and the credentials of a member, on which remedies depend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AccessSource<'a> {
    /// Its Cluster, and the Secret of that Cluster.
    Cluster,
    /// causeway-tunnel.
    Tunnel,
    /// Its ClusterProfile in that namespace.
    Profile(&'a str),
}

impl<'a> AccessSource<'a> {
    /// Returns the source for the member of a Cluster.
    pub(crate) fn of(cluster: &'a ClusterView) -> Self {
        match cluster.made_of() {
            Some(made) => Self::Profile(made.namespace),
            None if cluster.is_tunnelled => Self::Tunnel,
            None => Self::Cluster,
        }
    }
}

/// Message of DeletionsSuspended while it is False.
pub(crate) const NO_DELETIONS_SUSPENDED: &str = "its last lists lack nothing that is kept";

/// Cluster of a member, as its conditions describe it.
pub(crate) struct ClusterFacts<'a> {
    pub(crate) index: &'a Index,
    pub(crate) name: &'a ClusterName,
    pub(crate) cluster: &'a ClusterView,
    /// Reported state of the member.
    pub(crate) state: &'a MemberState,
}

impl ClusterFacts<'_> {
    /// Returns the reason of Ready; `None` for a member that is not joined.
    pub(crate) fn reason(&self) -> Option<Reason> {
        Some(match self.state {
            MemberState::Unreachable { .. } => Reason::Unreachable,
            MemberState::Unwatched { .. } => Reason::Refused,
            _ if self.outdated().is_some() => Reason::InvalidConfiguration,
            MemberState::Synced => Reason::Synced,
            MemberState::Syncing => Reason::Syncing,
            MemberState::LeftOut(LeftOut::PullWithoutCredentials) => Reason::PullWithoutCredentials,
            MemberState::Refused(_) | MemberState::LeftOut(_) => Reason::Refused,
            MemberState::NotJoined => return None,
        })
    }

    fn member(&self) -> Option<&Member> {
        self.index.member(self.name)
    }

    /// Returns the number of suspended deletions.
    pub(crate) fn suspended(&self) -> usize {
        let member = self.member();
        member.map_or(0, |member| member.suspended_deletions().count)
    }

    /// Returns the error in the Cluster or Secret of a member that stays engaged with its last
    /// valid connection.
    fn outdated(&self) -> Option<&ConfigurationError> {
        match self.member()?.configuration() {
            Configuration::Outdated(error) => Some(error),
            Configuration::Valid | Configuration::Awaited | Configuration::Refused(_) => None,
        }
    }

    /// Returns the message of Ready; empty for a member that is not joined.
    pub(crate) fn message(&self) -> String {
        if let Some(error) = self.outdated() {
            return match self.state {
                MemberState::Unreachable { failure, .. }
                | MemberState::Unwatched { failure, .. } => {
                    format!("{error}; its last connection fails: {failure}")
                }
                _ => format!("{error}; until then its last connection is kept"),
            };
        }
        match self.state {
            MemberState::Synced => self.watched(),
            MemberState::Syncing => "the initial lists are not complete".to_owned(),
            MemberState::Unreachable { failure, .. } if self.index.has_ttl_expired(self.name) => {
                format!("{failure}; {TTL_EXPIRED}: its endpoints are not used")
            }
            MemberState::Unreachable { failure, .. } => failure.to_string(),
            MemberState::Unwatched { kind, failure, .. } => {
                format!("cannot be watched ({kind}: {failure})")
            }
            MemberState::Refused(refusal) => refusal.to_string(),
            MemberState::LeftOut(left_out @ LeftOut::PullWithoutCredentials) => {
                format!("takes no part: {left_out}; {REPORT_SECRETS}")
            }
            MemberState::LeftOut(left_out) => format!("takes no part: {left_out}"),
            MemberState::NotJoined => String::new(),
        }
    }

    fn watched(&self) -> String {
        let (index, name, cluster) = (self.index, self.name, self.cluster);
        let suspended = (self.suspended() > 0).then(|| self.deletions_suspended());
        let unreadable = &cluster.declared.unreadable;
        let ranges = (!unreadable.is_empty()).then(|| {
            format!(
                "annotation {} has invalid ranges, which are ignored: {}",
                labels::ENDPOINT_CIDRS,
                unreadable.join(", ")
            )
        });
        let network = Some(&cluster.network).filter(|network| !network.is_valid());
        let network = network.map(|network| {
            format!(
                "annotation {} is {:?}, which is no DNS label; clusters with the same text are one \
                 network",
                labels::NETWORK,
                network.name().unwrap_or_default()
            )
        });
        let ways = Reach::VALUES.join(", ");
        let reach = cluster.reach.as_ref().and_then(|reach| reach.unreadable());
        let reach = reach.map(|text| {
            let unknown = unknown(labels::REACH, text);
            format!("{unknown}: what other networks hold stays; write {ways}")
        });
        let watched = match index.watches_exposed_slices(name) {
            true => "Services and the EndpointSlices of exposed Services are watched",
            false => "Services and EndpointSlices are watched",
        };
        let too_many = index.exceeds_slice_names(name).then(|| {
            format!(
                "annotation {} is not followed, as the names of its exposed Services take more \
                 than {MOST_NAMES} bytes",
                labels::WATCH
            )
        });
        let watch = cluster.watch.unreadable().map(|text| {
            let (unknown, value) = (unknown(labels::WATCH, text), DeclaredWatch::EXPOSED);
            format!("{unknown}, which is ignored; write {value}")
        });
        let id = index.id_problem(name).map(|problem| {
            format!("{problem}; until it has another value, the id in the clusterset is {name}")
        });
        let (nodes, paths) = (self.nodes(), self.paths());
        let rest = [
            too_many, watch, suspended, ranges, network, reach, nodes, paths, id,
        ];
        let all = [watched.to_owned()].into_iter();
        all.chain(rest.into_iter().flatten())
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Describes the failed watch of its Nodes, if they are needed, with the remedy.
    fn nodes(&self) -> Option<String> {
        let (name, index) = (self.name, self.index);
        let member = self.member().filter(|_| index.needs_nodes(name));
        let failure = member?.lasting_nodes_failure()?;
        Some(format!(
            "its Nodes cannot be watched ({failure}), so clusters of other networks do not reach \
             its pods by node ports; in {name}: kubectl apply -f manifests/member/networks.yaml"
        ))
    }

    /// Describes the failed watch of the reports on its paths, if they are requested, with the
    /// remedy.
    fn paths(&self) -> Option<String> {
        let (name, index) = (self.name, self.index);
        let member = self.member().filter(|_| index.reports_paths(name));
        let failure = member?.lasting_paths_failure()?;
        Some(format!(
            "the reports on its paths cannot be watched ({failure}), so its paths are unknown, and \
             causeway-agent there changes copies as without a hub; in {name}: kubectl apply -f \
             manifests/member/paths.yaml (docs/paths.md#set-up)"
        ))
    }

    /// Returns the message of DeletionsSuspended.
    pub(crate) fn deletions_suspended(&self) -> String {
        let (name, count) = (self.name, self.suspended());
        format!(
            "deletions of {count} objects are suspended: its last lists lack them, and they are kept until a second list lacks them \
             too; to confirm them now: kubectl mcs confirm-deletions {name}"
        )
    }
}

/// Reports the unknown value of an annotation.
fn unknown(annotation: &str, text: &str) -> String {
    format!("annotation {annotation} has the unknown value {text:?}")
}

impl fmt::Display for IdProblem<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "its ClusterProperty {} is ",
            labels::CLUSTER_ID_PROPERTY
        )?;
        match self {
            Self::Invalid(text) => write!(out, "{text:?}, which is no DNS label"),
            Self::Taken(id, holder) if **id == *holder.as_str() => {
                write!(out, "{id}, which is the name of another cluster")
            }
            Self::Taken(id, holder) => write!(out, "{id}, which is the id of {holder}"),
        }
    }
}

/// Returns the message of ClustersetAPI; `None` while the served API is unknown.
pub(crate) fn clusterset_api(membership: &Membership) -> Option<String> {
    Some(match membership {
        Membership::Unknown => return None,
        Membership::Failing(failure) => {
            format!("ServiceExports and ServiceImports cannot be watched ({failure})")
        }
        Membership::Part { exports, imports } => {
            let missing = match (exports, imports) {
                (Some(exports), Some(imports)) => {
                    let imports = imports.version;
                    return Some(format!(
                        "ServiceExport {exports} and ServiceImport {imports} are watched"
                    ));
                }
                (None, Some(_)) => "ServiceExport is",
                (Some(_), None) => "ServiceImport is",
                (None, None) => "ServiceExport and ServiceImport are",
            };
            format!(
                "{missing} not installed there; apply manifests/crds/member/, or join the cluster again"
            )
        }
    })
}

/// Remedy for a controller that does not seem to work.
const LOOK: &str = "kubectl -n causeway-system get pods; the log of causeway-controller, and its /readyz, say more";

/// Reports that no Cluster has the name.
pub(crate) fn not_joined(name: &ClusterName) -> Diagnosis {
    let message = format!("{name} is not joined: no Cluster of the hub bears the name");
    let unknown = Diagnosis::new(Reason::NotJoined, message);
    unknown.fix(join(name))
}

/// Reports that nothing that a cluster provides is used; `None` for a second name of a cluster,
/// which the state of the member reports.
pub(crate) fn unused(
    name: &ClusterName,
    why: Unused,
    source: AccessSource<'_>,
) -> Option<Diagnosis> {
    let limit = match why {
        Unused::NotJoined => return Some(not_joined(name)),
        Unused::Duplicate => return None,
        Unused::Drained => {
            let message =
                format!("{name} is drained: a person said that nothing it provides is to be used");
            let drained = Diagnosis::new(Reason::Drained, message);
            return Some(drained.fix(format!("kubectl mcs drain {name} --undo")));
        }
        Unused::TtlExpired => "--provider-ttl of causeway-controller",
        Unused::WithdrawAfter => "withdraw-after of the service",
    };
    let message =
        format!("{name} is out of reach for longer than {limit}, so its endpoints are not used");
    Some(Diagnosis::new(Reason::ProviderTtlExpired, message).fix(restore(name, source)))
}

/// Reports a cluster that takes no part.
pub(crate) fn left_out(name: &ClusterName, why: &LeftOut) -> Diagnosis {
    match why {
        LeftOut::PullWithoutCredentials => {
            let message = format!("{name} is in Pull mode, and its Cluster names no credentials");
            Diagnosis::new(Reason::PullWithoutCredentials, message).fix(REPORT_SECRETS)
        }
        LeftOut::TooOld(_) => {
            Diagnosis::new(Reason::LeftOut, format!("{name} takes no part: {why}"))
        }
    }
}

/// Reports a cluster that cannot be used until a person acts, as the cluster itself shows.
pub(crate) fn refused(name: &ClusterName, why: &Refusal) -> Diagnosis {
    let unjoin = format!("kubectl mcs unjoin {name}");
    match why {
        Refusal::DuplicateOf(_) => {
            Diagnosis::new(Reason::DuplicateMember, format!("{name} {why}")).fix(unjoin)
        }
        Refusal::AnotherCluster | Refusal::Configuration(_) => {
            let message = format!("{name} cannot be used: {why}");
            Diagnosis::new(Reason::MemberRefused, message)
                .fix(format!("{unjoin}; then {}", join(name)))
        }
    }
}

/// Remedy of a member that the caller could not read.
pub(super) const LOOK_FROM_ELSEWHERE: &str =
    "look from where its API server can be reached, with the right to read its Secret on the hub";

/// Reports a member that the caller could not read.
pub fn unread(name: &ClusterName, why: &dyn fmt::Display) -> Diagnosis {
    let message = format!("{name} could not be read from here: {why}");
    Diagnosis::new(Reason::MemberNotRead, message).fix(LOOK_FROM_ELSEWHERE)
}

/// Reports objects of a member that are held although its last lists lacked them.
pub(crate) fn suspended(name: &ClusterName, condition: &Condition) -> Diagnosis {
    let message = format!(
        "{name}: {}; endpoints that are gone may still be offered",
        condition.message
    );
    Diagnosis::new(Reason::DeletionsSuspended, message).fix(format!(
        "wait half a minute, or, if it is meant: kubectl mcs confirm-deletions {name}; if not, look at the API server of {name} (a \
         restored etcd?)"
    ))
}

/// Reports a Cluster that is being deleted.
pub(crate) fn terminating(name: &ClusterName) -> Diagnosis {
    let message = format!("{name} is being removed: its Cluster is being deleted");
    Diagnosis::new(Reason::MemberTerminating, message).fix(format!(
        "if that is not meant, once it is gone: {}",
        join(name)
    ))
}

/// Reports a Cluster that the controller has not processed.
pub(crate) fn not_engaged(name: &ClusterName) -> Diagnosis {
    let message = format!("the controller has not engaged {name} yet");
    Diagnosis::new(Reason::MemberPending, message).fix(LOOK)
}

/// Reports a member that is not synced, as the Ready condition of its Cluster has it.
pub(crate) fn not_ready(
    name: &ClusterName,
    ready: &Condition,
    source: AccessSource<'_>,
) -> Diagnosis {
    let since = ready.last_transition_time.0;
    let quoted = format!("{} since {since:.0}", quote(ready));
    match Reason::of(&ready.reason) {
        Some(Reason::Unreachable) => {
            let message = format!(
                "{name} is unreachable for the controller since {since:.0} ({}); what it last gave, and what it has, is kept",
                ready.message
            );
            Diagnosis::new(Reason::MemberUnreachable, message).fix(format!(
                "{}; to stop using what it provides: kubectl mcs drain {name}",
                restore(name, source)
            ))
        }
        Some(Reason::Refused) => {
            let message = format!("{name} cannot be used: {quoted}");
            Diagnosis::new(Reason::MemberRefused, message).fix(match source {
                AccessSource::Profile(namespace) => format!(
                    "{}; for a rebuilt cluster: kubectl delete cluster {name}, and the controller \
                     makes it again",
                    check_provider(name, namespace)
                ),
                AccessSource::Cluster | AccessSource::Tunnel => join(name),
            })
        }
        _ => {
            let message = format!("{name} is not synced: {quoted}");
            Diagnosis::new(Reason::MemberPending, message).fix("kubectl mcs status --wait")
        }
    }
}

/// Returns the remedy for an API server that does not answer, or rejects the credentials.
fn restore(name: &ClusterName, source: AccessSource<'_>) -> String {
    match source {
        AccessSource::Cluster => format!(
            "restore the API server of {name}, or, if it has another address: {} --api-endpoint \
             URL",
            join(name)
        ),
        AccessSource::Tunnel => format!(
            "look at its agent: kubectl mcs tunnel; in {name}: kubectl -n causeway-system logs \
             deployment/causeway-agent"
        ),
        AccessSource::Profile(namespace) => format!(
            "restore the API server of {name}, or, if it has another address or rejects the token: \
             {}",
            check_provider(name, namespace)
        ),
    }
}

/// Returns the remedy for credentials or rights of a member whose ClusterProfile is in that
/// namespace.
fn check_provider(name: &ClusterName, namespace: &str) -> String {
    format!(
        "check the access provider of its ClusterProfile (kubectl -n {namespace} get \
         clusterprofile {name} -o yaml), the plugin or Secret of that provider, and in {name} the \
         rights of the token's account: manifests/member/rbac.yaml \
         (docs/members.md#clusterprofiles)"
    )
}
