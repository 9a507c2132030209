use causeway::api::labels;
use causeway_tests::causeway::{MEMBERS_NAMESPACE, NAMESPACE};
use causeway_tests::{Cluster, SOON, eventually};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::{fleet, manifest};

/// Whether an account of causeway's may do that to `group:resource`, `group:resource/subresource`
/// or `group:resource=name`, in a namespace or, where that is empty, everywhere.
async fn may(cluster: &Cluster, account: &str, verb: &str, what: &str, namespace: &str) -> bool {
    let user = User {
        name: &format!("system:serviceaccount:{NAMESPACE}:{account}"),
        groups: &["system:serviceaccounts", "system:authenticated"],
    };
    is_allowed(cluster, user, verb, what, namespace).await
}

/// A user of the API server.
struct User<'a> {
    name: &'a str,
    groups: &'a [&'a str],
}

/// Whether a user may do that.
async fn is_allowed(
    cluster: &Cluster,
    user: User<'_>,
    verb: &str,
    what: &str,
    namespace: &str,
) -> bool {
    let (what, name) = what.split_once('=').unwrap_or((what, ""));
    let (what, subresource) = what.split_once('/').unwrap_or((what, ""));
    let (group, resource) = what.split_once(':').expect("group:resource");
    let review: SubjectAccessReview = serde_json::from_value(json!({
        "metadata": {},
        "spec": {
            "user": user.name,
            "groups": user.groups,
            "resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "subresource": subresource,
                "name": name, "namespace": namespace,
            },
        },
    }))
    .expect("a review");
    let reviews = Api::<SubjectAccessReview>::all(cluster.client());
    let answer = reviews.create(&PostParams::default(), &review).await;
    answer.expect("an answer").status.expect("a review").allowed
}

#[tokio::test]
async fn the_webhook_may_read_services_and_clusters_and_list_multi_cluster_services_and_nothing_else()
 {
    let hub = fleet().await.hub();
    for (verb, what, expected) in [
        ("get", ":services", true),
        ("watch", ":services", true),
        ("list", "cluster.karmada.io:clusters", true),
        ("watch", "cluster.karmada.io:clusters", true),
        ("list", "networking.karmada.io:multiclusterservices", true),
        ("get", ":secrets", false),
        ("list", ":secrets", false),
        ("create", ":services", false),
        ("update", ":services", false),
        ("get", "networking.karmada.io:multiclusterservices", false),
        ("patch", "networking.karmada.io:multiclusterservices", false),
        ("update", "cluster.karmada.io:clusters", false),
        ("list", "discovery.k8s.io:endpointslices", false),
        ("list", ":pods", false),
        ("update", "coordination.k8s.io:leases", false),
        ("create", "events.k8s.io:events", false),
        (
            "patch",
            "admissionregistration.k8s.io:validatingwebhookconfigurations",
            false,
        ),
    ] {
        let answer = may(hub, "causeway-webhook", verb, what, "").await;
        assert_eq!(answer, expected, "{verb} {what}");
    }
}

#[tokio::test]
async fn the_webhook_keeps_two_secrets_and_the_configurations_of_its_own_name_and_no_others() {
    let hub = fleet().await.hub();
    let mutating = "admissionregistration.k8s.io:mutatingwebhookconfigurations";
    let validating = "admissionregistration.k8s.io:validatingwebhookconfigurations";
    for (verbs, what, namespace, expected) in [
        (
            &["get", "list", "watch", "update"][..],
            ":secrets=causeway-webhook-tls",
            NAMESPACE,
            true,
        ),
        (
            &["get", "list", "watch", "update"],
            ":secrets=causeway-webhook-ca",
            NAMESPACE,
            true,
        ),
        (
            &["delete", "patch"],
            ":secrets=causeway-webhook-tls",
            NAMESPACE,
            false,
        ),
        (
            &["create", "delete", "patch"],
            ":secrets=causeway-webhook-ca",
            NAMESPACE,
            false,
        ),
        (
            &["get", "list", "watch", "update", "delete"],
            ":secrets=member1",
            NAMESPACE,
            false,
        ),
        (&["list", "watch"], ":secrets", NAMESPACE, false),
        (&["create"], ":secrets", NAMESPACE, false),
        (
            &["create", "get", "update"],
            ":secrets=causeway-webhook-tls",
            "shop",
            false,
        ),
    ] {
        for verb in verbs {
            let answer = may(hub, "causeway-webhook", verb, what, namespace).await;
            assert_eq!(answer, expected, "{verb} {what} in {namespace}");
        }
    }
    for kind in [mutating, validating] {
        for (verbs, name, expected) in [
            (&["get", "list", "watch", "patch"][..], "=causeway", true),
            (&["update", "delete", "create"], "=causeway", false),
            (&["get", "patch", "update"], "=another", false),
            (&["list", "watch"], "", false),
        ] {
            for verb in verbs {
                let what = format!("{kind}{name}");
                let answer = may(hub, "causeway-webhook", verb, &what, "").await;
                assert_eq!(answer, expected, "{verb} {what}");
            }
        }
    }
}

#[tokio::test]
async fn the_controller_reads_the_secrets_of_members_alone_and_holds_its_lease_in_its_own_namespace_only()
 {
    let hub = fleet().await.hub();
    for (verb, what, namespace, expected) in [
        (
            "patch",
            "networking.karmada.io:multiclusterservices",
            "",
            true,
        ),
        (
            "patch",
            "networking.karmada.io:multiclusterservices/status",
            "",
            true,
        ),
        (
            "delete",
            "networking.karmada.io:multiclusterservices",
            "shop",
            false,
        ),
        (
            "create",
            "networking.karmada.io:multiclusterservices",
            "shop",
            false,
        ),
        ("watch", ":services", "", true),
        ("patch", ":services", "shop", false),
        ("create", ":services", "shop", false),
        ("create", "events.k8s.io:events", "shop", true),
        ("list", "multicluster.x-k8s.io:serviceexports", "", true),
        ("watch", "multicluster.x-k8s.io:serviceexports", "", true),
        ("list", "multicluster.x-k8s.io:serviceimports", "", true),
        ("watch", "multicluster.x-k8s.io:serviceimports", "", true),
        ("list", "externaldns.k8s.io:dnsendpoints", "", true),
        ("watch", "externaldns.k8s.io:dnsendpoints", "", true),
        ("create", "externaldns.k8s.io:dnsendpoints", "shop", true),
        ("patch", "externaldns.k8s.io:dnsendpoints", "shop", true),
        ("delete", "externaldns.k8s.io:dnsendpoints", "shop", true),
        ("update", "externaldns.k8s.io:dnsendpoints", "shop", false),
        (
            "delete",
            "multicluster.x-k8s.io:serviceimports",
            "shop",
            false,
        ),
        (
            "patch",
            "multicluster.x-k8s.io:serviceexports/status",
            "shop",
            false,
        ),
        (
            "delete",
            "multicluster.x-k8s.io:serviceexports",
            "shop",
            false,
        ),
        ("watch", "cluster.karmada.io:clusters", "", true),
        ("patch", "cluster.karmada.io:clusters/status", "", true),
        ("delete", "cluster.karmada.io:clusters", "", false),
        ("get", ":namespaces=kube-system", "", true),
        ("list", ":namespaces", "", true),
        ("watch", ":namespaces", "", true),
        ("patch", ":namespaces", "", false),
        ("create", ":namespaces", "", false),
        (
            "get",
            "apiextensions.k8s.io:customresourcedefinitions=clusters.cluster.karmada.io",
            "",
            true,
        ),
        (
            "get",
            "apiextensions.k8s.io:customresourcedefinitions=others.example.com",
            "",
            false,
        ),
        ("list", ":secrets", MEMBERS_NAMESPACE, true),
        ("watch", ":secrets", MEMBERS_NAMESPACE, true),
        ("update", ":secrets", MEMBERS_NAMESPACE, false),
        ("list", ":secrets", NAMESPACE, false),
        ("watch", ":secrets", NAMESPACE, false),
        ("get", ":secrets=causeway-webhook-tls", NAMESPACE, false),
        ("get", ":secrets=causeway-webhook-ca", NAMESPACE, false),
        ("list", ":secrets=causeway-webhook-tls", NAMESPACE, false),
        ("watch", ":secrets=causeway-webhook-tls", NAMESPACE, false),
        ("get", ":secrets=causeway-webhook-token", NAMESPACE, false),
        ("get", ":secrets=causeway-export-seal", NAMESPACE, true),
        ("update", ":secrets=causeway-export-seal", NAMESPACE, true),
        ("create", ":secrets", NAMESPACE, false),
        ("list", ":secrets", "", false),
        ("get", ":secrets", "kube-system", false),
        ("create", "coordination.k8s.io:leases", NAMESPACE, true),
        ("create", "coordination.k8s.io:leases", "shop", false),
        (
            "update",
            "coordination.k8s.io:leases=causeway-controller",
            NAMESPACE,
            true,
        ),
        (
            "update",
            "coordination.k8s.io:leases=another",
            NAMESPACE,
            false,
        ),
    ] {
        let answer = may(hub, "causeway-controller", verb, what, namespace).await;
        assert_eq!(answer, expected, "{verb} {what} in {namespace:?}");
    }
}

#[tokio::test]
async fn the_controller_reads_works_only_on_karmada() {
    let hub = fleet().await.hub();
    let reads = [
        ("list", "work.karmada.io:works", ""),
        ("watch", "work.karmada.io:works", ""),
        ("get", "work.karmada.io:resourcebindings", "shop"),
    ];
    let never = [
        ("delete", "work.karmada.io:works", "shop"),
        ("list", "work.karmada.io:resourcebindings", ""),
    ];
    for (verb, what, namespace) in reads.iter().chain(&never) {
        let answer = may(hub, "causeway-controller", verb, what, namespace).await;
        assert!(!answer, "{verb} {what} without Karmada");
    }
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: karmada-cluster}\n";
    hub.apply(namespace).await.ok();
    let karmada = manifest("hub/options/karmada.yaml");
    hub.kubectl(["apply", "-f", &karmada]).await.ok();
    for (verb, what, namespace) in reads {
        eventually("the right is granted", SOON, async || {
            may(hub, "causeway-controller", verb, what, namespace).await
        })
        .await;
    }
    for (verb, what, namespace) in never {
        let answer = may(hub, "causeway-controller", verb, what, namespace).await;
        assert!(!answer, "{verb} {what} on Karmada");
    }
}

#[tokio::test]
async fn the_account_in_a_member_changes_exports_and_imports_only_as_the_clusterset_needs_it() {
    let member = fleet().await.member("member2");
    member
        .kubectl(["apply", "-f", &manifest("member/rbac.yaml")])
        .await
        .ok();
    let kinds = ["serviceexports", "serviceimports"];
    let all = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    let used = |what: &str, verb: &str| match what {
        // People's exports are never changed; those of --publish-exports come and go.
        "serviceexports" => ["list", "watch", "create", "delete"].contains(&verb),
        "serviceimports" => ["list", "watch", "create", "patch", "delete"].contains(&verb),
        "events" => ["create", "patch"].contains(&verb),
        _ => verb == "patch",
    };
    let subresources = kinds.map(|kind| format!("{kind}/status"));
    for what in kinds
        .into_iter()
        .chain(subresources.iter().map(String::as_str))
    {
        for verb in all {
            let object = format!("multicluster.x-k8s.io:{what}");
            let answer = may(member, "causeway", verb, &object, "").await;
            assert_eq!(answer, used(what, verb), "{verb} {what}");
        }
    }
    for verb in all {
        let answer = may(member, "causeway", verb, "events.k8s.io:events", "").await;
        assert_eq!(answer, used("events", verb), "{verb} events");
    }
    for (verb, what) in [
        ("create", ":events"),
        ("update", "multicluster.x-k8s.io:serviceimports/finalizers"),
        (
            "get",
            "apiextensions.k8s.io:customresourcedefinitions=serviceexports.multicluster.x-k8s.io",
        ),
    ] {
        assert!(
            !may(member, "causeway", verb, what, "").await,
            "{verb} {what}"
        );
    }
}

#[tokio::test]
async fn the_account_in_a_member_makes_namespaces_only_where_that_was_allowed_and_reads_no_secrets()
{
    let member = fleet().await.member("member2");
    member
        .kubectl(["apply", "-f", &manifest("member/rbac.yaml")])
        .await
        .ok();
    for (verb, what, expected) in [
        ("create", ":services", true),
        ("delete", ":services", true),
        ("create", "discovery.k8s.io:endpointslices", true),
        ("watch", ":namespaces", true),
        ("update", "discovery.k8s.io:endpointslices", true),
        // The index has no managed fields of slices: a write conflict reads those of one.
        ("get", "discovery.k8s.io:endpointslices", true),
        ("patch", "discovery.k8s.io:endpointslices", false),
        // Kubernetes copied causeway's labels to those of a Service that is another's now.
        ("patch", ":endpoints", true),
        ("create", ":endpoints", false),
        ("delete", ":endpoints", false),
        // OpenShift's admission requires it for addresses of the member's own pods.
        ("create", "discovery.k8s.io:endpointslices/restricted", true),
        (
            "get",
            "about.k8s.io:clusterproperties=cluster.clusterset.k8s.io",
            true,
        ),
        (
            "patch",
            "about.k8s.io:clusterproperties=cluster.clusterset.k8s.io",
            false,
        ),
        ("get", "about.k8s.io:clusterproperties=another", false),
        ("list", "about.k8s.io:clusterproperties", false),
        ("update", ":services", false),
        ("create", ":namespaces", false),
        ("delete", ":namespaces", false),
        ("get", ":secrets", false),
        ("list", ":pods", false),
        ("list", ":nodes", false),
        ("create", ":endpoints", false),
        ("update", ":services/status", false),
    ] {
        let answer = may(member, "causeway", verb, what, "").await;
        assert_eq!(answer, expected, "{verb} {what}");
    }
    let creation = manifest("member/namespace-creation.yaml");
    member.kubectl(["apply", "-f", &creation]).await.ok();
    assert!(may(member, "causeway", "create", ":namespaces", "").await);
    assert!(!may(member, "causeway", "delete", ":namespaces", "").await);
    let networks = manifest("member/networks.yaml");
    member.kubectl(["apply", "-f", &networks]).await.ok();
    for (verb, expected) in [("list", true), ("watch", true), ("patch", false)] {
        assert_eq!(may(member, "causeway", verb, ":nodes", "").await, expected);
    }
    let leases = "coordination.k8s.io:leases";
    assert!(!may(member, "causeway", "list", leases, "causeway-system").await);
    let credentials = manifest("member/credentials.yaml");
    member.kubectl(["apply", "-f", &credentials]).await.ok();
    for (what, expected) in [
        (":serviceaccounts/token", false),
        (":serviceaccounts/token=causeway", true),
        (":serviceaccounts/token=default", false),
        (":serviceaccounts", false),
        (":secrets", false),
    ] {
        let namespace = "causeway-system";
        let answer = may(member, "causeway-agent", "create", what, namespace).await;
        assert_eq!(answer, expected, "{what}");
    }
    let paths = manifest("member/paths.yaml");
    member.kubectl(["apply", "-f", &paths]).await.ok();
    for (account, verb, what, namespace, expected) in [
        ("causeway", "list", leases, "causeway-system", true),
        ("causeway", "patch", leases, "causeway-system", true),
        ("causeway", "create", leases, "causeway-system", false),
        ("causeway", "patch", leases, "kube-system", false),
        ("causeway-paths", "create", leases, "causeway-system", true),
        ("causeway-paths", "get", leases, "causeway-system", false),
        ("causeway-paths", "patch", leases, "kube-system", false),
        (
            "causeway-paths",
            "patch",
            "discovery.k8s.io:endpointslices",
            "",
            true,
        ),
        (
            "causeway-paths",
            "delete",
            "discovery.k8s.io:endpointslices",
            "",
            false,
        ),
        ("causeway-paths", "get", ":secrets", "", false),
        ("causeway-paths", "list", ":services", "", false),
    ] {
        let answer = may(member, account, verb, what, namespace).await;
        assert_eq!(answer, expected, "{account} {verb} {what} {namespace}");
    }
    let ttl = manifest("member/paths-provider-ttl.yaml");
    member.kubectl(["apply", "-f", &ttl]).await.ok();
    let slices = "discovery.k8s.io:endpointslices";
    assert!(may(member, "causeway-paths", "delete", slices, "").await);
}

#[tokio::test]
async fn the_account_in_a_member_writes_only_labelled_objects() {
    let member = fleet().await.member("member2");
    for file in ["member/rbac.yaml", "member/policy.yaml"] {
        member.kubectl(["apply", "-f", &manifest(file)]).await.ok();
    }
    let account = [
        "--as=system:serviceaccount:causeway-system:causeway",
        "--as-group=system:serviceaccounts",
        "--as-group=system:authenticated",
    ];
    let outcome = async |verb: &[&str], object: &Value| {
        let args = verb.iter().copied().chain(account);
        let output = member.kubectl_with(args, object.to_string()).await;
        output.exit.success().then_some(()).ok_or(output.stderr)
    };
    let hub = json!({"mcs.causeway.dev/hub": "h"});
    let service = |namespace: &str, name: &str, labels: &Value| {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"ports": [{"port": 80}]},
        })
    };
    let slice = |name: &str, labels: &Value, owner: &Value, address: &str| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": name, "namespace": "default", "labels": labels, "annotations": owner,
            },
            "addressType": "IPv4", "endpoints": [{"addresses": [address]}],
        })
    };
    let endpoints = |name: &str, labels: &Value| {
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
        })
    };
    let with_owner = |mut object: Value| {
        object["metadata"]["annotations"] = json!({labels::OWNER: "MultiClusterService/u"});
        object
    };
    let create = ["create", "-f", "-"];
    let delete = ["delete", "--wait=false", "-f", "-"];
    let replace = ["replace", "-f", "-"];
    let none = json!({});
    eventually("the policy is in force", SOON, async || {
        let dry = ["create", "--dry-run=server", "-f", "-"];
        let outcome = outcome(&dry, &service("default", "early", &none)).await;
        outcome.is_err().then_some(())
    })
    .await;
    let owner = json!({"mcs.causeway.dev/owner": "MultiClusterService/u"});
    let dispatched = json!({labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER});
    let people = [
        slice("karmadas", &dispatched, &none, "192.0.2.1"),
        service("default", "theirs", &none),
        slice("theirs", &none, &none, "192.0.2.1"),
        slice("lost", &none, &owner, "192.0.2.1"),
        service("kube-public", "managed", &hub),
        with_owner(service("default", "lost", &none)),
        with_owner(endpoints("theirs", &none)),
        endpoints("copied", &hub),
    ];
    for object in &people {
        member.apply(&object.to_string()).await.ok();
    }
    let label = "only objects with its label";
    let machinery = "the cluster's own machinery";
    for (verb, object, refusal) in [
        (&create[..], service("default", "ours", &none), Some(label)),
        (
            &create,
            service("kube-public", "ours", &hub),
            Some(machinery),
        ),
        (&create[..], service("default", "ours", &hub), None),
        (
            &create,
            slice("ours", &none, &none, "192.0.2.1"),
            Some(label),
        ),
        (&create[..], slice("ours", &hub, &none, "192.0.2.1"), None),
        (
            &replace,
            slice("theirs", &hub, &none, "192.0.2.2"),
            Some(label),
        ),
        (
            &replace,
            slice("ours", &none, &none, "192.0.2.2"),
            Some(label),
        ),
        (&replace[..], slice("lost", &hub, &owner, "192.0.2.2"), None),
        (
            &delete[..],
            service("default", "theirs", &none),
            Some(label),
        ),
        (
            &delete,
            slice("theirs", &none, &none, "192.0.2.1"),
            Some(label),
        ),
        (
            &replace,
            slice("karmadas", &dispatched, &none, "192.0.2.2"),
            Some(label),
        ),
        (
            &delete[..],
            slice("karmadas", &dispatched, &none, "192.0.2.1"),
            None,
        ),
        (&delete[..], service("kube-public", "managed", &hub), None),
        (&delete[..], slice("ours", &hub, &none, "192.0.2.1"), None),
    ] {
        let outcome = outcome(verb, &object).await;
        let (verb, what) = (verb[0], object["metadata"].to_string());
        match refusal {
            None => assert_eq!(outcome, Ok(()), "{verb} {what}"),
            Some(refusal) => {
                let said = outcome.expect_err(&format!("{verb} {what}"));
                assert!(said.contains(refusal), "{verb} {what}: {said}");
            }
        }
    }
    // A merge patch, as the controller sends it. What somebody else applied is given up.
    let token = member.token(NAMESPACE, "causeway").await;
    let client = member.client_with_token(&token);
    let bare = || json!({"labels": {labels::HUB: null}, "annotations": {labels::OWNER: null}});
    for (kind, name, metadata, refusal) in [
        ("Service", "theirs", json!({"labels": hub}), Some(label)),
        ("Service", "ours", bare(), None),
        ("Service", "lost", bare(), None),
        ("Endpoints", "copied", bare(), None),
        ("Endpoints", "theirs", json!({"labels": hub}), Some(label)),
    ] {
        let gvk = GroupVersionKind::gvk("", "v1", kind);
        let plural = format!("{}s", kind.to_lowercase().trim_end_matches('s'));
        let resource = ApiResource::from_gvk_with_plural(&gvk, &plural);
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), "default", &resource);
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let outcome = api.patch(name, &PatchParams::default(), &patch).await;
        match refusal {
            None => drop(outcome.expect(name)),
            Some(refusal) => {
                let said = outcome.expect_err(name).to_string();
                assert!(said.contains(refusal), "{name}: {said}");
            }
        }
    }
    both_accounts_write_no_lease_but_reports(member).await;
    account_of_paths_changes_no_foreign_slice(member).await;
}

/// Where the hub is a member, the Lease of the controller is beside the reports on paths.
async fn both_accounts_write_no_lease_but_reports(member: &Cluster) {
    let lease = |name: &str| {
        // The label does not make a Lease causeway's.
        let labels = json!({labels::HUB: "h"});
        let metadata = json!({"name": name, "namespace": NAMESPACE, "labels": labels});
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
        });
        lease.to_string()
    };
    member.apply(&lease("causeway-controller")).await.ok();
    for account in ["causeway", "causeway-paths"] {
        // With every right: the policy decides.
        let user = format!("--as=system:serviceaccount:{NAMESPACE}:{account}");
        for (verb, name, is_allowed) in [
            ("create", "causeway-path-member1", true),
            ("replace", "causeway-path-member1", true),
            ("delete", "causeway-path-member1", true),
            ("create", "another", false),
            ("replace", "causeway-controller", false),
            ("delete", "causeway-controller", false),
        ] {
            let args = [verb, "-f", "-", &user, "--as-group=system:masters"];
            let output = member.kubectl_with(args, lease(name)).await;
            match is_allowed {
                true => drop(output.ok()),
                false => {
                    let said = output.refused();
                    let is_by_policy = said.contains("'causeway-member'")
                        && said.contains("only Leases that report paths");
                    assert!(is_by_policy, "{account} {verb} {name}: {said}");
                }
            }
        }
    }
}

async fn account_of_paths_changes_no_foreign_slice(member: &Cluster) {
    let slice = |name: &str, labels: Value| {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.3"]}],
        });
        slice.to_string()
    };
    let unlabelled = slice("unlabelled", json!({}));
    let dispatched = json!({labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER});
    let dispatched = slice("dispatched", dispatched);
    // With every right: the policy decides.
    let user = format!("--as=system:serviceaccount:{NAMESPACE}:causeway-paths");
    for slice in [unlabelled, dispatched] {
        member.apply(&slice).await.ok();
        for verb in ["replace", "delete"] {
            let args = [verb, "-f", "-", &user, "--as-group=system:masters"];
            let said = member.kubectl_with(args, &slice).await.refused();
            let is_by_policy = said.contains("only objects with its label");
            assert!(is_by_policy, "{verb} {slice}: {said}");
        }
    }
}

/// Whether a user with a role of Kubernetes in the namespace `shop` may do that there.
async fn people_may(cluster: &Cluster, role: &str, verb: &str, what: &str) -> bool {
    let user = User {
        name: role,
        groups: &["system:authenticated"],
    };
    is_allowed(cluster, user, verb, what, "shop").await
}

/// Gives a user of the role's name that role in the namespace `shop`, and waits until it holds what
/// is aggregated into it.
async fn with_roles(cluster: &Cluster, roles: &[&str], aggregated: &str) {
    cluster.kubectl(["create", "namespace", "shop"]).await.ok();
    for role in roles {
        let (kind, user) = (format!("--clusterrole={role}"), format!("--user={role}"));
        let bind = ["create", "rolebinding", role, &kind, &user, "-n", "shop"];
        cluster.kubectl(bind).await.ok();
        eventually("the role is aggregated", SOON, async || {
            people_may(cluster, role, "list", aggregated).await
        })
        .await;
    }
}

const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

#[tokio::test]
async fn who_edits_a_namespace_of_the_hub_writes_multi_cluster_services_and_who_views_it_reads_them()
 {
    let hub = fleet().await.hub();
    let kind = "networking.karmada.io:multiclusterservices";
    with_roles(hub, &["admin", "edit", "view"], kind).await;
    for role in ["admin", "edit", "view"] {
        for verb in ["get", "watch"] {
            assert!(people_may(hub, role, verb, kind).await, "{role} {verb}");
        }
        for verb in WRITES {
            let expected = role != "view";
            let answer = people_may(hub, role, verb, kind).await;
            assert_eq!(answer, expected, "{role} {verb}");
        }
        let status = format!("{kind}/status");
        assert!(!people_may(hub, role, "patch", &status).await, "{role}");
        let clusters = "cluster.karmada.io:clusters";
        assert!(!people_may(hub, role, "patch", clusters).await, "{role}");
    }
}

#[tokio::test]
async fn who_edits_a_namespace_of_a_member_exports_from_it_and_nobody_but_causeway_writes_imports()
{
    let member = fleet().await.member("member1");
    let file = manifest("member/rbac.yaml");
    member.kubectl(["apply", "-f", &file]).await.ok();
    let exports = "multicluster.x-k8s.io:serviceexports";
    let imports = "multicluster.x-k8s.io:serviceimports";
    with_roles(member, &["admin", "edit", "view"], exports).await;
    for role in ["admin", "edit", "view"] {
        for kind in [exports, imports] {
            for verb in ["get", "watch"] {
                let answer = people_may(member, role, verb, kind).await;
                assert!(answer, "{role} {verb} {kind}");
            }
            for verb in WRITES {
                let expected = role != "view" && kind == exports;
                let answer = people_may(member, role, verb, kind).await;
                assert_eq!(answer, expected, "{role} {verb} {kind}");
            }
            let status = format!("{kind}/status");
            assert!(!people_may(member, role, "patch", &status).await, "{role}");
        }
    }
}
