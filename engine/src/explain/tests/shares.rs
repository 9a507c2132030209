//! Services whose providers have shares.

use causeway::api::labels;
use serde_json::json;

use super::{backed, explained, foo};
use crate::fixtures::objects::{mcs, slice};
use crate::reasons::Reason;

#[test]
fn shares_and_the_endpoints_beyond_them_are_explained() {
    let mut env = backed();
    let one = slice("foo-def", "foo").port("http", 8080);
    let one = one.endpoint_with(json!({"addresses": ["10.2.0.1"], "conditions": {"ready": true}}));
    env.on("b", one).on_hub(foo());
    let annotations = json!({labels::SHARE: "cluster/a=50%, rest"});
    let annotations = json!({"metadata": {"annotations": annotations}});
    env.on_hub(mcs("foo").consumers(&["b"]).with(annotations));
    env.settle();
    let explanation = explained(&env);
    assert!(explanation.ready);
    let consumer = serde_json::to_value(&explanation.exposures[0].consumers[0]).expect("JSON");
    assert_eq!(
        consumer["shares"],
        json!([
            {"cluster": "b", "wanted": 50, "real": 50, "ready": 1, "standby": 0},
            {"cluster": "a", "wanted": 50, "real": 50, "ready": 1, "standby": 1},
        ])
    );
    let endpoints = &explanation.exposures[0].providers[0].endpoints;
    let mut states: Vec<_> = endpoints
        .iter()
        .map(|endpoint| &endpoint.consumers[0].diagnosis)
        .map(|diagnosis| (diagnosis.reason, diagnosis.message.as_str()))
        .collect();
    states.sort_unstable_by_key(|(_, message)| message.len());
    let beyond = "b has it as standby: beyond the share of 50%, used where no other is ready";
    assert_eq!(
        states,
        [(Reason::Copied, "b has it"), (Reason::Standby, beyond)]
    );
}
