//! The watches of the hub, with the person's own rights.

use std::time::Duration;

use causeway::api::{Cluster, MultiClusterService};
use kube::Api;
use kube::api::ListParams;
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};

use super::change::{Change, HubChange, WorkMeta};
use super::watches::{Watched, pauses};
use crate::api_server::{ApiServer, RequestError};
use crate::args::Lease;
use crate::karmada;
use crate::lease::Controller;
use crate::misplaced::is_karmadas;

/// A connection that stood for so long is taken up again at once.
const STOOD: Duration = Duration::from_secs(10);
/// How often the Lease of the controller is read.
const LEASE_EVERY: Duration = Duration::from_secs(5);

/// What the hub is watched for.
pub(super) struct Hub {
    pub server: ApiServer,
    pub namespace: Option<String>,
    pub changes: mpsc::Sender<Change>,
}

impl Hub {
    /// Follows the hub, and begins again when that ends.
    pub(super) async fn run(self) {
        let mut pauses = pauses();
        loop {
            let begun = Instant::now();
            let why = match self.identify().await {
                Ok((identified, works)) => self.follow(identified, works).await,
                Err(why) => why,
            };
            let ended = HubChange::Disconnected(why.to_string());
            self.changes.send(Change::Hub(ended)).await.ok();
            if begun.elapsed() > STOOD {
                pauses.reset();
            }
            tokio::time::sleep(pauses.next()).await;
        }
    }

    /// What is asked once on each connection, and whether Works are to be watched.
    async fn identify(&self) -> Result<(HubChange, Works), RequestError> {
        let karmada = match is_karmadas(&self.server).await {
            Err(RequestError::NotAllowed { .. }) => false,
            answer => answer?,
        };
        let works = match karmada {
            true => self.works().await?,
            false => Works::NotServed,
        };
        // Without the hub's identity what another hub wrote cannot be distinguished, and no more.
        let uid = self.server.uid().await.ok();
        Ok((HubChange::Identified { uid, karmada }, works))
    }

    async fn works(&self) -> Result<Works, RequestError> {
        let api = self.works_api();
        let one = ListParams::default().limit(1);
        match self.server.request(api.list(&one)).await {
            Ok(_) => Ok(Works::Watched),
            Err(RequestError::NotFound { .. }) => Ok(Works::NotServed),
            Err(RequestError::NotAllowed { .. }) => Ok(Works::Forbidden),
            Err(error) => Err(error),
        }
    }

    fn works_api(&self) -> Api<WorkMeta> {
        Api::all_with(self.server.client.clone(), &karmada::work_kind())
    }

    async fn follow(&self, identified: HubChange, works: Works) -> RequestError {
        let server = &self.server;
        let watched = Watched {
            server,
            changes: &self.changes,
            namespace: self.namespace.as_deref(),
        };
        watched.tell(Change::Hub(identified)).await;
        let clusters: Api<Cluster> = Api::all(server.client.clone());
        let services: Api<MultiClusterService> = watched.api();
        let all = watcher::Config::default;
        tokio::select! {
            why = watched.follow(clusters, all(), |event| Change::Hub(HubChange::Clusters(event))) => why,
            why = watched.follow(services, all(), |event| Change::Hub(HubChange::MultiClusterServices(event))) => why,
            why = watched.follow(watched.api(), all(), |event| Change::Hub(HubChange::Services(event))) => why,
            why = watched.follow_served(
                |version| Change::Hub(HubChange::ImportsServed(version)),
                |event| Change::Hub(HubChange::Imports(event)),
            ) => why,
            why = self.follow_works(&watched, works) => why,
            why = watched.probe(|| self.answers()) => why,
        }
    }

    async fn answers(&self) -> Result<(), RequestError> {
        let version = self.server.client.apiserver_version();
        self.server.request(version).await.map(drop)
    }

    async fn follow_works(&self, watched: &Watched<'_>, works: Works) -> RequestError {
        match works {
            Works::Watched => {
                let config = watcher::Config::default().labels(&karmada::selector(None));
                let change = |event| Change::Hub(HubChange::Works(event));
                return watched.follow(self.works_api(), config, change).await;
            }
            Works::Forbidden => watched.tell(Change::Hub(HubChange::WorksForbidden)).await,
            Works::NotServed => {
                let none = HubChange::Works(watcher::Event::InitDone);
                watched.tell(Change::Hub(none)).await;
            }
        }
        std::future::pending().await
    }
}

/// Whether Karmada's Works are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Works {
    Watched,
    Forbidden,
    NotServed,
}

/// Reads the Lease of the controller every few seconds, and tells when it begins or ceases to show a problem.
pub(super) async fn follow_controller(hub: ApiServer, lease: Lease, changes: mpsc::Sender<Change>) {
    let mut ticks = interval(LEASE_EVERY);
    let mut last = None;
    loop {
        ticks.tick().await;
        let Ok(controller) = Controller::read(&hub, &lease).await else {
            continue;
        };
        let problem = controller.problem(k8s_openapi::jiff::Timestamp::now());
        if last.as_ref() != Some(&problem) {
            last = Some(problem.clone());
            changes.send(Change::Controller(problem)).await.ok();
        }
    }
}
