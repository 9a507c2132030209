//! Options of the chart beyond `kubectl mcs install`.

use std::collections::BTreeMap;

use causeway_tests::{chart, repository};
use serde_json::{Value, json};

use crate::{objects, rendered};

const POD: &str = "/spec/template/spec";
const PROGRAMS: [&str; 3] = ["webhook", "controller", "tunnel"];
const TUNNEL: &str = "tunnel.enabled=true";

fn deployment(values: &[&str], program: &str) -> Value {
    let all = rendered(&[values, &[TUNNEL]].concat());
    all[&format!("Deployment causeway-system/causeway-{program}")].clone()
}

/// Each of these values of a program shows at that place of its Deployment alone. In each turn
/// neighbours are values of different programs, because two of one place would be one.
#[test]
fn settings_of_a_program_affect_its_deployment_only() {
    let container = "/spec/template/spec/containers/0";
    let settings = [
        ("replicas=3", "/spec/replicas".to_owned(), json!(3)),
        (
            "priorityClassName=system-cluster-critical",
            format!("{POD}/priorityClassName"),
            json!("system-cluster-critical"),
        ),
        (
            "nodeSelector.disk=ssd",
            format!("{POD}/nodeSelector"),
            json!({"disk": "ssd", "kubernetes.io/os": "linux"}),
        ),
        (
            r"nodeSelector.kubernetes\.io/os=other",
            format!("{POD}/nodeSelector"),
            json!({"kubernetes.io/os": "other"}),
        ),
        (
            "tolerations[0].operator=Exists",
            format!("{POD}/tolerations"),
            json!([{"operator": "Exists"}]),
        ),
        (
            "affinity.nodeAffinity.a=b",
            format!("{POD}/affinity"),
            json!({"nodeAffinity": {"a": "b"}}),
        ),
        (
            "podLabels.team=a",
            "/spec/template/metadata/labels/team".to_owned(),
            json!("a"),
        ),
        (
            "podAnnotations.team=a",
            "/spec/template/metadata/annotations/team".to_owned(),
            json!("a"),
        ),
        (
            "resources.limits.memory=1Gi",
            format!("{container}/resources/limits/memory"),
            json!("1Gi"),
        ),
        (
            "topologySpread=null",
            format!("{POD}/topologySpreadConstraints"),
            Value::Null,
        ),
    ];
    for turn in 0..PROGRAMS.len() {
        let owner = |number: usize| PROGRAMS[(number + turn) % PROGRAMS.len()];
        let values = settings.iter().enumerate();
        let values: Vec<_> = values
            .map(|(number, (value, ..))| format!("{}.{value}", owner(number)))
            .collect();
        let set: Vec<&str> = values.iter().map(String::as_str).collect();
        for program in PROGRAMS {
            let deployment = deployment(&set, program);
            for (number, (_, pointer, expected)) in settings.iter().enumerate() {
                let found = deployment.pointer(pointer).cloned().unwrap_or_default();
                let is_own = owner(number) == program;
                let what = format!("{program} with {}: {found}", values[number]);
                assert_eq!(found == *expected, is_own, "{what}");
            }
        }
    }
}

#[test]
fn topology_spread_selects_the_pods_of_its_program() {
    let spread = json!({
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "matchLabelKeys": ["pod-template-hash"],
    });
    let parts = [
        "maxSkew=1",
        "topologyKey=zone",
        "whenUnsatisfiable=DoNotSchedule",
    ];
    let of_program = |program| parts.map(|part| format!("{program}.topologySpread[0].{part}"));
    let values = PROGRAMS.map(of_program).concat();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    for program in PROGRAMS {
        let mut found = deployment(&values, program)
            .pointer(&format!("{POD}/topologySpreadConstraints/0"))
            .cloned()
            .unwrap();
        let selector = found
            .as_object_mut()
            .unwrap()
            .remove("labelSelector")
            .unwrap();
        assert_eq!(
            selector["matchLabels"]["app.kubernetes.io/component"],
            program
        );
        assert_eq!(found, spread);
    }
}

#[test]
fn pod_of_helm_test_is_placed_as_those_of_the_controller() {
    let check = chart::template([
        "--show-only=templates/tests/check.yaml",
        "--set=image.pullSecrets[0].name=credentials",
        "--set=controller.nodeSelector.disk=ssd",
        "--set=controller.tolerations[0].operator=Exists",
        "--set=controller.priorityClassName=high",
    ]);
    let check = objects(&check.unwrap_or_else(|e| panic!("{e}")));
    let pod = &check["Pod causeway-system/causeway-check"]["spec"];
    for (field, expected) in [
        ("imagePullSecrets", json!([{"name": "credentials"}])),
        (
            "nodeSelector",
            json!({"disk": "ssd", "kubernetes.io/os": "linux"}),
        ),
        ("tolerations", json!([{"operator": "Exists"}])),
        ("priorityClassName", Value::Null),
    ] {
        assert_eq!(pod[field], expected, "{field}");
    }
}

#[test]
fn image_has_tag_digest_and_pull_policy_of_the_values() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let values = [
        "image.registry=registry.example:5000/team".to_owned(),
        "image.tag=1.2".to_owned(),
        "image.pullPolicy=Always".to_owned(),
        "image.pullSecrets[0].name=credentials".to_owned(),
        format!("controller.image.digest={digest}"),
    ];
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    for (program, end) in [
        ("webhook", String::new()),
        ("controller", format!("@{digest}")),
    ] {
        let deployment = deployment(&values, program);
        let pod = deployment.pointer(POD).unwrap();
        let image = format!("registry.example:5000/team/causeway-{program}:1.2{end}");
        assert_eq!(pod["containers"][0]["image"], image);
        assert_eq!(pod["containers"][0]["imagePullPolicy"], "Always");
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "credentials"}]));
    }
}

#[test]
fn further_flags_come_last() {
    let flags = [
        "webhook.extraArgs[0]=--unknown-cluster=deny",
        "controller.extraArgs[0]=--provider-ttl=1h",
    ];
    for (program, flag) in [
        ("webhook", "--unknown-cluster=deny"),
        ("controller", "--provider-ttl=1h"),
    ] {
        let deployment = deployment(&flags, program);
        let args = deployment
            .pointer(&format!("{POD}/containers/0/args"))
            .unwrap();
        assert_eq!(args.as_array().unwrap().last().unwrap(), flag);
    }
}

#[test]
fn cluster_profiles_bring_flags_rights_and_their_providers() {
    let values = [
        "clusterProfiles.namespaces={one,two}",
        "clusterProfiles.secrets=true",
        "clusterProfiles.providers[0].name=p",
        "clusterProfiles.providers[0].execConfig.command=/plugins/p",
        "controller.extraVolumes[0].name=plugins",
        "controller.extraVolumeMounts[0].name=plugins",
        "controller.extraVolumeMounts[0].mountPath=/plugins",
    ];
    let all = rendered(&values);
    let pod = &all["Deployment causeway-system/causeway-controller"]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let args = container["args"].as_array().unwrap();
    for flag in [
        "--cluster-profiles=one,two",
        "--secret-namespace=causeway-members,one,two",
        "--clusterprofile-provider-file=/etc/causeway/providers/providers.json",
    ] {
        assert!(args.contains(&json!(flag)), "{flag}: {args:?}");
    }
    let names = |list: &Value| -> Vec<Value> {
        let all = list.as_array().unwrap().iter();
        all.map(|one| one["name"].clone()).collect()
    };
    assert_eq!(names(&pod["volumes"]), ["providers", "plugins"]);
    assert_eq!(names(&container["volumeMounts"]), ["providers", "plugins"]);
    let file = &all["ConfigMap causeway-system/causeway-controller-providers"]["data"];
    let file: Value = serde_json::from_str(file["providers.json"].as_str().unwrap()).unwrap();
    let provider = json!({"name": "p", "execConfig": {"command": "/plugins/p"}});
    assert_eq!(file, json!({"providers": [provider]}));
    for namespace in ["one", "two"] {
        let role = &all[&format!("Role {namespace}/causeway-controller-profiles")]["rules"];
        let resources = [&role[0]["resources"][0], &role[1]["resources"][0]];
        assert_eq!(resources, ["clusterprofiles", "secrets"]);
    }
}

#[test]
fn changed_providers_restart_the_controller() {
    let checksum = |values: &[&str]| {
        let annotation = "/spec/template/metadata/annotations/checksum~1providers";
        deployment(values, "controller")
            .pointer(annotation)
            .cloned()
    };
    assert_eq!(checksum(&[]), None);
    let [one, two] = ["one", "two"].map(|command| {
        let command = format!("clusterProfiles.providers[0].execConfig.command=/plugins/{command}");
        let values = [
            "clusterProfiles.namespaces={one}",
            "clusterProfiles.providers[0].name=p",
            &command,
        ];
        let without = [&values[..], &["metrics.annotations=false"]].concat();
        assert_eq!(checksum(&without), checksum(&values));
        checksum(&values).expect("a checksum")
    });
    assert_ne!(one, two);
}

#[test]
fn tunnel_is_off_by_default_and_the_controller_uses_its_front() {
    assert!(!rendered(&[]).keys().any(|title| title.contains("tunnel")));
    let all = rendered(&[
        TUNNEL,
        "tunnel.replicas=3",
        "tunnel.service.type=NodePort",
        "tunnel.service.nodePort=30443",
        "networkPolicy.frontFrom[0].ipBlock.cidr=192.0.2.7/32",
    ]);
    let at = |title: &str| &all[&format!("{title} causeway-system/causeway-tunnel")]["spec"];
    let pod = &at("Deployment")["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "default");
    assert_eq!(pod["automountServiceAccountToken"], false);
    let args = pod["containers"][0]["args"].as_array().unwrap();
    assert!(args.contains(&json!("--replicas=3")), "{args:?}");
    let files = pod["volumes"][0]["secret"]["items"].as_array().unwrap();
    let files = files.iter().map(|file| file["key"].as_str().unwrap());
    assert!(files.eq(["tls.crt", "tls.key", "ca.crt"]));
    let front = &at("Service")["ports"][0];
    let controller = &all["Deployment causeway-system/causeway-controller"].to_string();
    let url = format!(
        "http://causeway-tunnel.causeway-system.svc:{}",
        front["port"]
    );
    assert!(
        controller.contains(&format!("--tunnel-front={url}")),
        "{controller}"
    );
    let pod = &all["Deployment causeway-system/causeway-controller"]["spec"]["template"]["spec"];
    let mount = &pod["containers"][0]["volumeMounts"][0];
    let flag = json!(format!(
        "--tunnel-tls-dir={}",
        mount["mountPath"].as_str().unwrap()
    ));
    let args = pod["containers"][0]["args"].as_array().unwrap();
    assert!(args.contains(&flag), "{args:?}");
    // Without the Secret the controller starts.
    assert_eq!(pod["volumes"][0]["secret"]["optional"], true);
    assert_eq!(pod["volumes"][0]["name"], mount["name"]);
    let agents = &all["Service causeway-system/causeway-tunnel-agents"]["spec"];
    assert_eq!(agents["type"], "NodePort");
    assert_eq!(agents["ports"][0]["nodePort"], 30443);
    let clients = at("NetworkPolicy")["ingress"][1]["from"]
        .as_array()
        .unwrap();
    let component = "/podSelector/matchLabels/app.kubernetes.io~1component";
    assert_eq!(clients[0].pointer(component).unwrap(), "controller");
    assert_eq!(clients[1]["ipBlock"]["cidr"], "192.0.2.7/32");
    assert_eq!(at("PodDisruptionBudget")["maxUnavailable"], 1);
}

#[test]
fn front_for_clients_with_passwords_is_off_by_default() {
    let all = rendered(&[TUNNEL]);
    assert!(!all.keys().any(|title| title.contains("clients")));
    let title = "Deployment causeway-system/causeway-tunnel";
    assert!(!all[title].to_string().contains("auth-front"));

    let on = "tunnel.authenticatedFront.enabled=true";
    let all = rendered(&[
        TUNNEL,
        on,
        "tunnel.authenticatedFront.secretName=mine",
        "tunnel.authenticatedFront.tlsSecretName=other",
        "networkPolicy.clientsFrom[0].ipBlock.cidr=192.0.2.7/32",
    ]);
    let pod = &all[title]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let args = container["args"].as_array().unwrap();
    for flag in [
        "--auth-front-bind=[::]:7081",
        "--auth-front-passwords=/etc/causeway/clients/passwords",
        "--auth-front-tls-dir=/etc/causeway/clients-tls",
    ] {
        assert!(args.contains(&json!(flag)), "{flag}: {args:?}");
    }
    let mounts = container["volumeMounts"].as_array().unwrap();
    let volumes = pod["volumes"].as_array().unwrap();
    let secrets = volumes.iter().map(|one| &one["secret"]["secretName"]);
    assert!(secrets.eq(["causeway-tunnel", "mine", "other"]));
    for (mount, volume) in mounts.iter().zip(volumes) {
        assert_eq!(mount["name"], volume["name"]);
        assert_eq!(mount["readOnly"], true);
    }
    let at = |kind: &str| &all[&format!("{kind} causeway-system/causeway-tunnel-clients")]["spec"];
    let service = at("Service");
    assert_eq!(service["ports"][0]["port"], 7081);
    let target = &service["ports"][0]["targetPort"];
    let ports = container["ports"].as_array().unwrap();
    assert!(ports.contains(&json!({"name": target, "containerPort": 7081})));
    let rule = &at("NetworkPolicy")["ingress"][0];
    assert_eq!(&rule["ports"][0]["port"], target);
    assert_eq!(rule["from"][0]["ipBlock"]["cidr"], "192.0.2.7/32");

    let without = rendered(&[TUNNEL, on, "tunnel.authenticatedFront.tls=false"]);
    let args = &without[title]["spec"]["template"]["spec"]["containers"][0]["args"];
    let args = args.as_array().unwrap();
    assert!(args.contains(&json!("--auth-front-without-tls")));
}

#[test]
fn way_through_the_api_server_is_off_by_default() {
    let all = rendered(&[TUNNEL]);
    let title = "Deployment causeway-system/causeway-tunnel";
    assert!(!all.keys().any(|title| title.contains("upgrade")));
    assert!(!all[title].to_string().contains("upgrade"));

    let all = rendered(&[
        TUNNEL,
        "tunnel.throughApiServer=true",
        "networkPolicy.enabled=true",
        "networkPolicy.webhookFrom[0].ipBlock.cidr=192.0.2.7/32",
    ]);
    let container = &all[title]["spec"]["template"]["spec"]["containers"][0];
    let args = container["args"].as_array().unwrap();
    assert!(args.contains(&json!("--agents-upgrade-bind=[::]:7082")));
    let at = |kind: &str| &all[&format!("{kind} causeway-system/causeway-tunnel-upgrade")];
    let service = &at("Service")["spec"];
    assert!(service["type"].is_null(), "no address outside of the hub");
    assert_eq!(service["ports"][0]["port"], 80);
    let target = &service["ports"][0]["targetPort"];
    let ports = container["ports"].as_array().unwrap();
    assert!(ports.contains(&json!({"name": target, "containerPort": 7082})));
    let rule = &at("NetworkPolicy")["spec"]["ingress"][0];
    assert_eq!(&rule["ports"][0]["port"], target);
    assert_eq!(rule["from"][0]["ipBlock"]["cidr"], "192.0.2.7/32");
    let right = json!([{
        "apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get"],
        "resourceNames": ["http:causeway-tunnel-upgrade:80"],
    }]);
    assert_eq!(at("Role")["rules"], right);
    assert_eq!(
        at("RoleBinding")["subjects"][0]["name"],
        "causeway-tunnel-upgrade"
    );
    assert_eq!(at("ServiceAccount")["automountServiceAccountToken"], false);
}

#[test]
fn account_and_token_of_agents_outlive_the_release() {
    let all = rendered(&[TUNNEL, "tunnel.throughApiServer=true"]);
    let metadata =
        |kind: &str| &all[&format!("{kind} causeway-system/causeway-tunnel-upgrade")]["metadata"];
    for kind in ["ServiceAccount", "Secret"] {
        let annotations = &metadata(kind)["annotations"];
        assert_eq!(annotations["helm.sh/resource-policy"], "keep", "{kind}");
    }
    let annotations = &metadata("Secret")["annotations"];
    let account = &annotations["kubernetes.io/service-account.name"];
    assert_eq!(account, &metadata("ServiceAccount")["name"]);
}

#[test]
fn key_of_the_seal_outlives_the_release() {
    let all = rendered(&[]);
    let secret = &all["Secret causeway-system/causeway-export-seal"];
    let annotations = &secret["metadata"]["annotations"];
    assert_eq!(annotations["helm.sh/resource-policy"], "keep", "{secret}");
}

/// Annotations by which Helm, Argo CD and Flux retain an object.
const KEPT: [(&str, &str); 3] = [
    ("argocd.argoproj.io/sync-options", "Prune=false"),
    ("helm.sh/resource-policy", "keep"),
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
];

/// Returns the objects that any of these tools retains.
fn kept(values: &[&str]) -> BTreeMap<String, Value> {
    let mut all = rendered(values);
    all.retain(|_, object| {
        let annotations = &object["metadata"]["annotations"];
        KEPT.iter().any(|(name, _)| !annotations[name].is_null())
    });
    all
}

#[test]
fn retained_objects_are_not_pruned_by_gitops() {
    let values = [
        TUNNEL,
        "namespace.create=true",
        "tunnel.throughApiServer=true",
        "tunnel.enrolment.enabled=true",
    ];
    let all = kept(&values);
    let titles: Vec<_> = all.keys().map(String::as_str).collect();
    let expected = [
        "CustomResourceDefinition /clusters.cluster.karmada.io",
        "CustomResourceDefinition /multiclusterservices.networking.karmada.io",
        "Namespace /causeway-enrolment",
        "Namespace /causeway-members",
        "Namespace /causeway-system",
        "Secret causeway-system/causeway-export-seal",
        "Secret causeway-system/causeway-tunnel-upgrade",
        "ServiceAccount causeway-system/causeway-tunnel-upgrade",
    ];
    assert_eq!(titles, expected);
    for (title, object) in &all {
        for (name, value) in KEPT {
            let annotation = &object["metadata"]["annotations"][name];
            assert_eq!(annotation, value, "{title}: {name}");
        }
    }
    let all = kept(&["crds.keep=false"]);
    let is_definition = |title: &String| title.starts_with("CustomResourceDefinition ");
    assert!(!all.keys().any(is_definition));
}

#[test]
fn enrolment_is_off_by_default_and_its_rights_are_of_one_namespace() {
    let all = rendered(&[TUNNEL]);
    assert!(!all.keys().any(|title| title.contains("enrolment")));
    let all = rendered(&[
        TUNNEL,
        "tunnel.enrolment.enabled=true",
        "tunnel.enrolment.secretName=mine",
        "tunnel.enrolment.apiServerPorts={8443}",
    ]);
    let pod = &all["Deployment causeway-system/causeway-tunnel"]["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "causeway-tunnel");
    assert_eq!(pod["automountServiceAccountToken"], true);
    let container = &pod["containers"][0];
    let args = container["args"].as_array().unwrap();
    let mounts = container["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|one| one["name"] == "enrolment");
    let directory = mount.unwrap()["mountPath"].as_str().unwrap();
    let flag = format!("--enrolment-dir={directory}");
    assert!(args.contains(&json!(flag)), "{args:?}");
    let volumes = pod["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|one| one["name"] == "enrolment");
    assert_eq!(volume.unwrap()["secret"]["secretName"], "mine");
    let roles = all.iter().filter(|(title, _)| title.contains("Role"));
    let roles = roles.filter(|(title, _)| title.ends_with("/causeway-tunnel"));
    let titles: Vec<_> = roles.clone().map(|(title, _)| title.as_str()).collect();
    let expected = [
        "Role causeway-enrolment/causeway-tunnel",
        "RoleBinding causeway-enrolment/causeway-tunnel",
    ];
    assert_eq!(titles, expected);
    let rules = &all[expected[0]]["rules"];
    let secrets =
        json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "update"]}]);
    assert_eq!(rules, &secrets);
    let policy = &all["NetworkPolicy causeway-system/causeway-tunnel"]["spec"];
    assert_eq!(policy["egress"][0]["ports"][0]["port"], 8443);
}

#[test]
fn own_certificate_is_mounted_and_its_authority_registered() {
    let values = [
        "webhook.certificates.source=secret",
        "webhook.certificates.secretName=mine",
        "webhook.certificates.caBundle=-----BEGIN CERTIFICATE-----",
    ];
    let all = rendered(&values);
    let webhook = &all["Deployment causeway-system/causeway-webhook"];
    let pod = webhook.pointer(POD).unwrap();
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "mine");
    let mount = pod["containers"][0]["volumeMounts"][0]["mountPath"]
        .as_str()
        .unwrap();
    let flag = json!(format!("--tls-dir={mount}"));
    assert!(
        pod["containers"][0]["args"]
            .as_array()
            .unwrap()
            .contains(&flag)
    );
    for kind in ["Mutating", "Validating"] {
        let client =
            &all[&format!("{kind}WebhookConfiguration /causeway")]["webhooks"][0]["clientConfig"];
        assert_eq!(client["caBundle"], "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t");
        assert_eq!(client["service"]["name"], "causeway-webhook");
    }
}

#[test]
fn cert_manager_takes_an_issuer_that_is_there() {
    let values = [
        "webhook.certificates.source=certManager",
        "webhook.certificates.issuerRef.kind=ClusterIssuer",
        "webhook.certificates.issuerRef.name=internal",
    ];
    let all = rendered(&values);
    let certificate = &all["Certificate causeway-system/causeway-webhook"];
    assert_eq!(
        certificate["spec"]["issuerRef"],
        json!({"kind": "ClusterIssuer", "name": "internal"})
    );
    let brought: Vec<_> = all
        .keys()
        .filter(|title| title.starts_with("Issuer "))
        .collect();
    assert!(brought.is_empty(), "{brought:?}");
}

#[test]
fn network_policies_allow_the_served_ports_only() {
    let all = rendered(&[
        TUNNEL,
        "networkPolicy.enabled=true",
        "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
    ]);
    for program in PROGRAMS {
        let title = format!("causeway-system/causeway-{program}");
        let policy = &all[&format!("NetworkPolicy {title}")]["spec"];
        let deployment = &all[&format!("Deployment {title}")]["spec"];
        assert_eq!(policy["podSelector"], deployment["selector"]);
        let types = match program {
            "tunnel" => json!(["Ingress", "Egress"]),
            _ => json!(["Ingress"]),
        };
        assert_eq!(policy["policyTypes"], types);
        let ports = &deployment["template"]["spec"]["containers"][0]["ports"];
        let served = ports.as_array().unwrap().iter().map(|port| &port["name"]);
        let rules = policy["ingress"].as_array().unwrap();
        let opened = rules.iter().map(|rule| &rule["ports"][0]["port"]);
        assert!(served.eq(opened), "{policy}");
        for rule in rules {
            let is_limited =
                rule["ports"][0]["port"] == "admin" || rule["ports"][0]["port"] == "front";
            assert_eq!(rule["from"].is_array(), is_limited, "{rule}");
        }
    }
}

#[test]
fn restricted_egress_still_reaches_the_tunnel() {
    let egress = "networkPolicy.egress[0].ports[0].port=443";
    let given = json!({"ports": [{"port": 443}]});
    let all = rendered(&[egress]);
    let policy = &all["NetworkPolicy causeway-system/causeway-controller"]["spec"];
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["egress"], json!([given]));

    let all = rendered(&[egress, TUNNEL]);
    let tunnel = &all["Deployment causeway-system/causeway-tunnel"]["spec"];
    let ports = &tunnel["template"]["spec"]["containers"][0]["ports"];
    let is_front = |port: &&Value| port["name"] == "front";
    let front = ports.as_array().unwrap().iter().find(is_front).unwrap();
    let to_tunnel = json!({
        "ports": [{"port": front["containerPort"], "protocol": "TCP"}],
        "to": [{"podSelector": tunnel["selector"]}],
    });
    let policy = &all["NetworkPolicy causeway-system/causeway-controller"]["spec"];
    assert_eq!(policy["egress"], json!([given, to_tunnel]));
    let policy = &all["NetworkPolicy causeway-system/causeway-webhook"]["spec"];
    assert_eq!(policy["egress"], json!([given]));
}

#[test]
fn callers_of_the_webhook_are_limited_by_policy_and_certificate() {
    let all = rendered(&[
        "networkPolicy.webhookFrom[0].ipBlock.cidr=192.0.2.0/24",
        "webhook.clientCA.configMapName=callers",
        "webhook.clientCA.names={kube-apiserver,another}",
    ]);
    let rules = &all["NetworkPolicy causeway-system/causeway-webhook"]["spec"]["ingress"];
    let from = json!([{"ipBlock": {"cidr": "192.0.2.0/24"}}]);
    assert_eq!(rules[0]["from"], from);
    assert!(rules[1]["from"].is_null(), "{rules}");
    let webhook = &all["Deployment causeway-system/causeway-webhook"];
    let pod = webhook.pointer(POD).unwrap();
    let args = pod["containers"][0]["args"].as_array().unwrap();
    for flag in [
        "--client-ca=/etc/causeway/callers/ca.crt",
        "--client-name=kube-apiserver",
        "--client-name=another",
    ] {
        assert!(args.contains(&json!(flag)), "{flag}: {args:?}");
    }
    assert_eq!(pod["volumes"][0]["configMap"]["name"], "callers");
    let mount = &pod["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["name"], pod["volumes"][0]["name"]);
    assert_eq!(mount["mountPath"], "/etc/causeway/callers");
}

#[test]
fn webhook_has_its_own_priority_class_by_default() {
    let all = rendered(&[]);
    let name = "causeway-webhook";
    assert!(all[&format!("PriorityClass /{name}")]["value"].is_number());
    let pod = deployment(&[], "webhook");
    assert_eq!(
        pod.pointer(&format!("{POD}/priorityClassName")),
        Some(&json!(name))
    );
    let another = rendered(&["webhook.priorityClassName=another"]);
    assert!(!another.contains_key(&format!("PriorityClass /{name}")));
}

#[test]
fn prometheus_finds_the_pods_by_annotations_or_by_a_pod_monitor() {
    let values = [
        TUNNEL,
        "metrics.annotations=false",
        "metrics.podMonitor.enabled=true",
        "metrics.podMonitor.labels.release=prometheus",
    ];
    let all = rendered(&values);
    let monitor = &all["PodMonitor causeway-system/causeway"];
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let components = &monitor["spec"]["selector"]["matchExpressions"][0]["values"];
    assert_eq!(components, &json!(PROGRAMS));
    let port = &monitor["spec"]["podMetricsEndpoints"][0]["port"];
    for program in PROGRAMS {
        let deployment = &all[&format!("Deployment causeway-system/causeway-{program}")];
        let template = &deployment["spec"]["template"];
        assert!(template["metadata"]["annotations"].is_null(), "{template}");
        let ports = template["spec"]["containers"][0]["ports"]
            .as_array()
            .unwrap();
        assert!(ports.iter().any(|one| &one["name"] == port), "{ports:?}");
    }
}

#[test]
fn prometheus_rule_uses_the_timeout_of_the_webhook() {
    let values = [
        "metrics.prometheusRule.enabled=true",
        "metrics.prometheusRule.labels.release=prometheus",
        "webhook.timeoutSeconds=10",
    ];
    let all = rendered(&values);
    let rule = &all["PrometheusRule causeway-system/causeway"];
    assert_eq!(rule["metadata"]["labels"]["release"], "prometheus");
    let plain = repository().join("manifests/monitoring/rules.yaml");
    let plain = std::fs::read_to_string(plain).unwrap();
    assert!(plain.contains("> 2.5"), "the rule of timeoutSeconds: 5");
    let plain: Value = serde_saphyr::from_str(&plain.replace("> 2.5", "> 5")).unwrap();
    assert_eq!(rule["spec"], plain);
    assert!(!rendered(&[]).contains_key("PrometheusRule causeway-system/causeway"));
}

#[test]
fn common_labels_are_on_every_object_and_pod_and_in_no_selector() {
    let values = [
        "commonLabels.team=a",
        "networkPolicy.enabled=true",
        "metrics.podMonitor.enabled=true",
        "metrics.prometheusRule.enabled=true",
    ];
    let all = rendered(&values);
    assert!(all.len() > 25);
    for (title, object) in &all {
        assert_eq!(object["metadata"]["labels"]["team"], "a", "{title}");
        for pointer in ["/spec/selector", "/spec/podSelector"] {
            let selector = object.pointer(pointer).unwrap_or(&Value::Null).to_string();
            assert!(!selector.contains("team"), "{title}");
        }
        if title.starts_with("Deployment ") {
            assert_eq!(
                object["spec"]["template"]["metadata"]["labels"]["team"],
                "a"
            );
        }
    }
}

#[test]
fn budgets_and_policies_are_left_out_where_they_are_not_wanted() {
    let kinds = |values: &[&str]| {
        let titles = rendered(values).into_keys();
        let kinds = titles.filter_map(|title| Some(title.split_once(' ')?.0.to_owned()));
        kinds.collect::<Vec<_>>()
    };
    let none = [
        "webhook.podDisruptionBudget.enabled=false",
        "controller.podDisruptionBudget.enabled=false",
    ];
    assert!(!kinds(&none).contains(&"PodDisruptionBudget".to_owned()));
    let open = ["networkPolicy.enabled=false"];
    assert!(!kinds(&open).contains(&"NetworkPolicy".to_owned()));
    let elsewhere = [
        "external.enabled=true",
        "networkPolicy.enabled=true",
        "metrics.podMonitor.enabled=true",
    ];
    for kind in [
        "Deployment",
        "Service",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "PodMonitor",
    ] {
        assert!(!kinds(&elsewhere).contains(&kind.to_owned()), "{kind}");
    }
}

#[test]
fn webhook_and_controller_send_traces_where_the_values_say() {
    let secret = "tracing.env[0].valueFrom.secretKeyRef";
    let values = [
        "tracing.endpoint=http://collector:4318",
        "tracing.sampler=parentbased_traceidratio",
        "tracing.env[0].name=OTEL_EXPORTER_OTLP_HEADERS",
        &format!("{secret}.name=collector"),
        &format!("{secret}.key=headers"),
    ];
    let container = format!("{POD}/containers/0");
    for program in ["webhook", "controller"] {
        let plain = deployment(&[], program);
        assert_eq!(plain.pointer(&format!("{container}/env")), None);
        assert!(!plain.to_string().contains("otlp"), "{plain}");
        let traced = deployment(&values, program);
        let args = traced.pointer(&format!("{container}/args")).unwrap();
        let endpoint = json!("--otlp-endpoint=http://collector:4318");
        assert!(args.as_array().unwrap().contains(&endpoint), "{args}");
        let expected = json!([
            {"name": "OTEL_TRACES_SAMPLER", "value": "parentbased_traceidratio"},
            {
                "name": "OTEL_EXPORTER_OTLP_HEADERS",
                "valueFrom": {"secretKeyRef": {"name": "collector", "key": "headers"}},
            },
        ]);
        assert_eq!(traced.pointer(&format!("{container}/env")), Some(&expected));
    }
}
