//! Properties of the exports of any service.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::bounds;
use causeway::domain::ServicePort;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::super::Conflict;
use super::{Export, ImportShape, export, merged};
use crate::messages::conflict::conflicts;
use crate::observed::service::PortShape;

const NAMES: [&str; 8] = ["", "", "http", "grpc", "tcp-80", "tcp-81", "udp-80", "dns"];

const FAMILIES: [&[&str]; 5] = [
    &["IPv4"],
    &["IPv6"],
    &["IPv4", "IPv6"],
    &["IPv6", "IPv4"],
    &[],
];

/// Generates ports as Services have them, and lists that no API server stores.
fn ports() -> impl Strategy<Value = Value> {
    let port = (
        select(&NAMES[..]),
        79..83u16,
        select(&["TCP", "UDP"][..]),
        select(&[None, Some("h2c")][..]),
    );
    let port = port.prop_map(|(name, number, protocol, app)| {
        json!({"name": name, "port": number, "protocol": protocol, "appProtocol": app})
    });
    prop::collection::vec(port, 0..4).prop_map(Value::from)
}

fn words() -> impl Strategy<Value = Value> {
    let all = vec![
        ("team", "a"),
        ("team", "b"),
        ("tier", "web"),
        ("-", "x"),
        ("mcs.causeway.dev/hub", "x"),
    ];
    subsequence(all, 0..3).prop_map(|all| {
        all.into_iter()
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .collect()
    })
}

fn spec() -> impl Strategy<Value = Value> {
    let families = select(&FAMILIES[..]);
    let address = select(&["10.0.0.1", "None"][..]);
    let affinity = select(&[None, Some(60), Some(10_800)][..]);
    let policy = select(&[None, Some("Cluster"), Some("Local")][..]);
    let preference = select(&[None, Some("PreferClose"), Some("PreferSameZone")][..]);
    (ports(), address, affinity, policy, preference, families).prop_map(
        |(ports, address, affinity, policy, preference, families)| {
            let config = affinity.map(|seconds| json!({"clientIP": {"timeoutSeconds": seconds}}));
            json!({
                "ports": ports, "clusterIP": address, "ipFamilies": families, "internalTrafficPolicy": policy,
                "trafficDistribution": preference, "sessionAffinityConfig": config,
                "sessionAffinity": if affinity.is_some() { "ClientIP" } else { "None" },
            })
        },
    )
}

fn any_export(member: u8) -> impl Strategy<Value = Export> {
    let created = prop::option::of(10..13i64);
    (spec(), words(), words(), created).prop_map(move |(spec, labels, annotations, created)| {
        let exported = json!({"exportedLabels": labels, "exportedAnnotations": annotations});
        export(member, spec).exporting(exported).created(created)
    })
}

/// Generates exports of one to five clusters, the oldest first.
fn exports() -> impl Strategy<Value = Vec<Export>> {
    let all = (1..=5u8).map(any_export).collect::<Vec<_>>();
    (all, 1..=5usize).prop_map(|(mut all, count)| {
        all.truncate(count);
        all.sort_by_key(|export| {
            (
                export.created.is_none(),
                export.created,
                export.cluster.clone(),
            )
        });
        all
    })
}

/// Returns the import's shape as the export of one cluster alone.
fn as_export(shape: &ImportShape) -> Export {
    let port = |port: &PortShape| {
        let id = port.port.id;
        json!({"name": port.port.name, "port": id.number, "protocol": id.protocol.as_str(), "appProtocol": port.app_protocol})
    };
    let config = shape
        .affinity_seconds
        .map(|seconds| json!({"clientIP": {"timeoutSeconds": seconds}}));
    let spec = json!({
        "ports": shape.ports.iter().map(port).collect::<Vec<_>>(), "clusterIP": if shape.headless { "None" } else { "10.0.0.1" },
        "sessionAffinity": shape.session_affinity, "sessionAffinityConfig": config,
        "ipFamilies": shape.ip_families.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "internalTrafficPolicy": shape.internal_traffic_policy, "trafficDistribution": shape.traffic_distribution,
    });
    export(1, spec).exporting(
        json!({"exportedLabels": shape.labels, "exportedAnnotations": shape.annotations}),
    )
}

/// Returns ports without the names that they have only because there are several.
fn unnamed(ports: &[PortShape]) -> Vec<PortShape> {
    let without = |port: &PortShape| {
        let mut port = port.clone();
        let nameless = ServicePort {
            name: "".into(),
            ..port.port.clone()
        };
        if *port.port.name == *as_named(&nameless) {
            port.port = nameless;
        }
        port
    };
    ports.iter().map(without).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_in_which_exports_are_observed_means_nothing((one, other) in exports().prop_flat_map(|all| {
        let shuffled = Just(all.clone()).prop_shuffle();
        (Just(all), shuffled)
    })) {
        prop_assert_eq!(merged(&one), merged(&other));
    }

    #[test]
    fn merging_what_was_merged_changes_nothing(exports in exports()) {
        let shape = merged(&exports).shape;
        let again = [as_export(&shape), Export { cluster: "member2".try_into().expect("a name"), ..as_export(&shape) }];
        prop_assert_eq!(merged(&again[..1]).shape, shape.clone());
        prop_assert_eq!(merged(&again).shape, shape);
        prop_assert_eq!(merged(&again).conflicts, vec![]);
    }

    #[test]
    fn a_younger_export_takes_no_port_away_and_changes_no_other_field(exports in exports()) {
        for count in 1..exports.len() {
            let (before, after) = (merged(&exports[..count]), merged(&exports[..=count]));
            let ports = after.shape.ports.clone();
            prop_assert_eq!(after.shape, ImportShape { ports: ports.clone(), ..before.shape.clone() });
            let kept = &ports[..before.shape.ports.len()];
            prop_assert_eq!(unnamed(kept), unnamed(&before.shape.ports));
            if before.shape.ports.iter().all(|port| !port.port.name.is_empty()) {
                prop_assert_eq!(kept, &before.shape.ports);
            }
            let reasons = |all: &[Conflict]| all.iter().map(|one| one.reason()).collect::<BTreeSet<_>>();
            prop_assert!(reasons(&before.conflicts).is_subset(&reasons(&after.conflicts)));
        }
    }

    #[test]
    fn every_name_and_every_number_of_a_protocol_is_there_once(exports in exports()) {
        let ports = merged(&exports).shape.ports;
        let names: BTreeSet<_> = ports.iter().map(|port| &port.port.name).collect();
        let ids: BTreeSet<_> = ports.iter().map(|port| port.port.id).collect();
        prop_assert_eq!((names.len(), ids.len()), (ports.len(), ports.len()));
        prop_assert!(ports.len() < 2 || ports.iter().all(|port| !port.port.name.is_empty()));
        let nameless_is_there = unnamed(&ports).iter().any(|port| port.port.name.is_empty());
        for shape in exports.iter().flat_map(|export| &export.service.shape.ports) {
            let port = &shape.port;
            let is_there = |other: &PortShape| {
                other.port.id == port.id || as_named(&other.port) == as_named(port)
            };
            let is_taken = ports.iter().any(is_there) || port.name.is_empty() && nameless_is_there;
            prop_assert!(is_taken, "{port:?} is missing from {ports:?}");
        }
    }

    #[test]
    fn exports_conflict_just_where_one_of_them_differs_from_the_oldest(exports in exports()) {
        let all = merged(&exports);
        let text = conflicts(&all.conflicts);
        prop_assert_eq!(text.is_some(), !all.conflicts.is_empty());
        let pairs = exports[1..].iter().flat_map(|other| merged(&[exports[0].clone(), other.clone()]).conflicts.into_iter().map(|one| one.reason()).collect::<Vec<_>>());
        let by_pairs: BTreeSet<_> = pairs.collect();
        let found: BTreeSet<_> = all.conflicts.iter().map(|one| one.reason()).collect();
        prop_assert_eq!(found, by_pairs);
        if let Some((reason, message)) = text {
            prop_assert!(reason.len() <= bounds::CONDITION_REASON && message.len() <= bounds::EVENT_NOTE);
        }
    }

    #[test]
    fn growing_never_shrinks_or_changes_and_is_done_once(record in exports(), now in exports()) {
        let (record, now) = (merged(&record).shape, merged(&now).shape);
        let grown = ImportShape::grown_from(&record, Some(&now));
        prop_assert_eq!(&grown.ports[..record.ports.len()], &record.ports[..]);
        let ports = grown.ports.clone();
        prop_assert_eq!(&grown, &ImportShape { ports: ports.clone(), ..record });
        let names: BTreeSet<_> = ports.iter().map(|port| &port.port.name).collect();
        let ids: BTreeSet<_> = ports.iter().map(|port| port.port.id).collect();
        prop_assert_eq!((names.len(), ids.len()), (ports.len(), ports.len()));
        prop_assert_eq!(ImportShape::grown_from(&grown, Some(&now)), grown);
    }
}

/// Returns the name of a port among others.
fn as_named(port: &ServicePort) -> String {
    match port.name.is_empty() {
        true => format!(
            "{}-{}",
            port.id.protocol.as_str().to_lowercase(),
            port.id.number
        ),
        false => port.name.to_string(),
    }
}
