mod reasons;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway::api::labels;
use causeway::api::multicluster::Version;
use causeway::domain::{FieldErrors, Tier};

use super::*;
use crate::fixtures::{key, name, now};
use crate::model::served::{ImportFields, ServedImports};
use crate::model::{Failure, FailureKind, TimePoint};
use crate::observed::member::Membership;
use crate::plan::clusterset::Unresolved;
use crate::plan::not_followed::NotFollowed;
use crate::plan::provider_use::Unused;
use crate::plan::providers::Disagreement;
use crate::plan::providers::Readiness;
use crate::plan::tiers::{TierState, Tiers};
use crate::problem::MemberProblem;

/// Time that messages show as `2026-01-01T00:00:00Z`.
fn midnight() -> TimePoint {
    let wall = "2026-01-01T00:00:00Z".parse().expect("a time");
    TimePoint { wall, ..now() }
}

fn refused() -> Failure {
    Failure::new(FailureKind::Refused, "connection refused")
}

fn tiers(ready: usize) -> Tiers {
    let state = |tier, cluster, ready| TierState {
        tier: Some(tier),
        clusters: vec![name(cluster)],
        readiness: Readiness {
            ready,
            total: 4,
            unfit: 0,
        },
        is_known: true,
    };
    let all = vec![
        state(Tier::Local, "member1", ready),
        state(Tier::Region, "member2", 4),
    ];
    Tiers {
        active: if ready < 4 { 2 } else { 1 },
        all,
        ..Tiers::default()
    }
}

#[test]
fn remarks_name_object_value_and_remedy() {
    let (key, one, two) = (key("foo"), name("member1"), name("member2"));
    let slice: Arc<str> = "foo-abc".into();
    let disagreement = Disagreement {
        kept: "foo-xyz".into(),
    };
    let unresolved = Unresolved {
        has: vec!["10.0.0.1".to_owned()],
        wants: vec!["10.0.0.2".to_owned(), "fd00::2".to_owned()],
    };
    let misread = FieldErrors::default();
    let not_followed = NotFollowed {
        misread: &misread,
        uses_earliest: true,
        of_headless: vec![labels::PREFER],
    };
    let many: Vec<_> = (1..=7).map(|n| name(&format!("member{n}"))).collect();
    let lasting = ((&one, &slice), &disagreement);
    let table = [
        (
            remarks::writers_disagree(&[lasting, lasting]),
            "in member1 EndpointSlice foo-abc and those that Kubernetes keeps (foo-xyz) disagree on which endpoints are ready (and 1 \
             more), and the latter decide: stop one of the writers",
        ),
        (
            remarks::no_path(&key, &BTreeMap::from([(&one, BTreeSet::from([&two]))])),
            "no endpoint of member1 answers in member2, so it is used there where no other is ready: kubectl mcs verify foo -n shop",
        ),
        (
            remarks::not_followed(&not_followed),
            "not followed: withdraw-after=60s is used instead; mcs.causeway.dev/prefer, for the Service is headless and no proxy chooses \
             among its endpoints",
        ),
        (
            remarks::lost_copy(&key, &one, "member2-foo-abc"),
            "in member1 EndpointSlice member2-foo-abc is a copy without its labels and its source is gone: kubectl delete endpointslice \
             member2-foo-abc -n shop",
        ),
        (
            remarks::not_consumers(&many.iter().collect::<Vec<_>>()),
            "not imported by member1, member2, member3, member4, member5 and 2 more, which mcs.causeway.dev/consumers does not name",
        ),
        (
            remarks::unresolved(&key, &one, &unresolved),
            "member1 has a ServiceImport shop/foo of its own with 10.0.0.1 in spec.ips, so foo.shop.svc.clusterset.local does not lead to Service shop/derived-foo, which has 10.0.0.2, fd00::2; there: kubectl -n shop patch serviceimport foo --type=merge -p '{\"spec\":{\"ips\":[\"10.0.0.2\",\"fd00::2\"]}}'; or delete that ServiceImport, and causeway makes one",
        ),
    ];
    for (remark, sentence) in table {
        assert_eq!(remark, sentence);
    }
}

#[test]
fn unused_providers_have_a_word_each() {
    for (unused, words) in [
        (Unused::NotJoined, "is not joined"),
        (Unused::Drained, "withdrawn"),
        (Unused::Duplicate, "the same cluster as another"),
        (
            Unused::TtlExpired,
            "out of reach for longer than --provider-ttl",
        ),
        (
            Unused::WithdrawAfter,
            "out of reach for longer than withdraw-after",
        ),
    ] {
        assert_eq!(unused.to_string(), words);
    }
    assert_eq!(
        native::no_providers(&key("foo"), &[]),
        "no cluster backs shop/foo: spec.providerClusters names no joined cluster"
    );
}

#[test]
fn clusterset_api_names_missing_definitions() {
    let version = Version::default();
    let fields = ImportFields::ALL;
    let served = ServedImports { version, fields };
    let part = |exports, imports: bool| Membership::Part {
        exports,
        imports: imports.then_some(served),
    };
    let install = "not installed there; apply manifests/crds/member/, or join the cluster again";
    for (membership, message) in [
        (
            part(None, false),
            format!("ServiceExport and ServiceImport are {install}"),
        ),
        (part(None, true), format!("ServiceExport is {install}")),
        (
            part(Some(version), false),
            format!("ServiceImport is {install}"),
        ),
        (
            Membership::Failing(refused()),
            "ServiceExports and ServiceImports cannot be watched (connection refused)".to_owned(),
        ),
    ] {
        assert_eq!(cluster::clusterset_api(&membership), Some(message));
    }
    assert_eq!(cluster::clusterset_api(&Membership::Unknown), None);
}

#[test]
fn hidden_clusterset_of_a_member_names_the_failure() {
    assert_eq!(
        MemberProblem::ClustersetHidden(refused()).to_string(),
        "does not show its ServiceExports and ServiceImports (connection refused)"
    );
}

#[test]
fn promotion_names_shares_and_failback() {
    assert_eq!(tiers(1).why_promoted(), "local has 1 of 4 endpoints ready");
    let waits = Tiers {
        enough_since: Some(midnight()),
        active: 2,
        ..tiers(4)
    };
    assert_eq!(
        waits.why_promoted(),
        "local has 4 of 4 endpoints ready since 2026-01-01T00:00:00Z; failback at 2026-01-01T00:00:30Z"
    );
}
