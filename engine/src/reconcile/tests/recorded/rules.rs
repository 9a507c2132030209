//! Scenario for each rule that removes a copy from the desired state of a consumer.
//!
//! Each begins with a service that member1 and member2 provide to member3, and then one thing
//! changes. All later writes are recorded in `rules.txt`, whole.

mod clusterset;
mod karmada;
mod native;

use std::time::Duration;

use causeway::api::labels;
use serde_json::{Value, json};

use super::written::line;
use crate::fixtures::objects::{
    Kind, NAMESPACE, Object, cluster, drained, export, foo, import, mcs, service, slice, work,
};
use crate::fixtures::{Change, Environment, env};
use crate::model::slice::Exposure;
use crate::model::{Failure, FailureKind};
use crate::plan::copies::{CopyDecision, Withdraw};
use crate::plan::{CopyCache, plan};

/// Time longer than every grace, patience and hold of a scenario.
const LONG: Duration = Duration::from_secs(3600);
/// Time after which the endpoints of unreachable providers are withdrawn.
const TTL: Duration = Duration::from_secs(600);
const CONSUMER: &str = "member3";

/// Change, and the copies that the consumer holds afterwards.
pub(super) struct Rule {
    /// Description of the change.
    pub(super) name: &'static str,
    begin: fn() -> Environment,
    change: Change,
    /// Providers whose copies are left, sorted.
    pub(super) left: &'static str,
}

impl Rule {
    /// Plays the scenario.
    pub(super) fn play(&self) -> Played {
        let mut env = (self.begin)();
        let before = holders(&env);
        assert_eq!(before, "member1 member2", "{}: the beginning", self.name);
        let copies = copies(&env);
        env.written.clear();
        (self.change)(&mut env);
        env.pass(LONG);
        let title = || vec![format!("# {}", self.name)];
        let (mut writes, mut decisions) = (title(), title());
        writes.extend(env.written.iter().map(|(to, write)| line(to, write)));
        decisions.extend(copies.iter().map(|copy| decision(&mut env, copy)));
        Played {
            writes,
            decisions,
            left: holders(&env),
        }
    }
}

/// Result of a scenario.
pub(super) struct Played {
    /// Writes that follow from the change.
    pub(super) writes: Vec<String>,
    /// Decision about each copy that the consumer held before the change, with its reason.
    pub(super) decisions: Vec<String>,
    /// Providers whose copies are left, sorted.
    pub(super) left: String,
}

/// Returns the copies that the consumer holds: exposure, provider and name.
fn copies(env: &Environment) -> Vec<(Exposure, String, String)> {
    let exposures = [
        (Exposure::Native, "foo"),
        (Exposure::Clusterset, "derived-foo"),
    ];
    let copies = exposures.into_iter().flat_map(|(exposure, service)| {
        let copies = env.copies(CONSUMER, service).into_iter();
        copies.filter_map(move |copy| {
            let provider = copy.metadata.labels?.remove(labels::SOURCE_CLUSTER)?;
            Some((exposure, provider, copy.metadata.name?))
        })
    });
    copies.collect()
}

/// Returns the decision about a copy of the consumer, with its reason.
fn decision(
    env: &mut Environment,
    (exposure, provider, copy): &(Exposure, String, String),
) -> String {
    let (key, cache) = (crate::fixtures::key("foo"), &mut CopyCache::default());
    let desired = plan(&env.index, &env.settings, &key, env.now(), cache);
    let consumer = crate::fixtures::name(CONSUMER);
    if desired.is_untouched(*exposure) {
        return format!("{provider}: untouched");
    }
    let copies = desired.copies_in(*exposure, &consumer);
    let decided = copies.map(|copies| copies.decide(&env.index, &key, provider, (copy, None)));
    match decided {
        None => format!("{provider}: not a consumer"),
        Some(CopyDecision::Keep(_)) => format!("{provider}: keep"),
        Some(CopyDecision::Hold(why)) => format!("{provider}: hold, {why:?}"),
        Some(CopyDecision::Withdraw(Withdraw::Requested(why))) => {
            format!("{provider}: withdraw, {why:?} is requested")
        }
        Some(CopyDecision::Withdraw(Withdraw::Observed(why, _))) => {
            format!("{provider}: withdraw, {why:?} was observed")
        }
    }
}

/// Returns the providers whose copies the consumer holds, sorted.
fn holders(env: &Environment) -> String {
    let copies = [
        env.copies(CONSUMER, "foo"),
        env.copies(CONSUMER, "derived-foo"),
    ];
    let labels = copies
        .into_iter()
        .flatten()
        .filter_map(|copy| copy.metadata.labels);
    let mut names: Vec<_> = labels
        .filter_map(|mut labels| labels.remove(labels::SOURCE_CLUSTER))
        .collect();
    names.sort();
    names.join(" ")
}

/// Returns the name of the copy that the consumer holds of member2.
fn copy_of_member2(env: &Environment, service: &str) -> String {
    let copies = env.copies(CONSUMER, service).into_iter();
    let mut metas = copies.map(|copy| copy.metadata);
    let copy = metas.find(|meta| {
        let source = meta
            .labels
            .as_ref()
            .and_then(|all| all.get(labels::SOURCE_CLUSTER));
        source.is_some_and(|source| source == "member2")
    });
    copy.and_then(|copy| copy.name).expect("a copy of member2")
}

fn pods(member: &str) -> Object {
    let digit = member.trim_start_matches("member");
    let made = slice(&format!("foo-{digit}"), "foo").port("http", 8080);
    made.endpoint_with(json!({
        "addresses": [format!("10.{digit}.0.1")],
        "conditions": {"ready": true, "serving": true, "terminating": false},
    }))
}

fn members() -> Environment {
    let mut env = env();
    env.settings.provider_ttl = Some(TTL);
    for member in ["member1", "member2", CONSUMER] {
        env.member(member);
    }
    for provider in ["member1", "member2"] {
        env.on(provider, pods(provider));
    }
    env
}

fn exposed() -> Object {
    mcs("foo")
        .providers(&["member1", "member2"])
        .consumers(&[CONSUMER])
}

fn native() -> Environment {
    native_as(exposed())
}

fn native_as(exposed: Object) -> Environment {
    let mut env = members();
    env.on_hub(foo()).on_hub(exposed);
    env.settle();
    env
}

fn exported() -> Environment {
    exported_as(json!({}))
}

/// Returns an environment in which both providers export the service, with these annotations.
fn exported_as(annotations: Value) -> Environment {
    let mut env = members();
    for provider in ["member1", "member2"] {
        env.on(provider, foo());
        env.on(provider, export("foo").annotated(&annotations));
    }
    env.settle();
    env
}

/// Lists all scenarios, in the order of the record.
pub(super) fn all() -> impl Iterator<Item = &'static Rule> {
    let parts = [RULES, native::RULES, clusterset::RULES, karmada::RULES];
    parts.into_iter().flatten()
}

const RULES: &[Rule] = &[
    Rule {
        name: "the MultiClusterService is deleted",
        begin: native,
        change: |env| env.off_hub(Kind::Mcs, "foo"),
        left: "",
    },
    Rule {
        name: "it is of another type",
        begin: native,
        change: |env| env.on_hub(exposed().consumers(&[]).load_balancer()),
        left: "",
    },
    Rule {
        name: "the hub's Service is deleted",
        begin: native,
        change: |env| env.off_hub(Kind::Service, "foo"),
        left: "",
    },
    Rule {
        name: "the hub's Service becomes an ExternalName",
        begin: native,
        change: |env| {
            let external = json!({"spec": {"type": "ExternalName", "externalName": "example.org"}});
            env.on_hub(foo().with(external))
        },
        left: "member1 member2",
    },
    Rule {
        name: "no exposed port is a port of the Service",
        begin: native,
        change: |env| env.on_hub(exposed().port("other", 81)),
        left: "",
    },
    Rule {
        name: "a provider is named no more",
        begin: native,
        change: |env| env.on_hub(mcs("foo").providers(&["member1"]).consumers(&[CONSUMER])),
        left: "member1",
    },
    Rule {
        name: "the consumer is named no more",
        begin: native,
        change: |env| {
            env.on_hub(
                mcs("foo")
                    .providers(&["member1", "member2"])
                    .consumers(&["member1"]),
            )
        },
        left: "",
    },
    Rule {
        name: "the consumer becomes a provider",
        begin: native,
        change: |env| {
            let providers = ["member1", "member2", CONSUMER];
            env.on_hub(mcs("foo").providers(&providers).consumers(&["member1"]))
        },
        left: "",
    },
    Rule {
        name: "a provider is unjoined",
        begin: native,
        change: |env| env.off_hub(Kind::Cluster, "member2"),
        left: "member1",
    },
    Rule {
        name: "the consumer is unjoined",
        begin: native,
        change: |env| env.off_hub(Kind::Cluster, CONSUMER),
        left: "",
    },
    Rule {
        name: "a provider is in Pull mode without credentials",
        begin: native,
        change: |env| env.pull_without_credentials("member2"),
        left: "member1 member2",
    },
    Rule {
        name: "a provider is drained",
        begin: native,
        change: |env| env.on_hub(drained("member2", true)),
        left: "member1",
    },
    Rule {
        name: "a provider is unreachable",
        begin: || native_as(exposed().annotated(&json!({labels::UNREACHABLE: "keep"}))),
        change: |env| env.lose("member2"),
        left: "member1 member2",
    },
    Rule {
        name: "a provider is unreachable for longer than --provider-ttl",
        begin: native,
        change: |env| env.lose("member2"),
        left: "member1",
    },
    Rule {
        name: "a provider is unreachable for longer than withdraw-after",
        begin: || {
            let asked = json!({labels::UNREACHABLE: "withdraw-after=5m"});
            native_as(exposed().annotated(&asked))
        },
        change: |env| env.lose("member2"),
        left: "member1",
    },
    Rule {
        name: "a provider is not known after a restart",
        begin: || native_as(exposed().annotated(&json!({labels::UNREACHABLE: "keep"}))),
        change: |env| env.lose("member2").restart(),
        left: "member1 member2",
    },
    Rule {
        name: "no tier takes a provider",
        begin: native,
        change: |env| env.on_hub(exposed().annotated(&json!({labels::PREFER: "cluster/member1"}))),
        left: "member1",
    },
    Rule {
        name: "a provider's Service lacks the port",
        begin: native,
        change: |env| {
            env.on("member2", service("foo").port("other", 81));
            let other = json!([{"name": "other", "port": 8081, "protocol": "TCP"}]);
            env.amend("member2", Kind::Slice, "foo-2", json!({"ports": other}))
        },
        left: "member1",
    },
    Rule {
        name: "the consumer's Service is another's and offers no port",
        begin: native,
        change: |env| {
            env.off(CONSUMER, Kind::Service, "foo")
                .on(CONSUMER, service("foo").port("other", 81))
        },
        left: "",
    },
    Rule {
        name: "a slice is without its port",
        begin: native,
        change: |env| env.amend("member2", Kind::Slice, "foo-2", json!({"ports": []})),
        left: "member1",
    },
    Rule {
        name: "a slice is deleted",
        begin: native,
        change: |env| env.off("member2", Kind::Slice, "foo-2"),
        left: "member1",
    },
    Rule {
        name: "a slice has names in place of addresses",
        begin: native,
        change: |env| {
            env.off("member2", Kind::Slice, "foo-2");
            let names = slice("foo-2", "foo").port("http", 8080);
            let names = names.with(json!({"addressType": "FQDN"}));
            env.on("member2", names.endpoint("pod.example.org"))
        },
        left: "member1",
    },
    Rule {
        name: "a slice is redundant beside another",
        begin: || {
            let mut env = native();
            env.off("member2", Kind::Slice, "foo-2");
            env.on("member2", by_hand(pods("member2")));
            env.settle();
            env
        },
        change: |env| {
            let mut same = pods("member2");
            same.value["metadata"]["name"] = json!("foo-endpoints");
            env.on("member2", same)
        },
        left: "member1 member2",
    },
    Rule {
        name: "a slice lags behind the ports of its Service",
        begin: native,
        change: |env| env.on("member2", service("foo").port("web", 80)),
        left: "member1 member2",
    },
    Rule {
        name: "the MultiClusterService is invalid",
        begin: native,
        change: |env| env.on_hub(exposed().with(json!({"spec": {"types": ["Other"]}}))),
        left: "member1 member2",
    },
    Rule {
        name: "a provider runs a release of Kubernetes that is too old",
        begin: native,
        change: |env| env.upgrade("member2", "uid-of-member2", (1, 20)),
        left: "member1 member2",
    },
    Rule {
        name: "a provider is another cluster than before",
        begin: native,
        change: |env| env.upgrade("member2", "uid-of-another", (1, 34)),
        left: "member1 member2",
    },
    Rule {
        name: "the namespace of a provider is deleted",
        begin: native,
        change: |env| {
            env.off("member2", Kind::Slice, "foo-2");
            env.off("member2", Kind::Service, "foo");
            env.off("member2", Kind::Namespace, NAMESPACE)
        },
        left: "member1",
    },
    Rule {
        name: "a second list lacks the slices of a provider",
        begin: native,
        change: |env| env.forgets("member2", Kind::Slice, 0).list("member2"),
        left: "member1",
    },
    Rule {
        name: "Karmada manages the service",
        begin: || {
            let mut env = native();
            env.hear_works(true);
            env.settle();
            env
        },
        change: |env| env.on_hub(work("member1", "foo-5d5d", "foo")),
        left: "member1 member2",
    },
    Rule {
        name: "the consumer refuses the deletion",
        begin: native,
        change: |env| {
            let failure = Failure::new(FailureKind::Forbidden, "no");
            env.server(CONSUMER).refuses = Some((Kind::Slice, failure));
            env.off("member2", Kind::Slice, "foo-2")
        },
        left: "member1 member2",
    },
    Rule {
        name: "an export is deleted",
        begin: exported,
        change: |env| env.off("member2", Kind::Export, "foo"),
        left: "member1",
    },
    Rule {
        name: "all exports are deleted",
        begin: exported,
        change: |env| {
            env.off("member1", Kind::Export, "foo")
                .off("member2", Kind::Export, "foo")
        },
        left: "",
    },
    Rule {
        name: "the Service of an export is deleted",
        begin: exported,
        change: |env| {
            env.off("member2", Kind::Service, "foo")
                .off("member2", Kind::Slice, "foo-2")
        },
        left: "member1",
    },
    Rule {
        name: "the exports name other consumers",
        begin: exported,
        change: |env| {
            for provider in ["member1", "member2"] {
                let nobody = json!({labels::CONSUMERS: "member1"});
                env.on(provider, export("foo").annotated(&nobody));
            }
            env
        },
        left: "",
    },
    Rule {
        name: "an exporter is drained",
        begin: exported,
        change: |env| env.on_hub(drained("member2", true)),
        left: "member1",
    },
    Rule {
        name: "an exporter is unjoined",
        begin: exported,
        change: |env| env.off_hub(Kind::Cluster, "member2"),
        left: "member1",
    },
    Rule {
        name: "the importer is unjoined",
        begin: exported,
        change: |env| env.off_hub(Kind::Cluster, CONSUMER),
        left: "",
    },
    Rule {
        name: "an exporter is unreachable for longer than --provider-ttl",
        begin: exported,
        change: |env| env.lose("member2"),
        left: "member1",
    },
    Rule {
        name: "an exporter is unreachable for longer than withdraw-after",
        begin: || exported_as(json!({labels::UNREACHABLE: "withdraw-after=5m"})),
        change: |env| env.lose("member2"),
        left: "member1",
    },
    Rule {
        name: "an exporter is not known after a restart",
        begin: || exported_as(json!({labels::UNREACHABLE: "keep"})),
        change: |env| env.lose("member2").restart(),
        left: "member1 member2",
    },
    Rule {
        name: "no tier takes an exporter",
        begin: exported,
        change: |env| {
            for provider in ["member1", "member2"] {
                let prefer = json!({labels::PREFER: "cluster/member1"});
                env.on(provider, export("foo").annotated(&prefer));
            }
            env
        },
        left: "member1",
    },
    Rule {
        name: "a person's Service has the derived name",
        begin: exported,
        change: |env| {
            env.off(CONSUMER, Kind::Service, "derived-foo")
                .on(CONSUMER, service("derived-foo").port("http", 80))
        },
        left: "",
    },
    Rule {
        name: "the importer serves ServiceImports no more",
        begin: exported,
        change: |env| {
            env.server(CONSUMER).served.imports = None;
            env.introduce(CONSUMER).list(CONSUMER)
        },
        left: "",
    },
    Rule {
        name: "a hand-made import is deleted",
        begin: || {
            let mut env = exported();
            env.off(CONSUMER, Kind::Import, "foo");
            env.on(CONSUMER, import("foo").port("http", 80));
            env.settle();
            env
        },
        change: |env| {
            for provider in ["member1", "member2"] {
                env.off(provider, Kind::Export, "foo");
            }
            env.off(CONSUMER, Kind::Import, "foo")
        },
        left: "",
    },
    Rule {
        name: "a slice of an exporter is deleted",
        begin: exported,
        change: |env| env.off("member2", Kind::Slice, "foo-2"),
        left: "member1",
    },
];

fn by_hand(slice: Object) -> Object {
    slice.with(json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: "a-person"}}}))
}
