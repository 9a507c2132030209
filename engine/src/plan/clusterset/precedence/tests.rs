use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{Claim, Precedence, places, put};
use crate::fixtures::{key, name};
use crate::observed::clusterset::ExportView;
use crate::seal::Seal;

const NOW: i64 = 1_800_000_000;
const HUB: &str = "hub";

fn seal() -> Seal {
    Seal::new(b"the hub's")
}

fn at(before: i64) -> Timestamp {
    Timestamp::constant(NOW - before, 0)
}

/// Returns an export that was created `before` seconds before now, as its cluster reports.
fn made(before: i64) -> ExportView {
    let object = json!({
        "metadata": {"name": "foo", "namespace": "shop", "uid": "u", "resourceVersion": "1", "creationTimestamp": at(before).to_string()},
    });
    let object = serde_json::from_value(object).expect("an export");
    ExportView::read(&object, None).expect("an export as API servers send it")
}

/// Returns the same export with the precedence condition that causeway wrote at `when`.
fn seen(before: i64, when: Timestamp) -> ExportView {
    let mut export = made(before);
    let (cluster, key) = (name("member1"), key("foo"));
    let claim = Claim::new(&cluster, &key, &export);
    let (_, written) = places(&[claim], Some(&seal()), HUB, when).remove(0);
    let written = written.map(|time| time.condition(HUB));
    put(written, HUB, &mut export.conditions);
    export
}

fn place_of(cluster: &str, export: &ExportView, now: Timestamp) -> (Precedence, bool) {
    let (cluster, key) = (name(cluster), key("foo"));
    let claim = Claim::new(&cluster, &key, export);
    let (place, written) = places(&[claim], Some(&seal()), HUB, now).remove(0);
    (place, written.is_some())
}

fn order(exports: &[&ExportView], seal: Option<&Seal>, now: Timestamp) -> Vec<usize> {
    let (cluster, key) = (name("member1"), key("foo"));
    let claims = exports
        .iter()
        .map(|export| Claim::new(&cluster, &key, export));
    let claims: Vec<_> = claims.collect();
    let places = places(&claims, seal, HUB, now);
    let mut order: Vec<_> = (0..exports.len()).collect();
    order.sort_by_key(|number| places[*number].0);
    order
}

#[test]
fn an_export_counts_from_its_creation_but_from_little_before_it_was_first_seen() {
    for (made_before, counts_before) in [
        (0, 0),
        (7, 7),
        (300, 300),
        (301, 300),
        (1_000_000, 300),
        (-60, 0),
    ] {
        let (place, to_write) = place_of("member1", &made(made_before), at(0));
        assert_eq!(place.since, at(counts_before), "{made_before}");
        assert_eq!(place.created, at(made_before));
        assert!(to_write);
    }
}

#[test]
fn what_is_written_stands_whatever_time_it_is() {
    let export = seen(1_000_000, at(5000));
    let place = Precedence {
        since: at(5300),
        created: at(1_000_000),
    };
    for now in [at(5000), at(0), at(5600)] {
        assert_eq!(place_of("member1", &export, now), (place, false));
    }
}

#[test]
fn what_a_clock_wrote_that_was_far_ahead_is_written_again() {
    let (older, younger) = (seen(2000, at(-86_400)), seen(1000, at(990)));
    let (place, to_write) = place_of("member1", &older, at(0));
    assert!(to_write && place.since == at(300), "{place:?}");
    let lately = seen(10, at(-86_400));
    assert_eq!(place_of("member1", &lately, at(0)).0.since, at(10));
    assert_eq!(order(&[&younger, &lately], Some(&seal()), at(0)), [0, 1]);
}

#[test]
fn who_comes_later_with_an_earlier_creation_comes_after_those_that_were_seen() {
    let (honest, forged) = (seen(2000, at(1990)), made(1_000_000));
    assert_eq!(order(&[&forged, &honest], Some(&seal()), at(0)), [1, 0]);
    assert_eq!(
        order(&[&forged, &honest], None, at(0)),
        [0, 1],
        "without a key"
    );
}

#[test]
fn those_that_are_first_seen_together_or_nearly_are_in_the_order_of_their_creation() {
    let (younger, older) = (made(1_000_000), made(2_000_000));
    assert_eq!(order(&[&younger, &older], Some(&seal()), at(0)), [1, 0]);
    let younger = seen(1_000_000, at(290));
    assert_eq!(order(&[&younger, &older], Some(&seal()), at(0)), [1, 0]);
    let younger = seen(1_000_000, at(310));
    assert_eq!(order(&[&younger, &older], Some(&seal()), at(0)), [0, 1]);
    let (younger, older) = (seen(3, at(2)), made(4));
    assert_eq!(order(&[&younger, &older], Some(&seal()), at(0)), [1, 0]);
}

#[test]
fn what_a_cluster_writes_itself_or_brings_from_elsewhere_counts_for_nothing() {
    let honest = seen(1_000_000, at(5000));
    let first_seen_now = |cluster: &str, export: &ExportView| {
        let (place, to_write) = place_of(cluster, export, at(0));
        to_write && place.since == at(300)
    };
    assert!(!first_seen_now("member1", &honest));
    assert!(first_seen_now("member2", &honest), "another's");
    type Change = fn(&mut ExportView);
    let changes: [Change; 5] = [
        |export| export.uid = "another".into(),
        |export| export.created = Some(at(2_000_000)),
        |export| {
            let since = &mut export.conditions[0].last_transition_time.0;
            *since = since
                .saturating_sub(SignedDuration::from_secs(1))
                .expect("a time");
        },
        |export| export.conditions[0].message = "seal".to_owned(),
        |export| export.conditions[0].type_ = "another-hub.mcs.causeway.dev/Precedence".to_owned(),
    ];
    for change in changes {
        let mut forged = honest.clone();
        change(&mut forged);
        assert!(first_seen_now("member1", &forged), "{forged:?}");
    }
}
