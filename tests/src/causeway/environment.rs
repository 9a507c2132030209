//! A fleet with causeway at work.

use std::collections::BTreeMap;

use futures::future::join_all;
use tokio::sync::oneshot;

use super::{Installation, Launch, Running};
use crate::kubectl::Output;
use crate::{Cluster, Fault, Fleet, LONG, Proxy, Space};

/// A fleet with causeway at work: installed on the hub, one controller, every member joined.
pub struct Environment {
    /// Ended first, so that nothing is logged about clusters that go away.
    pub controller: Running,
    webhook: Option<Running>,
    proxies: BTreeMap<String, Proxy>,
    /// Objects that are installed on the hub.
    pub installation: Installation,
    /// The clusters.
    pub fleet: Fleet,
}

type Change = Box<dyn Fn(Launch) -> Launch + Send>;

/// Configuration of an [`Environment`].
#[derive(Default)]
#[must_use]
pub struct Builder {
    webhook: bool,
    proxies: bool,
    is_direct: bool,
    joins_none: bool,
    changes: Vec<Change>,
    of_both: Vec<Change>,
}

impl Builder {
    /// Starts a webhook too, and registers it with the hub's API server.
    pub fn webhook(mut self) -> Self {
        self.webhook = true;
        self
    }

    /// Has the programs reach every cluster through a [`Proxy`].
    pub fn proxies(mut self) -> Self {
        self.proxies = true;
        self
    }

    /// Has the controller reach the hub without the proxy.
    pub fn direct(mut self) -> Self {
        self.is_direct = true;
        self
    }

    /// Joins no member.
    pub fn unjoined(mut self) -> Self {
        self.joins_none = true;
        self
    }

    /// Adds a flag of the controller.
    pub fn flag(self, flag: &str) -> Self {
        let flag = flag.to_owned();
        self.controller(move |launch| launch.arg(flag.clone()))
    }

    /// Launches the controller in another way.
    pub fn controller(mut self, change: impl Fn(Launch) -> Launch + Send + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Sets an environment variable of the programs.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        let (name, value) = (name.to_owned(), value.to_owned());
        let set = move |launch: Launch| launch.env(&name, &value);
        self.of_both.push(Box::new(set));
        self
    }

    /// Starts causeway in a fleet that has none.
    pub async fn start(self, fleet: Fleet) -> Environment {
        let installation = Installation::new(&fleet).await;
        let mut proxies = BTreeMap::new();
        if self.proxies {
            for cluster in fleet.clusters() {
                proxies.insert(cluster.name().to_owned(), Proxy::before(cluster).await);
            }
        }
        let hub = proxies
            .get("hub")
            .map_or(fleet.hub().url().to_owned(), Proxy::url);
        let webhook = if self.webhook {
            let launch = installation.webhook_through(fleet.hub(), &hub);
            let webhook = changed(launch, &self.of_both).start().await;
            installation.register(&webhook).await;
            Some(webhook)
        } else {
            None
        };
        let launch = match self.is_direct {
            true => installation.controller(),
            false => installation.controller_through(fleet.hub(), &hub),
        };
        let launch = changed(changed(launch, &self.of_both), &self.changes);
        let env = Environment {
            controller: launch.start().await,
            webhook,
            proxies,
            installation,
            fleet,
        };
        if !self.joins_none {
            join_all(env.fleet.members().iter().map(|member| env.join(member))).await;
        }
        env
    }

    /// Starts a fleet and causeway in it on a runtime of their own, for tests that share them: each
    /// test has a runtime, which would take the tasks of the proxies along when it ends.
    pub async fn start_lasting(self, fleet: crate::fleet::Builder) -> Environment {
        let (started, env) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                started.send(self.start(fleet.start().await).await).ok();
                std::future::pending::<()>().await;
            });
        });
        env.await.expect("an environment")
    }
}

fn changed(launch: Launch, changes: &[Change]) -> Launch {
    changes.iter().fold(launch, |launch, change| change(launch))
}

impl Environment {
    /// An environment to be described.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a controller in a fleet without causeway, and joins all members.
    pub async fn start(fleet: Fleet) -> Self {
        Self::builder().start(fleet).await
    }

    /// The hub.
    pub fn hub(&self) -> &Cluster {
        self.fleet.hub()
    }

    /// The member of this name.
    pub fn member(&self, name: &str) -> &Cluster {
        self.fleet.member(name)
    }

    /// A namespace of a fresh name in all clusters, whose expectations may take [`LONG`].
    pub async fn space(&self, prefix: &str) -> Space<'_> {
        self.fleet.space(prefix).await.patient(LONG)
    }

    /// A namespace as [`Environment::space`] makes it, in which [`Space::foo`] is at work.
    pub async fn foo(&self, prefix: &str) -> (Space<'_>, Vec<String>) {
        let space = self.space(prefix).await;
        let addresses = space.foo().await;
        (space, addresses)
    }

    /// The webhook, registered with the hub's API server. Only where there is one.
    pub fn webhook(&self) -> &Running {
        self.webhook
            .as_ref()
            .expect("an environment with a webhook")
    }

    /// Joins a member at its own address, or at that of its proxy if it has one.
    pub async fn join(&self, member: &Cluster) {
        match self.proxies.get(member.name()) {
            Some(proxy) => self.installation.join_at(member, &proxy.url()).await,
            None => self.installation.join_at(member, member.url()).await,
        }
    }

    /// The proxy of a cluster. Only in an environment with proxies.
    pub fn proxy(&self, cluster: &str) -> &Proxy {
        let proxy = self.proxies.get(cluster);
        proxy.unwrap_or_else(|| panic!("{cluster} has no proxy"))
    }

    /// Begins a fault of a cluster's proxy, or ends it.
    pub fn set(&self, cluster: &str, fault: Fault) {
        self.proxy(cluster).set(fault);
    }

    /// Runs `kubectl mcs` on the hub, with all rights.
    pub async fn mcs<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Output {
        self.installation.kubectl_mcs(args).await
    }

    /// Waits until a Cluster's Ready condition begins with `status|reason|`, and returns the
    /// message.
    pub async fn cluster_says(&self, name: &str, expected: &str) -> String {
        self.hub()
            .says(&format!("clusters/{name}"), "Ready", expected, LONG)
            .await
    }

    /// Waits until the controller watches all of a member.
    pub async fn is_synced(&self, name: &str) {
        self.cluster_says(name, "True|Synced|").await;
    }

    /// Waits until the controller has found the definitions of the clusterset in a member, which
    /// [`Installation::join`] installs.
    pub async fn serves_clusterset(&self, name: &str) {
        let object = format!("clusters/{name}");
        self.hub()
            .says(&object, "ClustersetAPI", "True|", LONG)
            .await;
    }
}
