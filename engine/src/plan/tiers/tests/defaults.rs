//! Defaults of a Namespace of the hub for its MultiClusterServices.

use causeway::api::labels;
use serde_json::{Value, json};

use super::preferences::{MEMBERS, native, standings};
use crate::fixtures::Environment;
use crate::fixtures::objects::{Kind, Object, mcs, namespace};
use crate::plan::tiers::HOLD;

const ALIKE: &str = "member2: ready, member3: ready";
const LOCAL_FIRST: &str = "member2: standby, member3: standby";
const EU_FIRST: &str = "member2: ready, member3: standby";

fn shop(annotations: Value) -> Object {
    namespace("shop").annotated(&annotations)
}

/// Returns the roles of the copies in member1 once every tier had time to be demoted.
fn settled(env: &mut Environment) -> String {
    env.settle().pass(HOLD * 2);
    standings(env, "member1")
}

#[test]
fn default_of_the_namespace_counts_where_the_object_has_none() {
    let mut env = native(json!({}));
    assert_eq!(settled(&mut env), ALIKE);
    env.on_hub(namespace("web").annotated(&json!({labels::PREFER: "local, any"})));
    assert_eq!(settled(&mut env), ALIKE);
    env.on_hub(shop(json!({labels::PREFER: "local, any"})));
    assert_eq!(settled(&mut env), LOCAL_FIRST);
    // The annotation of the object takes precedence.
    env.on_hub(mcs("foo").annotated(&json!({labels::PREFER: "region, any"})));
    assert_eq!(settled(&mut env), EU_FIRST);
    env.on_hub(shop(json!({labels::PREFER: "cluster/member3, any"})));
    assert_eq!(settled(&mut env), EU_FIRST);
    env.on_hub(mcs("foo").annotated(&json!({labels::PREFER: "RemoteAndLocal"})));
    assert_eq!(settled(&mut env), ALIKE);
    env.on_hub(mcs("foo"));
    assert_eq!(settled(&mut env), "member2: standby, member3: ready");
    env.on_hub(shop(json!({})));
    assert_eq!(settled(&mut env), ALIKE);
    env.assert_at_rest();
}

#[test]
fn default_completes_the_annotations_of_an_object() {
    let mut env = native(json!({labels::PREFER: "local, any"}));
    env.on(
        "member1",
        super::preferences::source("member1", &[(1, true), (2, false)]),
    );
    assert_eq!(settled(&mut env), LOCAL_FIRST);
    env.on_hub(shop(json!({labels::MIN_READY: "100%"})));
    assert_eq!(settled(&mut env), ALIKE);
}

#[test]
fn restart_and_lost_watch_change_nothing_under_a_default() {
    let mut env = native(json!({}));
    env.on_hub(shop(json!({labels::PREFER: "local, any"})));
    assert_eq!(settled(&mut env), LOCAL_FIRST);
    env.forget_writes().restart();
    assert_eq!(settled(&mut env), LOCAL_FIRST);
    assert_eq!(env.log(), Vec::<String>::new());
}

#[test]
fn deleted_namespace_has_no_default() {
    let mut env = native(json!({}));
    env.on_hub(shop(json!({labels::PREFER: "local, any"})));
    assert_eq!(settled(&mut env), LOCAL_FIRST);
    env.off_hub(Kind::Namespace, "shop");
    assert_eq!(settled(&mut env), ALIKE);
}

#[test]
fn share_of_a_namespace_has_no_effect() {
    let mut env = native(json!({}));
    let before = settled(&mut env);
    env.forget_writes();
    env.on_hub(shop(
        json!({labels::SHARE: "cluster/member2=0%, rest", labels::CONSUMERS: "member3"}),
    ));
    assert_eq!(settled(&mut env), before);
    assert_eq!(env.log(), Vec::<String>::new());
}

#[test]
fn invalid_default_is_reported_with_its_namespace() {
    let mut env = native(json!({}));
    let wrong = json!({labels::PREFER: "nearest", labels::UNREACHABLE: "withdraw-after=10s"});
    env.on_hub(shop(wrong)).settle();
    let ready = env.says("foo", "Ready");
    for expected in [
        "Namespace shop: metadata.annotations[mcs.causeway.dev/prefer]: Unsupported value: \"nearest\"",
        "Namespace shop: metadata.annotations[mcs.causeway.dev/unreachable]: Invalid value",
        "withdraw-after=60s is used instead",
    ] {
        assert!(
            ready.starts_with("True") && ready.contains(expected),
            "{ready}"
        );
    }
    assert_eq!(standings(&env, MEMBERS[0]), ALIKE);
    // The place of an error of the object is the object.
    env.on_hub(mcs("foo").annotated(&json!({labels::PREFER: "near"})))
        .settle();
    let ready = env.says("foo", "Ready");
    let own = "metadata.annotations[mcs.causeway.dev/prefer]: Unsupported value: \"near\"";
    let misplaced = format!("Namespace shop: {own}");
    assert!(
        ready.contains(own) && !ready.contains(&misplaced),
        "{ready}"
    );
}
