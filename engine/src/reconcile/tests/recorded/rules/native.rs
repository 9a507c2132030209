//! Scenarios of MultiClusterServices, and of what clusters and slices are.

use causeway::domain::protected::Protection;

use super::*;
use crate::fixtures::key;
use crate::fixtures::objects::namespace;
use crate::model::{HubEvent, Signal};

/// One more than the maximum of slices of a service, and of endpoints of a slice.
const TOO_MANY: usize = 1001;

/// Joins member2 again, with a connection that leads to member1.
pub(super) fn join_twice(env: &mut Environment) -> &mut Environment {
    env.engage("member2");
    env.identify("member2", "uid-of-member1", (1, 34))
        .list("member2")
}

fn endpoints(count: usize) -> Value {
    let address = |number: usize| format!("10.2.{}.{}", number / 250, number % 250);
    let endpoint = |number| json!({"addresses": [address(number)]});
    (0..count).map(endpoint).collect()
}

/// Starts another process whose protection covers the namespace, and deletes a slice.
pub(super) fn protect(env: &mut Environment) -> &mut Environment {
    env.settings.protection = Protection::new(NAMESPACE, []);
    env.restart();
    env.off("member2", Kind::Slice, "foo-2")
}

/// Changes the labels of a copy in the consumer.
pub(super) fn relabel_copy<'e>(
    env: &'e mut Environment,
    service: &str,
    changed: Value,
) -> &'e mut Environment {
    let name = copy_of_member2(env, service);
    let part = json!({"metadata": {"labels": changed}});
    env.amend(CONSUMER, Kind::Slice, &name, part)
}

/// Returns changes that remove the labels by which a copy is known.
pub(super) fn no_labels() -> Value {
    let names = [
        labels::SLICE_MANAGED_BY,
        labels::SOURCE_CLUSTER,
        labels::HUB,
        labels::MANAGED_BY,
    ];
    names
        .map(|name| (name.to_owned(), Value::Null))
        .into_iter()
        .collect()
}

pub(super) fn terminating_namespace() -> Object {
    let since = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a"]});
    namespace(NAMESPACE).with(json!({ "metadata": since }))
}

fn prefer(value: &str) -> Object {
    exposed().annotated(&json!({labels::PREFER: value}))
}

fn unreachable_standby() -> Object {
    exposed().annotated(&json!({labels::UNREACHABLE: "standby"}))
}

/// Gives member1 half of the traffic, member2 five pods, and then an endpoint less.
fn give_a_share(env: &mut Environment) -> &mut Environment {
    let all = json!({"endpoints": endpoints(5)});
    env.amend("member2", Kind::Slice, "foo-2", all);
    let share = json!({labels::SHARE: "cluster/member1=50%, rest"});
    env.on_hub(exposed().annotated(&share)).settle();
    let fewer = json!({"endpoints": endpoints(4)});
    env.amend("member2", Kind::Slice, "foo-2", fewer)
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "a provider is a second name of another cluster",
        begin: native,
        change: |env| join_twice(env),
        left: "member1",
    },
    Rule {
        name: "a provider has too many slices",
        begin: native,
        change: |env| {
            for number in 1..TOO_MANY {
                let mut one = pods("member2");
                one.value["metadata"]["name"] = json!(format!("foo-2-{number}"));
                env.on("member2", one);
            }
            env
        },
        left: "member1 member2",
    },
    Rule {
        name: "a slice has too many endpoints",
        begin: native,
        change: |env| {
            let all = json!({"endpoints": endpoints(TOO_MANY)});
            env.amend("member2", Kind::Slice, "foo-2", all)
        },
        left: "member1 member2",
    },
    Rule {
        name: "a slice is unreadable",
        begin: native,
        change: |env| env.garble("member2", "foo-2"),
        left: "member1 member2",
    },
    Rule {
        name: "no endpoint is in the ranges of its cluster",
        begin: native,
        change: |env| {
            let ranges = json!({labels::ENDPOINT_CIDRS: "192.0.2.0/24"});
            env.on_hub(cluster("member2").annotated(&ranges))
        },
        left: "member1 member2",
    },
    Rule {
        name: "a slice is of another service",
        begin: native,
        change: |env| {
            let other = json!({"metadata": {"labels": {labels::SERVICE_NAME: "bar"}}});
            env.amend("member2", Kind::Slice, "foo-2", other)
        },
        left: "member1",
    },
    Rule {
        name: "a slice is another controller's copy",
        begin: native,
        change: |env| {
            let theirs = json!({labels::SLICE_MANAGED_BY: labels::KARMADA_SLICE_CONTROLLER});
            let theirs = json!({"metadata": {"labels": theirs}});
            env.amend("member2", Kind::Slice, "foo-2", theirs)
        },
        left: "member1",
    },
    Rule {
        name: "the namespace is protected",
        begin: native,
        change: protect,
        left: "member1 member2",
    },
    Rule {
        name: "the hub's Service is deleted while no process runs",
        begin: native,
        change: |env| env.off_hub(Kind::Service, "foo").restart(),
        left: "",
    },
    Rule {
        name: "the hub's Service and its replacement lack the port",
        begin: native,
        change: |env| env.on_hub(service("foo").port("other", 81)),
        left: "",
    },
    Rule {
        name: "the hub's Service loses the port while no process runs",
        begin: native,
        change: |env| env.on_hub(service("foo").port("other", 81)).restart(),
        left: "",
    },
    Rule {
        name: "a list of the hub lacks the MultiClusterService, and the hub is not asked",
        begin: native,
        change: |env| {
            let none = Signal::Listed(Vec::new());
            env.observe_hub(HubEvent::MultiClusterServices(none))
        },
        left: "member1 member2",
    },
    Rule {
        name: "the hub confirms that the MultiClusterService is gone",
        begin: native,
        change: |env| {
            let none = Signal::Listed(Vec::new());
            env.observe_hub(HubEvent::MultiClusterServices(none));
            env.index.apply_confirmed_absence(key("foo"));
            env
        },
        left: "",
    },
    Rule {
        name: "a new process lists no Cluster of the members at first",
        begin: native,
        change: |env| env.forgets("hub", Kind::Cluster, 0).restart().remembers(),
        left: "member1 member2",
    },
    Rule {
        name: "a provider is unjoined while no process runs",
        begin: native,
        change: |env| env.off_hub(Kind::Cluster, "member2").restart(),
        left: "member1",
    },
    Rule {
        name: "a new process lists no slice of a provider at first",
        begin: native,
        change: |env| env.forgets("member2", Kind::Slice, 0).restart().remembers(),
        left: "member1 member2",
    },
    Rule {
        name: "a new process lists no slice of a provider twice",
        begin: native,
        change: |env| env.forgets("member2", Kind::Slice, 0).restart(),
        left: "member1",
    },
    Rule {
        name: "a provider is restored to a state before its slice",
        begin: native,
        change: |env| {
            let earlier = env.server("member2").snapshot();
            let two = json!({"endpoints": endpoints(2)});
            env.amend("member2", Kind::Slice, "foo-2", two);
            env.settle().restore("member2", earlier)
        },
        left: "member1 member2",
    },
    Rule {
        name: "a farther tier stands by",
        begin: native,
        change: |env| env.on_hub(prefer("cluster/member1, any")),
        left: "member1 member2",
    },
    Rule {
        name: "an unreachable provider stands by",
        begin: || native_as(unreachable_standby()),
        change: |env| {
            env.settings.provider_ttl = None;
            env.lose("member2")
        },
        left: "member1 member2",
    },
    Rule {
        name: "an unreachable provider of a headless service stands by",
        begin: || {
            let mut env = members();
            env.on_hub(foo().headless()).on_hub(unreachable_standby());
            env.settle();
            env
        },
        change: |env| {
            env.settings.provider_ttl = None;
            env.lose("member2")
        },
        left: "member1 member2",
    },
    Rule {
        name: "the consumer's Service stands for an imported one",
        begin: native,
        change: |env| {
            let derived =
                json!({labels::HUB: "another-hub", labels::MULTICLUSTER_SERVICE_NAME: "bar"});
            let derived = json!({"metadata": {"labels": derived}});
            env.off(CONSUMER, Kind::Service, "foo");
            env.on(CONSUMER, foo().with(derived))
        },
        left: "",
    },
    Rule {
        name: "the consumer's Service is another's and an ExternalName",
        begin: native,
        change: |env| {
            let external = json!({"spec": {"type": "ExternalName", "externalName": "example.org"}});
            env.off(CONSUMER, Kind::Service, "foo");
            env.on(CONSUMER, foo().with(external))
        },
        left: "",
    },
    Rule {
        name: "the consumer is in Pull mode without credentials",
        begin: native,
        change: |env| env.pull_without_credentials(CONSUMER),
        left: "member1 member2",
    },
    Rule {
        name: "the consumer is drained",
        begin: native,
        change: |env| env.on_hub(drained(CONSUMER, true)),
        left: "member1 member2",
    },
    Rule {
        name: "the consumer is unreachable while a slice is deleted",
        begin: native,
        change: |env| env.lose(CONSUMER).off("member2", Kind::Slice, "foo-2"),
        left: "member1 member2",
    },
    Rule {
        name: "the consumer is another cluster than before",
        begin: native,
        change: |env| {
            env.identify(CONSUMER, "uid-of-another", (1, 34))
                .off("member2", Kind::Slice, "foo-2")
        },
        left: "member1 member2",
    },
    Rule {
        name: "the namespace is deleted in the consumer",
        begin: native,
        change: |env| {
            env.on(CONSUMER, terminating_namespace())
                .off("member2", Kind::Slice, "foo-2")
        },
        left: "member1 member2",
    },
    Rule {
        name: "a copy loses its labels",
        begin: native,
        change: |env| relabel_copy(env, "foo", no_labels()),
        left: "member1 member2",
    },
    Rule {
        name: "a person's slice has the name of a copy",
        begin: native,
        change: |env| {
            let name = copy_of_member2(env, "foo");
            let mut theirs = by_hand(slice(&name, "foo").port("http", 8080).endpoint("10.9.0.1"));
            theirs.value["metadata"]["labels"][labels::SERVICE_NAME] = json!("bar");
            env.on(CONSUMER, theirs)
        },
        left: "member1",
    },
    Rule {
        name: "a copy becomes another hub's",
        begin: native,
        change: |env| {
            relabel_copy(env, "foo", json!({labels::HUB: "another-hub"}));
            env.off("member2", Kind::Slice, "foo-2")
        },
        left: "member1 member2",
    },
    Rule {
        name: "the providers have shares, and an endpoint goes",
        begin: native,
        change: give_a_share,
        left: "member1 member2",
    },
];
