use serde_json::json;

use super::*;
use crate::reach::ReachError;
use crate::status::fixtures::{cluster, condition};

#[test]
fn what_is_wrong_with_a_member_is_told() {
    hold(&[
        (
            "the provider is not joined",
            |s| {
                s.clusters
                    .retain(|one| one.metadata.name.as_deref() != Some("a"));
                s.members.remove("a");
                s.without_copies();
            },
            false,
            Reason::NotJoined,
            "kubectl mcs join a --member-kubeconfig FILE",
        ),
        (
            "the consumer is not joined",
            |s| {
                s.clusters
                    .retain(|one| one.metadata.name.as_deref() != Some("b"));
                s.members.remove("b");
            },
            false,
            Reason::NotJoined,
            "kubectl mcs join b --member-kubeconfig FILE",
        ),
        (
            "the provider is drained",
            |s| {
                s.without_copies()
                    .annotate("a", "mcs.causeway.dev/withdraw", "true");
            },
            false,
            Reason::Drained,
            "kubectl mcs drain a --undo",
        ),
        (
            "the provider is drained a moment ago",
            |s| {
                s.annotate("a", "mcs.causeway.dev/withdraw", "true");
            },
            false,
            Reason::UnderWay,
            "wait a moment",
        ),
        (
            "the provider is unreachable, and what it gave is kept",
            |s| {
                s.replace(cluster(
                    "a",
                    json!([ready("False", "Unreachable", "connection refused")]),
                ));
                s.members.insert(
                    "a".to_owned(),
                    Err(ReachError::Failed("connection refused".to_owned())),
                );
            },
            false,
            Reason::Kept,
            "",
        ),
        (
            "the provider is unreachable for the controller alone",
            |s| {
                s.replace(cluster(
                    "a",
                    json!([ready("False", "Unreachable", "connection refused")]),
                ));
                s.without_copies();
            },
            false,
            Reason::MemberUnreachable,
            "--api-endpoint",
        ),
        (
            "the consumer is refused",
            |s| {
                s.replace(cluster(
                    "b",
                    json!([ready("False", "Refused", "another cluster")]),
                ))
            },
            false,
            Reason::MemberRefused,
            "kubectl mcs join b",
        ),
        (
            "the consumer is not taken up",
            |s| s.replace(cluster("b", json!([]))),
            false,
            Reason::MemberPending,
            "kubectl -n causeway-system get pods",
        ),
        (
            "the consumer is unreadable from here",
            |s| {
                s.members.insert(
                    "b".to_owned(),
                    Err(ReachError::Failed("you may not".to_owned())),
                );
            },
            false,
            Reason::MemberNotRead,
            "right to read its Secret",
        ),
        (
            "the consumer is being taken out",
            |s| {
                let mut leaving = synced("b");
                leaving.metadata.deletion_timestamp = from(json!("2026-11-20T23:00:00Z"));
                s.replace(leaving);
                s.without_copies();
            },
            false,
            Reason::Leaving,
            "kubectl mcs join b",
        ),
        (
            "the provider is too old",
            |s| {
                let mut old = synced("a");
                let status = old.status.as_mut().expect("a status");
                status.kubernetes_version = Some("v1.20.4".to_owned());
                s.replace(old);
                s.without_copies();
            },
            false,
            Reason::LeftOut,
            "",
        ),
        (
            "the provider is in Pull mode",
            |s| {
                let mut pull = synced("a");
                pull.spec = from(json!({ "syncMode": "Pull" }));
                s.replace(pull);
                s.members.remove("a");
                s.without_copies();
            },
            false,
            Reason::LeftOut,
            "join",
        ),
        (
            "the provider's last list is not believed",
            |s| {
                let lacks = "its last list lacks 20 objects that were there, which are kept until a second list says so too";
                let believed = condition("ListsBelieved", "False", "LossHeld", lacks);
                s.replace(cluster(
                    "a",
                    json!([ready("True", "Synced", "watched"), believed]),
                ));
            },
            true,
            Reason::ListNotBelieved,
            "wait half a minute",
        ),
        (
            "pods in a member that is not named",
            |s| {
                s.clusters.push(synced("c"));
                let held = held(core_service(false, &[("http", 80)]), source(&BOTH));
                s.members.insert("c".to_owned(), Ok(held));
            },
            true,
            Reason::NotNamed,
            "/spec/providerClusters/-",
        ),
    ]);
}

#[test]
fn what_is_wrong_in_the_provider_is_told() {
    hold(&[
        (
            "no Service",
            |s| {
                s.without_copies();
                s.member("a").services.clear();
            },
            false,
            Reason::NoProviderService,
            "in a: kubectl -n shop create service clusterip foo",
        ),
        (
            "no endpoints",
            |s| {
                s.without_copies();
                s.member("a").slices.clear();
            },
            false,
            Reason::NoEndpoints,
            "kubectl -n shop get pods",
        ),
        (
            "a slice that another multi-cluster controller imported",
            |s| {
                s.without_copies();
                s.member("a").slices[0].metadata.labels = from(json!({
                    "kubernetes.io/service-name": "foo",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-mesh-controller.cilium.io",
                }));
            },
            false,
            Reason::NoEndpoints,
            "kubectl -n shop get endpointslices",
        ),
        (
            "a slice that a person keeps and that is on its way",
            |s| {
                s.without_copies();
                s.member("a").slices[0].metadata.labels =
                    from(json!({ "kubernetes.io/service-name": "foo" }));
            },
            false,
            Reason::UnderWay,
            "the log of causeway-controller",
        ),
        (
            "host names",
            |s| {
                s.without_copies();
                s.member("a").slices[0].address_type = "FQDN".to_owned();
            },
            false,
            Reason::AddressTypeNotCarried,
            "",
        ),
        (
            "a port number that differs",
            |s| {
                s.without_copies();
                s.member("a").services = vec![core_service(false, &[("http", 8080)])];
            },
            false,
            Reason::PortNotInProvider,
            "in a: kubectl -n shop edit service foo",
        ),
        (
            "a target port that the pods have not",
            |s| {
                s.without_copies();
                s.member("a").slices[0].ports =
                    from(json!([{ "name": "other", "port": 1, "protocol": "TCP" }]));
            },
            false,
            Reason::PortNotInSlice,
            "in a: kubectl -n shop edit service foo",
        ),
        (
            "an address that leads nowhere",
            |s| {
                s.without_copies();
                s.member("a").slices = vec![source(&[("127.0.0.1", true)])];
            },
            false,
            Reason::AddressNotRoutable,
            "in a: ",
        ),
        (
            "an address outside the ranges",
            |s| {
                s.without_copies()
                    .annotate("a", "mcs.causeway.dev/endpoint-cidrs", "10.9.0.0/16");
            },
            false,
            Reason::AddressOutsideRanges,
            "kubectl annotate cluster a --overwrite mcs.causeway.dev/endpoint-cidrs=10.9.0.0/16,10.1.0.1/32",
        ),
        (
            "an address in the ranges of another",
            |s| {
                s.without_copies()
                    .annotate("b", "mcs.causeway.dev/endpoint-cidrs", "10.1.0.0/16");
            },
            false,
            Reason::AddressOutsideRanges,
            "endpoint-cidrs=10.1.0.1/32",
        ),
        (
            "an endpoint that is not ready is carried and gets no traffic",
            |s| {
                let some = [("10.1.0.1", true), ("10.1.0.2", false)];
                s.member("a").slices = vec![source(&some)];
                s.member("b").slices = vec![copy("7", &some)];
            },
            true,
            Reason::NotReady,
            "in a: kubectl -n shop get pods",
        ),
    ]);
}

#[test]
fn what_is_wrong_in_the_consumer_is_told() {
    hold(&[
        (
            "no namespace",
            |s| *s.member("b") = Held::default(),
            false,
            Reason::NamespaceMissing,
            "in b: kubectl create namespace shop",
        ),
        (
            "a namespace on its way out",
            |s| {
                s.without_copies().member("b").namespace =
                    from(json!({ "metadata": { "deletionTimestamp": "2026-11-20T23:00:00Z" } }));
            },
            false,
            Reason::NamespaceTerminating,
            "in b: kubectl describe namespace shop",
        ),
        (
            "no Service",
            |s| s.without_copies().member("b").services.clear(),
            false,
            Reason::ServiceMissing,
            "kubectl mcs status foo -n shop",
        ),
        (
            "somebody's Service",
            |s| {
                s.without_copies().member("b").services =
                    vec![core_service(false, &[("other", 81)])]
            },
            false,
            Reason::ForeignService,
            "kubectl -n shop delete service foo",
        ),
        (
            "somebody's Service with some of the ports",
            |s| {
                let both = [("http", 80), ("admin", 81)];
                s.service = Some(core_service(false, &both));
                s.member("a").services = vec![core_service(true, &both)];
                s.member("b").services = vec![core_service(false, &both[..1])];
            },
            false,
            Reason::PortNotInConsumer,
            "in b: kubectl -n shop edit service foo",
        ),
        (
            "a copy that is older",
            |s| s.member("b").slices = vec![copy("6", &BOTH[..1])],
            false,
            Reason::UnderWay,
            "the log of causeway-controller",
        ),
        (
            "a copy of which another is older",
            |s| s.member("b").slices = vec![copy("6", &[("10.1.0.1", false), BOTH[1]])],
            false,
            Reason::UnderWay,
            "wait a moment",
        ),
        (
            "a copy that another hub wrote",
            |s| {
                let labels = s.member("b").slices[0]
                    .metadata
                    .labels
                    .as_mut()
                    .expect("labels");
                labels.insert("mcs.causeway.dev/hub".to_owned(), "another".to_owned());
            },
            false,
            Reason::UnderWay,
            "wait a moment",
        ),
    ]);
}
