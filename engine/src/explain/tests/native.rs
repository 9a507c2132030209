use causeway::api::labels;
use serde_json::json;

use super::{annotate, assert_said, explained, foo, healthy, hold, source, terminate_namespace};
use crate::fixtures::Environment;
use crate::fixtures::objects::{Kind, Object, cluster, mcs, node, service, slice, work};
use crate::reasons::Reason;

fn exposed(env: &mut Environment) {
    env.on_hub(mcs("foo").providers(&["a"]).consumers(&["b"]))
        .settle();
}

/// Returns a service that Karmada manages from the beginning, and of which it brought nothing.
fn managed_by_karmada() -> Environment {
    let mut env = super::backed();
    env.on("a", foo()).on("b", foo());
    env.on_hub(foo()).on_hub(work("a", "w", "foo"));
    env.hear_works(true);
    exposed(&mut env);
    env
}

#[test]
fn endpoint_of_another_network_names_port_and_node() {
    let mut env = healthy();
    let pod = json!({"addresses": ["10.1.0.1"], "nodeName": "n1"});
    let networks = json!({labels::NETWORK: "edge", labels::REACH: "node-ports"});
    env.on("a", node("n1", "192.168.1.1"))
        .on(
            "a",
            slice("foo-abc", "foo")
                .port("http", 8080)
                .endpoint_with(pod),
        )
        .on("a", foo().with(json!({"spec": {"type": "NodePort"}})))
        .on_hub(cluster("a").annotated(&networks))
        .settle();
    let port = env.service("a", "foo").expect("a Service")["spec"]["ports"][0]["nodePort"].clone();
    let way = format!("b reaches it by node port {port} of node n1, 192.168.1.1");
    assert_said(&env, Reason::EntryCopied, &way);
}

/// Returns `foo` with a load balancer of these hostnames.
fn balanced(hosts: &[&str]) -> Object {
    let ingress = hosts.iter().map(|host| json!({ "hostname": host }));
    let ingress: Vec<_> = ingress.collect();
    foo().with(json!({
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": ingress}},
    }))
}

/// Returns a service that b, of another network than a, reaches by the load balancer of these
/// hostnames.
fn entered(hosts: &[&str]) -> Environment {
    let mut env = healthy();
    let networks = json!({labels::NETWORK: "edge", labels::REACH: "load-balancer"});
    env.on_hub(cluster("a").annotated(&networks))
        .on("a", balanced(hosts))
        .settle();
    for (host, last) in hosts.iter().zip([8_u8, 7]) {
        env.index.apply_resolved(host, [[203, 0, 113, last].into()]);
    }
    env.settle();
    env
}

#[test]
fn addresses_of_a_hostname_are_those_that_copies_have() {
    let env = entered(&["a.example", "b.example"]);
    assert_said(
        &env,
        Reason::EntryCopied,
        "b reaches it by port 80 of 203.0.113.7",
    );
}

#[test]
fn addresses_of_a_former_hostname_are_not_those_of_the_next() {
    let mut env = entered(&["a.example"]);
    assert_said(&env, Reason::EntryCopied, "port 80 of 203.0.113.8");
    env.on("a", balanced(&["b.example"])).settle();
    let why = "the hostname b.example of the load balancer of Service shop/foo of a has no address";
    assert_said(&env, Reason::EntryPending, why);
}

#[test]
fn provider_reports_the_way_of_its_service_or_cluster() {
    let mut env = healthy();
    let reach = |env: &Environment| explained(env).exposures[0].providers[0].reach;
    assert_eq!(reach(&env), None);
    annotate(&mut env, "a", labels::REACH, "load-balancer");
    env.settle();
    assert_eq!(reach(&env), Some("load-balancer"));
    let foo = mcs("foo").providers(&["a"]).consumers(&["b"]);
    let way = json!({"metadata": {"annotations": {labels::REACH: "cluster-ip"}}});
    env.on_hub(foo.with(way)).settle();
    assert_eq!(reach(&env), Some("cluster-ip"));
}

#[test]
fn what_is_wrong_on_the_hub_is_reported() {
    hold(
        healthy,
        &[
            (
                "no MultiClusterService",
                |env| env.off_hub(Kind::Mcs, "foo").settle(),
                false,
                Reason::NotExposed,
                "apply -f mcs.yaml",
            ),
            (
                "no Service",
                |env| env.off_hub(Kind::Service, "foo").settle(),
                false,
                Reason::NoHubService,
                "kubectl -n shop create service clusterip foo",
            ),
            (
                "an ExternalName",
                |env| {
                    env.on_hub(foo().with(json!({"spec": {"type": "ExternalName"}})))
                        .settle()
                },
                false,
                Reason::ExternalName,
                "edit service foo",
            ),
            (
                "spec.ports names a port that the Service has not",
                |env| {
                    let made = mcs("foo").providers(&["a"]).consumers(&["b"]);
                    env.on_hub(made.port("web", 81))
                        .pass(crate::fixtures::GRACE * 2)
                },
                false,
                Reason::PortNotFound,
                "edit mcs foo",
            ),
            (
                "a port that is not exposed",
                |env| {
                    let made = mcs("foo").providers(&["a"]).consumers(&["b"]);
                    env.on_hub(foo().port("metrics", 9090));
                    env.on_hub(made.port("http", 80)).settle()
                },
                true,
                Reason::PortNotExposed,
                "\"value\":{\"name\":\"metrics\",\"port\":9090}",
            ),
            (
                "it is of type LoadBalancer",
                |env| env.on_hub(mcs("foo").load_balancer()).settle(),
                true,
                Reason::LoadBalancer,
                "kubectl -n shop get mcs foo -o jsonpath='{.status.loadBalancer}'",
            ),
            (
                "the last change is not processed",
                |env| {
                    let changed = json!({"metadata": {"generation": 9}});
                    env.on_hub(mcs("foo").providers(&["a"]).consumers(&["b"]).with(changed))
                },
                true,
                Reason::NotObserved,
                "kubectl mcs status foo -n shop --wait",
            ),
        ],
    );
}

#[test]
fn a_service_that_does_not_lead_to_what_is_copied_behind_it_is_reported() {
    hold(
        healthy,
        &[
            (
                "the consumer's Service is bound to the client's node",
                |env| {
                    let local = json!({"spec": {"internalTrafficPolicy": "Local"}});
                    env.on("b", foo().with(local)).settle()
                },
                false,
                Reason::InternalTrafficPolicyLocal,
                "in b: kubectl -n shop patch service foo --type=merge -p '{\"spec\":{\"internalTrafficPolicy\":\"Cluster\"}}'",
            ),
            (
                "the endpoints have another address family",
                |env| {
                    env.off("a", Kind::Slice, "foo-abc");
                    let six = slice("foo-six", "foo").port("http", 8080);
                    let six = six.endpoint("fd00:1::1");
                    env.on("a", six.with(json!({"addressType": "IPv6"})))
                        .settle()
                },
                false,
                Reason::AddressFamilyMismatch,
                "PreferDualStack",
            ),
        ],
    );
}

#[test]
fn what_is_wrong_with_a_member_is_reported() {
    hold(
        healthy,
        &[
            (
                "the provider is not joined",
                |env| {
                    let made = mcs("foo").providers(&["a", "nobody"]).consumers(&["b"]);
                    env.on_hub(made).settle()
                },
                false,
                Reason::NotJoined,
                "kubectl mcs join nobody --member-kubeconfig FILE",
            ),
            (
                "the provider is drained",
                |env| annotate(env, "a", labels::WITHDRAW, "true").settle(),
                false,
                Reason::Drained,
                "kubectl mcs drain a --undo",
            ),
            (
                "the provider was drained a moment ago",
                |env| annotate(env, "a", labels::WITHDRAW, "true"),
                false,
                Reason::Progressing,
                "wait a moment",
            ),
            (
                "the provider is in Pull mode without credentials",
                |env| env.pull_without_credentials("a").settle(),
                false,
                Reason::PullWithoutCredentials,
                "--report-secrets",
            ),
            (
                "copies of a provider without credentials stay",
                |env| env.pull_without_credentials("a").settle(),
                false,
                Reason::Kept,
                "",
            ),
            (
                "the consumer is out of reach",
                |env| env.lose("b").on("a", source(&["10.1.0.3"])).settle(),
                false,
                Reason::MemberUnreachable,
                "--api-endpoint",
            ),
            (
                "the agent of the consumer is out of reach",
                |env| {
                    annotate(env, "b", labels::TUNNEL, "true");
                    env.lose("b");
                    env.on("a", source(&["10.1.0.3"])).settle()
                },
                false,
                Reason::MemberUnreachable,
                "kubectl mcs tunnel",
            ),
            (
                "the consumer of a ClusterProfile is out of reach",
                |env| {
                    let labels = json!({labels::PROFILE_NAMESPACE: "fleet"});
                    env.on_hub(cluster("b").with(json!({"metadata": {"labels": labels}})));
                    env.lose("b");
                    env.on("a", source(&["10.1.0.3"])).settle()
                },
                false,
                Reason::MemberUnreachable,
                "kubectl -n fleet get clusterprofile b -o yaml",
            ),
            (
                "pods in a member that is not named",
                |env| {
                    env.member("c")
                        .on("c", foo())
                        .on("c", source(&["10.3.0.1"]))
                        .settle()
                },
                true,
                Reason::NotNamed,
                "/spec/providerClusters/-",
            ),
        ],
    );
}

#[test]
fn what_is_wrong_in_the_provider_is_reported() {
    hold(
        healthy,
        &[
            (
                "no endpoints",
                |env| env.off("a", Kind::Slice, "foo-abc").settle(),
                false,
                Reason::NoEndpoints,
                "kubectl -n shop get pods",
            ),
            (
                "host names",
                |env| {
                    env.on(
                        "a",
                        slice("names", "foo").with(json!({"addressType": "FQDN"})),
                    );
                    env.settle()
                },
                false,
                Reason::AddressTypeNotSupported,
                "",
            ),
            (
                "an endpoint without an address of the slice's type",
                |env| env.on("a", source(&["10.1.0.1", "fd00::1"])).settle(),
                false,
                Reason::SliceInvalid,
                "",
            ),
            (
                "a port number that differs",
                |env| {
                    env.off("a", Kind::Service, "foo")
                        .on("a", service("foo").port("http", 8080))
                        .settle()
                },
                false,
                Reason::PortNotInProvider,
                "in a: kubectl -n shop edit service foo",
            ),
            (
                "a target port that the pods have not",
                |env| {
                    let other = json!([{"name": "other", "port": 1, "protocol": "TCP"}]);
                    let source = source(&["10.1.0.9"]).with(json!({"ports": other}));
                    env.on("a", source).settle()
                },
                false,
                Reason::PortNotInSlice,
                "in a: kubectl -n shop edit service foo",
            ),
            (
                "an address that leads nowhere",
                |env| env.on("a", source(&["127.0.0.1"])).settle(),
                false,
                Reason::AddressNotRoutable,
                "in a: ",
            ),
            (
                "an address outside the ranges",
                |env| annotate(env, "a", labels::ENDPOINT_CIDRS, "10.9.0.0/16").settle(),
                false,
                Reason::AddressOutsideRanges,
                "kubectl annotate cluster a --overwrite mcs.causeway.dev/endpoint-cidrs=10.9.0.0/16,10.1.0.1/32",
            ),
            (
                "an address in the ranges of another",
                |env| annotate(env, "b", labels::ENDPOINT_CIDRS, "10.1.0.0/16").settle(),
                false,
                Reason::AddressOutsideRanges,
                "endpoint-cidrs=10.1.0.1/32",
            ),
            (
                "an endpoint that is not ready is copied and gets no traffic",
                |env| {
                    let unready =
                        json!({"addresses": ["10.1.0.2"], "conditions": {"ready": false}});
                    env.on("a", source(&["10.1.0.1"]).endpoint_with(unready))
                        .settle()
                },
                true,
                Reason::NotReady,
                "in a: kubectl -n shop get pods",
            ),
        ],
    );
}

#[test]
fn what_is_more_than_is_copied_is_reported() {
    let mut env = healthy();
    let addresses: Vec<_> = (0..1001)
        .map(|n| format!("10.2.{}.{}", n / 250, n % 250))
        .collect();
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    env.on("a", source(&addresses)).settle();
    assert_said(
        &env,
        Reason::TooManyEndpoints,
        "it has more than 1000 endpoints",
    );
    let mut env = healthy();
    for number in 0..1000 {
        let address = format!("10.2.{}.{}", number / 250, number % 250);
        let made = slice(&format!("foo-{number}"), "foo").port("http", 8080);
        env.on("a", made.endpoint(&address));
    }
    env.settle();
    assert_said(&env, Reason::TooManySlices, "no more than 1000");
}

#[test]
fn what_is_wrong_in_the_consumer_is_reported() {
    hold(
        healthy,
        &[
            (
                "no namespace",
                |env| {
                    for kind in [Kind::Slice, Kind::Service] {
                        let names = env.members["b"].all(kind);
                        let names: Vec<_> = names
                            .map(|one| one["metadata"]["name"].as_str().expect("a name").to_owned())
                            .collect();
                        for name in names {
                            env.off("b", kind, &name);
                        }
                    }
                    env.off("b", Kind::Namespace, "shop");
                    env
                },
                false,
                Reason::NamespaceMissing,
                "in b: kubectl create namespace shop",
            ),
            (
                "a namespace that is terminating",
                terminate_namespace,
                false,
                Reason::NamespaceTerminating,
                "in b: kubectl describe namespace shop",
            ),
            (
                "somebody's Service",
                |env| {
                    env.off("b", Kind::Service, "foo")
                        .on("b", service("foo").port("other", 81))
                        .settle()
                },
                false,
                Reason::ForeignService,
                "kubectl -n shop delete service foo",
            ),
            (
                "somebody's alias",
                |env| {
                    env.off("b", Kind::Service, "foo");
                    let alias =
                        json!({"spec": {"type": "ExternalName", "externalName": "a.example"}});
                    env.on("b", foo().with(alias)).settle()
                },
                false,
                Reason::ForeignService,
                "or give the alias another name; causeway then creates the Service",
            ),
            (
                "somebody's Service with some of the ports",
                |env| {
                    env.on_hub(foo().port("admin", 81));
                    env.off("b", Kind::Service, "foo");
                    env.on("b", foo()).settle()
                },
                false,
                Reason::PortNotInConsumer,
                "in b: kubectl -n shop edit service foo",
            ),
        ],
    );
}

#[test]
fn a_slice_that_has_the_name_of_a_copy_is_reported_with_what_to_type() {
    let mut env = healthy();
    let name = env.copies("b", "foo")[0]
        .metadata
        .name
        .clone()
        .expect("a name");
    env.silence("b");
    env.off("b", Kind::Slice, &name);
    env.on("b", slice(&name, "another")).reconnect("b").settle();
    assert_said(
        &env,
        Reason::NameTaken,
        "that is not causeway's, in the place of the copy",
    );
}

#[test]
fn what_a_deletion_waits_for_is_reported() {
    let mut env = healthy();
    let finalizers = ["mcs.causeway.dev/cleanup", "example.com/theirs"];
    let marks = json!({"metadata": {"finalizers": finalizers}});
    env.on_hub(mcs("foo").providers(&["a"]).consumers(&["b"]).with(marks));
    env.settle().off_hub(Kind::Mcs, "foo");
    assert_said(
        &env,
        Reason::Deleting,
        "somebody else's finalizers: example.com/theirs",
    );
    assert_said(&env, Reason::Deleting, "a, b to be cleaned");
}

#[test]
fn what_karmada_manages_and_has_not_brought_is_reported() {
    let mut env = managed_by_karmada();
    assert_said(&env, Reason::ManagedByKarmada, "(Work karmada-es-a/w)");
    assert_said(
        &env,
        Reason::NotDispatchedByKarmada,
        "no EndpointSlice of theirs in b holds it",
    );
    let dispatched = |addresses: &[&str]| {
        source(addresses).with(json!({"metadata": {
            "name": "a-foo-abc",
            "labels": {
                labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER,
                labels::KARMADA_MANAGED: "true",
            },
            "annotations": {labels::PROVISION_CLUSTER: "a"},
        }}))
    };
    env.on("b", dispatched(&["10.1.0.1", "10.1.0.2"])).settle();
    assert_said(&env, Reason::CopiedByKarmada, "by Karmada's EndpointSlice");
    env.on("b", dispatched(&["10.1.0.1", "10.1.0.9"])).settle();
    assert_said(&env, Reason::StaleEndpoints, "b offers 10.1.0.9 of a");
}

#[test]
fn hostnames_of_several_providers_are_reported_of_headless_services() {
    let pods = |cluster: &str, hostnames: &[&str]| {
        let empty = slice("foo-abc", "foo").port("http", 8080);
        let mut pods = (5..).zip(hostnames);
        pods.by_ref().fold(empty, |made, (number, hostname)| {
            let address = format!("10.{cluster}.0.{number}");
            made.endpoint_with(json!({"addresses": [address], "hostname": hostname}))
        })
    };
    let one = "foo-0.foo.shop.svc leads to pods of a and of b";
    let both = "foo-0.foo.shop.svc leads to pods of a and of b (one of 2 such hostnames)";
    let remedy = "use foo-0.a.foo.shop.svc.clusterset.local, with a ServiceExport shop/foo in each \
                  of these clusters";
    for (case, headless, providers, of_b, expected) in [
        ("the same", true, &["a", "b"][..], &["foo-0"][..], Some(one)),
        ("two", true, &["a", "b"], &["foo-1", "foo-0"], Some(both)),
        ("others", true, &["a", "b"], &["bar-0"], None),
        ("none", true, &["a", "b"], &[], None),
        ("one provider", true, &["a"], &["foo-0"], None),
        ("not headless", false, &["a", "b"], &["foo-0"], None),
    ] {
        let mut env = crate::fixtures::env();
        env.keeps_clusters = true;
        env.member("a").member("b");
        env.on("a", pods("1", &["foo-0", "foo-1"]));
        env.on("b", pods("2", of_b));
        env.on_hub(if headless { foo().headless() } else { foo() });
        let made = mcs("foo").providers(providers).consumers(&["a", "b"]);
        env.on_hub(made).settle();
        let ready = env.says("foo", "Ready");
        let diagnoses = super::all(&super::explained(&env));
        let mut diagnoses = diagnoses.iter();
        let found = diagnoses.find(|one| one.reason == Reason::AmbiguousHostname);
        assert_eq!(found.map(|one| one.message.as_str()), expected, "{case}");
        match expected {
            Some(sentence) => {
                assert!(ready.contains(&format!("{sentence}: {remedy}")), "{ready}");
            }
            None => assert!(!ready.contains("leads to pods"), "{case}: {ready}"),
        }
        env.assert_at_rest();
    }
}
