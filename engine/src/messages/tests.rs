mod reasons;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway::api::labels;
use causeway::api::multicluster::Version;
use causeway::domain::protected::Protected;
use causeway::domain::{AddressRefusal, FieldErrors, Network, Tier};

use super::*;
use crate::fixtures::{key, name, now};
use crate::model::served::{ImportFields, ServedImports};
use crate::model::slice::Exposure;
use crate::model::{ConfigurationError, Failure, FailureKind, LeftOut, MemberState, Refusal};
use crate::model::{RequiredKind, TimePoint};
use crate::observed::member::Membership;
use crate::observed::quota::BeyondQuota;
use crate::plan::clusterset::Unresolved;
use crate::plan::clusterset::exports::Validity;
use crate::plan::copies::{NotCopied, Refused};
use crate::plan::dns::{Basis, NameState, Routing};
use crate::plan::hostnames::Ambiguous;
use crate::plan::ignored::Ignored;
use crate::plan::not_followed::NotFollowed;
use crate::plan::provider_use::Unused;
use crate::plan::providers::Disagreement;
use crate::plan::providers::Readiness;
use crate::plan::remark::{NotUsed, Remark};
use crate::plan::tiers::{TierState, Tiers};
use crate::problem::{ClusterFacts, IdProblem, MemberProblem, WatchFacts};
use crate::problem::{Problem, ServiceProblem, WriteProblem};
use crate::reasons::Reason;

/// Time that messages show as `2026-01-01T00:00:00Z`.
fn midnight() -> TimePoint {
    let wall = "2026-01-01T00:00:00Z".parse().expect("a time");
    TimePoint { wall, ..now() }
}

fn refused() -> Failure {
    Failure::new(FailureKind::Refused, "connection refused")
}

/// Returns the facts of a cluster of which nothing but its state is reported.
fn cluster_facts<'a>(name: &'a ClusterName, state: &'a MemberState) -> ClusterFacts<'a> {
    ClusterFacts {
        name,
        state,
        outdated: None,
        has_ttl_expired: false,
        suspended: 0,
        unreadable: &[],
        invalid_network: None,
        unknown_reach: None,
        watch: WatchFacts::default(),
        nodes_failure: None,
        paths_failure: None,
        id_problem: None,
    }
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
    let (one, two) = (name("member1"), name("member2"));
    let tiers = tiers(0);
    let slice: Arc<str> = "foo-abc".into();
    let disagreement = Disagreement {
        kept: "foo-xyz".into(),
    };
    let refused = Refused {
        endpoints: 2,
        slices: 1,
        example: Some(NotCopied::Address(AddressRefusal::Outside(
            [10, 0, 0, 1].into(),
        ))),
    };
    let ambiguous = Ambiguous {
        hostname: "foo-0".to_owned(),
        clusters: [one.clone(), two.clone()],
        count: 2,
    };
    let families = Ignored::Families {
        has: vec!["IPv4".into()],
        offered: BTreeSet::from(["IPv6"]),
        providers: BTreeSet::from([one.clone()]),
    };
    let ignored = |why| Remark::Ignored {
        service: key("foo"),
        why,
        clusters: vec![&one, &two],
    };
    let unresolved = Unresolved {
        has: vec!["10.0.0.1".to_owned()],
        wants: vec!["10.0.0.2".to_owned(), "fd00::2".to_owned()],
    };
    let standby = BTreeSet::from([one.clone(), two.clone()]);
    let left_out = vec![
        (&one, NotUsed::LeftOut(&LeftOut::PullWithoutCredentials)),
        (&two, NotUsed::Unused(Unused::Drained)),
    ];
    let misread = FieldErrors::default();
    let not_followed = NotFollowed {
        misread: &misread,
        uses_earliest: true,
        of_headless: vec![labels::PREFER],
    };
    let routing = Routing {
        property: "aws/region".into(),
        without_value: BTreeSet::from([one.clone(), two.clone()]),
        values: BTreeMap::from([(name("east"), "us-east-1".into())]),
    };
    let targets = BTreeMap::from([(name("east"), BTreeSet::from(["192.0.2.1".into()]))]);
    let routed = |state| Remark::Name(vec!["foo.example.com"], state);
    let valueless = |is_held| {
        routed(NameState::NoValue {
            routing: &routing,
            is_held,
        })
    };
    let many: Vec<_> = (1..=7).map(|n| name(&format!("member{n}"))).collect();
    let lasting = ((&one, &slice), &disagreement);
    let table = [
        (
            Remark::NoReadyEndpoint(Exposure::Native),
            "no provider has a ready endpoint",
        ),
        (
            Remark::NoReadyEndpoint(Exposure::Clusterset),
            "no exporter has a ready endpoint",
        ),
        (
            Remark::Unserved(vec![(&one, &tiers), (&two, &tiers)]),
            "no endpoint in member1, member2: mcs.causeway.dev/prefer names only tiers that no provider is in (local, region)",
        ),
        (
            Remark::LeftOut(left_out),
            "left out: member1 (Pull mode without credentials), member2 (withdrawn)",
        ),
        (
            Remark::NotCopied(BTreeMap::from([(&one, &refused)])),
            "not copied: some endpoints and 1 EndpointSlice of member1 (an address is outside the cluster's endpoint-cidrs)",
        ),
        (
            Remark::WritersDisagree(vec![lasting, lasting]),
            "in member1 EndpointSlice foo-abc and those that Kubernetes keeps (foo-xyz) disagree on which endpoints are ready (and 1 \
             more), and the latter decide: stop one of the writers",
        ),
        (
            Remark::Standby(&standby),
            "standby, because out of reach: member1, member2",
        ),
        (
            Remark::NoPath(BTreeMap::from([(&one, BTreeSet::from([&two]))])),
            "no endpoint of member1 answers in member2, so it is used there where no other is ready: kubectl mcs verify foo -n shop",
        ),
        (
            Remark::NotFollowed(not_followed),
            "not followed: withdraw-after=60s is used instead; mcs.causeway.dev/prefer, for the Service is headless and no proxy chooses \
             among its endpoints",
        ),
        (
            routed(NameState::Published {
                targets: &targets,
                routing: Some(&routing),
                basis: Basis::Serving,
                awaited: None,
            }),
            "foo.example.com leads to 192.0.2.1 (east: us-east-1)",
        ),
        (
            valueless(false),
            "foo.example.com does not lead to member1, member2 (no value for aws/region): kubectl annotate --overwrite cluster member1 \
             mcs.causeway.dev/hostname-routing-value=VALUE",
        ),
        (
            valueless(true),
            "no record of foo.example.com changes, because no cluster with a value for aws/region can serve (without a value: member1, \
             member2): kubectl annotate --overwrite cluster member1 mcs.causeway.dev/hostname-routing-value=VALUE",
        ),
        (
            Remark::AmbiguousHostname(ambiguous),
            "foo-0.foo.shop.svc leads to pods of member1 and of member2 (one of 2 such hostnames): use \
             foo-0.member1.foo.shop.svc.clusterset.local, with a ServiceExport shop/foo in each of these clusters",
        ),
        (
            Remark::NoPlace(Tier::Zone, vec![&one, &two]),
            "the Cluster of member1, member2 has no zone, which mcs.causeway.dev/prefer names: kubectl mcs join member1 --member-kubeconfig FILE --zone NAME",
        ),
        (
            ignored(Ignored::LocalPolicy),
            "in member1, member2 Service shop/foo has internalTrafficPolicy Local, so its clients reach no other cluster's pods: in \
             member1, member2: kubectl -n shop patch service foo --type=merge -p '{\"spec\":{\"internalTrafficPolicy\":\"Cluster\"}}'",
        ),
        (
            ignored(families),
            "in member1, member2 Service shop/foo has IPv4 alone, and the endpoints of member1 have IPv6, so its clients do not reach \
             them: set spec.ipFamilyPolicy: PreferDualStack on these Services, where the clusters have both families",
        ),
        (
            Remark::LostCopy(&one, "member2-foo-abc"),
            "in member1 EndpointSlice member2-foo-abc is a copy without its labels and its source is gone: kubectl delete endpointslice \
             member2-foo-abc -n shop",
        ),
        (
            Remark::WorksHidden,
            "unknown whether Karmada manages it too (its Works cannot be read)",
        ),
        (
            Remark::NotConsumers(many.iter().collect()),
            "not imported by member1, member2, member3, member4, member5 and 2 more, which mcs.causeway.dev/consumers does not name",
        ),
        (
            Remark::Unresolved(&one, &unresolved),
            "member1 has a ServiceImport shop/foo of its own with 10.0.0.1 in spec.ips, so foo.shop.svc.clusterset.local does not lead to Service shop/derived-foo, which has 10.0.0.2, fd00::2; there: kubectl -n shop patch serviceimport foo --type=merge -p '{\"spec\":{\"ips\":[\"10.0.0.2\",\"fd00::2\"]}}'; or delete that ServiceImport, and causeway makes one",
        ),
    ];
    for (remark, sentence) in table {
        assert_eq!(remark.sentence(&key("foo")), sentence);
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
fn ready_of_a_cluster_reports_its_state() {
    let since = midnight();
    let cluster = name("member1");
    let unreadable = ["10.0.0/8".into()];
    let facts = |state, has_ttl_expired| ClusterFacts {
        has_ttl_expired,
        ..cluster_facts(&cluster, state)
    };
    let unreachable = MemberState::Unreachable {
        failure: refused(),
        since,
        observed: since,
    };
    let unwatched = MemberState::Unwatched {
        kind: RequiredKind::Services,
        failure: Failure::new(FailureKind::Forbidden, "no"),
        since,
    };
    let duplicate = MemberState::Refused(Refusal::DuplicateOf(name("member2")));
    let pull = MemberState::LeftOut(LeftOut::PullWithoutCredentials);
    let suspended = ClusterFacts {
        suspended: 3,
        unreadable: &unreadable,
        ..facts(&MemberState::Synced, false)
    };
    let network = Network::read("Edge_1");
    let forbidden = Failure::new(FailureKind::Forbidden, "nodes is forbidden");
    let entered = ClusterFacts {
        invalid_network: Some(&network),
        unknown_reach: Some("nodeports"),
        nodes_failure: Some(&forbidden),
        id_problem: Some(IdProblem::Invalid("EU")),
        ..facts(&MemberState::Synced, false)
    };
    let error = ConfigurationError::NoSecretRef;
    let outdated = ClusterFacts {
        outdated: Some(&error),
        ..facts(&MemberState::Synced, false)
    };
    let lost = ClusterFacts {
        outdated: Some(&error),
        ..facts(&unreachable, false)
    };
    assert_eq!(lost.reason(), Some(Reason::Unreachable));
    for (facts, message) in [
        (
            facts(&MemberState::Synced, false),
            "Services and EndpointSlices are watched",
        ),
        (
            suspended,
            "Services and EndpointSlices are watched; deletions of 3 objects are suspended: its last lists lack them, and they are kept \
             until a second list lacks them too; to confirm them now: kubectl mcs confirm-deletions member1; annotation \
             mcs.causeway.dev/endpoint-cidrs has invalid ranges, which are ignored: 10.0.0/8",
        ),
        (
            entered,
            "Services and EndpointSlices are watched; annotation mcs.causeway.dev/network is \"Edge_1\", which is no DNS label; \
             clusters with the same text are one network; annotation mcs.causeway.dev/reach has the unknown value \"nodeports\": \
             what other networks hold stays; write node-ports, node-ports=external, load-balancer, cluster-ip; its Nodes cannot be watched \
             (nodes is forbidden), so clusters of other networks do not reach its pods by node ports; in member1: kubectl apply -f \
             manifests/member/networks.yaml; its ClusterProperty cluster.clusterset.k8s.io is \"EU\", which is no DNS label; until \
             it has another value, the id in the clusterset is member1",
        ),
        (
            lost,
            "its Cluster names no secretRef; join it again: kubectl mcs join, or on a Karmada control plane as docs/karmada.md#credentials-of-members says; its last connection fails: connection refused",
        ),
        (
            outdated,
            "its Cluster names no secretRef; join it again: kubectl mcs join, or on a Karmada control plane as docs/karmada.md#credentials-of-members says; until then its last connection is kept",
        ),
        (
            facts(&MemberState::Syncing, false),
            "the initial lists are not complete",
        ),
        (facts(&unreachable, false), "connection refused"),
        (
            facts(&unreachable, true),
            "connection refused; out of reach for longer than --provider-ttl: its endpoints are not used",
        ),
        (facts(&unwatched, false), "cannot be watched (Services: no)"),
        (
            facts(&duplicate, false),
            "is the same cluster as member2 (one kube-system UID); unjoin one of them",
        ),
        (
            facts(&pull, false),
            "takes no part: Pull mode without credentials; register it with Karmada again: its \
             karmada-agent reports credentials by default (--report-secrets, \
             --cluster-api-endpoint), and may not add them to a Cluster that exists \
             (docs/karmada.md#credentials-of-members)",
        ),
    ] {
        assert_eq!(facts.message(), message);
    }
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
fn exports_that_are_not_imported_say_why() {
    for (validity, message) in [
        (Validity::NoService, "waits for Service shop/foo"),
        (
            Validity::Forbidden,
            "the hub does not let this cluster export from namespace shop (annotation mcs.causeway.dev/export-namespaces of its Cluster)",
        ),
        (
            Validity::Leaving,
            "this cluster is taken out of the clusterset, and with it what it exports",
        ),
        (
            Validity::Withdrawn,
            "nothing that this cluster provides is used (annotation mcs.causeway.dev/withdraw of its Cluster)",
        ),
        (
            Validity::BeyondQuota(BeyondQuota::Exports(10)),
            "QUOTA; the oldest are served: delete ServiceExports that are not needed, or raise the flag",
        ),
        (
            Validity::InvalidServiceType,
            "Service shop/foo cannot be exported",
        ),
    ] {
        let quota = BeyondQuota::Exports(10).to_string();
        let message = message.replace("QUOTA", &quota);
        assert_eq!(exports::not_exported(&key("foo"), validity), message);
    }
    let invalid = |reason| exports::invalid(reason, &name("member1"), &key("foo"));
    assert_eq!(
        invalid(Reason::NoService),
        "member1 has no Service shop/foo; make it, or delete the ServiceExport"
    );
    assert_eq!(
        invalid(Reason::InvalidServiceType),
        "Service shop/foo is an ExternalName and has no endpoints; export a Service with a selector"
    );
}

#[test]
fn problems_of_a_member_follow_its_name() {
    let taken = ServiceProblem::ExternalName(key("foo"));
    let deleting = WriteProblem::NamespaceTerminating("shop".into());
    for (problem, text) in [
        (
            MemberProblem::Unusable(MemberState::NotJoined),
            "is not joined",
        ),
        (
            MemberProblem::Service(taken),
            "has a Service shop/foo of its own that is an ExternalName; remove or rename it",
        ),
        (
            MemberProblem::Write(deleting),
            "namespace shop is being deleted there",
        ),
        (
            MemberProblem::NoService(key("foo")),
            "has no Service shop/foo",
        ),
        (
            MemberProblem::ServiceDeleting(key("foo")),
            "is deleting its Service shop/foo",
        ),
        (
            MemberProblem::NoSlice(key("foo")),
            "has no EndpointSlice of Service foo",
        ),
        (
            MemberProblem::NotSeen(2),
            "2 EndpointSlices were written and are not seen back",
        ),
        (
            MemberProblem::ClustersetHidden(refused()),
            "does not show its ServiceExports and ServiceImports (connection refused)",
        ),
    ] {
        assert_eq!(problem.to_string(), text);
    }
}

#[test]
fn problems_of_the_hub_name_the_consequence() {
    let until = Some(midnight());
    for (problem, message) in [
        (
            Problem::ServiceNotFound { held_until: None },
            "the hub has no Service shop/foo; nothing of it is offered to other clusters",
        ),
        (
            Problem::ServiceNotFound { held_until: until },
            "the hub has no Service shop/foo; what the clusters hold is kept until 2026-01-01T00:00:00Z",
        ),
        (
            Problem::ExternalName,
            "Service shop/foo is an ExternalName and has no endpoints; expose a Service with a selector",
        ),
        (
            Problem::Protected(Protected::Namespace("shop".to_owned())),
            "namespace shop is protected; start causeway with --allow-namespace shop to allow it",
        ),
    ] {
        assert_eq!(problem::problem(&key("foo"), &problem), message);
    }
}

#[test]
fn events_of_tiers_name_the_shares() {
    let change = |tiers: &Tiers, provider: &str, was_standby| {
        let change = tiers.change(&name("member1"), &name(provider), was_standby);
        change.map(|event| format!("{}: {}", event.reason, event.note))
    };
    let (few, enough) = (tiers(1), tiers(4));
    assert_eq!(
        change(&few, "member2", true).as_deref(),
        Some("Promoted: member1 uses region (member2): local has 1 of 4 endpoints ready")
    );
    assert_eq!(
        change(&enough, "member2", false).as_deref(),
        Some("Demoted: member1 has region (member2) as standby: local has 4 of 4 endpoints ready")
    );
    assert_eq!(change(&enough, "member2", true), None);
    let waits = Tiers {
        enough_since: Some(midnight()),
        active: 2,
        ..enough
    };
    assert_eq!(
        waits.why_promoted(),
        "local has 4 of 4 endpoints ready since 2026-01-01T00:00:00Z; failback at 2026-01-01T00:00:30Z"
    );
    let unreachable = Tiers {
        unreachable: BTreeSet::from([name("member3")]),
        ..tiers(4)
    };
    assert_eq!(
        change(&unreachable, "member3", false).as_deref(),
        Some(
            "Demoted: member1: member3 cannot be reached; its endpoints are used where no other is ready"
        )
    );
}
