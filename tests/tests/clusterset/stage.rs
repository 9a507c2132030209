//! One test's namespace, and words for what tests here do again and again.

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

/// A namespace of one test.
pub(crate) struct Stage {
    pub(crate) set: &'static Clusterset,
    pub(crate) space: Space<'static>,
    peace: Peace,
}

impl Drop for Stage {
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

impl Stage {
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

    /// A namespace that only these members have.
    pub(crate) async fn on_three_in(members: &[&str]) -> Self {
        let set = Clusterset::of_three().await;
        let peace = Peace::Kept(set.peace.read().await);
        let clusters: Vec<_> = members.iter().map(|name| set.fleet.member(name)).collect();
        let space = Space::create(&set.fleet, "mcs", &clusters).await;
        Self { set, space, peace }
    }

    pub(crate) fn member(&self, name: &str) -> &'static Cluster {
        self.set.fleet.member(name)
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
        let pods = self.space.backends("foo").create(self.member(member)).await;
        pods.into_iter().next().expect("one pod")
    }

    pub(crate) async fn export(&self, member: &str) -> ServiceExport {
        let fixture = service_export("foo");
        fixture.create(self.member(member), &self.space).await
    }

    /// Exports `foo` so that this export is younger than all that are there: their age counts in whole seconds.
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
        let exports = self.space.exports(self.member(member));
        let deleted = exports.delete("foo", &DeleteParams::default()).await;
        deleted.unwrap_or_else(|e| panic!("cannot delete the export in {member}: {e}"));
    }

    /// kubectl in the namespace; it must succeed.
    pub(crate) async fn kubectl<const N: usize>(&self, member: &str, args: [&str; N]) -> String {
        let all = args.into_iter().chain(["-n", self.space.name()]);
        self.member(member).kubectl(all).await.ok()
    }

    /// The import of `foo` in a member, if there is one.
    pub(crate) async fn import(&self, member: &str) -> Option<ServiceImport> {
        let imports = self.space.imports(self.member(member));
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
        let services = self.space.api::<Service>(self.member(member));
        let derived = services.get("derived-foo").await;
        derived.unwrap_or_else(|e| panic!("no derived-foo in {member}: {e}"))
    }

    /// Waits until the Service that stands for the imported `foo` in a member is so: it is written beside the import, not before it.
    pub(crate) async fn derived_as(
        &self,
        member: &str,
        what: &str,
        holds: impl Fn(&ServiceSpec) -> bool,
    ) {
        let services = self.space.api::<Service>(self.member(member));
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
    pub(crate) async fn slices(&self, member: &str) -> Vec<EndpointSlice> {
        let of_foo = format!("{}=foo", labels::MULTICLUSTER_SERVICE_NAME);
        let slices = self.space.api::<EndpointSlice>(self.member(member));
        let list = slices.list(&ListParams::default().labels(&of_foo)).await;
        list.expect("the slices").items
    }

    /// Waits until exactly these addresses are ready behind the imported `foo` in a member.
    pub(crate) async fn reaches<A: AsRef<str>>(&self, member: &str, addresses: &[A]) {
        let mut expected: Vec<&str> = addresses.iter().map(AsRef::as_ref).collect();
        expected.sort_unstable();
        let what = format!("{member} reaches {expected:?}");
        eventually(&what, SOON, async || {
            let cluster = self.member(member);
            let ready = self.space.ready_addresses(cluster, "derived-foo").await;
            if ready == expected {
                Ok(())
            } else {
                Err(format!("{ready:?}"))
            }
        })
        .await;
    }

    /// Waits until a condition of the export of `foo` in a member is so, and gives its message.
    pub(crate) async fn says(
        &self,
        member: &str,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> String {
        let exports = self.space.exports(self.member(member));
        let what = format!("{type_} of the export in {member} is {status}, {reason}");
        eventually(&what, SOON, async || {
            let export = exports.get("foo").await.map_err(|e| e.to_string())?;
            let conditions = export.status.unwrap_or_default().conditions;
            let found = condition::find(&conditions, type_);
            let found = found.filter(|found| found.status == status && found.reason == reason);
            found
                .map(|found| found.message.clone())
                .ok_or_else(|| format!("{conditions:?}"))
        })
        .await
    }

    /// Waits until nothing of an imported `foo` is left in a member.
    pub(crate) async fn clean(&self, member: &str) {
        let what = format!("{member} has nothing of the import");
        eventually(&what, SOON, async || {
            let kinds = "services,endpointslices,serviceimports";
            let own = "--selector=app.kubernetes.io/managed-by=causeway";
            let left = ["get", kinds, own, "-o", "name", "--ignore-not-found"];
            let left = self.kubectl(member, left).await;
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await;
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
