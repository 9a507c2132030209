//! The watches of one member, with the credentials that the hub keeps for it.

use std::sync::Arc;
use std::time::Duration;

use causeway::api::Cluster;
use causeway_engine::model::{Failure, FailureKind, Identity};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::change::{Change, MemberChange};
use super::watches::{LOOK_AGAIN, Watched, pauses};
use crate::api_server::{ApiServer, RequestError};
use crate::connectivity::{self, ConnectError};
use crate::snapshot::gather::release;

/// A connection that stood for so long is taken up again at once.
const STOOD: Duration = Duration::from_secs(10);

/// How members are read.
#[derive(Clone)]
pub(super) struct MemberSettings {
    pub hub: ApiServer,
    pub allow_insecure: bool,
    pub namespace: Option<String>,
    pub changes: mpsc::Sender<Change>,
    /// Those that may connect at one time.
    pub connecting: Arc<Semaphore>,
}

/// A member that is watched until this is dropped.
#[derive(Debug)]
pub(super) struct Engaged {
    task: AbortHandle,
    needs_nodes: watch::Sender<bool>,
}

impl Drop for Engaged {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Engaged {
    /// Watches its Nodes, or ends their watch; whether that is a change.
    pub(super) fn watch_nodes(&self, needed: bool) -> bool {
        let needs = &self.needs_nodes;
        needs.send_if_modified(|needs| std::mem::replace(needs, needed) != needed)
    }
}

/// Watches the member of that Cluster; its changes bear the number of the engagement.
pub(super) fn engage(settings: &MemberSettings, cluster: &Cluster, engagement: u64) -> Engaged {
    let (needs_nodes, nodes_needed) = watch::channel(false);
    let member = Member {
        settings: settings.clone(),
        cluster: cluster.clone(),
        engagement,
        needs_nodes: nodes_needed,
    };
    Engaged {
        task: tokio::spawn(member.run()).abort_handle(),
        needs_nodes,
    }
}

struct Member {
    settings: MemberSettings,
    cluster: Cluster,
    engagement: u64,
    needs_nodes: watch::Receiver<bool>,
}

impl Member {
    /// Connects, follows, and connects again when that ends. The Secret is read each time: its token may be another.
    async fn run(self) {
        let mut pauses = pauses();
        loop {
            let begun = Instant::now();
            let why = match self.connect().await {
                Ok((server, identity)) => self.follow(&server, identity).await.into(),
                Err(why) => why,
            };
            let ended = self.change(MemberChange::Disconnected(why));
            self.settings.changes.send(ended).await.ok();
            if begun.elapsed() > STOOD {
                pauses.reset();
            }
            tokio::time::sleep(pauses.next()).await;
        }
    }

    fn change(&self, change: MemberChange) -> Change {
        Change::Member {
            name: self.cluster.name_any(),
            engagement: self.engagement,
            change,
        }
    }

    async fn connect(&self) -> Result<(ApiServer, Identity), ConnectError> {
        // Its time begins when it has its turn.
        let _turn = self.settings.connecting.acquire().await.ok();
        let connected = async {
            let settings = &self.settings;
            let server =
                connectivity::connect(&settings.hub, &self.cluster, settings.allow_insecure)
                    .await?;
            let identity = identify(&server).await?;
            Ok((server, identity))
        };
        connectivity::in_time(connected).await
    }

    /// Whether the same cluster answers still.
    async fn is_still(&self, watched: &Watched<'_>, uid: &str) -> Result<(), RequestError> {
        match watched.server.uid().await? {
            same if same == uid => Ok(()),
            _ => Err(watched
                .server
                .unreachable("another cluster answers at its address".to_owned())),
        }
    }

    /// Tells all that the member shows, until one of its watches breaks, it does not answer, or another cluster does.
    async fn follow(&self, server: &ApiServer, identity: Identity) -> RequestError {
        let watched = Watched {
            server,
            changes: &self.settings.changes,
            namespace: self.settings.namespace.as_deref(),
        };
        let uid = identity.uid.clone();
        watched
            .tell(self.change(MemberChange::Identified(identity)))
            .await;
        let namespaces: Api<Namespace> = Api::all(server.client.clone());
        let mut one = watcher::Config::default();
        if let Some(namespace) = &self.settings.namespace {
            one = one.fields(&format!("metadata.name={namespace}"));
        }
        let all = watcher::Config::default;
        tokio::select! {
            why = watched.follow(namespaces, one, |event| self.change(MemberChange::Namespaces(event))) => why,
            why = watched.follow(watched.api(), all(), |event| self.change(MemberChange::Services(event))) => why,
            why = watched.follow(watched.api(), all(), |event| self.change(MemberChange::Slices(event))) => why,
            why = watched.follow_served(
                |version| self.change(MemberChange::ExportsServed(version)),
                |event| self.change(MemberChange::Exports(event)),
            ) => why,
            why = watched.follow_served(
                |version| self.change(MemberChange::ImportsServed(version)),
                |event| self.change(MemberChange::Imports(event)),
            ) => why,
            why = self.follow_nodes(&watched) => why,
            why = watched.probe(|| self.is_still(&watched, &uid)) => why,
        }
    }
}

impl Member {
    /// Tells its Nodes while they are needed.
    async fn follow_nodes(&self, watched: &Watched<'_>) -> RequestError {
        let mut needs = self.needs_nodes.clone();
        while needs.wait_for(|needs| *needs).await.is_ok() {
            tokio::select! {
                why = self.tell_nodes(watched) => return why,
                _ = needs.wait_for(|needs| !needs) => {}
            }
        }
        std::future::pending().await
    }

    /// Tells its Nodes. That they may not be read concerns nothing else.
    async fn tell_nodes(&self, watched: &Watched<'_>) -> RequestError {
        loop {
            let nodes: Api<Node> = Api::all(watched.server.client.clone());
            let all = watcher::Config::default();
            let change = |event| self.change(MemberChange::Nodes(event));
            match watched.follow(nodes, all, change).await {
                why @ RequestError::NotAllowed { .. } => {
                    let failure = Failure::new(FailureKind::Forbidden, why.to_string());
                    let change = MemberChange::NodesUnread(failure);
                    watched.tell(self.change(change)).await;
                }
                why => return why,
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

async fn identify(server: &ApiServer) -> Result<Identity, RequestError> {
    let version = server.request(server.client.apiserver_version());
    let (uid, version) = tokio::try_join!(server.uid(), version)?;
    Ok(Identity {
        uid,
        release: release(&version)?,
        version: version.git_version,
    })
}
