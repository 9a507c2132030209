//! Entry clusters of a MultiClusterService of type LoadBalancer.

use causeway::api::labels;

use super::{Case, annotate, backed, foo, hold, source};
use crate::fixtures::Environment;
use crate::fixtures::objects::{Kind, mcs};
use crate::reasons::Reason;

/// Returns `shop/foo`, which a provides and whose entry cluster b has an address.
fn entered() -> Environment {
    let mut env = backed();
    env.on_hub(foo());
    let object = mcs("foo").load_balancer();
    env.on_hub(object.providers(&["a"]).consumers(&["b"]));
    env.settle();
    env.balance("b", &["192.0.2.1"]).settle();
    env
}

const CASES: [Case; 5] = [
    ("it serves", |env| env, true, Reason::EntryCluster, ""),
    (
        "it has no address",
        |env| env.balance("b", &[]).settle(),
        false,
        Reason::NoEntryAddress,
        "in b: kubectl -n shop describe service foo",
    ),
    (
        "it has a Service of somebody else",
        |env| env.off("b", Kind::Service, "foo").on("b", foo()).settle(),
        false,
        Reason::EntryNotLoadBalancer,
        "in b: kubectl -n shop patch service foo",
    ),
    (
        "no endpoint is ready",
        |env| env.on("a", source(&[])).settle(),
        false,
        Reason::EntryNotServing,
        "kubectl mcs explain foo -n shop",
    ),
    (
        "it is drained",
        |env| annotate(env, "b", labels::WITHDRAW, "true").settle(),
        false,
        Reason::EntryUnused,
        "kubectl mcs drain b --undo",
    ),
];

#[test]
fn entry_cluster_is_explained_with_its_remedy() {
    hold(entered, &CASES);
}
