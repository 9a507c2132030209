//! Sentence and remedy of every reason.

use causeway::domain::protected::Protected;
use causeway::domain::{
    AddressRefusal, Consumers, FieldError, PortId, Preference, Protocol, ServicePort, Unreachable,
};
use k8s_openapi::api::core::v1::LoadBalancerIngress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::*;
use crate::fixtures::env;
use crate::messages::cluster::{AccessSource, ClusterFacts};
use crate::messages::copies::Slice;
use crate::messages::endpoint::Endpoint;
use crate::messages::profiles;
use crate::model::slice::SourceEndpoint;
use crate::model::{Configuration, ConfigurationError, LeftOut, MemberState, ObjectEvent, Refusal};
use crate::observed::member::{NamespaceState, OtherController};
use crate::observed::quota::BeyondQuota;
use crate::observed::service::ServiceKind;
use crate::plan::clusterset::ImportedByKarmada;
use crate::plan::clusterset::exports::Validity;
use crate::plan::clusterset::import::Unready;
use crate::plan::clusterset::merge::{Conflict, ConflictingValue as Value, Words as Texts};
use crate::plan::clusterset::precedence::SealedTime;
use crate::plan::copies::Skipped;
use crate::plan::dns::{Basis, NameState, Routing};
use crate::plan::entry::{EntryUnknown, NoEntry};
use crate::plan::entry_clusters::{EntryCluster, EntryState, NoAddress};
use crate::plan::hostnames::Ambiguous;
use crate::plan::ignored::Ignored;
use crate::plan::port_fit::MissingPort;
use crate::plan::provider_use::Unused;
use crate::plan::providers::{Disagreement, Unfit};
use crate::problem::{Problem, ServiceProblem, State, tally};
use crate::reasons::Reason;

/// Problems that no command of a person solves.
const WITHOUT_REMEDY: [Reason; 5] = [
    Reason::LeftOut,
    Reason::AddressTypeNotSupported,
    Reason::SliceInvalid,
    Reason::TooManyEndpoints,
    Reason::TooManySlices,
];

/// Sentence of a reason, and where it is published.
enum Words {
    Diagnosis(Diagnosis),
    Event(ObjectEvent),
    /// Reason and message of a condition.
    Condition(String, String),
    /// Another crate has the sentence, because it alone knows the fact.
    Elsewhere,
}

impl From<Diagnosis> for Words {
    fn from(diagnosis: Diagnosis) -> Self {
        Self::Diagnosis(diagnosis)
    }
}

impl From<Option<Diagnosis>> for Words {
    fn from(diagnosis: Option<Diagnosis>) -> Self {
        Self::Diagnosis(diagnosis.expect("a diagnosis"))
    }
}

impl From<ObjectEvent> for Words {
    fn from(event: ObjectEvent) -> Self {
        Self::Event(event)
    }
}

impl From<Condition> for Words {
    fn from(condition: Condition) -> Self {
        Self::Condition(condition.reason, condition.message)
    }
}

impl<M: Into<String>> From<(Reason, M)> for Words {
    fn from((reason, message): (Reason, M)) -> Self {
        Self::Condition(reason.into(), message.into())
    }
}

impl From<Value> for Words {
    fn from(value: Value) -> Self {
        let used = (name("member1"), value.clone());
        let conflict = Conflict {
            used,
            added: Vec::new(),
            others: vec![(name("member2"), value)],
            count: 1,
            total: 2,
        };
        let (reason, message) = conflict::conflicts(&[conflict]).expect("a conflict");
        Self::Condition(reason, message)
    }
}

fn not_ready(reason: Reason) -> Condition {
    Condition {
        type_: "Ready".to_owned(),
        status: "False".to_owned(),
        reason: reason.into(),
        message: "as the controller reports it".to_owned(),
        observed_generation: None,
        last_transition_time: Time(midnight().wall),
    }
}

fn of_cluster(state: &MemberState, configuration: Configuration) -> Words {
    let (mut env, name) = (env(), name("member1"));
    env.member("member1");
    let now = env.now();
    env.index.note_configuration(&name, configuration, now);
    let facts = ClusterFacts {
        index: &env.index,
        name: &name,
        cluster: env.index.cluster(&name).expect("a Cluster"),
        state,
    };
    (facts.reason().expect("a reason"), facts.message()).into()
}

fn failed(reason: Reason, problem: MemberProblem) -> Words {
    let cluster = name("member1");
    let tally = tally("consumers", vec![(&cluster, State::Failed(problem))]);
    (reason, tally.message()).into()
}

/// Returns what `explain` reports of a name.
fn name_words(reason: Reason) -> Words {
    let failure = super::refused();
    let targets = BTreeMap::from([(name("member1"), BTreeSet::from(["192.0.2.1".into()]))]);
    let published = |basis| NameState::Published {
        targets: &targets,
        routing: None,
        basis,
        awaited: None,
    };
    let routing = Routing {
        property: "aws/region".into(),
        without_value: BTreeSet::from([name("member1")]),
        values: BTreeMap::new(),
    };
    let state = match reason {
        Reason::NamePublished => published(Basis::Serving),
        Reason::NameHeld => published(Basis::Last),
        Reason::NameNotRead => NameState::Unreadable(&failure),
        Reason::NoRoutingValue => NameState::NoValue {
            routing: &routing,
            is_held: false,
        },
        _ => NameState::NotServed,
    };
    crate::messages::name::diagnosis(&key("foo"), &["foo.example.com"], &state).into()
}

/// Returns the words of a reason. A reason without an arm does not compile.
fn words(reason: Reason) -> Words {
    use Reason as R;
    let (one, two, key) = (name("member1"), name("member2"), key("foo"));
    let (one, two, key) = (&one, &two, &key);
    let port = ServicePort {
        id: PortId {
            protocol: Protocol::Tcp,
            number: 80,
        },
        name: "http".into(),
    };
    let tiers = tiers(1);
    let endpoint = Endpoint {
        key,
        provider: two,
        consumer: one,
        slice: "foo-abc",
    };
    let slice = Slice {
        key,
        provider: two,
        name: "foo-abc",
    };
    let node = SourceEndpoint {
        address: [192, 168, 1, 1].into(),
        more: &[],
        hostname: None,
        zone: None,
        node: Some("n1"),
        conditions: [Some(true); 3],
    };
    let refused = |refusal| endpoint.refused::<String>(&refusal, &[]);
    let skipped = |unfit| slice.skipped(&Skipped::Unfit(unfit));
    let address = [127, 0, 0, 1].into();
    let native_problem = |problem: &Problem| native::problem(key, problem, false);
    let service_problem = |problem: &ServiceProblem| service::problem(key, one, problem);
    let ignored = |why: &Ignored| service::ignored(key, one, why);
    let texts = || Texts {
        apart: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        share_others: false,
    };
    let served = |is_served: bool| {
        let version = Version::default();
        let fields = ImportFields::ALL;
        let membership = Membership::Part {
            exports: is_served.then_some(version),
            imports: is_served.then_some(ServedImports { version, fields }),
        };
        (
            reason,
            cluster::clusterset_api(&membership).expect("a message"),
        )
    };
    let entry = |state| {
        let addresses = Some(vec![LoadBalancerIngress {
            ip: Some("192.0.2.1".to_owned()),
            ..LoadBalancerIngress::default()
        }]);
        entry_clusters::diagnosis(key, one, &EntryCluster { addresses, state }).into()
    };
    let (since, stored) = (midnight(), AccessSource::Cluster);
    match reason {
        R::Copied => endpoint.copied().into(),
        R::EntryCopied => endpoint.by_entry(&node, &[], true).into(),
        R::Own => endpoint.own().into(),
        R::NotReady => endpoint.unready().into(),
        R::Standby => endpoint.of_unreachable().into(),
        R::Promoted => endpoint.promoted(&tiers).into(),
        R::NotPreferred => endpoint.not_preferred(&tiers).into(),
        R::NoPreferredProvider => service::no_preferred_provider(one, &tiers).into(),
        R::Kept => endpoint.kept().into(),
        R::CopiedByKarmada => endpoint.copied_by_karmada().into(),
        R::ManagedByKarmada => karmada::managed(key, "shop/work").into(),
        R::NotDispatchedByKarmada => karmada::not_dispatched(key, one).into(),
        R::LeftByKarmada => karmada::left(key, [one].into_iter()).into(),
        R::ImportedByKarmada => {
            let imported = ImportedByKarmada {
                left: vec![one.clone()],
                own: vec![two.clone()],
            };
            karmada::imported(key, imported.sentence(key)).into()
        }
        R::StaleEndpoints => {
            karmada::stale(key, one, "member2", "member2-foo-abc", &[address]).into()
        }
        // kubectl-mcs reads ResourceBindings and the Lease.
        R::NotPropagated | R::ControllerNotRunning => Words::Elsewhere,
        // The domain crate has the sentence for the webhook, too.
        R::NotAMember => Words::Elsewhere,
        R::NotExposed => leftovers::not_exposed(key, [(one, "timeout")].into_iter().take(0)).into(),
        R::Leftovers => leftovers::leftovers(key, [one]).into(),
        R::ImportWithoutExport => leftovers::import_without_export(key, one, None).into(),
        R::Deleting => native::deleting(key, vec![one], ["a/b"].into_iter()).into(),
        R::Invalid => native::invalid(key, &"spec.types: unknown").into(),
        R::NamespaceProtected => {
            exports::protected(&Protected::Namespace("shop".to_owned())).into()
        }
        R::NoHubService => native_problem(&Problem::ServiceNotFound { held_until: None }).into(),
        R::ExternalName => service::external_name(key, two).into(),
        R::LoadBalancer => native::load_balancer(key).into(),
        R::EntryCluster => entry(EntryState::Serves),
        R::EntryHeld => entry(EntryState::Unknown),
        R::EntryNotServing => entry(EntryState::NoEndpoint { is_local: true }),
        R::EntryUnused => entry(EntryState::GivenUp),
        R::NoEntryAddress => entry(EntryState::NoAddress(NoAddress::NoService)),
        R::EntryNotLoadBalancer => entry(EntryState::NoAddress(NoAddress::OtherType)),
        R::NamePublished | R::NameHeld | R::NameNotPublished | R::NameNotRead => name_words(reason),
        R::NoRoutingValue => name_words(reason),
        R::PortNotFound => native_problem(&Problem::PortNotFound {
            missing: Vec::new(),
            has: vec![port],
            held_until: None,
        })
        .into(),
        R::PortNotExposed => native::ports_not_exposed(key, &[port]).into(),
        R::NoEndpoints => service::no_endpoints(key, &BTreeSet::new()).into(),
        R::NotObserved => native::not_observed(key, true).into(),
        R::NotJoined => cluster::not_joined(one).into(),
        R::LeftOut => cluster::left_out(one, &LeftOut::TooOld("v1.20.0".to_owned())).into(),
        R::PullWithoutCredentials => {
            cluster::left_out(one, &LeftOut::PullWithoutCredentials).into()
        }
        R::MemberTerminating => cluster::terminating(one).into(),
        R::DuplicateMember => cluster::refused(one, &Refusal::DuplicateOf(two.clone())).into(),
        R::Drained => cluster::unused(one, Unused::Drained, stored).into(),
        R::ProviderTtlExpired => cluster::unused(one, Unused::TtlExpired, stored).into(),
        R::MemberUnreachable => cluster::not_ready(one, &not_ready(R::Unreachable), stored).into(),
        R::MemberRefused => cluster::not_ready(one, &not_ready(R::Refused), stored).into(),
        R::MemberPending => cluster::not_engaged(one).into(),
        R::MemberNotRead => cluster::unread(one, &super::refused()).into(),
        R::NamespaceNotRead => native::namespace_unread(key, &super::refused()).into(),
        R::ImportNotRead => karmada::import_unread(key, &super::refused()).into(),
        R::DeletionsSuspended => cluster::suspended(one, &not_ready(reason)).into(),
        R::DefinitionMissing => exports::not_served(one, None).into(),
        R::NamespaceMissing => service::namespace("shop", one, NamespaceState::Missing).into(),
        R::NamespaceTerminating => {
            service::namespace("shop", one, NamespaceState::Terminating).into()
        }
        R::NotImported => exports::not_imported(key, &[one]).into(),
        R::NotConsumer => exports::not_consumer(key, one).into(),
        R::NotNamed => native::not_named(key, one).into(),
        R::ExportRefused => exports::forbidden(key, one, ["web"].into_iter()).into(),
        R::QuotaExceeded => exports::quota_exceeded(key, one, &BeyondQuota::Exports(10)).into(),
        R::ExportsDisagree => exports::disagreement(key, "PortConflict", "ports differ").into(),
        R::NoProviderService => service::no_provider_service(key, two).into(),
        R::ServiceMissing => service::missing(key, key, one, None).into(),
        R::ForeignService => service_problem(&ServiceProblem::ExternalName(key.clone())).into(),
        R::ServiceConflict => service_problem(&ServiceProblem::NameTaken {
            service: key.derived(),
            imported: key.clone(),
            delivered: false,
        })
        .into(),
        R::NameNotResolved => {
            let found = Unresolved {
                has: Vec::new(),
                wants: vec!["10.0.0.1".to_owned()],
            };
            exports::name_not_resolved(key, one, &found).into()
        }
        R::InternalTrafficPolicyLocal => ignored(&Ignored::LocalPolicy).into(),
        R::AddressFamilyMismatch => ignored(&Ignored::Families {
            has: vec!["IPv4".into()],
            offered: BTreeSet::from(["IPv6"]),
            providers: BTreeSet::from([two.clone()]),
        })
        .into(),
        R::PortNotInProvider => endpoint
            .missing_port(&MissingPort::NotInProvider(port.id), &[])
            .into(),
        R::PortNotInConsumer => endpoint.port_not_in_consumer(key, &[port], &[]).into(),
        R::PortNotInSlice => endpoint.skipped(&Skipped::Behind).into(),
        R::AddressTypeNotSupported => skipped(Unfit::AddressType).into(),
        R::AddressNotRoutable => refused(AddressRefusal::NotRoutable(address)).into(),
        R::AddressOutsideRanges => refused(AddressRefusal::Outside(address)).into(),
        R::NoReach => endpoint.unreached(&NoEntry::NotDeclared).into(),
        R::EntryRefused => {
            let why = crate::plan::entry::Why::Headless;
            let proof = crate::evidence::Proof::of_presence(&());
            endpoint.unreached(&NoEntry::Refused(why, proof)).into()
        }
        R::EntryPending => endpoint.unreached(&EntryUnknown::Nodes(None).into()).into(),
        R::SliceInvalid => skipped(Unfit::Unreadable).into(),
        R::AmbiguousHostname => {
            let found = Ambiguous {
                hostname: "foo-0".to_owned(),
                clusters: [one.clone(), two.clone()],
                count: 1,
            };
            native::ambiguous_hostname(key, &found).into()
        }
        R::WritersDisagree => {
            let kept = "foo-xyz".into();
            slice.writers_disagree(&Disagreement { kept }).into()
        }
        R::TooManyEndpoints => skipped(Unfit::TooManyEndpoints).into(),
        R::TooManySlices => slice.skipped(&Skipped::TooManySlices).into(),
        R::NameTaken => endpoint.name_taken("member2-foo-abc", false).into(),
        R::WriteConflict => endpoint.write_conflict(true, "another writer").into(),
        R::Progressing => endpoint.older().into(),
        R::ServiceAppliedSucceed => (reason, native::SERVICE_APPLIED.1).into(),
        R::ServiceAppliedFailed => (reason, native::NO_TARGETS).into(),
        R::ServiceNotFound => {
            let problem = Problem::ServiceNotFound { held_until: None };
            (problem.reason(), problem::problem(key, &problem)).into()
        }
        R::EndpointSliceDispatchedSucceed => (reason, native::DISPATCHED.1).into(),
        R::EndpointSliceDispatchedFailed => failed(reason, MemberProblem::NoSlice(key.clone())),
        R::EndpointSliceAppliedSuccess => (reason, native::APPLIED.1).into(),
        R::EndpointSliceAppliedFailed => failed(reason, MemberProblem::NotSeen(2)),
        R::NoProviders => (reason, native::no_providers(key, &[])).into(),
        R::Ready => (reason, native::exposed(key, 2, 1, true)).into(),
        R::Synced => of_cluster(&MemberState::Synced, Configuration::Valid),
        R::Syncing => of_cluster(&MemberState::Syncing, Configuration::Valid),
        R::Unreachable => {
            let state = MemberState::Unreachable {
                failure: super::refused(),
                since,
                observed: since,
            };
            of_cluster(&state, Configuration::Valid)
        }
        R::Refused => {
            let state = MemberState::Refused(Refusal::AnotherCluster);
            of_cluster(&state, Configuration::Valid)
        }
        R::InvalidConfiguration => {
            let error = ConfigurationError::NoSecretRef;
            of_cluster(&MemberState::Synced, Configuration::Outdated(error))
        }
        R::Served => served(true).into(),
        R::NotServed => served(false).into(),
        R::NoDeletionsSuspended => (reason, cluster::NO_DELETIONS_SUSPENDED).into(),
        R::Valid => (reason, exports::can_be_exported(key, &[])).into(),
        R::NoService | R::InvalidServiceType => (reason, exports::invalid(reason, one, key)).into(),
        R::ManagedByOther => {
            let other = OtherController {
                program: "cilium-operator".into(),
                kind: "ServiceExport",
                object: key.clone(),
                is_everywhere: false,
            };
            exports::managed_by_other(one, &other).into()
        }
        R::InvalidClusterSelector => {
            let error = FieldError::required("spec.clusterSelectors[0].propertySelector", "");
            (reason, exports::invalid_selectors(&error)).into()
        }
        R::Exported => (reason, exports::EXPORTED).into(),
        R::FirstSeen => {
            let time = SealedTime {
                since: since.wall,
                seal: "s3al".to_owned(),
            };
            time.condition("hub-uid").into()
        }
        R::Pending => (reason, exports::not_exported(key, Validity::NoService)).into(),
        R::Failed => (reason, exports::not_exported(key, Validity::Forbidden)).into(),
        R::IPFamilyNotSupported => {
            let unready = Unready::Families(vec!["IPv6".into()]);
            (unready.reason(), unready.message()).into()
        }
        R::NoConflicts => (reason, exports::no_conflict(Validity::Valid)).into(),
        R::PortConflict => Value::Ports(Vec::new()).into(),
        R::TypeConflict => Value::Headless(true).into(),
        R::SessionAffinityConflict => Value::SessionAffinity("ClientIP".to_owned()).into(),
        R::SessionAffinityConfigConflict => Value::SessionAffinitySeconds(60).into(),
        R::InternalTrafficPolicyConflict => Value::InternalTrafficPolicy("Local".to_owned()).into(),
        R::TrafficDistributionConflict => Value::TrafficDistribution(None).into(),
        R::IPFamilyConflict => Value::IpFamilies(vec!["IPv4".into()]).into(),
        R::LabelsConflict => Value::Labels(texts()).into(),
        R::AnnotationsConflict => Value::Annotations(texts()).into(),
        R::ClusterSelectorsConflict => Value::ClusterSelectors(None::<Preference>).into(),
        R::PreferConflict => Value::Prefer(None::<Preference>).into(),
        R::UnreachableConflict => Value::Unreachable(Some(Unreachable::Keep)).into(),
        R::ShareConflict => Value::Share(None).into(),
        R::ConsumersConflict => Value::Consumers(Consumers::All).into(),
        R::Demoted => {
            let event = super::tiers(4).change(one, two, false);
            event.expect("a demotion").into()
        }
        R::PolicyConflict => events::policy_conflict(key, &[one]).into(),
        R::ServiceRecreated => {
            let (was, wanted) = (ServiceKind::Headless, ServiceKind::ClusterIp);
            events::service_recreated(one, key, was, wanted).into()
        }
        R::ServiceTakenOver => events::service_taken_over(one, key, Some("helm")).into(),
        R::ProfileNotUsed => profiles::not_used(profiles::name_taken(one, None)).into(),
        R::LeftoversRemain => events::leftovers_remain(key, [one]).into(),
    }
}

#[test]
fn every_reason_has_a_sentence_and_every_problem_a_remedy() {
    for &reason in Reason::ALL {
        let (published, message) = match words(reason) {
            Words::Diagnosis(Diagnosis {
                reason: published,
                message,
                remedy,
            }) => {
                let is_due = !reason.is_healthy() && !WITHOUT_REMEDY.contains(&reason);
                let remedy_words = remedy.iter().flat_map(|remedy| remedy.split(' '));
                assert!(!is_due || remedy_words.count() > 1, "{reason}: {message}");
                (published.into(), message)
            }
            Words::Event(event) => (event.reason, event.note),
            Words::Condition(published, message) => (published, message),
            Words::Elsewhere => continue,
        };
        assert_eq!(published, reason.as_str(), "{message}");
        assert!(message.split(' ').count() > 1, "{reason}: {message:?}");
        assert!(!message.contains("  "), "{reason}: {message:?}");
    }
}

#[test]
fn remedy_of_a_lost_member_names_the_source_of_its_access() {
    let (one, profile) = (name("member1"), AccessSource::Profile("fleet"));
    let (refused, unreachable) = (not_ready(Reason::Refused), not_ready(Reason::Unreachable));
    let not_ready = |ready, source| Some(cluster::not_ready(&one, ready, source));
    let unused = |source| cluster::unused(&one, Unused::TtlExpired, source);
    let of_profile = "kubectl -n fleet get clusterprofile member1 -o yaml";
    let rebuilt = "kubectl delete cluster member1";
    let (join, agent) = ("kubectl mcs join member1", "kubectl mcs tunnel");
    for (diagnosis, expected) in [
        (not_ready(&unreachable, AccessSource::Cluster), join),
        (not_ready(&unreachable, AccessSource::Tunnel), agent),
        (not_ready(&unreachable, profile), of_profile),
        (not_ready(&refused, AccessSource::Cluster), join),
        (not_ready(&refused, AccessSource::Tunnel), join),
        (not_ready(&refused, profile), of_profile),
        (not_ready(&refused, profile), rebuilt),
        (unused(AccessSource::Cluster), join),
        (unused(AccessSource::Tunnel), agent),
        (unused(profile), of_profile),
    ] {
        let remedy = diagnosis.and_then(|one| one.remedy).expect("a remedy");
        let names_join = remedy.contains("kubectl mcs join");
        assert!(remedy.contains(expected), "{remedy}");
        assert_eq!(names_join, expected == join, "{remedy}");
    }
}
