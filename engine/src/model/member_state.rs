//! State of a member.

use causeway::domain::ClusterName;

use super::failure::Failure;
use super::profile::ProfileProblem;
use super::time_point::TimePoint;

/// State of a member, as far as planning needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// All its lists are complete and its watches are connected.
    Synced,
    /// Its initial lists are not complete.
    Syncing,
    /// The member does not answer: its probe or the watch of its EndpointSlices fails.
    Unreachable {
        /// Failure of the probe or the watch.
        failure: Failure,
        /// Start of the outage: an earlier process may have recorded it in the Cluster's status.
        since: TimePoint,
        /// Time since which this process has observed the outage.
        observed: TimePoint,
    },
    /// The member answers, and another of its watches fails. Nothing is written to it; its
    /// endpoints are used.
    Unwatched {
        /// Kind whose watch fails.
        kind: RequiredKind,
        /// Failure of the watch.
        failure: Failure,
        /// Start of the failure.
        since: TimePoint,
    },
    /// The member cannot be used until a person changes something.
    Refused(Refusal),
    /// The member takes no part, and nothing waits for it.
    LeftOut(LeftOut),
    /// No Cluster object has the name.
    NotJoined,
}

/// Kind that causeway watches in every member before it writes there, besides EndpointSlices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredKind {
    /// Services.
    Services,
    /// Namespaces.
    Namespaces,
}

/// Reason why a member cannot be used until a person changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its Cluster or its Secret is invalid.
    Configuration(ConfigurationError),
    /// The API server at its address is another cluster's: the UID of kube-system changed.
    AnotherCluster,
    /// It is the same cluster as that member, which was joined first.
    DuplicateOf(ClusterName),
}

/// Reason why a member takes no part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Its Cluster is in Pull mode, and names no Secret with credentials.
    PullWithoutCredentials,
    /// Its Kubernetes version, which is given, is too old for EndpointSlices.
    TooOld(String),
}

/// Validity of the Cluster object and the Secret of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Configuration {
    /// They are valid, and the member is engaged accordingly.
    #[default]
    Valid,
    /// They have changed, and the credentials that they request were not given yet. The member
    /// stays engaged with their last valid state.
    Awaited,
    /// They are invalid now. The member stays engaged with their last valid state.
    Outdated(ConfigurationError),
    /// They are invalid, and the member is not engaged.
    Refused(ConfigurationError),
}

/// Error in the Cluster object or the Secret of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigurationError {
    /// The Cluster names no Secret.
    NoSecretRef,
    /// The Cluster is in Pull mode, and names no Secret any more.
    PullWithoutCredentials,
    /// The controller does not watch Secrets in the namespace of the Secret.
    NamespaceNotWatched(String),
    /// The Secrets of the namespace cannot be read.
    SecretsUnreadable {
        /// Namespace of the Secret.
        namespace: String,
        /// Failure of the list.
        failure: Failure,
    },
    /// The Secret does not exist.
    SecretNotFound {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// The controller does not know the ClusterProfile that the Cluster was made of, which is in
    /// that namespace.
    ProfileUnknown(String),
    /// The ClusterProfiles of the namespace cannot be read.
    ProfilesUnreadable {
        /// Namespace of the ClusterProfile.
        namespace: String,
        /// Failure of the list.
        failure: Failure,
    },
    /// The ClusterProfile that the Cluster was made of names no way to reach the member.
    ProfileUnusable(ProfileProblem),
    /// The Secret that holds the token for a ClusterProfile does not exist, or is another's.
    NoProfileSecret {
        /// Provider of the credentials.
        provider: String,
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// Whether it exists.
        exists: bool,
    },
    /// The provider of the credentials for a ClusterProfile gave none.
    NoCredentials {
        /// Provider of the credentials.
        provider: String,
        /// Failure of the plugin.
        failure: Failure,
    },
    /// The agent of the member gives no credentials, and that lasts until a person acts.
    AgentCredentials(Failure),
    /// The Cluster or the Secret has an invalid value.
    Invalid(Failure),
    /// No client can be made of the Cluster and the Secret.
    NoClient(Failure),
}

impl MemberState {
    /// Returns the same state with the start of the state before, if that was of the same kind and
    /// began earlier.
    pub(crate) fn continuing(mut self, before: Option<Self>) -> Self {
        if let (Self::Unreachable { since, .. }, Some(Self::Unreachable { since: began, .. }))
        | (Self::Unwatched { since, .. }, Some(Self::Unwatched { since: began, .. })) =
            (&mut self, before)
        {
            *since = began.min(*since);
        }
        self
    }
}
