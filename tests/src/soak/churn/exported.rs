//! Services of members, and their ServiceExports.

use k8s_openapi::api::core::v1::Service;
use kube::api::DeleteParams;
use serde_json::json;

use super::native::prefer;
use super::networks::reach;
use super::{Churn, EXPORTED, Place};
use crate::soak::random::Random;
use crate::write::merge;
use crate::{Fleet, Space, service, service_export};

/// The service whose exports get preferences: it has addresses, and no import by a person.
const PREFERRED: &str = EXPORTED[0];

/// Types of a Service, each with its external traffic policy.
const TYPES: [(&str, Option<&str>); 3] = [
    ("ClusterIP", None),
    ("NodePort", Some("Cluster")),
    ("NodePort", Some("Local")),
];

/// A Service that a member has.
#[derive(Clone, Copy)]
pub(super) struct Exported {
    exports: bool,
    metrics: bool,
    type_: (&'static str, Option<&'static str>),
}

fn fixture(name: &str, metrics: bool) -> crate::fixtures::ServiceFixture {
    let fixture = service(name).port_to("http", 80, 8080);
    let fixture = if metrics {
        fixture.port("metrics", 9090)
    } else {
        fixture
    };
    if is_headless(name) {
        fixture.headless()
    } else {
        fixture
    }
}

fn is_headless(name: &str) -> bool {
    EXPORTED.last() == Some(&name)
}

impl Exported {
    /// Whether every node leads to its endpoints.
    pub(super) fn is_opened(self) -> bool {
        self.type_ == TYPES[1]
    }

    /// Makes the Service.
    pub(super) async fn make(fleet: &Fleet, (namespace, name, member): Place) -> Self {
        let space = Space::existing(fleet, namespace);
        fixture(name, false)
            .create(fleet.member(member), &space)
            .await;
        Self {
            exports: false,
            metrics: false,
            type_: TYPES[0],
        }
    }
}

impl Churn {
    pub(super) async fn exports(&mut self, fleet: &Fleet, random: &mut Random) -> String {
        let namespace = self.somewhere(random);
        let members = self.members_with(namespace);
        let (name, member) = (*random.of(&EXPORTED), *random.of(&members));
        self.touch(namespace, name);
        let space = Space::existing(fleet, namespace);
        let cluster = fleet.member(member);
        let place = (namespace, name, member);
        let what = format!("{namespace}/{name} of {member}");
        let before = self.exported[&place];
        // The oldest export decides, so a younger one's preference changes nothing but conditions.
        if self.prefers && before.exports && name == PREFERRED && random.once_in(2) {
            let preference = prefer(&space.exports(cluster), name, random).await;
            return format!("the export of {what} {preference}");
        }
        if self.networks.is_some() && before.exports && random.once_in(8) {
            let way = reach(&space.exports(cluster), name, random).await;
            return format!("the export of {what} {way}");
        }
        let (after, said) = if self.networks.is_some() && !is_headless(name) && random.once_in(6) {
            let type_ = *random.of(&TYPES);
            let spec = json!({ "type": type_.0, "externalTrafficPolicy": type_.1 });
            let services = space.api::<Service>(cluster);
            merge(&services, name, json!({ "spec": spec })).await;
            (Exported { type_, ..before }, format!("{what} is {type_:?}"))
        } else if random.once_in(3) {
            let metrics = !before.metrics;
            let spec = fixture(name, metrics).object().spec.unwrap_or_default();
            let services = space.api::<Service>(cluster);
            merge(&services, name, json!({ "spec": { "ports": spec.ports } })).await;
            (
                Exported { metrics, ..before },
                format!("{what} has metrics: {metrics}"),
            )
        } else if before.exports {
            let exports = space.exports(cluster);
            let deleted = exports.delete(name, &DeleteParams::default()).await;
            deleted.unwrap_or_else(|e| panic!("cannot delete the export of {what}: {e}"));
            let exports = false;
            (
                Exported { exports, ..before },
                format!("{what} is not exported any more"),
            )
        } else {
            service_export(name).create(cluster, &space).await;
            let exports = true;
            (
                Exported { exports, ..before },
                format!("{what} is exported again"),
            )
        };
        self.exported.insert(place, after);
        said
    }
}
