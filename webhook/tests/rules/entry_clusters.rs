//! Entry clusters of type LoadBalancer, and annotations of Karmada's cloud provider.

use causeway::api::labels::{PREFER, REACH, SHARE, UNREACHABLE};
use causeway_webhook::decide::ServiceKind;
use serde_json::{Value, json};

use crate::request::{annotated, at, reannotated};

const PORTS: [(&str, u16); 1] = [("http", 80)];

fn entered() -> Value {
    json!({
        "types": ["LoadBalancer"],
        "providerClusters": [{"name": "a"}, {"name": "b"}],
        "consumerClusters": [{"name": "c"}],
    })
}

#[test]
fn entry_clusters_need_no_load_balancer_on_the_hub() {
    for kind in [ServiceKind::LoadBalancer, ServiceKind::Headless] {
        annotated(&json!({}), entered())
            .service(kind, &PORTS)
            .passes();
    }
    annotated(&json!({}), entered()).passes();
}

#[test]
fn annotations_have_an_effect_in_entry_clusters() {
    let all = json!({
        PREFER: "cluster/a, any", UNREACHABLE: "standby", SHARE: "cluster/a=10%, rest", REACH: "node-ports",
    });
    annotated(&all, entered()).passes();
    annotated(&all, entered())
        .service(ServiceKind::Headless, &PORTS)
        .passes();
    let error = "cluster \"c\" is no provider, so nobody is in tier cluster/c; add it to \
                 spec.providerClusters, or remove the tier";
    annotated(&json!({PREFER: "cluster/c, any"}), entered()).warns(&[&at(PREFER, error)]);
}

#[test]
fn annotations_of_karmadas_cloud_provider_are_warned_of() {
    let elb = json!({"karmada.io/elb.class": "union", "other": "x"});
    let warning = at(
        "karmada.io/elb.class",
        "annotations karmada.io/elb.* have no effect here: the load balancers of the clusters in \
         spec.consumerClusters, which need type LoadBalancer, give the addresses",
    );
    annotated(&elb, entered()).warns(&[&warning]);
    annotated(&elb, json!({})).warns(&[&warning]);
    reannotated(&json!({}), &elb, json!({})).warns(&[&warning]);
    reannotated(&elb, &json!({"other": "y"}), json!({})).passes();
}
