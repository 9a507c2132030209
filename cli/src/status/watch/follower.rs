//! What one member exports and imports, followed by watches.

use std::time::Duration;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{Cluster, condition};
use futures::pin_mut;
use futures::stream::{self, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::runtime::watcher::Event;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::api_server::{ApiServer, RequestError};
use crate::connectivity::{self, ConnectError};
use crate::selection::Selection;
use crate::status::members::Holdings;
use crate::status::mirror::Mirror;
use crate::watches::{self, Pauses};

/// How long it takes until a lost member is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What a member reports.
pub(super) enum MemberChange {
    /// It is connected, and serves these kinds.
    Connected {
        exports: bool,
        imports: bool,
    },
    Export(Box<Event<ServiceExport>>),
    Import(Box<Event<ServiceImport>>),
    /// It cannot be read.
    Failed(ConnectError),
}

/// Follows a member until it is dropped.
pub(super) struct Follower {
    number: u64,
    cluster: Cluster,
    task: JoinHandle<()>,
    exports: Mirror<ServiceExport>,
    imports: Mirror<ServiceImport>,
    failure: Option<ConnectError>,
}

impl Follower {
    /// Follows the member of a Cluster. `report` hands a change over and returns whether it is
    /// received.
    pub(super) fn start<F>(
        number: u64,
        hub: ApiServer,
        cluster: Cluster,
        selection: Selection,
        report: impl Fn(String, MemberChange) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = bool> + Send,
    {
        let (name, of) = (cluster.name_any(), cluster.clone());
        let task = tokio::spawn(async move {
            let report = |change| report(name.clone(), change);
            follow(&hub, &of, &selection, report).await;
        });
        Self {
            number,
            cluster,
            task,
            exports: Mirror::default(),
            imports: Mirror::default(),
            failure: None,
        }
    }

    /// Begins with what was read of the member before.
    pub(super) fn with_held(mut self, held: &Holdings) -> Self {
        self.exports = Mirror::of(held.exports.clone());
        self.imports = Mirror::of(held.imports.clone());
        self
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
                // What is not served is known: there is none.
                if !exports {
                    self.exports = Mirror::of(Vec::new());
                }
                if !imports {
                    self.imports = Mirror::of(Vec::new());
                }
                self.failure = None;
            }
            MemberChange::Export(event) => self.exports.take(*event),
            MemberChange::Import(event) => self.imports.take(*event),
            MemberChange::Failed(why) => {
                (self.exports, self.imports) = (Mirror::default(), Mirror::default());
                self.failure = Some(why);
            }
        }
    }

    /// What the member holds, or why that is not known; `None` while it is being listed.
    pub(super) fn reading(&self) -> Option<Result<Holdings, ConnectError>> {
        if let Some(why) = &self.failure {
            return Some(Err(why.clone()));
        }
        let is_listed = self.exports.is_listed() && self.imports.is_listed();
        is_listed.then(|| {
            Ok(Holdings {
                exports: self.exports.objects(),
                imports: self.imports.objects(),
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

/// What the controller says of the kinds that the member serves.
fn served(cluster: &Cluster) -> Option<&Condition> {
    let status = cluster.status.as_ref()?;
    condition::find(&status.conditions, condition::CLUSTERSET_API)
}

async fn follow<F>(
    hub: &ApiServer,
    cluster: &Cluster,
    selection: &Selection,
    report: impl Fn(MemberChange) -> F,
) where
    F: Future<Output = bool>,
{
    let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let failure = match connect(hub, cluster, selection).await {
            Ok(member) => {
                pauses.reset();
                let connected = MemberChange::Connected {
                    exports: member.exports.is_some(),
                    imports: member.imports.is_some(),
                };
                if !report(connected).await {
                    return;
                }
                match member.watch(selection, &report).await {
                    Some(refused) => refused.into(),
                    None => return,
                }
            }
            Err(failure) => failure,
        };
        if !report(MemberChange::Failed(failure)).await {
            return;
        }
        sleep(pauses.next()).await;
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
    selection: &Selection,
) -> Result<Connected, ConnectError> {
    let connected = async {
        let server = connectivity::connect(hub, cluster, selection.allow_insecure).await?;
        let (exports, imports) = tokio::try_join!(
            watches::served::<ServiceExport>(&server),
            watches::served::<ServiceImport>(&server)
        )?;
        Ok(Connected {
            server,
            exports,
            imports,
        })
    };
    connectivity::in_time(connected).await
}

impl Connected {
    /// Watches both kinds until what is there is not known, or the member refuses the credentials; `None` where nobody takes the changes
    /// any more.
    async fn watch<F>(
        self,
        selection: &Selection,
        report: &impl Fn(MemberChange) -> F,
    ) -> Option<RequestError>
    where
        F: Future<Output = bool>,
    {
        let exports = stream::iter(self.exports).flat_map(|version| {
            let events = selection.events::<ServiceExport>(&self.server, version);
            events.map(|event| event.map(|event| MemberChange::Export(Box::new(event))))
        });
        let imports = stream::iter(self.imports).flat_map(|version| {
            let events = selection.events::<ServiceImport>(&self.server, version);
            events.map(|event| event.map(|event| MemberChange::Import(Box::new(event))))
        });
        // A member that serves neither is followed until its Cluster says otherwise.
        let changes = stream::select(exports, imports).chain(stream::pending());
        pin_mut!(changes);
        while let Some(change) = changes.next().await {
            match change {
                Ok(change) => {
                    if !report(change).await {
                        return None;
                    }
                }
                Err(broken) if broken.unlisted || broken.is_refusal() => return Some(broken.why),
                Err(_) => {}
            }
        }
        None
    }
}
