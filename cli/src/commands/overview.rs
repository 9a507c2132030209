//! Overview of members, services and exports, which `status` and `bug-report` report on.

use std::fmt::Display;
use std::sync::Arc;

use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::{Failover, ServiceKey};
use causeway_engine::model::HubNamespace;
use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::cluster::api_server::{ApiServer, RequestError, allowed};
use crate::cluster::karmada::binding;
use crate::observe::hub::Hub;
use crate::observe::misplaced::{self, Misplaced};
use crate::observe::once;
use crate::observe::scope::{Breadth, Scope};
use crate::observe::service::{self, Readings, key_of};
use crate::views::explain::{self, Exposed};
use crate::views::status::karmada::{Observations, Observed, is_karmadas, observed};
use crate::views::status::report::{self, Report};

/// Part of the overview that holds the tiers of one service.
const TIERS: &str = "Tiers of the service";
/// Part of the overview that holds objects without an effect.
pub(super) const MISPLACED: &str = "ServiceExports and ServiceImports on the hub";

/// Maximum number of services that are evaluated at once. Each evaluation reads every member.
const AT_ONCE: usize = 4;

/// Hub, and the part of it that an overview reports on.
pub(super) struct Overview {
    pub hub: ApiServer,
    pub all_namespaces: bool,
    /// Name of one service. `None` for all services.
    pub name: Option<String>,
    pub allow_insecure: bool,
}

/// Objects that a status is computed from.
#[derive(Default)]
pub(super) struct Snapshot {
    pub services: Vec<MultiClusterService>,
    /// `None` if the user may not list Clusters.
    pub clusters: Option<Arc<Vec<Cluster>>>,
    /// Exports, imports and their objects in each member, or the error of the read.
    pub readings: Readings,
    /// Observations of services that involve Karmada.
    pub karmadas: Observations,
    /// Tiers and ready endpoints of the consumers. `None` unless one service is named and read.
    pub exposed: Option<Exposed>,
    /// ServiceExports and ServiceImports on the hub, without any effect there.
    pub misplaced: Vec<Misplaced>,
    /// Failed reads other than those of members, a sentence each.
    pub unknown: Vec<String>,
}

impl Overview {
    /// Returns the set of objects that the command observes.
    pub(super) fn scope(&self) -> Scope {
        let namespace = self.hub.config.default_namespace.clone();
        Scope {
            namespace: (!self.all_namespaces).then_some(namespace),
            name: self.name.clone(),
            allow_insecure: self.allow_insecure,
            breadth: Breadth::Clusterset,
        }
    }

    pub(super) async fn look(&self) -> Result<Snapshot, RequestError> {
        let services = once::multi_cluster_services(&self.hub, &self.scope()).await?;
        // A hub that does not serve Cluster yields an empty list.
        let clusters = allowed(once::clusters(&self.hub).await)?;
        let mut snapshot = Snapshot {
            services,
            clusters: clusters.map(|clusters| Arc::new(clusters.unwrap_or_default())),
            ..Snapshot::default()
        };
        self.read_members(&mut snapshot).await;
        Ok(snapshot)
    }

    /// Adds the objects of the members to a snapshot of the hub.
    async fn read_members(&self, snapshot: &mut Snapshot) {
        let Some(clusters) = &snapshot.clusters else {
            return;
        };
        let scope = self.scope();
        let (services, insecure) = (&snapshot.services, scope.allow_insecure);
        // `one` reads the named service with Karmada's objects, so `karmada::read` skips it.
        let several = match self.name {
            Some(_) => &[],
            None => services.as_slice(),
        };
        let (readings, misplaced, mut karmadas, one) = tokio::join!(
            once::clusterset(&self.hub, clusters, &scope),
            misplaced::read(&self.hub, clusters, &scope),
            karmadas(&self.hub, several, insecure),
            self.one()
        );
        let has_defaults =
            one.as_ref().is_some_and(Result::is_err) && self.may_have_defaults().await;
        if let (Some(key), Some(one)) = (self.key(), one) {
            let observed = match &one {
                Ok(one) => observed(one),
                Err(why) => Observed {
                    health: None,
                    unknown: services.iter().any(is_karmadas).then(|| why.to_string()),
                    unapplied: binding::unapplied(&self.hub, &key)
                        .await
                        .unwrap_or_default(),
                },
            };
            karmadas.insert(key, observed);
            snapshot.exposed = match one {
                Ok(one) => {
                    let mut exposed = explain::exposed(&one);
                    if let Some(why) = one.unread_defaults() {
                        exposed.serving.clear();
                        snapshot
                            .unknown
                            .push(format!("{TIERS} are not shown: {why}"));
                    }
                    Some(exposed)
                }
                Err(why) if asks_for_tiers(services, &readings) || has_defaults => {
                    snapshot.unknown(TIERS, &why)
                }
                Err(_) => None,
            };
        }
        snapshot.karmadas = karmadas;
        snapshot.readings = readings;
        snapshot.misplaced = misplaced.unwrap_or_else(|why| snapshot.unknown(MISPLACED, &why));
    }

    /// Returns the key of the named service.
    fn key(&self) -> Option<ServiceKey> {
        let name = self.name.as_deref()?;
        let namespace = self.hub.config.default_namespace.as_str();
        Some(ServiceKey::new(namespace, name))
    }

    /// Reads the named service.
    async fn one(&self) -> Option<Result<service::Snapshot, RequestError>> {
        let insecure = self.allow_insecure;
        Some(once::read(&self.hub, &self.key()?, insecure).await)
    }

    /// Whether the Namespace of the named service has defaults, or could not be read.
    async fn may_have_defaults(&self) -> bool {
        let Some(key) = self.key() else {
            return false;
        };
        match once::namespaces(&self.hub, &key).await {
            Ok(Ok(namespaces)) => namespaces.iter().any(HubNamespace::has_defaults),
            Ok(Err(_)) | Err(_) => true,
        }
    }

    pub(super) fn report(&self, snapshot: &Snapshot) -> Report {
        let scope = match self.name {
            Some(_) => report::Scope::One,
            None => report::Scope::All,
        };
        let clusters = snapshot.clusters.as_deref().map(Vec::as_slice);
        Report::new(scope, clusters, &snapshot.services)
            .with_karmadas(&snapshot.karmadas)
            .with(&snapshot.readings)
            .with_exposed(snapshot.exposed.as_ref())
            .with_misplaced(&snapshot.misplaced)
            .with_unknown(&snapshot.unknown)
    }
}

impl Snapshot {
    /// Replaces services and Clusters by those of a followed hub.
    pub(super) fn take_hub(&mut self, hub: &Hub) {
        self.services = hub.mcs.all().cloned().collect();
        self.clusters = hub.may_list_clusters.then(|| hub.all_clusters.clone());
    }

    /// Records that `what` could not be read, and returns an empty value.
    pub(super) fn unknown<T: Default>(&mut self, what: &str, why: &dyn Display) -> T {
        self.unknown.push(format!("{what} are not shown: {why}"));
        T::default()
    }
}

/// Reads the health of the services that Karmada manages. A service that cannot be read is unknown.
pub(super) async fn karmadas(
    hub: &ApiServer,
    services: &[MultiClusterService],
    allow_insecure: bool,
) -> Observations {
    let managed = services.iter().filter(|service| is_karmadas(service));
    let known = managed.map(|service| async move {
        let key = key_of(service);
        let known = match once::read(hub, &key, allow_insecure).await {
            Ok(snapshot) => Observed {
                unapplied: None,
                ..observed(&snapshot)
            },
            Err(why) => Observed {
                unknown: Some(why.to_string()),
                ..Observed::default()
            },
        };
        (key, known)
    });
    futures::stream::iter(known)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}

/// Whether an annotation requests tiers instead of equal use of all providers.
fn asks_for_tiers(services: &[MultiClusterService], readings: &Readings) -> bool {
    let asks = |meta: &ObjectMeta| {
        let annotations = meta.annotations.as_ref();
        annotations.is_some_and(|all| {
            let mut names = Failover::ANNOTATIONS.into_iter();
            names.any(|name| all.contains_key(name))
        })
    };
    let exports = readings.values().flatten().flat_map(|held| &held.exports);
    let mut metas = services
        .iter()
        .map(Resource::meta)
        .chain(exports.map(Resource::meta));
    metas.any(asks)
}
