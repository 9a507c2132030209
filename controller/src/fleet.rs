//! Engaged members: one client and one set of watches each, recreated when the address or the CA
//! changes. A renewed token ends neither.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use causeway::api::{self, SecretReference, SyncMode, labels};
use causeway::domain::ClusterName;
use causeway::process::supervise::Tasks;
use causeway::target::{Target, TargetError, Token, TunnelFront};
use causeway_engine::model::slice::SliceScope;
use causeway_engine::model::{
    ConfigurationError, Failure, FailureKind, Generation, Needs, Profile, ProfileId, Signal,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;

use crate::cluster_profiles::providers::{CredentialSource, Providers};
use crate::credentials::AGENTS_AT_ONCE;
use crate::event::{Event, Round};
use crate::event_recorder::EventClient;
use crate::member::{self, Connector, Member};
use crate::watch::{RelistRequests, is_before};

use self::profiles::profile_id;
use self::renewals::RenewedCredentials;

mod profiles;
mod renewals;

/// Outcome of a change of a member's Cluster or Secret.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing yet: it is no member, or its Secret is not known.
    Pending,
    /// It stays engaged as it was: its Cluster has changed, and the credentials that it requests
    /// now were not given yet.
    Awaited,
    /// It is engaged already, as its Cluster and its Secret say.
    Unchanged,
    /// It is engaged already, and its next requests bear another token.
    Renewed,
    /// It is engaged, in this generation.
    Engaged(Generation),
    /// Its agent, which gives its address, was not reached since the start. The generation stays
    /// the same until it is.
    Unreached(Generation, Failure),
    /// It stays engaged as it was, because its Cluster or its Secret is invalid now.
    Kept(ConfigurationError),
    /// It cannot be engaged until a person acts.
    Refused(ConfigurationError),
    /// It takes no part: it is in Pull mode without credentials.
    LeftOut,
}

/// Way in which the credentials of members are found.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Whether a token may be sent over unverified TLS.
    pub allow_insecure: bool,
    /// Front of causeway-tunnel.
    pub tunnel_front: Option<TunnelFront>,
    /// Directory of the controller's certificate for agents.
    pub tunnel_tls_dir: Option<PathBuf>,
    /// Namespaces of Secrets, the first of which is that of the members' Secrets.
    pub secret_namespaces: Vec<String>,
    /// Namespaces of ClusterProfiles.
    pub profile_namespaces: Vec<String>,
    /// Providers of credentials for ClusterProfiles.
    pub providers: Providers,
}

/// All engagements.
pub struct Fleet {
    credentials: Credentials,
    settings: member::Settings,
    events: mpsc::Sender<Event>,
    tasks: Tasks,
    clusters: HashMap<ClusterName, api::Cluster>,
    secrets: HashMap<SecretReference, Secret>,
    /// Namespaces of Secrets, each with the state of its list.
    namespaces: BTreeMap<String, Listing>,
    engagements: BTreeMap<ClusterName, Engagement>,
    generation: Generation,
    profiles: HashMap<ProfileId, Profile>,
    /// Profiles that are gone, and of which there are Clusters.
    gone_profiles: BTreeSet<ProfileId>,
    /// Namespaces of ClusterProfiles, each with the state of its list.
    profile_namespaces: BTreeMap<String, Listing>,
    /// Credentials that plugins and agents give.
    renewals: BTreeMap<ClusterName, RenewedCredentials>,
    round: Round,
    /// Places of the plugins of each program, which the providers' file names.
    plugin_places: HashMap<String, Arc<Semaphore>>,
    agent_places: Arc<Semaphore>,
}

/// State of the list of the Secrets or ClusterProfiles of one namespace.
enum Listing {
    /// They are being listed.
    Awaited,
    /// They were never listed, for this reason.
    Unreadable(Failure),
    /// They were listed.
    Listed {
        /// Whether the watch fails, so that what is absent may exist.
        is_failing: bool,
    },
}

impl Listing {
    const LISTED: Self = Self::Listed { is_failing: false };

    /// Notes that a list or a watch failed; returns true if nothing was ever listed.
    fn note_failure(&mut self, failure: Failure) -> bool {
        match self {
            Self::Listed { is_failing } => {
                *is_failing = true;
                false
            }
            Self::Awaited | Self::Unreadable(_) => {
                *self = Self::Unreadable(failure);
                true
            }
        }
    }

    /// Notes that the watch works; returns true if it failed before.
    fn note_connected(&mut self) -> bool {
        match self {
            Self::Listed { is_failing } => std::mem::take(is_failing),
            Self::Awaited | Self::Unreadable(_) => false,
        }
    }
}

struct Engagement {
    target: Target,
    token: watch::Sender<Token>,
    /// UID that its Cluster recorded.
    recorded_uid: Option<String>,
    generation: Generation,
    client: Client,
    relist_requests: watch::Sender<RelistRequests>,
    needs_nodes: watch::Sender<bool>,
    needs_paths: watch::Sender<bool>,
    slice_scope: watch::Sender<Option<SliceScope>>,
    task: AbortHandle,
}

impl Engagement {
    /// Uses this token for the next requests, of which those that failed come at once. Watches go
    /// on, and nothing is listed.
    fn renew(&self, token: Token) -> Outcome {
        let is_renewed = self.token.send_if_modified(|current| {
            let is_renewed = *current != token;
            *current = token;
            is_renewed
        });
        if !is_renewed {
            return Outcome::Unchanged;
        }
        self.relist_requests
            .send_modify(|requests| requests.retry += 1);
        Outcome::Renewed
    }
}

/// Connection of a member that is about to be engaged.
struct Connection {
    target: Target,
    token: watch::Sender<Token>,
    connector: Connector,
    client: Client,
}

impl Drop for Engagement {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

impl Fleet {
    /// Returns a fleet of no member, whose credentials are found so. What the members say goes to
    /// `events`.
    pub fn new(
        credentials: Credentials,
        settings: member::Settings,
        events: mpsc::Sender<Event>,
        tasks: Tasks,
    ) -> Self {
        let awaited = |namespaces: &[String]| {
            let namespaces = namespaces.iter().cloned();
            namespaces.map(|one| (one, Listing::Awaited)).collect()
        };
        Self {
            namespaces: awaited(&credentials.secret_namespaces),
            profile_namespaces: awaited(&credentials.profile_namespaces),
            credentials,
            settings,
            events,
            tasks,
            clusters: HashMap::new(),
            secrets: HashMap::new(),
            engagements: BTreeMap::new(),
            generation: 0,
            profiles: HashMap::new(),
            gone_profiles: BTreeSet::new(),
            renewals: BTreeMap::new(),
            round: 0,
            plugin_places: HashMap::new(),
            agent_places: Arc::new(Semaphore::new(AGENTS_AT_ONCE)),
        }
    }

    /// Notes what the hub says of Clusters; returns the members to reconsider. One that is gone
    /// stays engaged until [`Fleet::stop_watching`].
    pub fn note_clusters(&mut self, signal: &Signal<api::Cluster>) -> BTreeSet<ClusterName> {
        let listed = match signal {
            Signal::Listed(objects) => objects.as_slice(),
            Signal::Applied(object) => std::slice::from_ref(object),
            _ => &[],
        };
        let mut names = BTreeSet::new();
        for object in listed {
            if let Some(name) = object
                .metadata
                .name
                .as_deref()
                .and_then(|name| ClusterName::try_from(name).ok())
            {
                let before = self.clusters.insert(name.clone(), object.clone());
                if before.is_some_and(|before| before.metadata.uid != object.metadata.uid) {
                    // Joined again, perhaps as another cluster.
                    self.engagements.remove(&name);
                }
                names.insert(name);
            }
        }
        names
    }

    /// Notes what the hub says of Secrets; returns the members to reconsider.
    pub fn note_secrets(
        &mut self,
        namespace: &str,
        signal: Signal<Secret>,
    ) -> BTreeSet<ClusterName> {
        match signal {
            Signal::Listed(objects) => {
                self.namespaces
                    .insert(namespace.to_owned(), Listing::LISTED);
                let listed = objects.into_iter();
                let listed = listed.filter_map(|object| Some((reference(&object)?, object)));
                self.secrets
                    .retain(|reference, _| reference.namespace != namespace);
                self.secrets.extend(listed);
                self.users(|reference| reference.namespace == namespace)
            }
            Signal::Failed(failure) => {
                let listing = self.namespaces.get_mut(namespace);
                match listing.is_some_and(|listing| listing.note_failure(failure)) {
                    true => self.users(|reference| reference.namespace == namespace),
                    false => BTreeSet::new(),
                }
            }
            Signal::Connected => {
                let listing = self.namespaces.get_mut(namespace);
                match listing.is_some_and(Listing::note_connected) {
                    true => self.users(|reference| reference.namespace == namespace),
                    false => BTreeSet::new(),
                }
            }
            Signal::Applied(object) => reference(&object).map_or_else(BTreeSet::new, |reference| {
                let known = self.secrets.get(&reference);
                let version = |secret: &Secret| secret.metadata.resource_version.clone();
                let known = known.and_then(version).unwrap_or_default();
                if is_before(&version(&object).unwrap_or_default(), &known) {
                    // Looked up before the watch brought a newer one.
                    return BTreeSet::new();
                }
                let users = self.users(|one| *one == reference);
                self.secrets.insert(reference, object);
                users
            }),
            Signal::Deleted(object) => reference(&object).map_or_else(BTreeSet::new, |reference| {
                self.secrets.remove(&reference);
                self.users(|one| *one == reference)
            }),
            _ => BTreeSet::new(),
        }
    }

    /// The members whose Clusters name such a Secret.
    fn users(&self, is_such: impl Fn(&SecretReference) -> bool) -> BTreeSet<ClusterName> {
        let uses = |cluster| self.reference_of(cluster).as_ref().is_some_and(&is_such);
        self.clusters
            .iter()
            .filter(|(_, cluster)| uses(cluster))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Notes that the Cluster of a member records the UID that the member has reported, so that the
    /// record does not engage the member again.
    pub fn note_recorded_uid(&mut self, name: &ClusterName) {
        let recorded_uid = self.recorded_uid(name);
        if let Some(engaged) = self.engagements.get_mut(name) {
            engaged.recorded_uid = recorded_uid;
        }
    }

    /// Engages a member as its Cluster and its Secret are now. Where these are invalid, one that is
    /// engaged keeps its last connection until it is disengaged: a mistake on the hub proves
    /// nothing about the member, and a Secret that goes before its Cluster is no reason to leave
    /// the member uncleaned.
    pub fn reconsider(&mut self, name: &ClusterName) -> Outcome {
        let Some(cluster) = self.clusters.get(name).cloned() else {
            return Outcome::Pending;
        };
        self.end_unrequested_renewal(name);
        if !self.takes_part(name, &cluster) {
            return Outcome::LeftOut;
        }
        let data = match is_by_agent(&cluster) {
            true => self.agent_target(name),
            false => self.target(&cluster),
        };
        if let Err(error) = &data
            && let Some(outcome) = self.unreached(name, error)
        {
            return outcome;
        }
        let engaged = self.engagements.get(name);
        let recorded_uid = self.recorded_uid(name);
        let is_as = |engaged: &&Engagement, target: &Target| {
            engaged.target == *target && engaged.recorded_uid == recorded_uid
        };
        let wanted = match data {
            Ok(None) if engaged.is_some() => return Outcome::Awaited,
            Ok(None) => return Outcome::Pending,
            Ok(Some((target, token))) => match engaged.filter(|one| is_as(one, &target)) {
                Some(engaged) => return engaged.renew(token),
                None => self.connection(target, token),
            },
            Err(error) => Err(error),
        };
        match wanted {
            Ok(connection) => Outcome::Engaged(self.engage(name, connection)),
            Err(error) if engaged.is_some() => Outcome::Kept(error),
            Err(error) => Outcome::Refused(error),
        }
    }

    /// Whether a member takes part: its Cluster requests it, or it is engaged.
    fn takes_part(&self, name: &ClusterName, cluster: &api::Cluster) -> bool {
        cluster.takes_part() || self.engagements.contains_key(name)
    }

    fn connection(&self, target: Target, token: Token) -> Result<Connection, ConfigurationError> {
        let (token, tokens) = watch::channel(token);
        let connector = Connector::new(&target, tokens, CONNECT_DEADLINE, &self.settings.agent);
        let connector = connector.map_err(ConfigurationError::NoClient)?;
        let client = connector.client().map_err(ConfigurationError::NoClient)?;
        Ok(Connection {
            target,
            token,
            connector,
            client,
        })
    }

    /// Returns the connection data of the member; `None` while its credentials are awaited.
    fn target(
        &mut self,
        cluster: &api::Cluster,
    ) -> Result<Option<(Target, Token)>, ConfigurationError> {
        if profile_id(cluster).is_some() {
            return self.profile_target(cluster);
        }
        let Some(reference) = &cluster.spec.secret_ref else {
            return Err(match cluster.spec.sync_mode {
                Some(SyncMode::Pull) => ConfigurationError::PullWithoutCredentials,
                _ => ConfigurationError::NoSecretRef,
            });
        };
        let Some(secret) = self.read_secret(reference, || ConfigurationError::SecretNotFound {
            namespace: reference.namespace.clone(),
            name: reference.name.clone(),
        })?
        else {
            return Ok(None);
        };
        let front = self.credentials.tunnel_front.as_ref();
        let allow_insecure = self.credentials.allow_insecure;
        let target = Target::read_beside(cluster, secret, front, allow_insecure);
        target.map(Some).map_err(invalid)
    }

    /// Returns a Secret with credentials; `None` while those of its namespace are being listed, or
    /// cannot be watched, and the error `absent` if there is none.
    fn read_secret(
        &self,
        reference: &SecretReference,
        absent: impl FnOnce() -> ConfigurationError,
    ) -> Result<Option<&Secret>, ConfigurationError> {
        let namespace = &reference.namespace;
        match self.namespaces.get(namespace) {
            Some(Listing::Awaited) => Ok(None),
            Some(Listing::Listed { is_failing }) => match self.secrets.get(reference) {
                None if !is_failing => Err(absent()),
                found => Ok(found),
            },
            Some(Listing::Unreadable(failure)) => Err(ConfigurationError::SecretsUnreadable {
                namespace: namespace.clone(),
                failure: failure.clone(),
            }),
            None => Err(ConfigurationError::NamespaceNotWatched(namespace.clone())),
        }
    }

    fn engage(&mut self, name: &ClusterName, connection: Connection) -> Generation {
        self.generation += 1;
        let Connection {
            target,
            token,
            connector,
            client,
        } = connection;
        let connect = Arc::new(move || connector.client());
        let (relist_requests, requests) = watch::channel(RelistRequests::default());
        let (needs_nodes, nodes_needed) = watch::channel(false);
        let (needs_paths, paths_needed) = watch::channel(false);
        // A Cluster that requests a scope waits for the index, which knows the names.
        let is_scoped = self.clusters.get(name).is_some_and(|cluster| {
            let annotations = cluster.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(labels::WATCH))
        });
        let scope = (!is_scoped).then_some(SliceScope::All);
        let (slice_scope, slice_scopes) = watch::channel(scope);
        let member = Member {
            name: name.clone(),
            client: client.clone(),
            connect,
            generation: self.generation,
            events: self.events.clone(),
            relist_requests: requests,
            needs_nodes: nodes_needed,
            needs_paths: paths_needed,
            slice_scope: slice_scopes,
            settings: self.settings.clone(),
        };
        let task = self.tasks.spawn("member", member.run());
        let engagement = Engagement {
            target,
            token,
            recorded_uid: self.recorded_uid(name),
            generation: self.generation,
            client,
            relist_requests,
            needs_nodes,
            needs_paths,
            slice_scope,
            task,
        };
        self.engagements.insert(name.clone(), engagement);
        self.generation
    }

    /// Requests lists of the watches of a member.
    pub fn relist(&self, name: &ClusterName, request: impl FnOnce(&mut RelistRequests)) {
        if let Some(engagement) = self.engagements.get(name) {
            engagement.relist_requests.send_modify(request);
        }
    }

    /// Sets the scope of the watches of a member's EndpointSlices.
    pub fn watch_slices(&self, name: &ClusterName, scope: SliceScope) {
        if let Some(engagement) = self.engagements.get(name) {
            let scope = Some(scope);
            let current = &engagement.slice_scope;
            current.send_if_modified(|current| std::mem::replace(current, scope.clone()) != scope);
        }
    }

    /// Starts the watches of a member that are needed now, and ends those that are not.
    pub fn note_needs(&self, name: &ClusterName, needed: Needs) {
        if let Some(engagement) = self.engagements.get(name) {
            for (current, needed) in [
                (&engagement.needs_nodes, needed.nodes),
                (&engagement.needs_paths, needed.paths),
            ] {
                current.send_if_modified(|current| std::mem::replace(current, needed) != needed);
            }
        }
    }

    /// Returns the UID of the member's kube-system namespace, as its Cluster records it.
    pub fn recorded_uid(&self, name: &ClusterName) -> Option<String> {
        self.clusters
            .get(name)?
            .spec
            .id
            .clone()
            .filter(|id| !id.is_empty())
    }

    /// Returns the Secret that holds the credentials of a member, if the controller reads its
    /// namespace.
    pub fn secret_of(&self, name: &ClusterName) -> Option<SecretReference> {
        let reference = self.reference_of(self.clusters.get(name)?)?;
        let is_read = self.namespaces.contains_key(&reference.namespace);
        is_read.then_some(reference)
    }

    /// Returns the Secret with the credentials for a Cluster, if a Secret has them.
    fn reference_of(&self, cluster: &api::Cluster) -> Option<SecretReference> {
        let Some(profile) = self.profile_of(cluster) else {
            let secret = cluster.spec.secret_ref.clone();
            return secret.filter(|_| !is_by_agent(cluster));
        };
        let (profile, access) = profile.ok()?;
        match self.source(profile, access).ok()? {
            CredentialSource::Secret { secret, .. } => Some(secret),
            CredentialSource::Plugin(_) => None,
        }
    }

    /// Ends the engagement of a member and forgets its Cluster.
    pub fn stop_watching(&mut self, name: &ClusterName) {
        self.engagements.remove(name);
        if let Some(cluster) = self.clusters.remove(name)
            && let Some(id) = profile_id(&cluster)
            && self.gone_profiles.remove(&id)
        {
            self.profiles.remove(&id);
        }
        self.end_unrequested_renewal(name);
    }

    /// Returns the client of a member with the generation of its engagement.
    pub fn client(&self, name: &ClusterName) -> Option<EventClient<'_>> {
        self.engagements.get(name).map(|engagement| EventClient {
            client: &engagement.client,
            generation: engagement.generation,
        })
    }
}

/// Whether the agent of a member gives its credentials.
fn is_by_agent(cluster: &api::Cluster) -> bool {
    cluster.has_agent_credentials() && profile_id(cluster).is_none()
}

/// Returns the error for an address or credentials that are there and cannot be used.
fn invalid(error: TargetError) -> ConfigurationError {
    ConfigurationError::Invalid(Failure::new(FailureKind::Invalid, error.to_string()))
}

fn reference(secret: &Secret) -> Option<SecretReference> {
    Some(SecretReference {
        namespace: secret.metadata.namespace.clone()?,
        name: secret.metadata.name.clone()?,
    })
}

#[cfg(test)]
mod tests;
