//! Steps and expectations that tests of every program share, in the namespace of a test.

use std::cell::Cell;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use causeway::api::condition;
use causeway::api::labels::{MANAGED_BY, MANAGER, SLICE_MANAGED_BY};
use k8s_openapi::api::core::v1::{Event, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::control_plane::ControlPlane;
use crate::eventually::{SOON, eventually, same};
use crate::fixtures::RunningPod;
use crate::{Cluster, Space, multi_cluster_service, service};

/// The path of an object such as `clusters/member1` or `namespaces/shop/serviceexports/foo`.
fn path(object: &str) -> String {
    let kind = object.rsplit('/').nth(1);
    let version = match kind {
        Some("clusters") => "cluster.karmada.io/v1alpha1",
        Some("multiclusterservices") => "networking.karmada.io/v1alpha1",
        Some("serviceexports" | "serviceimports") => "multicluster.x-k8s.io/v1beta1",
        _ => panic!("{object} has no conditions that tests read"),
    };
    format!("/apis/{version}/{object}")
}

impl ControlPlane {
    /// Returns a condition of an object as `status|reason|message`.
    ///
    /// # Errors
    /// Where the object or the condition is not there.
    pub async fn condition(&self, object: &str, type_: &str) -> Result<String, String> {
        condition_by(&self.client(), &path(object), type_).await
    }

    /// Waits until a condition of an object begins with `status|reason|`, and returns the message.
    pub async fn says(
        &self,
        object: &str,
        type_: &str,
        expected: &str,
        within: Duration,
    ) -> String {
        let (client, path) = (self.client(), path(object));
        let what = format!("{type_} of {object} in {} says {expected}", self.name());
        eventually(&what, within, async || {
            let seen = condition_by(&client, &path, type_).await?;
            seen.strip_prefix(expected).map(str::to_owned).ok_or(seen)
        })
        .await
    }
}

async fn condition_by(client: &kube::Client, path: &str, type_: &str) -> Result<String, String> {
    let request = http::Request::get(path)
        .body(Vec::new())
        .expect("a request");
    let object: Value = client.request(request).await.map_err(|e| e.to_string())?;
    let all = object["status"]["conditions"].clone();
    let all: Vec<Condition> = serde_json::from_value(all).unwrap_or_default();
    let found = condition::find(&all, type_).ok_or_else(|| format!("{all:?}"))?;
    Ok(format!(
        "{}|{}|{}",
        found.status, found.reason, found.message
    ))
}

/// Returns the addresses of pods, sorted.
pub fn addresses(pods: &[RunningPod]) -> Vec<String> {
    let mut addresses: Vec<_> = pods.iter().map(|pod| pod.ip().to_owned()).collect();
    addresses.sort();
    addresses
}

impl<'a> Space<'a> {
    /// The hub of its fleet.
    pub fn hub(&self) -> &'a Cluster {
        self.fleet().hub()
    }

    /// The member of this name; `hub` is the hub, which may be its own member.
    pub fn member(&self, name: &str) -> &'a Cluster {
        match name == self.hub().name() {
            true => self.hub(),
            false => self.fleet().member(name),
        }
    }

    fn args<A: Into<String>>(&self, args: impl IntoIterator<Item = A>) -> Vec<String> {
        let namespace = ["-n", self.name()].map(str::to_owned);
        args.into_iter().map(Into::into).chain(namespace).collect()
    }

    /// Runs kubectl on a cluster, in the namespace. It must succeed.
    pub async fn kubectl<A: Into<String>>(
        &self,
        cluster: &Cluster,
        args: impl IntoIterator<Item = A>,
    ) -> String {
        let all = self.args(args);
        cluster.kubectl(all).await.ok()
    }

    /// Creates a Service of port 80 on the hub, and exposes it from these members to those.
    pub async fn expose<const P: usize, const C: usize>(
        &self,
        name: &str,
        providers: [&str; P],
        consumers: [&str; C],
    ) {
        let own = service(name).port("http", 80);
        own.create(self.hub(), self).await;
        self.offer(name, providers, consumers).await;
    }

    /// Exposes a Service that the hub has already.
    pub async fn offer<const P: usize, const C: usize>(
        &self,
        name: &str,
        providers: [&str; P],
        consumers: [&str; C],
    ) {
        let object = multi_cluster_service(name).providers(providers);
        object.consumers(consumers).create(self).await;
    }

    /// Changes the spec of a MultiClusterService by a merge patch.
    pub async fn edit(&self, name: &str, spec: &str) {
        let patch = format!("{{\"spec\":{spec}}}");
        let patch = ["patch", "mcs", name, "--type=merge", "-p", &patch];
        self.kubectl(self.hub(), patch).await;
    }

    /// Adds pods behind a Service of a member.
    pub async fn pods(&self, name: &str, member: &str, count: usize) -> Vec<RunningPod> {
        let backends = self.backends(name).count(count);
        backends.create(self.member(member)).await
    }

    /// Adds one pod behind a Service of a member.
    pub async fn pod(&self, name: &str, member: &str) -> RunningPod {
        self.pods(name, member, 1).await.remove(0)
    }

    /// Exposes `foo` with two pods of member1 to member2, and waits until member2 has them and the
    /// hub reports it. Returns their addresses.
    pub async fn foo(&self) -> Vec<String> {
        self.expose("foo", ["member1"], ["member2"]).await;
        let addresses = addresses(&self.pods("foo", "member1", 2).await);
        self.reaches("member2", "foo", &addresses).await;
        self.says("foo", "Ready", "True|Ready|").await;
        addresses
    }

    /// Adds a pod of `foo` to member1, and waits until member2 has it too.
    pub async fn grows(&self, addresses: &mut Vec<String>) {
        let pod = self.pod("foo", "member1").await;
        addresses.push(pod.ip().to_owned());
        addresses.sort();
        self.reaches("member2", "foo", addresses).await;
    }

    /// Waits until exactly these addresses are ready behind a Service in a member.
    pub async fn reaches<A: AsRef<str>>(&self, member: &str, service: &str, addresses: &[A]) {
        let mut expected: Vec<&str> = addresses.iter().map(AsRef::as_ref).collect();
        expected.sort_unstable();
        let what = format!("{member} reaches {expected:?} by {service}");
        let member = self.member(member);
        eventually(&what, self.patience(), async || {
            same(self.ready_addresses(member, service).await, &expected)
        })
        .await;
    }

    /// Waits until no address is ready behind a Service in a member.
    pub async fn reaches_none(&self, member: &str, service: &str) {
        self.reaches::<&str>(member, service, &[]).await;
    }

    /// Deletes a MultiClusterService, and waits until it is gone from the hub.
    pub async fn delete(&self, name: &str) {
        let delete = ["delete", "mcs", name, "--timeout=60s"];
        self.kubectl(self.hub(), delete).await;
    }

    fn object(&self, plural: &str, name: &str) -> String {
        format!("namespaces/{}/{plural}/{name}", self.name())
    }

    /// Waits until a condition of a MultiClusterService begins with `status|reason|`, and returns
    /// the message.
    pub async fn says(&self, name: &str, type_: &str, expected: &str) -> String {
        let object = self.object("multiclusterservices", name);
        self.hub()
            .says(&object, type_, expected, self.patience())
            .await
    }

    /// Waits until the controller has written its Events about the namespace: for a second no new
    /// one came.
    pub async fn events_are_written(&self) {
        let last = Cell::new((0, Instant::now()));
        let events = self.api::<Event>(self.hub());
        eventually("no more Events come", self.patience(), async || {
            let listed = events.list(&ListParams::default()).await;
            let count = listed.map_err(|e| e.to_string())?.items.len();
            if count != last.get().0 {
                last.set((count, Instant::now()));
            }
            let rests = count > 0 && last.get().1.elapsed() > Duration::from_secs(1);
            rests.then_some(()).ok_or(format!("{count} Events"))
        })
        .await;
    }

    /// Waits until a condition of a member's ServiceExport begins with `status|reason|`, and
    /// returns the message.
    pub async fn export_says(
        &self,
        member: &str,
        name: &str,
        type_: &str,
        expected: &str,
    ) -> String {
        let object = self.object("serviceexports", name);
        self.member(member)
            .says(&object, type_, expected, self.patience())
            .await
    }

    /// Waits until kubectl prints exactly this, on a cluster and in the namespace.
    pub async fn prints<A: Into<String>>(
        &self,
        cluster: &Cluster,
        args: impl IntoIterator<Item = A>,
        expected: &str,
    ) {
        let args = self.args(args);
        let what = format!("{args:?} in {} prints {expected:?}", cluster.name());
        eventually(&what, self.patience(), async || {
            let output = cluster.kubectl(args.clone()).await;
            let seen = format!("{}{}", output.stdout, output.stderr);
            same(seen.trim(), &expected)
        })
        .await;
    }

    /// Waits until kubectl gets exactly this of an object, given as `["svc", "foo"]`.
    pub async fn shows<const N: usize>(
        &self,
        member: &str,
        object: [&str; N],
        output: &str,
        expected: &str,
    ) {
        let get = ["get"].into_iter().chain(object).chain(["-o", output]);
        self.prints(self.member(member), get, expected).await;
    }

    /// Runs kubectl on the hub, in the namespace. It must succeed.
    pub async fn on_hub<const N: usize>(&self, args: [&str; N]) -> String {
        self.kubectl(self.hub(), args).await
    }

    /// Waits until nothing of this kind and name is in a cluster.
    pub async fn is_gone(&self, cluster: &Cluster, kind: &str, name: &str) {
        let get = ["get", kind, name, "--ignore-not-found", "-o", "name"];
        self.prints(cluster, get, "").await;
    }

    /// Returns the names of a member's objects that causeway wrote, such as `service/foo`.
    pub async fn own_objects(&self, member: &str) -> Vec<String> {
        let what = format!("the objects in {member} are listed");
        eventually(&what, SOON, async || self.listed(member).await).await
    }

    async fn listed(&self, member: &str) -> Result<Vec<String>, String> {
        let member = self.member(member);
        let mut all = own(&self.api::<Service>(member), "service").await?;
        all.extend(own(&self.api::<EndpointSlice>(member), "endpointslice").await?);
        all.extend(own(&self.exports(member), "serviceexport").await?);
        all.extend(own(&self.imports(member), "serviceimport").await?);
        all.sort();
        Ok(all)
    }

    /// Waits until causeway's objects in a member are exactly these.
    pub async fn holds(&self, member: &str, expected: &[String]) {
        let what = format!("{member} holds {expected:?}");
        eventually(&what, self.patience(), async || {
            same(self.listed(member).await?, expected)
        })
        .await;
    }

    /// Waits until causeway has no objects in a member.
    pub async fn is_clean(&self, member: &str) {
        self.holds(member, &[]).await;
    }
}

/// Lists the objects of one kind that causeway wrote, by kind and name. EndpointSlices of
/// Kubernetes bear the labels of causeway's Services too.
async fn own<K>(api: &Api<K>, kind: &str) -> Result<Vec<String>, String>
where
    K: Clone + DeserializeOwned + Debug,
{
    let kubernetes = "endpointslice-controller.k8s.io";
    let own = format!("{MANAGED_BY}={MANAGER},{SLICE_MANAGED_BY}!={kubernetes}");
    let listed = match api.list_metadata(&ListParams::default().labels(&own)).await {
        // The member does not serve the kind.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        listed => listed.map_err(|e| e.to_string())?,
    };
    let names = listed.items.into_iter().filter_map(|one| one.metadata.name);
    Ok(names.map(|name| format!("{kind}/{name}")).collect())
}
