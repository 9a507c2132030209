use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::diagnosis::diagnose;
use super::gather::{MemberDns, Server};
use super::plan::{ByHand, DnsPlan, Edit, ZoneChange, plan};
use super::site::{ConfigMaps, CoreDns, Location};
use super::{DnsError, fix};
use crate::args::Multicluster;
use crate::observe::installation::rights::MissingRight;
use crate::views::check::{Check, State};
use causeway::api::multicluster::Version;

const COREFILE: &str = ".:53 {\n    errors\n    kubernetes cluster.local {\n        pods insecure\n    }\n    reload\n}\n";
const BLOCK: &str = "clusterset.local:53 {\n    errors\n    kubernetes clusterset.local {\n        multicluster clusterset.local\n    }\n}\n";
const NEW: &str = "registry.k8s.io/coredns/coredns:v1.13.1";
const OLD: &str = "registry.k8s.io/coredns/coredns:v1.12.1";
const FIX: &str = "kubectl mcs dns member1 --member-kubeconfig FILE --fix";

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

/// Replaces the Corefile of a member.
fn set_corefile(member: &mut MemberDns, text: &str) {
    maps(member).extend([config_map("coredns", json!({ "Corefile": text }))]);
}

/// Replaces a part of the Corefile of a member.
fn replace(member: &mut MemberDns, from: &str, to: &str) {
    set_corefile(member, &COREFILE.replace(from, to));
}

#[track_caller]
fn edit_of(member: &MemberDns, given: Option<Multicluster>) -> Edit {
    match plan(member, FIX, given).expect("a plan").zone {
        ZoneChange::Edit(edit) => edit,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn by_hand(member: &MemberDns, given: Option<Multicluster>) -> ByHand {
    match plan(member, FIX, given).expect("a plan").zone {
        ZoneChange::ByHand(by_hand) => *by_hand,
        other => panic!("{other:?}"),
    }
}

#[test]
fn server_block_is_appended_to_the_only_corefile() {
    for newline in ["", "\n"] {
        let before = COREFILE.trim_end().to_owned() + newline;
        let mut own = member(NEW, &before);
        let location = Location {
            config_map: "coredns".to_owned(),
            key: "Corefile".to_owned(),
        };
        let edit = Edit {
            location,
            resource_version: Some("7".to_owned()),
            before,
            after: format!("{COREFILE}{BLOCK}"),
        };
        assert_eq!(edit_of(&own, None), edit);
        server(&mut own).missing_rights = Ok(vec![missing()]);
        let grant = Some("coredns".to_owned());
        let zone = ZoneChange::Edit(edit);
        assert_eq!(
            plan(&own, FIX, None).expect("a plan"),
            DnsPlan { grant, zone }
        );
    }
}

#[test]
fn served_zone_needs_rights_alone_whatever_the_image() {
    let custom = config_map("coredns-custom", json!({ "a.server": BLOCK }));
    for (corefile, other) in [
        (format!("{COREFILE}{BLOCK}"), None),
        (format!("{COREFILE}import custom/*.server\n"), Some(custom)),
    ] {
        let mut own = member(OLD, &corefile);
        maps(&mut own).extend(other);
        assert_eq!(plan(&own, FIX, None).expect("a plan"), DnsPlan::default());
        server(&mut own).missing_rights = Ok(vec![missing()]);
        let grant = Some("coredns".to_owned());
        let zone = ZoneChange::None;
        assert_eq!(
            plan(&own, FIX, None).expect("a plan"),
            DnsPlan { grant, zone }
        );
    }
}

#[test]
fn images_without_proof_of_the_option_are_refused() {
    for (image, given, part) in [
        (OLD, None, "has no option multicluster"),
        ("somebody/dns:1.14.0", None, "does not show the version"),
        ("coredns/coredns:latest", None, "--image-has=option"),
    ] {
        let error = plan(&member(image, COREFILE), FIX, given)
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
        let edit = edit_of(&member(image, COREFILE), Some(given));
        assert!(
            edit.after.starts_with(COREFILE) && edit.after.contains(part),
            "{}",
            edit.after
        );
    }
}

/// Returns what `--fix` shows, and its error.
fn fix(member: &MemberDns) -> String {
    let planned = match plan(member, FIX, None) {
        Ok(planned) => planned,
        Err(why) => return format!("error: {}\n", DnsError::Refused(why)),
    };
    let shown = fix::shown(&planned);
    let ZoneChange::ByHand(by_hand) = planned.zone else {
        return shown;
    };
    let name = "member1".to_owned();
    format!("{shown}error: {}\n", DnsError::ByHand { name, by_hand })
}

type Change = fn(&mut MemberDns);

/// States of a member without the zone.
const STATES: [(&str, Change); 19] = [
    ("a CoreDNS of its own", |_| ()),
    ("no ServiceImport", |member| member.imports = Ok(Vec::new())),
    ("no version that CoreDNS reads", |member| {
        member.imports = Ok(vec![Version::V1beta1]);
    }),
    ("no CoreDNS", |member| member.coredns = Ok(None)),
    ("forbidden", |member| {
        server(member).maps = Err("configmaps is forbidden".to_owned());
    }),
    ("an image without the option", |member| {
        server(member).site.image = OLD.to_owned();
    }),
    ("several CoreDNS", |member| {
        server(member).site.others = vec!["coredns-b".to_owned()];
    }),
    ("no ConfigMap", |member| maps(member).clear()),
    ("k3s", |member| {
        set_corefile(member, &format!("{COREFILE}import custom/*.server\n"));
    }),
    ("k3s with a file of server blocks", |member| {
        set_corefile(member, &format!("{COREFILE}import custom/*.server\n"));
        let data = json!({ "clusterset.server": "example.org {\n    whoami\n}\n" });
        maps(member).extend([config_map("coredns-custom", data)]);
    }),
    ("imports of plugins alone", |member| {
        replace(member, "reload\n", "reload\n    import custom/*.override\n");
    }),
    ("a file from elsewhere", |member| {
        set_corefile(member, &format!("{COREFILE}import /other/*\n"));
    }),
    ("a snippet", |member| {
        set_corefile(member, &format!("(k) {{\n    errors\n}}\n{COREFILE}"));
    }),
    ("no plugin kubernetes", |member| {
        set_corefile(member, ".:53 {\n    whoami\n}\n");
    }),
    ("the zone without the option", |member| {
        replace(member, "cluster.local", "clusterset.local");
    }),
    ("a mention of the zone", |member| {
        replace(member, "errors\n", "errors # ClusterSet.local\n");
    }),
    ("Submariner", |member| {
        let block = "clusterset.local:53 {\n    forward . 10.96.0.99\n}\n";
        set_corefile(member, &format!("{COREFILE}{block}"));
    }),
    ("Helm", |member| {
        let map = maps(member).get_mut("coredns").expect("a ConfigMap");
        map.metadata.annotations =
            Some([("meta.helm.sh/release-name".to_owned(), "dns".to_owned())].into());
    }),
    ("EKS", |member| {
        let map = maps(member).get_mut("coredns").expect("a ConfigMap");
        let entry = json!([{ "manager": "eks", "fieldsV1": { "f:data": {} } }]);
        map.metadata.managed_fields = Some(from(entry));
    }),
];

#[test]
fn fix_writes_an_unambiguous_corefile_and_shows_other_changes() {
    let states = STATES.map(|(name, change)| {
        let mut member = member(NEW, COREFILE);
        change(&mut member);
        let plan = plan(&member, FIX, None);
        let is_edit = plan.is_ok_and(|plan| matches!(plan.zone, ZoneChange::Edit(_)));
        assert_eq!(is_edit, name == "a CoreDNS of its own", "{name}");
        let report = crate::views::check::Report::new(diagnose(&member, FIX, None));
        let checked = crate::golden::both(&report.render(), &report);
        (name, format!("{checked}--fix\n{}", fix(&member)))
    });
    crate::golden::check("dns", states.into_iter());
    let mut member = member(NEW, COREFILE);
    replace(&mut member, "cluster.local", "clusterset.local");
    let by_hand = by_hand(&member, Some(Multicluster::Plugin));
    let place = "server block .:53, without clusterset.local at its plugin kubernetes, in";
    assert!(by_hand.place.starts_with(place), "{by_hand:?}");
}

#[test]
fn corefile_under_another_mount_is_unknown() {
    for mount in [
        json!({ "name": "config-volume", "mountPath": "/etc/coredns/Corefile", "subPath": "Corefile" }),
        json!({ "name": "config-volume", "mountPath": "/etc/coredns", "subPath": "a" }),
        json!({ "name": "secret", "mountPath": "/etc/coredns" }),
    ] {
        let mut own = member(NEW, COREFILE);
        let mut deployment = deployment(NEW);
        let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
        container["volumeMounts"] = json!([mount]);
        server(&mut own).site = CoreDns::among(&[from(deployment)]).expect("CoreDNS");
        assert_eq!(check_of(&own, "Corefile").state, State::Unknown, "{mount}");
    }
}

#[test]
fn every_coredns_of_the_cluster_is_named() {
    let mut other = deployment(NEW);
    other["metadata"]["name"] = json!("coredns-b");
    let site = CoreDns::among(&[deployment(NEW), other].map(from)).expect("CoreDNS");
    assert_eq!(
        (&*site.name, &*site.others),
        ("coredns", &["coredns-b".to_owned()][..])
    );
    let mut own = member(NEW, COREFILE);
    server(&mut own).site = site;
    assert_eq!(check_of(&own, "other CoreDNS").state, State::Unknown);
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
    // The golden file of `STATES` has further cases.
    let cases: [Case; 10] = [
        (
            "definition of ServiceImport",
            |it| it.imports = Ok(vec![Version::V1beta1]),
            State::Unhealthy,
            "CoreDNS reads no other version",
            "serves both",
        ),
        (
            "CoreDNS",
            |it| it.coredns = Ok(None),
            State::Unhealthy,
            "no Deployment in kube-system is CoreDNS",
            "docs/clusterset.md",
        ),
        (
            "image",
            |it| server(it).site.image = OLD.to_owned(),
            State::Unhealthy,
            "CoreDNS 1.12.1",
            "Kubernetes 1.35",
        ),
        (
            "definition of ServiceImport",
            |it| it.imports = Err("no".to_owned()),
            State::Unknown,
            "not checked: no",
            "",
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
            |it| server(it).site.image = "coredns".to_owned(),
            State::Unknown,
            "does not show the version",
            "kubectl -n kube-system exec deployment/coredns -c coredns -- /coredns -version",
        ),
        (
            "image",
            |it| {
                let text =
                    ".:53 {\n    multicluster clusterset.local\n    kubernetes cluster.local\n}\n";
                set_corefile(it, text);
            },
            State::Unknown,
            "plugin coredns/multicluster",
            "/coredns -plugins",
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
