//! Services that one of Karmada's policies claims after causeway has delivered them.

use super::*;
use crate::fixtures::name;

const READY: &str = "True Ready: shop/foo can be reached from 1 cluster, backed by 1 cluster";
const ADVICE: &str = "; Karmada's policy for Service shop/foo is not applied in member2, where causeway has delivered it already \
     (ResourceBinding foo-service: already exists); apply the policy before the MultiClusterService, or leave the Service out of \
     the policy, or set conflictResolution: Overwrite in it";

fn by_policy(label: &str) -> Object {
    foo().with(json!({"metadata": {"labels": {label: "an-id"}}}))
}

fn beside(env: &Environment) -> Vec<String> {
    let foo = key("foo");
    let members = env.index.beside_policy(&foo);
    members.map(ToString::to_string).collect()
}

#[test]
fn the_hub_is_asked_only_where_a_policy_claims_a_service_that_causeway_delivered() {
    let mut env = provided();
    assert_eq!(beside(&env), Vec::<String>::new());
    for label in labels::POLICY_IDS {
        env.on_hub(by_policy(label)).settle();
        assert_eq!(beside(&env), ["member1", "member2"], "{label}");
    }
    let karmadas = json!({"metadata": {"labels": {labels::KARMADA_MANAGED: "true"}}});
    env.amend("member2", Kind::Service, "foo", karmadas)
        .settle();
    assert_eq!(beside(&env), ["member1"]);
    env.off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(beside(&env), Vec::<String>::new());
}

#[test]
fn a_service_that_karmada_cannot_propagate_stays_ready_and_says_what_to_do() {
    let mut env = provided();
    env.on_hub(by_policy(labels::POLICY_IDS[0])).settle();
    // member3 has a Service of its own, which is no concern of causeway's.
    let clusters = [name("member2"), name("member3")].into();
    env.index.note_propagation(&key("foo"), clusters);
    env.index.mark(crate::model::Item::Service(key("foo")));
    env.settle();
    assert_eq!(env.says("foo", "Ready"), format!("{READY}{ADVICE}"));
    env.assert_at_rest();
    env.on_hub(foo()).settle();
    assert_eq!(env.says("foo", "Ready"), READY);
}
