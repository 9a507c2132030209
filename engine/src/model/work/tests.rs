use serde_json::{Value, json};

use super::*;

fn read(namespace: &str, labels: Value) -> Option<ServiceKey> {
    let metadata = json!({"namespace": namespace, "name": "foo-5d5d", "labels": labels});
    let work = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
    let read = ServiceWork::read(work);
    assert_eq!(*read.id, format!("{namespace}/foo-5d5d"));
    read.service
}

#[test]
fn works_of_karmadas_multiclusterservice_controllers_count_and_others_do_not() {
    let of_foo = |more: Value| {
        let mut labels = json!({
            "multiclusterservice.karmada.io/namespace": "shop",
            "multiclusterservice.karmada.io/name": "foo",
        });
        json_patch::merge(&mut labels, &more);
        labels
    };
    let suppressed = json!({"propagation.karmada.io/instruction": "suppressed"});
    let to_provider = json!({
        "multiclusterservice.karmada.io/permanent-id": "6ae1",
        "karmada.io/managed": "true",
        "propagation.karmada.io/instruction": "suppressed",
    });
    for (what, namespace, labels, counts) in [
        (
            "the object, in a provider",
            "karmada-es-member1",
            of_foo(to_provider),
            true,
        ),
        (
            "a dispatched slice, in a consumer",
            "karmada-es-member2",
            of_foo(json!({})),
            true,
        ),
        (
            "a collected slice, in its provider",
            "karmada-es-member1",
            of_foo(json!({
                "endpointslice.karmada.io/managed-by": "MultiClusterService",
                "propagation.karmada.io/instruction": "suppressed",
            })),
            false,
        ),
        (
            "a slice collected for a ServiceExport",
            "karmada-es-member1",
            json!({
                "endpointslice.karmada.io/namespace": "shop",
                "endpointslice.karmada.io/name": "foo",
                "endpointslice.karmada.io/managed-by": "ServiceExport",
            }),
            false,
        ),
        (
            "the Service, by a ResourceBinding",
            "karmada-es-member1",
            json!({"resourcebinding.karmada.io/permanent-id": "77aa", "work.karmada.io/permanent-id": "01bc"}),
            false,
        ),
        ("without labels", "karmada-es-member1", Value::Null, false),
        (
            "of a name alone",
            "karmada-es-member1",
            json!({"multiclusterservice.karmada.io/name": "foo"}),
            false,
        ),
        (
            "of an empty name",
            "karmada-es-member1",
            of_foo(json!({"multiclusterservice.karmada.io/name": ""})),
            false,
        ),
        (
            "where Karmada executes nothing",
            "shop",
            of_foo(suppressed),
            false,
        ),
    ] {
        let expected = counts.then(|| ServiceKey::new("shop", "foo"));
        assert_eq!(read(namespace, labels), expected, "{what}");
    }
}
