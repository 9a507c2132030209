use causeway::api::labels;
use causeway::api::multicluster::ServiceExportSpec;
use causeway::domain::ClusterName;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{Constituent, ImportPort, ImportShape, Merged, conflict_text, merge};
use crate::index::service::ServiceView;

mod properties;

/// An export and what it is merged from.
#[derive(Clone, Debug)]
struct Export {
    cluster: ClusterName,
    created: Option<Timestamp>,
    spec: ServiceExportSpec,
    service: ServiceView,
}

/// The export of member1 is the oldest, that of member2 the next, and so on.
fn export(member: u8, spec: Value) -> Export {
    Export {
        cluster: ClusterName::try_from(&*format!("member{member}")).expect("a name"),
        created: Some(Timestamp::constant(1_800_000_000 + i64::from(member), 0)),
        spec: ServiceExportSpec::default(),
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
            created: self.created,
            spec: &self.spec,
            service: &self.service,
        }
    }
}

fn merged(exports: &[Export]) -> Merged<'_> {
    let constituents: Vec<_> = exports.iter().map(Export::constituent).collect();
    merge(&constituents).expect("there are exports")
}

/// The merged ports in words: `http 80/TCP`.
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

fn messages(exports: &[Export]) -> Vec<String> {
    let conflicts = merged(exports).conflicts.into_iter();
    conflicts
        .map(|conflict| format!("{}: {}", conflict.reason, conflict.message))
        .collect()
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
fn the_application_protocol_is_that_of_the_older_port() {
    let of = |protocol: Value| json!([{"name": "http", "port": 80, "appProtocol": protocol}]);
    let exports = [
        with_ports(1, of(json!("http"))),
        with_ports(2, of(json!("kubernetes.io/h2c"))),
    ];
    assert_eq!(
        merged(&exports).shape.ports[0].app_protocol.as_deref(),
        Some("http")
    );
    assert_eq!(
        messages(&exports),
        [
            "PortConflict: Conflicting ports: using that of the oldest export, in member1 (http 80/TCP as http); 1 of 2 clusters \
             disagrees: member2 (http 80/TCP as kubernetes.io/h2c)"
        ]
    );
}

#[test]
fn what_exports_disagree_on_is_told_with_who_wins() {
    let sticky = |seconds: i32| json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}});
    let port = |name: &str, number: u16| json!({"name": name, "port": number});
    for (older, younger, told) in [
        (
            json!({}),
            json!({"ports": [port("http", 80), port("grpc", 81)]}),
            "PortConflict: Conflicting ports: using that of the oldest export, in member1 (http 80/TCP), and adding grpc 81/TCP; 1 of 2 \
             clusters disagrees: member2 (http 80/TCP, grpc 81/TCP)",
        ),
        (
            json!({"ports": [port("http", 80), port("grpc", 81)]}),
            json!({"ports": []}),
            "PortConflict: Conflicting ports: using that of the oldest export, in member1 (http 80/TCP, grpc 81/TCP); 1 of 2 clusters \
             disagrees: member2 (no ports)",
        ),
        (
            json!({}),
            json!({"clusterIP": "None"}),
            "TypeConflict: Conflicting type: using that of the oldest export, in member1 (ClusterSetIP); 1 of 2 clusters disagrees: \
             member2 (Headless)",
        ),
        (
            json!({}),
            sticky(60),
            "SessionAffinityConflict: Conflicting sessionAffinity: using that of the oldest export, in member1 (None); 1 of 2 clusters \
             disagrees: member2 (ClientIP)",
        ),
        (
            json!({"sessionAffinity": "ClientIP"}),
            sticky(60),
            "SessionAffinityConfigConflict: Conflicting sessionAffinityConfig: using that of the oldest export, in member1 (10800 s); \
             1 of 2 clusters disagrees: member2 (60 s)",
        ),
        (
            json!({"internalTrafficPolicy": "Local"}),
            json!({}),
            "InternalTrafficPolicyConflict: Conflicting internalTrafficPolicy: using that of the oldest export, in member1 (Local); \
             1 of 2 clusters disagrees: member2 (Cluster)",
        ),
        (
            json!({}),
            json!({"trafficDistribution": "PreferClose"}),
            "TrafficDistributionConflict: Conflicting trafficDistribution: using that of the oldest export, in member1 (no preference); \
             1 of 2 clusters disagrees: member2 (PreferClose)",
        ),
        (
            json!({}),
            json!({"ipFamilies": ["IPv4", "IPv6"]}),
            "IPFamilyConflict: Conflicting ipFamilies: using that of the oldest export, in member1 (IPv4); 1 of 2 clusters disagrees: \
             member2 (IPv4 and IPv6)",
        ),
    ] {
        let exports = [export(1, older), export(2, younger)];
        assert_eq!(messages(&exports), [told]);
        let alone = merged(&exports[..1]).shape;
        let ports = merged(&exports).shape.ports;
        assert_eq!(
            merged(&exports).shape,
            ImportShape { ports, ..alone },
            "{told}"
        );
    }
}

#[test]
fn labels_and_annotations_are_those_of_the_oldest_and_only_what_differs_is_told() {
    let exports = [
        export(1, json!({})).exporting(json!({"exportedLabels": {"team": "a", "tier": "web"}, "exportedAnnotations": {"note": "x\ny"}})),
        export(2, json!({})).exporting(json!({"exportedLabels": {"team": "b", "tier": "web"}})),
        export(3, json!({})).exporting(json!({"exportedLabels": {"tier": "web"}, "exportedAnnotations": {"note": "x\ny"}})),
    ];
    assert_eq!(
        messages(&exports),
        [
            "LabelsConflict: Conflicting labels: using that of the oldest export, in member1 (team=a); 2 of 3 clusters disagree: \
             member2 (team=b), member3 (no other labels)",
            "AnnotationsConflict: Conflicting annotations: using that of the oldest export, in member1 (note=x y); 1 of 3 clusters \
             disagrees: member2 (no annotations)",
        ]
    );
    let shape = merged(&exports).shape;
    assert_eq!(json!(shape.labels), json!({"team": "a", "tier": "web"}));
    assert_eq!(json!(shape.annotations), json!({"note": "x\ny"}));
}

#[test]
fn what_makes_no_difference_is_no_conflict() {
    let port = |name: &str, number: u16, target: u16| json!({"name": name, "port": number, "targetPort": target});
    for (why, older, younger) in [
        (
            "order and targets of ports",
            json!({"ports": [port("http", 80, 8080), port("grpc", 81, 8081)]}),
            json!({"ports": [port("grpc", 81, 1), port("http", 80, 2)]}),
        ),
        (
            "another order of families",
            json!({"ipFamilies": ["IPv4", "IPv6"]}),
            json!({"ipFamilies": ["IPv6", "IPv4"]}),
        ),
        (
            "the default traffic policy",
            json!({"internalTrafficPolicy": null}),
            json!({}),
        ),
        (
            "the default timeout",
            json!({"sessionAffinity": "ClientIP"}),
            json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}),
        ),
        (
            "kinds that all have an address",
            json!({"type": "LoadBalancer"}),
            json!({"type": "NodePort"}),
        ),
        (
            "addresses and selectors",
            json!({"clusterIP": "10.0.0.9", "selector": {"app": "a"}}),
            json!({"selector": {"app": "b"}}),
        ),
    ] {
        assert_eq!(
            messages(&[export(1, older), export(2, younger)]),
            Vec::<String>::new(),
            "{why}"
        );
    }
}

#[test]
fn what_is_not_carried_is_no_conflict() {
    let forged = json!({"exportedLabels": {labels::HUB: "forged", "-": "", "team": "a"}});
    let exports = [
        export(1, json!({})).exporting(forged),
        export(2, json!({})).exporting(json!({"exportedLabels": {"team": "a"}})),
    ];
    assert_eq!(messages(&exports), Vec::<String>::new());
}

#[test]
fn at_most_three_clusters_are_named_and_the_others_counted() {
    let mut exports = vec![export(1, json!({}))];
    exports.extend((2..=6).map(|member| export(member, json!({"clusterIP": "None"}))));
    assert_eq!(
        messages(&exports),
        [
            "TypeConflict: Conflicting type: using that of the oldest export, in member1 (ClusterSetIP); 5 of 6 clusters disagree: \
             member2 (Headless), member3 (Headless), member4 (Headless), and 2 more"
        ]
    );
}

#[test]
fn a_condition_tells_all_conflicts_in_one_line_of_reasonable_length() {
    assert_eq!(conflict_text(&[]), None);
    let two = [
        export(1, json!({})),
        export(2, json!({"clusterIP": "None", "ipFamilies": ["IPv6"]})),
    ];
    let (reason, message) = conflict_text(&merged(&two).conflicts).expect("there are conflicts");
    assert_eq!(reason, "TypeConflict,IPFamilyConflict");
    assert_eq!(
        message,
        "Conflicting type: using that of the oldest export, in member1 (ClusterSetIP); 1 of 2 clusters disagrees: member2 (Headless). \
         Conflicting ipFamilies: using that of the oldest export, in member1 (IPv4); 1 of 2 clusters disagrees: member2 (IPv6)"
    );
    let (reason, message) =
        conflict_text(&merged(&all_differ()).conflicts).expect("there are conflicts");
    assert_eq!(
        reason,
        "PortConflict,TypeConflict,SessionAffinityConfigConflict,InternalTrafficPolicyConflict,TrafficDistributionConflict,\
         IPFamilyConflict,LabelsConflict,AnnotationsConflict"
    );
    assert!((900..1024).contains(&message.len()), "{message}");
    for field in [
        "ports",
        "type",
        "trafficDistribution",
        "ipFamilies",
        "labels",
        "annotations",
    ] {
        assert!(
            message.contains(&format!("Conflicting {field}: using")),
            "{field} in {message}"
        );
    }
    assert!(!message.contains(char::is_control), "{message}");
}

/// Two exports that agree on nothing, the texts of which are long and in any script.
fn all_differ() -> [Export; 2] {
    let text = "ä\n€𝄞".repeat(500);
    let sticky = |seconds: i32| json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}});
    let many: Vec<_> = (1..100u16)
        .map(|number| json!({"name": format!("p{number}"), "port": number}))
        .collect();
    let mut older =
        json!({"ports": many, "internalTrafficPolicy": "Local", "trafficDistribution": text});
    let mut younger = json!({"clusterIP": "None", "ipFamilies": ["IPv6"]});
    json_patch::merge(&mut older, &sticky(1));
    json_patch::merge(&mut younger, &sticky(2));
    [
        export(1, older).exporting(
            json!({"exportedLabels": {"team": "a"}, "exportedAnnotations": {"note": text}}),
        ),
        export(2, younger),
    ]
}

#[test]
fn an_export_forges_no_label_and_one_that_no_api_server_takes_is_left_out() {
    let long = "x".repeat(64);
    for (name, carried) in [
        ("team", true),
        ("Team_1.a-b", true),
        ("example.com/team", true),
        ("app.kubernetes.io/name", true),
        ("notmcs.causeway.dev/hub", true),
        (labels::HUB, false),
        (labels::OWNER, false),
        ("sub.mcs.causeway.dev/x", false),
        (labels::MULTICLUSTER_SERVICE_NAME, false),
        (labels::SOURCE_CLUSTER, false),
        (labels::SLICE_MANAGED_BY, false),
        (labels::PROVISION_CLUSTER, false),
        (labels::SERVICE_NAME, false),
        (labels::MANAGED_BY, false),
        ("kubectl.kubernetes.io/last-applied-configuration", false),
        ("", false),
        ("-team", false),
        ("team-", false),
        ("te am", false),
        ("größe", false),
        ("/team", false),
        ("example.com/", false),
        ("example..com/team", false),
        ("a/b/c", false),
        (&long, false),
        (&long[1..], true),
    ] {
        let exported = json!({"exportedLabels": {name: "v"}, "exportedAnnotations": {name: "v"}});
        let shape = merged(&[export(1, json!({})).exporting(exported)]).shape;
        assert_eq!(shape.labels.contains_key(name), carried, "label {name:?}");
        assert_eq!(
            shape.annotations.contains_key(name),
            carried,
            "annotation {name:?}"
        );
    }
    for (value, carried) in [
        ("", true),
        ("a", true),
        ("A_b.c-1", true),
        ("a b", false),
        ("-", false),
        (&long, false),
    ] {
        let exported =
            json!({"exportedLabels": {"team": value}, "exportedAnnotations": {"team": value}});
        let shape = merged(&[export(1, json!({})).exporting(exported)]).shape;
        assert_eq!(shape.labels.contains_key("team"), carried, "{value:?}");
        assert!(
            shape.annotations.contains_key("team"),
            "an annotation is any text"
        );
    }
    let upper = json!({"exportedLabels": {"Example.com/team": "a"}, "exportedAnnotations": {"Example.com/team": "a"}});
    let shape = merged(&[export(1, json!({})).exporting(upper)]).shape;
    assert_eq!((shape.labels.len(), shape.annotations.len()), (0, 1));
}

#[test]
fn annotations_that_no_object_can_hold_are_left_out() {
    let exported = json!({"exportedAnnotations": {"a": "x".repeat(200 * 1024), "b": "x".repeat(200 * 1024), "c": "x"}});
    let shape = merged(&[export(1, json!({})).exporting(exported)]).shape;
    assert_eq!(shape.annotations.keys().collect::<Vec<_>>(), ["a", "c"]);
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
