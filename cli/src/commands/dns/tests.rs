use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::diagnosis::diagnose;
use super::gather::{MemberDns, Server};
use super::plan::{DnsPlan, Edit, Refusal, plan};
use super::site::{ConfigMaps, CoreDns, Location};
use crate::args::Multicluster;
use crate::observe::installation::Forbidden;
use crate::observe::installation::rights::MissingRight;
use crate::views::check::{Check, State};
use causeway::api::multicluster::Version;

const COREFILE: &str = ".:53 {\n    errors\n    kubernetes cluster.local {\n        pods insecure\n    }\n    reload\n}\n";
const BLOCK: &str = "clusterset.local:53 {\n    errors\n    kubernetes clusterset.local {\n        multicluster clusterset.local\n    }\n}\n";
const NEW: &str = "registry.k8s.io/coredns/coredns:v1.13.1";
const OLD: &str = "registry.k8s.io/coredns/coredns:v1.12.1";
const FIX: &str = "kubectl mcs dns member1 --fix";

fn from<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

fn config_volume(name: &str, config_map: &str, items: Value) -> Value {
    json!({ "name": name, "configMap": { "name": config_map, "optional": true, "items": items } })
}

/// Returns the Deployment of k3s. Its second volume is the only difference to kubeadm's.
fn deployment(image: &str) -> Value {
    let items = json!([{ "key": "Corefile", "path": "Corefile" }]);
    json!({
        "metadata": { "name": "coredns", "namespace": "kube-system" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "k8s-app": "kube-dns" } },
            "template": {
                "metadata": { "labels": { "k8s-app": "kube-dns" } },
                "spec": {
                    "serviceAccountName": "coredns",
                    "containers": [{
                        "name": "coredns", "image": image, "args": ["-conf", "/etc/coredns/Corefile"],
                        "volumeMounts": [
                            { "name": "config-volume", "mountPath": "/etc/coredns" },
                            { "name": "custom", "mountPath": "/etc/coredns/custom/" },
                        ],
                    }],
                    "volumes": [
                        config_volume("config-volume", "coredns", items),
                        config_volume("custom", "coredns-custom", Value::Null),
                    ],
                },
            },
        },
        "status": { "availableReplicas": 2 },
    })
}

fn config_map(name: &str, data: Value) -> (String, ConfigMap) {
    let map = json!({ "metadata": { "name": name, "resourceVersion": "7" }, "data": data });
    (name.to_owned(), from(map))
}

fn site(image: &str) -> CoreDns {
    let autoscaler = json!({
        "metadata": { "name": "dns-autoscaler" },
        "spec": { "selector": {}, "template": {
            "metadata": { "labels": { "k8s-app": "kube-dns" } },
            "spec": { "containers": [{ "name": "autoscaler", "image": "cpa/cluster-proportional-autoscaler:1.8.8" }] },
        } },
    });
    let all: Vec<Deployment> = [autoscaler, deployment(image)].map(from).into();
    CoreDns::among(&all).expect("CoreDNS")
}

/// Returns a member with the given Corefile and all rights.
fn member(image: &str, corefile: &str) -> MemberDns {
    let maps = [config_map("coredns", json!({ "Corefile": corefile }))];
    MemberDns {
        title: "Kubernetes v1.36.3 at https://member1".to_owned(),
        imports: Ok(vec![Version::V1beta1, Version::V1alpha1]),
        coredns: Ok(Some(Server {
            site: site(image),
            maps: Ok(maps.into()),
            missing_rights: Ok(Vec::new()),
            pods: Ok(Vec::new()),
        })),
        node_local: Ok(None),
    }
}

fn server(member: &mut MemberDns) -> &mut Server {
    member
        .coredns
        .as_mut()
        .expect("read")
        .as_mut()
        .expect("CoreDNS")
}

fn maps(member: &mut MemberDns) -> &mut ConfigMaps {
    server(member).maps.as_mut().expect("read")
}

fn missing() -> MissingRight {
    MissingRight {
        resource: "serviceimports".to_owned(),
        namespace: None,
        verbs: vec!["list".to_owned(), "watch".to_owned()],
    }
}

fn edit_of(
    config_map: &str,
    key: &str,
    resource_version: Option<&str>,
    texts: [&str; 2],
) -> DnsPlan {
    let [before, after] = texts.map(str::to_owned);
    DnsPlan {
        grant: None,
        edit: Some(Edit {
            location: Location {
                config_map: config_map.to_owned(),
                key: key.to_owned(),
            },
            resource_version: resource_version.map(str::to_owned),
            before,
            after,
        }),
    }
}

#[test]
fn the_server_block_goes_to_the_end_of_the_corefile_or_into_a_file_that_it_imports() {
    let plain = plan(&member(NEW, COREFILE), None).expect("a plan");
    let after = format!("{COREFILE}{BLOCK}");
    assert_eq!(
        plain,
        edit_of("coredns", "Corefile", Some("7"), [COREFILE, &after])
    );

    // AKS and Gardener import relative to the Corefile.
    let key = "clusterset.server";
    for import in ["custom/*.server", "/etc/coredns/custom/*.server"] {
        let own = member(NEW, &format!("{COREFILE}import {import}\n"));
        let planned = plan(&own, None).expect("a plan");
        assert_eq!(
            planned,
            edit_of("coredns-custom", key, None, ["", BLOCK]),
            "{import}"
        );
    }
    let importing = format!("{COREFILE}import custom/*.server\n");
    let mut own = member(NEW, &importing);
    let theirs = "example.org {\n    whoami\n}";
    let (name, map) = config_map("coredns-custom", json!({ key: theirs }));
    maps(&mut own).insert(name, map);
    let planned = plan(&own, None).expect("a plan");
    let after = format!("{theirs}\n{BLOCK}");
    assert_eq!(
        planned,
        edit_of("coredns-custom", key, Some("7"), [theirs, &after])
    );
    // A served zone needs no edit, whatever the image.
    let (name, map) = config_map("coredns-custom", json!({ key: after }));
    maps(&mut own).insert(name, map);
    assert_eq!(plan(&own, None).expect("a plan"), DnsPlan::default());
    server(&mut own).site.image = OLD.to_owned();
    server(&mut own).missing_rights = Ok(vec![missing()]);
    let rights = DnsPlan {
        grant: Some("coredns".to_owned()),
        edit: None,
    };
    assert_eq!(plan(&own, None).expect("a plan"), rights);
}

#[test]
fn nothing_is_written_that_the_image_may_not_know() {
    for (image, given, part) in [
        (OLD, None, "is older than CoreDNS 1.12.2"),
        (
            "somebody/dns:1.14.0",
            None,
            "has no tag that shows the version",
        ),
        ("coredns/coredns:latest", None, "--image-has=option"),
    ] {
        let error = plan(&member(image, COREFILE), given)
            .expect_err(image)
            .to_string();
        assert!(error.contains(part) && error.contains(image), "{error}");
    }
    for (image, given, part) in [
        (
            OLD,
            Multicluster::Plugin,
            "\n    multicluster clusterset.local\n}",
        ),
        (
            "coredns/coredns:latest",
            Multicluster::Option,
            "        multicluster clusterset.local\n",
        ),
    ] {
        let planned = plan(&member(image, COREFILE), Some(given)).expect("a plan");
        let edit = planned.edit.expect("a change");
        assert!(
            edit.after.starts_with(COREFILE) && edit.after.contains(part),
            "{}",
            edit.after
        );
    }
}

#[test]
fn what_cannot_be_changed_safely_is_refused_with_what_to_do_instead() {
    type Case = (&'static str, fn(&mut MemberDns), &'static str);
    let cases: [Case; 10] = [
        (
            "no ServiceImport",
            |member| member.imports = Ok(Vec::new()),
            "kubectl mcs join",
        ),
        (
            "no version that CoreDNS reads",
            |member| member.imports = Ok(vec![Version::V1beta1]),
            "as v1alpha1",
        ),
        (
            "no CoreDNS",
            |member| member.coredns = Ok(None),
            "no Deployment in kube-system",
        ),
        (
            "forbidden",
            |member| server(member).maps = Err(Forbidden("configmaps is forbidden".to_owned())),
            "configmaps is forbidden",
        ),
        (
            "no ConfigMap",
            |member| maps(member).clear(),
            "CoreDNS reads /etc/coredns/Corefile, which is in no ConfigMap",
        ),
        (
            "a file from elsewhere",
            |member| {
                let text = format!("{COREFILE}import /other/*\n");
                maps(member).extend([config_map("coredns", json!({ "Corefile": text }))]);
            },
            "it imports /other/*, which is in no ConfigMap that CoreDNS mounts there. To serve the zone all the same, add what fits there:\n\
             clusterset.local:53 {",
        ),
        (
            "options that cannot be repeated",
            |member| {
                let nested = "    errors {\n        deep {\n            er\n        }\n    }\n";
                let text = COREFILE.replacen("    errors\n", nested, 1);
                maps(member).extend([config_map("coredns", json!({ "Corefile": text }))]);
            },
            "its plugin errors has options that cannot be repeated for clusterset.local. To serve the zone all the same",
        ),
        (
            "Submariner",
            |member| {
                let text =
                    format!("{COREFILE}clusterset.local:53 {{\n    forward . 10.96.0.99\n}}\n");
                maps(member).extend([config_map("coredns", json!({ "Corefile": text }))]);
            },
            "it has forward. If nobody needs that server block, delete it",
        ),
        (
            "Helm",
            |member| {
                let map = maps(member).get_mut("coredns").expect("a ConfigMap");
                map.metadata.annotations =
                    Some([("meta.helm.sh/release-name".to_owned(), "dns".to_owned())].into());
            },
            "is kept by Helm (release dns), which would undo a change of it. Add there, to key Corefile:\nclusterset.local:53 {",
        ),
        (
            "EKS",
            |member| {
                let map = maps(member).get_mut("coredns").expect("a ConfigMap");
                map.metadata.managed_fields = Some(from(
                    json!([{ "manager": "eks", "fieldsV1": { "f:data": {} } }]),
                ));
            },
            "the EKS add-on",
        ),
    ];
    let golden = cases.iter().map(|(what, change, _)| {
        let mut member = member(NEW, COREFILE);
        change(&mut member);
        let report = crate::views::check::Report::new(diagnose(&member, FIX, None));
        (*what, crate::golden::both(&report.render(), &report))
    });
    crate::golden::check("dns", golden);
    for (what, change, part) in cases {
        let mut member = member(NEW, COREFILE);
        change(&mut member);
        let refusal: Refusal = plan(&member, None).expect_err(what);
        assert!(refusal.to_string().contains(part), "{what}: {refusal}");
    }
}

#[track_caller]
fn check_of(member: &MemberDns, name: &str) -> Check {
    let all = diagnose(member, FIX, None);
    let found = all.iter().find(|check| check.name == name);
    found
        .unwrap_or_else(|| panic!("no {name} in {all:#?}"))
        .clone()
}

#[test]
fn each_thing_that_the_zone_needs_is_checked() {
    let whole = member(NEW, &format!("{COREFILE}{BLOCK}"));
    let all = diagnose(&whole, FIX, None);
    let names: Vec<_> = all.iter().map(|check| &*check.name).collect();
    assert_eq!(
        names,
        [
            "member",
            "definition of ServiceImport",
            "CoreDNS",
            "rights of CoreDNS",
            "image",
            "Corefile",
            "roll-out"
        ]
    );
    assert!(
        all.iter().all(|check| check.state == State::Healthy),
        "{all:#?}"
    );

    type Case = (
        &'static str,
        fn(&mut MemberDns),
        State,
        &'static str,
        &'static str,
    );
    let cases: [Case; 12] = [
        (
            "definition of ServiceImport",
            |it| it.imports = Ok(Vec::new()),
            State::Unhealthy,
            "not served",
            "kubectl mcs join",
        ),
        (
            "definition of ServiceImport",
            |it| it.imports = Ok(vec![Version::V1beta1]),
            State::Unhealthy,
            "CoreDNS reads no other version",
            "serves both",
        ),
        (
            "definition of ServiceImport",
            |it| it.imports = Err(Forbidden("no".to_owned())),
            State::Unknown,
            "not checked: no",
            "",
        ),
        (
            "CoreDNS",
            |it| it.coredns = Ok(None),
            State::Unhealthy,
            "no Deployment in kube-system is CoreDNS",
            "docs/clusterset.md",
        ),
        (
            "CoreDNS",
            |it| server(it).site.available = (1, 2),
            State::Unhealthy,
            "1 of 2 replicas",
            "logs deployment/coredns",
        ),
        (
            "rights of CoreDNS",
            |it| server(it).missing_rights = Ok(vec![missing()]),
            State::Unhealthy,
            "account kube-system/coredns may not list and watch serviceimports",
            FIX,
        ),
        (
            "image",
            |it| server(it).site.image = OLD.to_owned(),
            State::Unhealthy,
            "CoreDNS 1.12.1",
            "Kubernetes 1.35",
        ),
        (
            "image",
            |it| server(it).site.image = "coredns".to_owned(),
            State::Unknown,
            "shows no version",
            "kubectl -n kube-system exec deployment/coredns -c coredns -- /coredns -version",
        ),
        (
            "image",
            |it| {
                let text =
                    ".:53 {\n    multicluster clusterset.local\n    kubernetes cluster.local\n}\n";
                maps(it).extend([config_map("coredns", json!({ "Corefile": text }))]);
            },
            State::Unknown,
            "plugin coredns/multicluster",
            "/coredns -plugins",
        ),
        (
            "Corefile",
            |it| maps(it).extend([config_map("coredns", json!({ "Corefile": COREFILE }))]),
            State::Unhealthy,
            "no server block serves clusterset.local",
            FIX,
        ),
        (
            "NodeLocal DNSCache",
            |it| {
                it.node_local = Ok(Some("cluster.local:53 {\n    forward . 10.96.0.10\n}\n.:53 {\n    forward . 1.1.1.1\n}\n".to_owned()))
            },
            State::Unhealthy,
            "pods that use it do not reach CoreDNS for its names",
            "edit configmap node-local-dns",
        ),
        (
            "NodeLocal DNSCache",
            |it| {
                it.node_local = Ok(Some(
                    "clusterset.local:53 {\n    forward . 10.96.0.10\n}\n".to_owned(),
                ))
            },
            State::Healthy,
            "has a server block",
            "",
        ),
    ];
    for (name, change, state, message, remedy) in cases {
        let mut changed = member(NEW, &format!("{COREFILE}{BLOCK}"));
        change(&mut changed);
        let check = check_of(&changed, name);
        assert_eq!(check.state, state, "{check:?}");
        assert!(check.message.contains(message), "{check:?}");
        let fixed = check.remedy.clone().unwrap_or_default();
        assert!(fixed.contains(remedy), "{check:?}");
    }
}

#[test]
fn without_reload_a_pod_that_is_older_than_the_corefile_is_to_be_restarted() {
    let text = format!("{COREFILE}{BLOCK}").replace("    reload\n", "");
    let pod = |since: &str| {
        from(json!({ "status": { "containerStatuses": [{
            "name": "coredns", "ready": true, "image": "", "imageID": "", "restartCount": 0,
            "state": { "running": { "startedAt": since } },
        }] } }))
    };
    for (pods, state, part) in [
        (vec![], State::Unknown, "is not known"),
        (
            vec![pod("2026-11-23T03:00:01Z")],
            State::Healthy,
            "every pod started after",
        ),
        (
            vec![pod("2026-11-23T03:00:01Z"), pod("2026-11-23T02:59:59Z")],
            State::Unhealthy,
            "runs since 2026-11-23T02:59:59Z, before the last change at 2026-11-23T03:00:00Z",
        ),
    ] {
        let mut old = member(NEW, &text);
        server(&mut old).pods = Ok(pods);
        let map = maps(&mut old).get_mut("coredns").expect("a ConfigMap");
        map.metadata.managed_fields = Some(from(
            json!([{ "manager": "x", "time": "2026-11-23T03:00:00Z" }]),
        ));
        let check = check_of(&old, "roll-out");
        assert_eq!(check.state, state, "{check:?}");
        assert!(check.message.contains(part), "{check:?}");
    }
}
