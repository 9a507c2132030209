//! Story of a MultiClusterService of type LoadBalancer with entry clusters. All writes are recorded
//! in `entry_clusters.txt`, whole.

use serde_json::json;

use super::written::line;
use crate::fixtures::objects::{Kind, Object, foo, mcs, source};
use crate::fixtures::{Change, Environment, env};

/// Plays the story, and returns its writes, each step with a title.
pub(super) fn play() -> Vec<String> {
    let mut env = env();
    let mut lines = Vec::new();
    for (title, step) in STEPS {
        env.written.clear();
        step(&mut env);
        env.settle();
        lines.push(format!("# {title}"));
        lines.extend(env.written.iter().map(|(to, write)| line(to, write)));
    }
    lines
}

type Step = (&'static str, Change);

const STEPS: [Step; 8] = [
    ("two entry clusters are requested", request),
    ("load balancers give addresses", |env| {
        env.balance("east", &["192.0.2.1"])
            .balance("west", &["192.0.2.2"])
    }),
    ("a provider is unreachable", |env| env.lose("member1")),
    ("the other one has no ready endpoint", |env| {
        let part =
            json!({"endpoints": [{"addresses": ["10.2.0.5"], "conditions": {"ready": false}}]});
        env.on("member2", source("10.2.0.5").with(part))
    }),
    ("the provider is reachable", |env| env.list("member1")),
    ("an entry cluster leaves", |env| {
        env.on_hub(entered().consumers(&["west"]))
    }),
    ("the type changes", |env| {
        env.on_hub(
            entered()
                .consumers(&["west"])
                .with(json!({"spec": {"types": ["CrossCluster"]}})),
        )
    }),
    ("the MultiClusterService is deleted", |env| {
        env.off_hub(Kind::Mcs, "foo")
    }),
];

fn entered() -> Object {
    mcs("foo")
        .load_balancer()
        .providers(&["member1", "member2"])
        .consumers(&["east", "west"])
}

fn request(env: &mut Environment) -> &mut Environment {
    for member in ["member1", "member2", "east", "west"] {
        env.member(member);
    }
    env.on("member1", source("10.1.0.5"))
        .on("member2", source("10.2.0.5"));
    let balancer = json!({
        "metadata": {"annotations": {"metallb.io/address-pool": "public", "example.com/team": "shop"}},
        "spec": {
            "type": "LoadBalancer", "loadBalancerClass": "example.com/lb", "loadBalancerSourceRanges": ["10.0.0.0/8"],
        },
    });
    env.on_hub(foo().with(balancer)).on_hub(entered())
}
