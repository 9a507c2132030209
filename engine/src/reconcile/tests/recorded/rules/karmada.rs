//! Scenarios of services that Karmada's own controllers manage or import.

use super::*;
use crate::fixtures::objects::{derived_foo, karmadas, node};
use crate::model::{HubEvent, Signal};

/// Returns Karmada's slice of the one in member2, with an address.
fn delivered(prefix: &str, service: &str, address: &str) -> Object {
    let managed = json!({labels::SLICE_MANAGED_BY: labels::KARMADA_SLICE_CONTROLLER});
    let annotations = json!({labels::PROVISION_CLUSTER: "member2"});
    let made = slice(&format!("{prefix}member2-foo-2"), service).port("http", 8080);
    karmadas(made.endpoint(address))
        .with(json!({"metadata": {"labels": managed, "annotations": annotations}}))
}

/// Returns an environment whose hub lists its Works.
fn beside() -> Environment {
    let mut env = native();
    env.hear_works(true);
    env.settle();
    env
}

/// Returns an environment in which Karmada manages the service that causeway managed first.
fn managed() -> Environment {
    let mut env = beside();
    env.on_hub(work("member1", "foo-5d5d", "foo"));
    env.settle();
    env
}

/// Returns an environment in which Karmada manages the service, and the consumer reaches member2,
/// which is of another network, by a companion.
fn managed_across_networks() -> Environment {
    let mut env = beside();
    let conditions = json!({"ready": true, "serving": true, "terminating": false});
    let pod = json!({"addresses": ["10.2.0.1"], "nodeName": "n1", "conditions": conditions});
    env.on("member2", pods("member2").with(json!({"endpoints": [pod]})))
        .on("member2", node("n1", "192.168.2.1"));
    let edge = json!({labels::NETWORK: "edge", labels::REACH: "node-ports"});
    env.on_hub(cluster("member2").annotated(&edge)).settle();
    env.on_hub(work("member1", "foo-5d5d", "foo")).settle();
    env
}

/// Returns an environment in which Karmada imports the service that causeway imported first.
fn imported() -> Environment {
    let mut env = exported();
    env.hear_works(true);
    env.on_hub(import("foo").port("http", 80))
        .on_hub(derived_foo());
    env.settle();
    env
}

/// Makes the import and the derived Service of the consumer Karmada's.
fn take_over(env: &mut Environment) -> &mut Environment {
    for (kind, name) in [(Kind::Import, "foo"), (Kind::Service, "derived-foo")] {
        let there = env.members[CONSUMER].get(kind, NAMESPACE, name).cloned();
        let value = there.expect("an object");
        env.on(CONSUMER, karmadas(Object { kind, value }));
    }
    env.settle()
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "Karmada delivers a slice with its endpoint",
        begin: managed,
        change: |env| env.on(CONSUMER, delivered("", "foo", "10.2.0.1")),
        left: "member1",
    },
    Rule {
        name: "Karmada delivers a slice without its endpoint",
        begin: managed,
        change: |env| env.on(CONSUMER, delivered("", "foo", "10.2.0.9")),
        left: "member1 member2",
    },
    Rule {
        name: "Karmada delivers a slice of a provider of another network",
        begin: managed_across_networks,
        change: |env| env.on(CONSUMER, delivered("", "foo", "10.2.0.1")),
        left: "member1",
    },
    Rule {
        name: "a copy is deleted beside Karmada",
        begin: managed,
        change: |env| {
            let name = copy_of_member2(env, "foo");
            env.off(CONSUMER, Kind::Slice, &name)
        },
        left: "member1",
    },
    Rule {
        name: "a provider is named no more beside Karmada",
        begin: managed,
        change: |env| env.on_hub(mcs("foo").providers(&["member1"]).consumers(&[CONSUMER])),
        left: "member1",
    },
    Rule {
        name: "a provider is unreachable beside Karmada",
        begin: || {
            let mut env = native_as(exposed().annotated(&json!({labels::UNREACHABLE: "standby"})));
            env.settings.provider_ttl = None;
            env.hear_works(true)
                .on_hub(work("member1", "foo-5d5d", "foo"));
            env.settle();
            env
        },
        change: |env| env.lose("member2"),
        left: "member1 member2",
    },
    Rule {
        name: "the service becomes another type beside Karmada",
        begin: managed,
        change: |env| env.on_hub(exposed().load_balancer()),
        left: "member1 member2",
    },
    Rule {
        name: "a new process does not list Karmada's Works within a minute",
        begin: beside,
        change: |env| {
            env.say_nothing_of_works().restart();
            env.off("member2", Kind::Slice, "foo-2");
            env.pass(Duration::from_secs(30))
        },
        left: "member1",
    },
    Rule {
        name: "the hub has more Works than are watched",
        begin: native,
        change: |env| {
            let failure = Failure::new(FailureKind::Excess, "too many");
            env.hear_of_works(true)
                .observe_hub(HubEvent::Works(Signal::Failed(failure)));
            env.off("member2", Kind::Slice, "foo-2")
        },
        left: "member1 member2",
    },
    Rule {
        name: "Karmada ceases to manage the service",
        begin: managed,
        change: |env| env.off_karmada("member1", "foo-5d5d"),
        left: "member1 member2",
    },
    Rule {
        name: "Karmada imports a service that causeway imports",
        begin: exported,
        change: |env| {
            env.hear_works(true)
                .on_hub(import("foo").port("http", 80))
                .on_hub(derived_foo())
        },
        left: "member1 member2",
    },
    Rule {
        name: "Karmada imports a slice with its endpoint",
        begin: imported,
        change: |env| env.on(CONSUMER, delivered("imported-", "derived-foo", "10.2.0.1")),
        left: "member1",
    },
    Rule {
        name: "Karmada imports a slice without its endpoint",
        begin: imported,
        change: |env| env.on(CONSUMER, delivered("imported-", "derived-foo", "10.2.0.9")),
        left: "member1 member2",
    },
    Rule {
        name: "the derived Service becomes Karmada's",
        begin: imported,
        change: take_over,
        left: "member1 member2",
    },
    Rule {
        name: "Karmada's slice stands behind Karmada's derived Service",
        begin: imported,
        change: |env| {
            take_over(env);
            env.on(CONSUMER, delivered("imported-", "derived-foo", "10.2.0.1"))
        },
        left: "member1",
    },
    Rule {
        name: "the derived Service is deleted while Karmada imports",
        begin: imported,
        change: |env| env.off(CONSUMER, Kind::Service, "derived-foo"),
        left: "member1 member2",
    },
    Rule {
        name: "an exporter is unreachable while Karmada imports",
        begin: || {
            let mut env = exported_as(json!({labels::UNREACHABLE: "standby"}));
            env.settings.provider_ttl = None;
            env
        },
        change: |env| {
            env.hear_works(true);
            env.on_hub(import("foo").port("http", 80))
                .on_hub(derived_foo());
            env.lose("member2")
        },
        left: "member1 member2",
    },
    Rule {
        name: "the hub's imports are not listed after a restart",
        begin: exported,
        change: |env| {
            env.says_imports = false;
            env.restart();
            env.off(CONSUMER, Kind::Service, "derived-foo")
        },
        left: "member1 member2",
    },
];
