//! What one member exports and imports, followed by watches.

use std::fmt::Debug;
use std::time::Duration;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{Cluster, condition};
use futures::stream::{self, StreamExt as _};
use futures::{Stream, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::DynamicResourceScope;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::api_server::{ApiServer, RequestError};
use crate::connectivity::{self, ConnectError};
use crate::status::members::{Holdings, Wanted};
use crate::status::mirror::Mirror;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What a member reports.
pub(super) enum MemberChange {
    /// It is connected, and serves these kinds.
    Connected {
        exports: bool,
        imports: bool,
    },
    Export(Event<ServiceExport>),
    Import(Event<ServiceImport>),
    /// It cannot be read.
    Failed(ConnectError),
}

/// Follows a member until it is dropped.
pub(super) struct Follower {
    number: u64,
    cluster: Cluster,
    task: JoinHandle<()>,
    exports: Observed<ServiceExport>,
    imports: Observed<ServiceImport>,
    failure: Option<ConnectError>,
}

/// The objects of one kind.
struct Observed<K> {
    mirror: Mirror<K>,
    /// Whether they are all known.
    is_listed: bool,
}

impl Follower {
    /// Follows the member of that Cluster, of which this is known already. `report` hands a change over, and says whether anybody takes it.
    pub(super) fn start<F>(
        number: u64,
        hub: ApiServer,
        cluster: Cluster,
        wanted: Wanted,
        held: Option<&Holdings>,
        report: impl Fn(String, MemberChange) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = bool> + Send,
    {
        let (name, of) = (cluster.name_any(), cluster.clone());
        let task = tokio::spawn(async move {
            let report = |change| report(name.clone(), change);
            follow(&hub, &of, &wanted, report).await;
        });
        Self {
            number,
            cluster,
            task,
            exports: Observed::of(held.map(|held| held.exports.clone())),
            imports: Observed::of(held.map(|held| held.imports.clone())),
            failure: None,
        }
    }

    /// Which follower it is.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it is connected as this Cluster says: what it serves may be other than before, too.
    pub(super) fn is_for(&self, cluster: &Cluster) -> bool {
        let served = |cluster: &Cluster| served(cluster).cloned();
        self.cluster.spec == cluster.spec && served(&self.cluster) == served(cluster)
    }

    /// Takes a change in.
    pub(super) fn take(&mut self, change: MemberChange) {
        match change {
            MemberChange::Connected { exports, imports } => {
                self.exports.serve(exports);
                self.imports.serve(imports);
                self.failure = None;
            }
            MemberChange::Export(event) => self.exports.take(event),
            MemberChange::Import(event) => self.imports.take(event),
            MemberChange::Failed(why) => {
                self.exports.is_listed = false;
                self.imports.is_listed = false;
                self.failure = Some(why);
            }
        }
    }

    /// What the member holds, or why that is not known; `None` while it is being listed.
    pub(super) fn reading(&self) -> Option<Result<Holdings, ConnectError>> {
        if let Some(why) = &self.failure {
            return Some(Err(why.clone()));
        }
        let is_listed = self.exports.is_listed && self.imports.is_listed;
        is_listed.then(|| {
            Ok(Holdings {
                exports: self.exports.mirror.objects(),
                imports: self.imports.mirror.objects(),
                ..Holdings::default()
            })
        })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<K: Resource + Clone> Observed<K> {
    fn of(known: Option<Vec<K>>) -> Self {
        Self {
            is_listed: known.is_some(),
            mirror: Mirror::of(known.unwrap_or_default()),
        }
    }

    /// What is not served is known: there is none.
    fn serve(&mut self, is_served: bool) {
        if !is_served {
            *self = Self::of(Some(Vec::new()));
        }
    }

    fn take(&mut self, event: Event<K>) {
        self.is_listed |= matches!(event, Event::InitDone);
        self.mirror.take(event);
    }
}

/// What the controller says of the kinds that the member serves.
fn served(cluster: &Cluster) -> Option<&Condition> {
    let status = cluster.status.as_ref()?;
    condition::find(&status.conditions, condition::CLUSTERSET_API)
}

async fn follow<F>(
    hub: &ApiServer,
    cluster: &Cluster,
    wanted: &Wanted,
    report: impl Fn(MemberChange) -> F,
) where
    F: Future<Output = bool>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        let failure = match connect(hub, cluster, wanted).await {
            Ok(member) => {
                pause = FIRST_PAUSE;
                let connected = MemberChange::Connected {
                    exports: member.exports.is_some(),
                    imports: member.imports.is_some(),
                };
                if !report(connected).await {
                    return;
                }
                match member.watch(wanted, &report).await {
                    Some(refused) => refused.into(),
                    None => return,
                }
            }
            Err(failure) => failure,
        };
        if !report(MemberChange::Failed(failure)).await {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A member, and the versions in which it serves both kinds.
struct Connected {
    server: ApiServer,
    exports: Option<Version>,
    imports: Option<Version>,
}

async fn connect(
    hub: &ApiServer,
    cluster: &Cluster,
    wanted: &Wanted,
) -> Result<Connected, ConnectError> {
    let insecure = wanted.allow_insecure;
    let answers = connectivity::read_each(hub, [cluster].into_iter(), insecure, |server| async {
        let (exports, imports) = tokio::try_join!(
            wanted.served_in::<ServiceExport>(&server),
            wanted.served_in::<ServiceImport>(&server)
        )?;
        Ok(Connected {
            server,
            exports: exports.map(|(version, _)| version),
            imports: imports.map(|(version, _)| version),
        })
    });
    let mut answers = answers.await.into_values();
    answers.next().unwrap_or(Err(ConnectError::NoReference))
}

impl Connected {
    /// Watches both kinds until the member refuses the credentials; `None` where nobody takes the changes any more.
    async fn watch<F>(
        self,
        wanted: &Wanted,
        report: &impl Fn(MemberChange) -> F,
    ) -> Option<RequestError>
    where
        F: Future<Output = bool>,
    {
        let exports = stream::iter(self.exports).flat_map(|version| {
            let events = events_of::<ServiceExport>(&self.server, version, wanted);
            events.map(|event| event.map(MemberChange::Export))
        });
        let imports = stream::iter(self.imports).flat_map(|version| {
            let events = events_of::<ServiceImport>(&self.server, version, wanted);
            events.map(|event| event.map(MemberChange::Import))
        });
        // A member that serves neither is followed until its Cluster says otherwise.
        let changes = stream::select(exports, imports).chain(stream::pending());
        pin_mut!(changes);
        while let Some(change) = changes.next().await {
            let change = match change {
                Ok(change) => change,
                Err(error) => match failure(&self.server, &error) {
                    Some(refused @ RequestError::NotAllowed { .. }) => return Some(refused),
                    Some(failed) if matches!(error, watcher::Error::InitialListFailed(_)) => {
                        return Some(failed);
                    }
                    _ => continue,
                },
            };
            if !report(change).await {
                return None;
            }
        }
        None
    }
}

/// What a failed watch means, where an API server or the way to it is to blame.
pub(super) fn failure(server: &ApiServer, error: &watcher::Error) -> Option<RequestError> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Some(server.failure(error)),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => None,
    }
}

/// The events of the objects that are wanted, of a kind of the Multi-Cluster Services API; a watch that breaks begins again.
pub(super) fn events_of<K>(
    server: &ApiServer,
    version: Version,
    wanted: &Wanted,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + use<K>
where
    K: Resource<DynamicType = Version, Scope = DynamicResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let config = watcher::Config {
        field_selector: wanted
            .name
            .as_ref()
            .map(|name| format!("metadata.name={name}")),
        ..watcher::Config::default()
    };
    let client = server.client.clone();
    let api: Api<K> = match &wanted.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &version),
        None => Api::all_with(client, &version),
    };
    watcher(api, config).default_backoff()
}
