//! One test's namespace in a clusterset, and what tests here do with `foo`.

use std::ops::Deref;
use std::sync::atomic::Ordering;

use causeway::api::condition;
use causeway::api::labels;
use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway_tests::fixtures::RunningPod;
use causeway_tests::{Cluster, SOON, Space, eventually, network, service, service_export};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, ListParams};
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use super::Clusterset;

/// Whether names can be looked up here; says so where not.
pub(crate) fn dig_is_there() -> bool {
    let dig = network::dig();
    if let Err(missing) = &dig {
        eprintln!("skipped, no names: {missing}");
    }
    dig.is_ok()
}

/// Held while a test runs.
enum Peace {
    Kept(#[allow(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Broken(#[allow(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

/// A namespace of one test, and its share of the clusters.
pub(crate) struct Turn {
    pub(crate) set: &'static Clusterset,
    space: Space<'static>,
    peace: Peace,
}

impl Deref for Turn {
    type Target = Space<'static>;

    fn deref(&self) -> &Space<'static> {
        &self.space
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if matches!(self.peace, Peace::Broken(_)) && std::thread::panicking() {
            self.set.is_broken.store(true, Ordering::Release);
        }
    }
}

impl Clusterset {
    /// Installs the definitions again if a test failed that had the clusters for itself.
    async fn restore(&self) {
        if self.is_broken.swap(false, Ordering::AcqRel) {
            for member in self.fleet.members() {
                member.serve_clusterset().await;
            }
        }
    }
}

impl Turn {
    pub(crate) async fn on_two() -> Self {
        Self::calm(Clusterset::of_two().await).await
    }

    pub(crate) async fn with_ids() -> Self {
        Self::calm(Clusterset::with_ids().await).await
    }

    pub(crate) async fn on_three() -> Self {
        Self::calm(Clusterset::of_three().await).await
    }

    async fn calm(set: &'static Clusterset) -> Self {
        if set.is_broken.load(Ordering::Acquire) {
            let alone = set.peace.write().await;
            set.restore().await;
            drop(alone);
        }
        let peace = Peace::Kept(set.peace.read().await);
        let space = set.fleet.space("mcs").await;
        Self { set, space, peace }
    }

    /// The two clusters for one test alone, to break what it likes; it is to mend it.
    pub(crate) async fn alone() -> Self {
        let set = Clusterset::of_two().await;
        let peace = Peace::Broken(set.peace.write().await);
        set.restore().await;
        let space = set.fleet.space("mcs").await;
        Self { set, space, peace }
    }

    /// The two clusters for one test alone, with a namespace that only these members have.
    pub(crate) async fn alone_in(members: &[&str]) -> Self {
        let set = Clusterset::of_two().await;
        let peace = Peace::Broken(set.peace.write().await);
        set.restore().await;
        let clusters: Vec<_> = members.iter().map(|name| set.fleet.member(name)).collect();
        let space = Space::create(&set.fleet, "mcs", &clusters).await;
        Self { set, space, peace }
    }

    /// A namespace that only these members have.
    pub(crate) async fn on_three_in(members: &[&str]) -> Self {
        let set = Clusterset::of_three().await;
        let peace = Peace::Kept(set.peace.read().await);
        let clusters: Vec<_> = members.iter().map(|name| set.fleet.member(name)).collect();
        let space = Space::create(&set.fleet, "mcs", &clusters).await;
        Self { set, space, peace }
    }

    pub(crate) fn members(&self) -> &'static [Cluster] {
        self.set.fleet.members()
    }

    /// `foo` in a member: port 80, which its pods serve on 8080.
    pub(crate) async fn service(&self, member: &str) {
        let fixture = service("foo").port_to("http", 80, 8080);
        fixture.create(self.member(member), &self.space).await;
    }

    pub(crate) async fn pod(&self, member: &str) -> RunningPod {
        self.space.pod("foo", member).await
    }

    pub(crate) async fn export(&self, member: &str) -> ServiceExport {
        let fixture = service_export("foo");
        fixture.create(self.member(member), &self.space).await
    }

    /// Exports `foo` so that this export is younger than all that are there: their age counts in
    /// whole seconds.
    pub(crate) async fn export_later(&self, member: &str) -> ServiceExport {
        self.next_second().await;
        self.export(member).await
    }

    /// Waits until what is made from now on is younger than what is there.
    pub(crate) async fn next_second(&self) {
        let now = || {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since.expect("a time after 1970").as_secs()
        };
        let begun = now();
        eventually("the next second", SOON, async || now() > begun).await;
    }

    /// `foo` with one pod in a member, exported.
    pub(crate) async fn exporter(&self, member: &str) -> RunningPod {
        self.service(member).await;
        let pod = self.pod(member).await;
        self.export_later(member).await;
        pod
    }

    pub(crate) async fn unexport(&self, member: &str) {
        let exports = self.exports(self.member(member));
        let deleted = exports.delete("foo", &DeleteParams::default()).await;
        deleted.unwrap_or_else(|e| panic!("cannot delete the export in {member}: {e}"));
    }

    /// Runs kubectl on a member, in the namespace. It must succeed.
    pub(crate) async fn kubectl<const N: usize>(&self, member: &str, args: [&str; N]) -> String {
        self.space.kubectl(self.member(member), args).await
    }

    /// The import of `foo` in a member, if there is one.
    pub(crate) async fn import(&self, member: &str) -> Option<ServiceImport> {
        let imports = self.imports(self.member(member));
        imports.get_opt("foo").await.expect("the imports")
    }

    /// Waits until a member imports `foo` from exactly these clusters.
    pub(crate) async fn imported_from(&self, member: &str, clusters: &[&str]) -> ServiceImport {
        let what = format!("{member} imports from {clusters:?}");
        eventually(&what, SOON, async || {
            let import = self.import(member).await.ok_or("no import")?;
            let sources: Vec<_> = sources(&import);
            if sources == clusters {
                Ok(import)
            } else {
                Err(format!("{sources:?}"))
            }
        })
        .await
    }

    /// Waits until a member imports `foo` in this shape.
    pub(crate) async fn imported_as(
        &self,
        member: &str,
        what: &str,
        holds: impl Fn(&ServiceImport) -> bool,
    ) -> ServiceImport {
        eventually(
            &format!("{member} has an import with {what}"),
            SOON,
            async || {
                let import = self.import(member).await.ok_or("no import")?;
                if holds(&import) {
                    Ok(import)
                } else {
                    Err(format!("{import:?}"))
                }
            },
        )
        .await
    }

    /// The Service that stands for the imported `foo` in a member.
    pub(crate) async fn derived(&self, member: &str) -> Service {
        let services = self.api::<Service>(self.member(member));
        let derived = services.get("derived-foo").await;
        derived.unwrap_or_else(|e| panic!("no derived-foo in {member}: {e}"))
    }

    /// Waits until the Service that stands for the imported `foo` in a member is so: it is written
    /// beside the import, not before it.
    pub(crate) async fn derived_as(
        &self,
        member: &str,
        what: &str,
        holds: impl Fn(&ServiceSpec) -> bool,
    ) {
        let services = self.api::<Service>(self.member(member));
        let what = format!("derived-foo in {member} has {what}");
        eventually(&what, SOON, async || {
            let derived = services.get("derived-foo").await;
            let derived = derived.map_err(|e| e.to_string())?;
            let spec = derived.spec.ok_or("no spec")?;
            holds(&spec).then_some(()).ok_or(format!("{spec:?}"))
        })
        .await;
    }

    /// The imported slices of `foo` in a member, by name.
    pub(crate) async fn imported_slices(&self, member: &str) -> Vec<EndpointSlice> {
        let of_foo = format!("{}=foo", labels::MULTICLUSTER_SERVICE_NAME);
        let slices = self.api::<EndpointSlice>(self.member(member));
        let list = slices.list(&ListParams::default().labels(&of_foo)).await;
        list.expect("the slices").items
    }

    /// Waits until exactly these addresses are ready behind the imported `foo` in a member.
    pub(crate) async fn reaches<A: AsRef<str>>(&self, member: &str, addresses: &[A]) {
        self.space.reaches(member, "derived-foo", addresses).await;
    }

    /// Waits until a condition of the export of `foo` in a member is so, and returns its message.
    pub(crate) async fn says(
        &self,
        member: &str,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> String {
        let expected = format!("{status}|{reason}|");
        self.export_says(member, "foo", type_, &expected).await
    }
}

/// The clusters that an import says it comes from.
pub(crate) fn sources(import: &ServiceImport) -> Vec<&str> {
    let clusters = import.status.iter().flat_map(|status| &status.clusters);
    let mut names: Vec<_> = clusters.map(|status| status.cluster.as_str()).collect();
    names.sort_unstable();
    names
}

/// A condition of an import.
pub(crate) fn condition_of<'a>(import: &'a ServiceImport, type_: &str) -> Option<&'a Condition> {
    condition::find(&import.status.as_ref()?.conditions, type_)
}

/// The first address of an import.
pub(crate) fn cluster_set_ip(import: &ServiceImport) -> &str {
    let first = import.spec.ips.first();
    first.unwrap_or_else(|| panic!("an import without an address: {import:?}"))
}
