//! Completion of names that a kubeconfig or the hub defines.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use causeway::api::{Cluster, MultiClusterService};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;

use crate::cluster::access::{HubArgs, MembersArgs};
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::kubeconfig::{self, MemberKubeconfigs};

/// Maximum time to read names after the user presses Tab.
const WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of names read.
const MOST: u32 = 500;

/// Kind of names that an argument accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Contexts,
    MemberContexts,
    /// Contexts of the kubeconfig by which the user reads this member.
    ContextsOf(String),
    /// Names of objects on the hub.
    Objects(Kind),
}

/// Kind of objects that an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Namespace,
    Cluster,
    MultiClusterService,
}

/// Settings that select the hub and the kubeconfig to read names from.
pub(super) struct Access {
    pub hub: HubArgs,
    pub member_kubeconfig: Option<PathBuf>,
    /// Kubeconfigs by which the user reads members.
    pub members: MembersArgs,
}

impl Names {
    /// Returns the kind of existing names that an argument of a command accepts, or `None`.
    pub(super) fn of(command: &str, arg: &str) -> Option<Self> {
        match (command, arg) {
            (_, "context") => Some(Self::Contexts),
            (_, "member_context") => Some(Self::MemberContexts),
            (_, "namespace") => Some(Self::Objects(Kind::Namespace)),
            ("unjoin" | "drain" | "confirm-deletions" | "dns" | "add" | "remove", "name")
            | ("shift", "to") => Some(Self::Objects(Kind::Cluster)),
            ("status" | "explain" | "verify" | "adopt" | "hand-over" | "shift", "name") => {
                Some(Self::Objects(Kind::MultiClusterService))
            }
            _ => None,
        }
    }

    /// Returns the existing names, or none if they cannot be read within [`WITHIN`].
    ///
    /// A detached thread reads the names, because a credential plugin of the kubeconfig may block
    /// it.
    pub(super) fn read_in_time(self, access: Access) -> Vec<String> {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            // The receiver is dropped after the deadline.
            sender.send(self.read(&access)).ok();
        });
        let read = receiver.recv_timeout(WITHIN).ok().flatten();
        read.unwrap_or_default()
    }

    fn read(self, access: &Access) -> Option<Vec<String>> {
        match self {
            Self::Contexts => contexts(access.hub.kubeconfig.as_deref()),
            Self::MemberContexts => contexts(Some(access.member_kubeconfig.as_deref()?)),
            Self::ContextsOf(member) => {
                let hub = access.hub.kubeconfig.as_deref();
                let given = MemberKubeconfigs::read(&access.members, hub).ok()?;
                contexts(given.or_by_name(&member).path.as_deref())
            }
            Self::Objects(kind) => {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                runtime.ok()?.block_on(objects(kind, &access.hub)).ok()
            }
        }
    }
}

/// Returns the contexts of the given kubeconfig, or of kubectl's default kubeconfig.
fn contexts(path: Option<&Path>) -> Option<Vec<String>> {
    let loaded = kubeconfig::load(path).ok()?;
    let contexts = loaded.kubeconfig.contexts.into_iter();
    Some(contexts.map(|context| context.name).collect())
}

async fn objects(kind: Kind, hub: &HubArgs) -> Result<Vec<String>, RequestError> {
    let hub = ApiServer::hub(hub).await?;
    match kind {
        Kind::Namespace => list(&hub, hub.all::<Namespace>()).await,
        Kind::Cluster => list(&hub, hub.all::<Cluster>()).await,
        Kind::MultiClusterService => {
            let services = hub.within::<MultiClusterService>(&hub.config.default_namespace);
            list(&hub, services).await
        }
    }
}

async fn list<K>(hub: &ApiServer, api: Api<K>) -> Result<Vec<String>, RequestError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let parameters = ListParams::default().limit(MOST);
    let objects = hub.list_metadata(api, &parameters).await?.into_iter();
    Ok(objects.filter_map(|object| object.metadata.name).collect())
}
