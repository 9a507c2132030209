//! Reports of exports that disagree.

use causeway::api::{bounds, labels};
use causeway::domain::Failover;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{Export, ImportShape, export, merged, with_ports};
use crate::messages::conflict::conflicts;

fn messages(exports: &[Export]) -> Vec<String> {
    let found = merged(exports).conflicts.into_iter();
    found
        .map(|conflict| format!("{}: {}", conflict.reason(), conflict.sentence()))
        .collect()
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
fn what_exports_disagree_on_is_reported_with_who_wins() {
    let sticky = |seconds: i32| json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}});
    let port = |name: &str, number: u16| json!({"name": name, "port": number});
    for (older, younger, reported) in [
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
        assert_eq!(messages(&exports), [reported]);
        let alone = merged(&exports[..1]).shape;
        let ports = merged(&exports).shape.ports;
        assert_eq!(
            merged(&exports).shape,
            ImportShape { ports, ..alone },
            "{reported}"
        );
    }
}

#[test]
fn share_of_the_oldest_export_applies_and_a_difference_is_reported() {
    let share = |text: &str| {
        let annotations = [(labels::SHARE.to_owned(), text.to_owned())];
        let meta = ObjectMeta {
            annotations: Some(annotations.into()),
            ..ObjectMeta::default()
        };
        Failover::of(&meta).0
    };
    let mut exports = [export(1, json!({})), export(2, json!({}))];
    exports[0].failover = share("cluster/member1=10%, rest");
    let expected = "ShareConflict: Conflicting mcs.causeway.dev/share: using that of the oldest \
                    export, in member1 (cluster/member1=10%, rest); 1 of 2 clusters disagrees: \
                    member2 (no share)";
    assert_eq!(messages(&exports), [expected]);
    assert_eq!(merged(&exports).shape.failover, exports[0].failover);
    exports[1].failover = exports[0].failover.clone();
    assert_eq!(messages(&exports), Vec::<String>::new());
}

#[test]
fn labels_and_annotations_are_those_of_the_oldest_and_only_what_differs_is_reported() {
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
            "the two names of one preference",
            json!({"trafficDistribution": "PreferClose"}),
            json!({"trafficDistribution": "PreferSameZone"}),
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
    assert_eq!(conflicts(&[]), None);
    let two = [
        export(1, json!({})),
        export(2, json!({"clusterIP": "None", "ipFamilies": ["IPv6"]})),
    ];
    let (reason, message) = conflicts(&merged(&two).conflicts).expect("there are conflicts");
    assert_eq!(reason, "TypeConflict,IPFamilyConflict");
    assert_eq!(
        message,
        "Conflicting type: using that of the oldest export, in member1 (ClusterSetIP); 1 of 2 clusters disagrees: member2 (Headless). \
         Conflicting ipFamilies: using that of the oldest export, in member1 (IPv4); 1 of 2 clusters disagrees: member2 (IPv6)"
    );
    let (reason, message) =
        conflicts(&merged(&all_differ()).conflicts).expect("there are conflicts");
    assert_eq!(
        reason,
        "PortConflict,TypeConflict,SessionAffinityConfigConflict,InternalTrafficPolicyConflict,TrafficDistributionConflict,\
         IPFamilyConflict,LabelsConflict,AnnotationsConflict"
    );
    assert!(
        (900..=bounds::EVENT_NOTE).contains(&message.len()),
        "{message}"
    );
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

/// Returns two exports that agree on nothing and have long texts in several scripts.
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
