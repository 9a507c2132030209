//! A hub and three members, on real API servers. causeway is installed on the hub; its controller runs while it is measured.

use std::ops::{AddAssign, Div, Sub};
use std::time::Duration;

use causeway_tests::{Cluster, Fleet, Installation, Running};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};

use super::super::environment::{Environment, MEMBER_QPS, Subject};
use super::super::relay::{Access, Wiring};
use crate::proc;
use crate::report::Row;

/// The provider and the consumer.
const JOINED: [&str; MEMBERS] = ["member1", "member2"];
/// Another consumer, which is joined when it is needed.
const LAST: &str = "member3";
/// How many are joined from the start.
pub(super) const MEMBERS: usize = 2;

/// A hub and its members.
pub(super) struct Clusters<'a> {
    pub(super) env: &'a Environment,
    /// Called by the hub. Ended first, before what it asks goes away.
    _webhook: Running,
    installation: Installation,
    pub(super) fleet: Fleet,
}

/// CPU seconds of the program that is measured, and of the API servers of the hub, the provider and the consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent(pub(super) [f64; 4]);

impl<'a> Clusters<'a> {
    /// Starts them, and joins the first two members.
    pub(super) async fn start(env: &'a Environment) -> anyhow::Result<Self> {
        let fleet = Fleet::builder().members(MEMBERS + 1).start().await;
        let installation = Installation::new(&fleet).await;
        let webhook = installation.webhook().start().await;
        installation.register(&webhook).await;
        let clusters = Self {
            env,
            _webhook: webhook,
            installation,
            fleet,
        };
        // A member is joined when the controller has engaged it.
        let controller = clusters.controller();
        for name in JOINED {
            clusters
                .installation
                .join(clusters.fleet.member(name))
                .await;
        }
        controller.synced(MEMBERS).await?;
        controller.end().await;
        Ok(clusters)
    }

    /// Starts the controller, and does not wait.
    pub(super) fn controller(&self) -> Subject {
        let launch = self.installation.controller();
        let launch = launch.arg(format!("--member-qps={MEMBER_QPS}"));
        Subject::Controller(launch.start_unready())
    }

    /// Starts the controller, and waits until it is synced with the two members.
    pub(super) async fn synced(&self) -> anyhow::Result<Subject> {
        let controller = self.controller();
        controller.synced(MEMBERS).await?;
        Ok(controller)
    }

    /// Joins the third member to a controller that runs.
    pub(super) async fn join_last(&self, controller: &Subject) -> anyhow::Result<&Cluster> {
        let last = self.fleet.member(LAST);
        self.installation.join(last).await;
        controller.synced(MEMBERS + 1).await?;
        Ok(last)
    }

    pub(super) fn hub(&self) -> &Cluster {
        self.fleet.hub()
    }

    pub(super) fn provider(&self) -> &Cluster {
        self.fleet.member(JOINED[0])
    }

    pub(super) fn consumer(&self) -> &Cluster {
        self.fleet.member(JOINED[1])
    }

    /// A client of the provider that decompresses nothing by itself.
    pub(super) async fn client_of_provider(&self) -> anyhow::Result<Client> {
        Access::Kubeconfig(self.provider().kubeconfig())
            .client()
            .await
    }

    /// The version of what the provider holds now.
    pub(super) async fn version_of_provider(&self) -> anyhow::Result<String> {
        let slices = Api::<EndpointSlice>::all(self.provider().client());
        let newest = ListParams::default().limit(1);
        let newest = slices.list_metadata(&newest).await?;
        Ok(newest.metadata.resource_version.unwrap_or_default())
    }

    /// How the floor is to relay so many services, of one namespace or of none.
    pub(super) fn wiring(&self, services: u32, namespace: Option<&str>) -> Wiring {
        let members = [self.provider(), self.consumer()];
        Wiring {
            members: members
                .map(|member| Access::Kubeconfig(member.kubeconfig()))
                .into(),
            names: members.map(|member| member.name().to_owned()).into(),
            providers: vec![0],
            consumers: vec![vec![1]; services as usize],
            namespace: namespace.map(str::to_owned),
        }
    }

    /// What was spent until now by whoever is measured, and by the API servers.
    pub(super) fn spent(&self, subject: Option<&Subject>) -> anyhow::Result<Spent> {
        let servers = [self.hub(), self.provider(), self.consumer()];
        let [hub, provider, consumer] = servers.map(|cluster| cluster.api_server().pid());
        let subject = subject.map_or(Ok(Duration::ZERO), Subject::cpu)?;
        let seconds = [
            subject,
            proc::cpu_time(hub)?,
            proc::cpu_time(provider)?,
            proc::cpu_time(consumer)?,
        ];
        Ok(Spent(seconds.map(|time| time.as_secs_f64())))
    }

    /// Waits until causeway has written nothing to the hub for a while.
    pub(super) async fn settled(&self) {
        const WHILE: Duration = Duration::from_secs(2);
        loop {
            let mark = self.hub().mark().await;
            tokio::time::sleep(WHILE).await;
            let mut writes = self.hub().writes_since(mark, "causeway").await;
            writes.retain(|write| write.resource != "leases");
            if writes.is_empty() {
                return;
            }
        }
    }
}

impl Spent {
    /// Returns a row for each program, beside the floor if that used CPU time too.
    pub(super) fn rows(&self, floor: Option<&Self>, name: impl Fn(&str) -> String) -> Vec<Row> {
        const WHO: [&str; 4] = [
            "controller",
            "hub's API server",
            "provider's API server",
            "consumer's API server",
        ];
        let rows = WHO
            .iter()
            .zip(self.0)
            .enumerate()
            .map(|(place, (who, spent))| {
                let row = Row::new(name(who), spent, "s");
                match floor.map(|floor| floor.0[place]) {
                    Some(floor) if floor > 0.0 => row.beside(floor),
                    _ => row,
                }
            });
        rows.collect()
    }
}

impl Sub for Spent {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self(std::array::from_fn(|place| self.0[place] - before.0[place]))
    }
}

impl Div<f64> for Spent {
    type Output = Self;

    fn div(self, by: f64) -> Self {
        Self(self.0.map(|spent| spent / by))
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, more: Self) {
        *self = Self(std::array::from_fn(|place| self.0[place] + more.0[place]));
    }
}
