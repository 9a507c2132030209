//! ClusterProfiles, of which the controller makes Clusters (KEP-4322).

use causeway::api::cluster_profile::ClusterAccess;
use causeway::api::{ClusterProfile, ClusterSpec, SyncMode, bounds};
use causeway::domain::{ClusterName, NameError};
use k8s_openapi::jiff::Timestamp;

/// Property of a cluster's region (KEP-5939, "User Stories").
pub(crate) const REGION_PROPERTY: &str = "region.topology.k8s.io";

/// Maximum number of providers that a message names.
const NAMED_AT_MOST: usize = 8;

/// Name and namespace of a ClusterProfile, ordered by the name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileId {
    /// Its name, which is that of its Cluster.
    pub name: Box<str>,
    /// Its namespace.
    pub namespace: Box<str>,
}

/// ClusterProfile as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name and namespace.
    pub id: ProfileId,
    /// Its UID.
    pub uid: Box<str>,
    /// Its creation time. Of two profiles of one name, the older one counts.
    pub(crate) created: Option<Timestamp>,
    /// Region of the cluster, if the profile has that property.
    pub(crate) region: Option<Box<str>>,
    /// Way to reach the cluster, or the reason why there is none.
    pub access: Result<ProfileAccess, ProfileProblem>,
}

/// Way to reach the cluster of a ClusterProfile.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileAccess {
    /// Name of its Cluster.
    pub cluster: ClusterName,
    /// Provider of the credentials.
    pub provider: Box<str>,
    /// Address of its API server.
    pub address: ClusterAccess,
}

/// Reason why no Cluster can be made of a ClusterProfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileProblem {
    /// Its name is none of a Cluster.
    Name(NameError),
    /// It offers none of the providers that the controller knows.
    NoProvider {
        /// Providers that it offers.
        offered: Vec<Box<str>>,
        /// Providers that the controller knows.
        known: Vec<Box<str>>,
    },
    /// The chosen provider names no server.
    NoServer {
        /// Provider.
        provider: Box<str>,
    },
}

impl Profile {
    /// Reads a ClusterProfile. Of the providers that the controller knows, the first that the
    /// profile offers is used (KEP-4322, "Access providers").
    pub fn read(profile: &ClusterProfile, known: &[Box<str>]) -> Self {
        let meta = &profile.metadata;
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        let region = profile.property(REGION_PROPERTY);
        Self {
            id: ProfileId {
                name: text(&meta.name),
                namespace: text(&meta.namespace),
            },
            uid: text(&meta.uid),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            region: region.filter(|region| !region.is_empty()).map(Into::into),
            access: access(profile, known),
        }
    }

    /// Returns the spec of the Cluster.
    ///
    /// # Errors
    /// Why no Cluster can be made.
    pub fn spec(&self) -> Result<ClusterSpec, &ProfileProblem> {
        let address = &self.access.as_ref()?.address;
        let proxy_url = Some(&address.proxy_url).filter(|url| !url.is_empty());
        Ok(ClusterSpec {
            sync_mode: Some(SyncMode::Push),
            api_endpoint: Some(address.server.clone()),
            insecure_skip_tls_verification: address.insecure_skip_tls_verify.then_some(true),
            proxy_url: proxy_url.cloned(),
            region: self.region.as_deref().map(Into::into),
            ..ClusterSpec::default()
        })
    }
}

fn access(profile: &ClusterProfile, known: &[Box<str>]) -> Result<ProfileAccess, ProfileProblem> {
    let name = profile.metadata.name.as_deref().unwrap_or_default();
    let cluster = ClusterName::try_from(name).map_err(ProfileProblem::Name)?;
    let offered = profile.access_providers();
    let mut both = known
        .iter()
        .filter_map(|name| offered.get_key_value(&**name));
    let Some((provider, address)) = both.next() else {
        let offered = offered.keys().take(NAMED_AT_MOST);
        return Err(ProfileProblem::NoProvider {
            offered: offered.map(|name| bounds::foreign(name).into()).collect(),
            known: known.to_vec(),
        });
    };
    let provider: Box<str> = (*provider).into();
    if address.server.trim().is_empty() {
        return Err(ProfileProblem::NoServer { provider });
    }
    Ok(ProfileAccess {
        cluster,
        provider,
        address: (*address).clone(),
    })
}
