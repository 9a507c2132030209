use causeway::api::multicluster::ServiceExportSpec;
use causeway::domain::{ClusterName, Consumers, Failover};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{Constituent, ImportShape, Merged, merge};
use crate::observed::service::ServiceView;
use crate::plan::clusterset::precedence::Precedence;

mod conflicts;
mod exported;
mod properties;

/// Inputs of a merged export.
#[derive(Clone, Debug)]
struct Export {
    cluster: ClusterName,
    created: Option<Timestamp>,
    spec: ServiceExportSpec,
    failover: Failover,
    consumers: Consumers,
    service: ServiceView,
}

/// Returns the export of a member: that of member1 is the oldest, that of member2 the next.
fn export(member: u8, spec: Value) -> Export {
    Export {
        cluster: ClusterName::try_from(&*format!("member{member}")).expect("a name"),
        created: Some(Timestamp::constant(1_800_000_000 + i64::from(member), 0)),
        spec: ServiceExportSpec::default(),
        failover: Failover::default(),
        consumers: Consumers::All,
        service: service(spec),
    }
}

fn service(part: Value) -> ServiceView {
    let mut object = json!({
        "metadata": {"uid": "u", "resourceVersion": "1"},
        "spec": {
            "clusterIP": "10.0.0.1", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80}],
        },
    });
    json_patch::merge(&mut object["spec"], &part);
    let object = serde_json::from_value(object).expect("a Service");
    ServiceView::read(&object).expect("a Service as API servers send it")
}

impl Export {
    fn exporting(mut self, exported: Value) -> Self {
        self.spec = serde_json::from_value(exported).expect("a spec");
        self
    }

    fn created(mut self, second: Option<i64>) -> Self {
        self.created = second.map(|second| Timestamp::constant(second, 0));
        self
    }

    fn constituent(&self) -> Constituent<'_> {
        Constituent {
            cluster: &self.cluster,
            precedence: Precedence {
                since: Timestamp::UNIX_EPOCH,
                created: self.created.unwrap_or(Timestamp::MAX),
            },
            spec: &self.spec,
            failover: &self.failover,
            consumers: &self.consumers,
            service: &self.service,
        }
    }
}

fn merged(exports: &[Export]) -> Merged<'_> {
    let constituents: Vec<_> = exports.iter().map(Export::constituent).collect();
    merge(&constituents).expect("there are exports")
}

/// Returns the merged ports in words: `http 80/TCP`.
fn ports(shape: &ImportShape) -> Vec<String> {
    shape
        .ports
        .iter()
        .map(|port| port.port.to_string())
        .collect()
}

fn with_ports(member: u8, ports: Value) -> Export {
    export(member, json!({ "ports": ports }))
}

#[test]
fn without_exports_nothing_is_imported() {
    assert_eq!(merge(&[]), None);
}

#[test]
fn a_single_export_is_imported_as_it_is() {
    let only = export(
        1,
        json!({
            "ports": [{"name": "http", "port": 80, "appProtocol": "kubernetes.io/h2c"}, {"name": "dns", "port": 53, "protocol": "UDP"}],
            "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
            "internalTrafficPolicy": "Local", "trafficDistribution": "PreferClose", "ipFamilies": ["IPv6", "IPv4"],
        }),
    )
    .exporting(json!({"exportedLabels": {"team": "a"}, "exportedAnnotations": {"note": "a b"}}));
    let exports = [only];
    let Merged {
        shape,
        conflicts,
        clusters,
    } = merged(&exports);
    assert_eq!(ports(&shape), ["http 80/TCP", "dns 53/UDP"]);
    assert_eq!(
        shape.ports[0].app_protocol.as_deref(),
        Some("kubernetes.io/h2c")
    );
    assert!(!shape.headless);
    assert_eq!(
        (&*shape.session_affinity, shape.affinity_seconds),
        ("ClientIP", Some(60))
    );
    assert_eq!(shape.ip_families, ["IPv6".into(), "IPv4".into()]);
    assert_eq!(shape.internal_traffic_policy.as_deref(), Some("Local"));
    assert_eq!(shape.traffic_distribution.as_deref(), Some("PreferClose"));
    assert_eq!(shape.labels, [("team".to_owned(), "a".to_owned())].into());
    assert_eq!(
        shape.annotations,
        [("note".to_owned(), "a b".to_owned())].into()
    );
    assert_eq!(conflicts, []);
    assert_eq!(clusters, [&exports[0].cluster]);
}

#[test]
fn the_oldest_export_comes_first_and_ties_are_decided_by_the_name_of_the_cluster() {
    for (created, order) in [
        ([Some(30), Some(20), Some(10)], [3, 2, 1]),
        ([Some(10), Some(10), Some(10)], [1, 2, 3]),
        ([Some(20), Some(10), Some(10)], [2, 3, 1]),
        ([None, Some(10), Some(20)], [2, 3, 1]),
        ([None, None, Some(20)], [3, 1, 2]),
    ] {
        let exports: Vec<_> = (1..=3u8)
            .zip(created)
            .map(|(member, created)| export(member, json!({})).created(created))
            .collect();
        let clusters: Vec<_> = merged(&exports)
            .clusters
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            clusters,
            order.map(|member| format!("member{member}")),
            "{created:?}"
        );
    }
}

#[test]
fn ports_are_the_union_and_where_they_collide_the_older_wins() {
    let http = json!({"name": "http", "port": 80});
    for (why, younger, union) in [
        ("the same", json!([http]), vec!["http 80/TCP"]),
        (
            "one more",
            json!([http, {"name": "dns", "port": 53, "protocol": "UDP"}]),
            vec!["http 80/TCP", "dns 53/UDP"],
        ),
        (
            "others alone",
            json!([{"name": "grpc", "port": 81}]),
            vec!["http 80/TCP", "grpc 81/TCP"],
        ),
        (
            "the name of an older",
            json!([{"name": "http", "port": 8080}]),
            vec!["http 80/TCP"],
        ),
        (
            "the number of an older",
            json!([{"name": "web", "port": 80}]),
            vec!["http 80/TCP"],
        ),
        (
            "the number in another protocol",
            json!([{"name": "h3", "port": 80, "protocol": "UDP"}]),
            vec!["http 80/TCP", "h3 80/UDP"],
        ),
        (
            "an older's number without a name",
            json!([{"port": 80}]),
            vec!["http 80/TCP"],
        ),
        (
            "another number without a name",
            json!([{"port": 81}]),
            vec!["http 80/TCP", "tcp-81 81/TCP"],
        ),
        ("none", json!([]), vec!["http 80/TCP"]),
    ] {
        let exports = [with_ports(1, json!([http])), with_ports(2, younger)];
        assert_eq!(ports(&merged(&exports).shape), union, "{why}");
    }
}

#[test]
fn ports_that_no_api_server_stores_are_not_imported() {
    let younger = json!([
        {"name": "A b", "port": 81},
        {"name": "zero", "port": 0},
        {"name": "app", "port": 82, "appProtocol": "a b"},
        {"name": "empty", "port": 83, "appProtocol": ""},
        {"name": "grpc", "port": 84, "appProtocol": "kubernetes.io/h2c"},
    ]);
    let http = json!([{"name": "http", "port": 80}]);
    let exports = [with_ports(1, http), with_ports(2, younger)];
    assert_eq!(
        ports(&merged(&exports).shape),
        ["http 80/TCP", "grpc 84/TCP"]
    );
}

#[test]
fn younger_exports_add_ports_up_to_1024() {
    let numbered = |(first, count): (u16, u16)| -> Value {
        let numbers = first..first + count;
        let ports = numbers.map(|number| json!({"name": format!("p{number}"), "port": number}));
        ports.collect::<Vec<_>>().into()
    };
    for (counts, added) in [
        ([2, 3, 4], [2, 3, 4]),
        ([2, 1000, 1000], [2, 1000, 22]),
        ([1024, 1, 1], [1024, 0, 0]),
        ([1500, 1, 1], [1500, 0, 0]),
    ] {
        let firsts = [10_000, 20_000, 30_000];
        let of = |counts: [u16; 3]| firsts.into_iter().zip(counts);
        let exports = (1..).zip(of(counts));
        let exports: Vec<_> = exports
            .map(|(member, ports)| with_ports(member, numbered(ports)))
            .collect();
        let shape = merged(&exports).shape;
        let numbers: Vec<_> = shape.ports.iter().map(|port| port.port.id.number).collect();
        let expected = of(added).flat_map(|(first, count)| first..first + count);
        assert_eq!(numbers, expected.collect::<Vec<_>>());
        let grown = ImportShape::grown_from(&shape, Some(&merged(&exports[1..]).shape));
        assert_eq!(grown.ports.len(), shape.ports.len());
    }
}

#[test]
fn a_port_without_a_name_gets_one_among_several_and_its_name_is_taken_from_the_start() {
    let unnamed = json!([{"port": 80}]);
    for (why, older, younger, union) in [
        (
            "alone it stays without",
            unnamed.clone(),
            unnamed.clone(),
            vec!["80/TCP"],
        ),
        (
            "beside another it is named",
            unnamed.clone(),
            json!([{"name": "grpc", "port": 81}]),
            vec!["tcp-80 80/TCP", "grpc 81/TCP"],
        ),
        (
            "no name is a name too",
            unnamed.clone(),
            json!([{"port": 81}]),
            vec!["80/TCP"],
        ),
        (
            "a younger cannot take its name",
            unnamed.clone(),
            json!([{"name": "tcp-80", "port": 81}]),
            vec!["80/TCP"],
        ),
        (
            "nor can it take an older's",
            json!([{"name": "udp-80", "port": 81}]),
            json!([{"port": 80, "protocol": "UDP"}]),
            vec!["udp-80 81/TCP"],
        ),
        (
            "the same port under that name",
            unnamed,
            json!([{"name": "tcp-80", "port": 80}]),
            vec!["80/TCP"],
        ),
    ] {
        let exports = [with_ports(1, older), with_ports(2, younger)];
        assert_eq!(ports(&merged(&exports).shape), union, "{why}");
    }
}

#[test]
fn a_recorded_import_gains_ports_and_nothing_else_while_an_exporter_is_unknown() {
    let record = |ports: Value| merged(&[with_ports(1, ports)]).shape;
    let other = |ports: Value| {
        let spec = json!({"ports": ports, "clusterIP": "None", "sessionAffinity": "ClientIP", "ipFamilies": ["IPv6"], "trafficDistribution": "PreferClose"});
        merged(&[export(2, spec)]).shape
    };
    let http = json!([{"name": "http", "port": 80}]);
    for (why, recorded, now, grown) in [
        (
            "another port is added",
            http.clone(),
            json!([{"name": "grpc", "port": 81}]),
            vec!["http 80/TCP", "grpc 81/TCP"],
        ),
        (
            "one without a name is named",
            http.clone(),
            json!([{"port": 81}]),
            vec!["http 80/TCP", "tcp-81 81/TCP"],
        ),
        (
            "a name that is there stays",
            http.clone(),
            json!([{"name": "http", "port": 81}]),
            vec!["http 80/TCP"],
        ),
        (
            "a number that is there stays",
            http,
            json!([{"name": "web", "port": 80}]),
            vec!["http 80/TCP"],
        ),
        (
            "a port without a name stays alone",
            json!([{"port": 80}]),
            json!([{"name": "grpc", "port": 81}]),
            vec!["80/TCP"],
        ),
        (
            "an import without ports gains them",
            json!([]),
            json!([{"port": 80}]),
            vec!["80/TCP"],
        ),
    ] {
        let recorded = record(recorded);
        let shape = ImportShape::grown_from(&recorded, Some(&other(now)));
        assert_eq!(ports(&shape), grown, "{why}");
        let ports = shape.ports.clone();
        assert_eq!(
            shape,
            ImportShape {
                ports,
                ..recorded.clone()
            },
            "{why}"
        );
        assert_eq!(ImportShape::grown_from(&recorded, None), recorded, "{why}");
    }
}
