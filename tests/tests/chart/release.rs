//! A release on a real API server: what Helm and `kubectl mcs` say of each other's installations.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway_certs::Authority;
use causeway_tests::causeway::{MEMBERS_NAMESPACE, NAMESPACE};
use causeway_tests::kubectl::{Command, Output};
use causeway_tests::{Cluster, Fleet, binaries, chart};
use serde_json::Value;

use crate::{objects, rendered};

/// A program that a person runs with the hub's kubeconfig.
fn program<'a>(fleet: &'a Fleet, program: PathBuf, kubeconfig: &Path) -> Command<'a> {
    let command = Command::new(fleet.reaper(), fleet.directory(), program);
    let command = command.env("KUBECONFIG", kubeconfig.display().to_string());
    chart::environment().fold(command, |command, (name, value)| command.env(name, value))
}

async fn helm(fleet: &Fleet, line: &str) -> Output {
    let kubeconfig = fleet.hub().kubeconfig();
    program(fleet, binaries::helm(), &kubeconfig)
        .args(line.split_whitespace())
        .args(chart::IN_NAMESPACE)
        .run()
        .await
}

async fn mcs(fleet: &Fleet, line: &str) -> Output {
    let kubeconfig = fleet.hub().kubeconfig();
    program(fleet, binaries::causeway("kubectl-mcs"), &kubeconfig)
        .args(line.split_whitespace())
        .run()
        .await
}

/// Asserts that the output of a command has these words, separated by bars.
fn says(text: &str, words: &str) {
    for words in words.split('|').map(str::trim) {
        assert!(text.contains(words), "nothing of {words:?}:\n{text}");
    }
}

async fn get(hub: &Cluster, what: &str, path: &str) -> String {
    let output = format!("-o=jsonpath={path}");
    let args = ["get", what, "-n", NAMESPACE, output.as_str()];
    hub.kubectl(args).await.ok()
}

/// The chart, with a change of one of its files.
fn changed(directory: &Path, file: &str, from: &str, to: &str) -> PathBuf {
    let copied = directory.join("chart");
    chart::copy(&copied).expect("the chart");
    let path = copied.join(file);
    let text = std::fs::read_to_string(&path).expect(file);
    assert!(text.contains(from), "{file} has no {from}");
    std::fs::write(&path, text.replace(from, to)).expect(file);
    copied
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn helm_and_kubectl_mcs_know_each_others_installations() {
    let fleet = Fleet::builder().start().await;
    let own = chart::directory();
    helm_installs(&fleet, &own).await;
    kubectl_mcs_leaves_the_release_alone(&fleet).await;
    its_check_may_read_what_it_reads(&fleet).await;
    every_option_is_accepted(&fleet).await;
    secrets_of_the_tunnel_are_made_beside_the_release(&fleet, &own).await;
    tunnel_without_enrolment_runs_as_the_default_account(&fleet, &own).await;
    an_upgrade_keeps_what_the_programs_wrote(&fleet, &own).await;
    a_published_authority_is_replaced_in_two_upgrades(&fleet, &own).await;
    upgrades_restore_and_keep_deleted_certificates(&fleet, &own).await;
    a_newer_chart_brings_newer_definitions(&fleet).await;
    an_older_chart_leaves_the_newer_definitions(&fleet, &own).await;
    members_and_definitions_outlive_the_release(&fleet).await;
    kubectl_mcs_takes_over_what_is_left(&fleet).await;
    helm_takes_over_when_it_is_allowed_to(&fleet, &own).await;
    definitions_that_helm_kept_can_be_removed(&fleet).await;
}

async fn helm_installs(fleet: &Fleet, chart: &Path) {
    let install = format!("install causeway {} --create-namespace", chart.display());
    let installed = helm(fleet, &install).await.ok();
    says(
        &installed,
        "helm test causeway -n causeway-system | kubectl label namespace causeway-system | kubectl mcs join NAME",
    );
    for (object, kind) in rendered(&[])
        .values()
        .map(|one| (one, one["kind"].as_str()))
    {
        let (kind, name) = (kind.unwrap(), object["metadata"]["name"].as_str().unwrap());
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.unwrap_or(NAMESPACE);
        let get = ["get", kind, name, "-n", namespace];
        fleet.hub().kubectl(get).await.ok();
    }
}

async fn kubectl_mcs_leaves_the_release_alone(fleet: &Fleet) {
    let release = "Helm release causeway in namespace causeway-system";
    for line in [
        "install --wait=false",
        "install --dry-run=server",
        "install --crds-only",
    ] {
        let refused = mcs(fleet, line).await.refused();
        says(
            &refused,
            &format!(
                "{release} | helm upgrade causeway CHART -n causeway-system | Nothing was changed"
            ),
        );
    }
    let refused = mcs(fleet, "uninstall --yes --crds").await.refused();
    says(
        &refused,
        &format!("{release} | Nothing was removed | helm uninstall causeway -n causeway-system"),
    );
    let refused = mcs(fleet, "uninstall --yes --keep-services")
        .await
        .refused();
    says(
        &refused,
        "helm uninstall causeway -n causeway-system | kubectl mcs uninstall --keep-services",
    );
    assert!(!refused.contains("delete mcs"), "{refused}");
    // A release without the definitions leaves them to whom they are.
    let label = async |manager: &str| {
        let label = format!("app.kubernetes.io/managed-by={manager}");
        let label = ["label", "crd", "--overwrite", "--all", label.as_str()];
        fleet.hub().kubectl(label).await.ok();
    };
    label("causeway").await;
    mcs(fleet, "install --crds-only --dry-run=server")
        .await
        .ok();
    label("Helm").await;
}

/// `kubectl mcs check` with the account of `helm test`. Its pod passes the restricted Pod Security.
async fn its_check_may_read_what_it_reads(fleet: &Fleet) {
    let hub = fleet.hub();
    let enforce = "pod-security.kubernetes.io/enforce=restricted";
    hub.kubectl(["label", "namespace", NAMESPACE, enforce])
        .await
        .ok();
    let check = chart::template(["--show-only=templates/tests/check.yaml"]).unwrap();
    let check = objects(&check);
    let pod = &check["Pod causeway-system/causeway-check"];
    let create = ["create", "--dry-run=server", "-f", "-"];
    let made = hub.kubectl_with(create, pod.to_string()).await;
    assert_eq!(made.stderr, "", "{pod}");
    made.ok();
    let rights = check.iter().filter(|(title, _)| !title.starts_with("Pod "));
    let rights: Vec<&Value> = rights.map(|(_, object)| object).collect();
    assert_eq!(rights.len(), 5);
    for object in rights {
        let apply = ["apply", "-f", "-"];
        hub.kubectl_with(apply, object.to_string()).await.ok();
    }
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap();
    let kubeconfig = hub.kubeconfig_as(NAMESPACE, account).await;
    let args = pod["spec"]["containers"][0]["args"].as_array().unwrap();
    let args = args.iter().filter_map(Value::as_str);
    let checked = program(fleet, binaries::causeway("kubectl-mcs"), &kubeconfig)
        .args(args)
        .args(["-n", NAMESPACE])
        .run()
        .await;
    // Nothing runs here, and it says so; but there is nothing that it could not look at. In its pod
    // the namespace is that of its account.
    let said = format!("{}{}", checked.stdout, checked.stderr);
    says(
        &said,
        "deployment causeway-webhook | not observed by its controller yet | rights of causeway-controller",
    );
    for unread in ["not checked", "forbidden"] {
        assert!(!said.contains(unread), "{said}");
    }
}

async fn every_option_is_accepted(fleet: &Fleet) {
    let hub = fleet.hub();
    hub.kubectl(["create", "namespace", "karmada-cluster"])
        .await
        .ok();
    let every = [
        "commonLabels.team=a",
        "image.pullPolicy=Always",
        "image.pullSecrets[0].name=credentials",
        "karmada.enabled=true",
        "networkPolicy.enabled=true",
        "networkPolicy.egress[0].ports[0].port=443",
        "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
        "namespace.create=true",
        "webhook.certificates.source=secret",
        "webhook.certificates.secretName=mine",
        "webhook.missingService=warn",
        "webhook.failurePolicy=Ignore",
        "webhook.podDisruptionBudget.maxUnavailable=50%",
        "webhook.priorityClassName=system-cluster-critical",
        "webhook.tolerations[0].operator=Exists",
        "webhook.nodeSelector.disk=ssd",
    ];
    let sets = every.iter().map(|value| format!("--set={value}"));
    let authority = hub.directory().join("authority.crt");
    std::fs::write(&authority, hub.ca_pem()).expect("a file");
    let file = format!(
        "--set-file=webhook.certificates.caBundle={}",
        authority.display()
    );
    let external = ["--set=external.enabled=true".to_owned()];
    for args in [sets.chain([file]).collect::<Vec<_>>(), external.to_vec()] {
        let documents = chart::template(&args).unwrap_or_else(|e| panic!("{e}"));
        let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        hub.kubectl_with(apply, documents).await.ok();
    }
}

/// Returns the versions of the objects that Helm manages.
async fn versions_of_helms_objects(fleet: &Fleet) -> Vec<String> {
    let kinds = "deployments,services,serviceaccounts,roles,rolebindings,secrets,configmaps,\
                 clusterroles,clusterrolebindings,mutatingwebhookconfigurations,customresourcedefinitions";
    let columns = "-o=custom-columns=:kind,:metadata.name,:metadata.resourceVersion";
    let labelled = ["-l", "app.kubernetes.io/managed-by=Helm", columns];
    let get = ["get", kinds, "-n", NAMESPACE].into_iter().chain(labelled);
    let objects = fleet.hub().kubectl(get).await.ok();
    let objects: Vec<_> = objects.lines().map(str::to_owned).collect();
    assert!(objects.len() > 15, "{objects:#?}");
    objects
}

async fn secrets_of_the_tunnel_are_made_beside_the_release(fleet: &Fleet, chart: &Path) {
    let before = versions_of_helms_objects(fleet).await;
    let refused = mcs(fleet, "install --tunnel tunnel.example").await;
    says(&refused.refused(), "Nothing was changed | --secrets-only");
    let secrets = "install --secrets-only --tunnel tunnel.example";
    let made = mcs(fleet, secrets).await.ok();
    says(
        &made,
        "secret/causeway-tunnel-ca created | secret/causeway-tunnel created | --set tunnel.enabled=true",
    );
    let again = mcs(fleet, secrets).await.ok();
    says(
        &again,
        "secret/causeway-tunnel-ca unchanged | secret/causeway-tunnel unchanged",
    );
    assert_eq!(versions_of_helms_objects(fleet).await, before);

    let hub = fleet.hub();
    let certificate = get(hub, "secret/causeway-tunnel", "{.data}").await;
    let upgrade = format!(
        "upgrade causeway {} --reset-then-reuse-values --set tunnel.enabled=true",
        chart.display()
    );
    helm(fleet, &upgrade).await.ok();
    let mounted = "{.spec.template.spec.volumes[*].secret.secretName}";
    let mounted = get(hub, "deployment/causeway-tunnel", mounted).await;
    assert_eq!(mounted, "causeway-tunnel");
    helm(fleet, "rollback causeway 1").await.ok();
    assert_eq!(
        get(hub, "secret/causeway-tunnel", "{.data}").await,
        certificate
    );
}

async fn tunnel_without_enrolment_runs_as_the_default_account(fleet: &Fleet, chart: &Path) {
    let hub = fleet.hub();
    let upgrade = format!(
        "upgrade causeway {} --reset-then-reuse-values --set tunnel.enabled=true",
        chart.display()
    );
    let path = "{.spec.template.spec.serviceAccountName}";
    for (is_enabled, expected) in [(true, "causeway-tunnel"), (false, "default")] {
        let upgrade = format!("{upgrade},tunnel.enrolment.enabled={is_enabled}");
        helm(fleet, &upgrade).await.ok();
        let account = get(hub, "deployment/causeway-tunnel", path).await;
        assert_eq!(account, expected, "{upgrade}");
    }
    let get = ["get", "serviceaccount", "causeway-tunnel", "-n", NAMESPACE];
    says(&hub.kubectl(get).await.refused(), "not found");
    helm(fleet, "rollback causeway 1").await.ok();
}

async fn an_upgrade_keeps_what_the_programs_wrote(fleet: &Fleet, chart: &Path) {
    let hub = fleet.hub();
    let seal = r#"{"data":{"key":"a2V5"}}"#;
    let patch = [
        "patch",
        "secret",
        "causeway-export-seal",
        "-n",
        NAMESPACE,
        "-p",
        seal,
    ];
    hub.kubectl(patch).await.ok();
    let configuration = "mutatingwebhookconfiguration/causeway";
    let bundle = r#"[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"LS0t"}]"#;
    let patch = ["patch", configuration, "--type=json", "-p", bundle];
    hub.kubectl(patch).await.ok();
    let upgrade = format!(
        "upgrade causeway {} --reuse-values --set webhook.replicas=3",
        chart.display()
    );
    helm(fleet, &upgrade).await.ok();
    let replicas = get(hub, "deployment/causeway-webhook", "{.spec.replicas}").await;
    assert_eq!(replicas, "3");
    let key = get(hub, "secret/causeway-export-seal", "{.data.key}").await;
    assert_eq!(key, "a2V5");
    let bundle = "{.webhooks[0].clientConfig.caBundle}";
    assert_eq!(get(hub, configuration, bundle).await, "LS0t");
    helm(fleet, "rollback causeway 1").await.ok();
    let replicas = get(hub, "deployment/causeway-webhook", "{.spec.replicas}").await;
    assert_eq!(replicas, "2");
}

/// Upgrades to a certificate of the user, whose authority is this one.
async fn upgrade_authority(fleet: &Fleet, chart: &Path, authority: &str, flags: &str) -> Output {
    let file = fleet.directory().join("authority.crt");
    std::fs::write(&file, authority).expect("a file");
    let upgrade = format!(
        "upgrade causeway {} --reset-then-reuse-values {flags} \
         --set webhook.certificates.source=secret,webhook.certificates.secretName=mine \
         --set-file webhook.certificates.caBundle={}",
        chart.display(),
        file.display()
    );
    helm(fleet, &upgrade).await
}

/// Replaces the authority as docs/certificates.md does.
async fn a_published_authority_is_replaced_in_two_upgrades(fleet: &Fleet, chart: &Path) {
    let hub = fleet.hub();
    let validity = Duration::from_secs(3600);
    let authority = Authority::new("causeway test CA", validity, SystemTime::now());
    let authority = authority.expect("an authority");
    let (published, new) = (hub.ca_pem(), authority.pem());
    let both = format!("{new}\n{published}");
    let configurations =
        ["mutating", "validating"].map(|kind| format!("{kind}webhookconfiguration/causeway"));
    let bundle = STANDARD.encode(published);
    let patch = format!(
        r#"[{{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"{bundle}"}}]"#
    );
    for configuration in &configurations {
        let manager = "--field-manager=causeway-webhook";
        let patch = ["patch", configuration, manager, "--type=json", "-p", &patch];
        hub.kubectl(patch).await.ok();
    }

    let steps = "ClusterRole and ClusterRoleBinding causeway-webhook-certificates | \
                 --force-conflicts | the new authority alone";
    let refused = upgrade_authority(fleet, chart, new, "").await.refused();
    says(&refused, steps);
    // The webhook could still remove the new authority.
    let forced = "--force-conflicts";
    let refused = upgrade_authority(fleet, chart, &both, forced).await;
    says(&refused.refused(), steps);
    let (deployment, flags) = (
        "deployment/causeway-webhook",
        "{.spec.template.spec.containers[0].args}",
    );
    says(&get(hub, deployment, flags).await, "--self-managed-certs");

    let rights = "causeway-webhook-certificates";
    let delete = ["delete", "clusterrole,clusterrolebinding", rights];
    hub.kubectl(delete).await.ok();
    upgrade_authority(fleet, chart, &both, forced).await.ok();
    says(&get(hub, deployment, flags).await, "--tls-dir");
    upgrade_authority(fleet, chart, new, "").await.ok();
    for configuration in &configurations {
        let bundle = get(hub, configuration, "{.webhooks[0].clientConfig.caBundle}").await;
        assert_eq!(bundle, STANDARD.encode(new), "{configuration}");
    }
    helm(fleet, "rollback causeway 1").await.ok();
}

/// Creates deleted Secrets again as docs/certificates.md does; the next upgrade keeps them.
async fn upgrades_restore_and_keep_deleted_certificates(fleet: &Fleet, chart: &Path) {
    let hub = fleet.hub();
    let secrets = ["causeway-webhook-tls", "causeway-webhook-ca"];
    let delete = ["delete", "secret", "-n", NAMESPACE];
    hub.kubectl(delete.into_iter().chain(secrets)).await.ok();
    let upgrade = format!("upgrade causeway {} --reuse-values", chart.display());
    for _ in 0..2 {
        helm(fleet, &upgrade).await.ok();
        for secret in secrets {
            get(hub, &format!("secret/{secret}"), "{.metadata.name}").await;
        }
    }
}

async fn a_newer_chart_brings_newer_definitions(fleet: &Fleet) {
    let directory = fleet.directory().join("newer");
    let file = "files/crds/clusters.cluster.karmada.io.yaml";
    let newer = changed(&directory, file, "name: APIEndpoint", "name: Endpoint");
    let upgrade = format!("upgrade causeway {}", newer.display());
    helm(fleet, &upgrade).await.ok();
    let columns = "{.spec.versions[0].additionalPrinterColumns[*].name}";
    let columns = get(fleet.hub(), "crd/clusters.cluster.karmada.io", columns).await;
    says(&columns, " Endpoint");
}

/// Rolls back as docs/install.md does. The release would delete the definitions, and has a value
/// that the older chart does not know.
async fn an_older_chart_leaves_the_newer_definitions(fleet: &Fleet, chart: &Path) {
    let hub = fleet.hub();
    let newer = fleet.directory().join("newer/chart");
    let schema = newer.join("values.schema.json");
    let text = std::fs::read_to_string(&schema).expect("a schema");
    let open = text.replace(
        r#""additionalProperties": false"#,
        r#""additionalProperties": true"#,
    );
    std::fs::write(&schema, open).expect("a schema");
    let upgrade = format!(
        "upgrade causeway {} --set unknown=1,crds.keep=false",
        newer.display()
    );
    helm(fleet, &upgrade).await.ok();

    let annotate = [
        "annotate",
        "--overwrite",
        "crd",
        "clusters.cluster.karmada.io",
        "multiclusterservices.networking.karmada.io",
        "helm.sh/resource-policy=keep",
    ];
    hub.kubectl(annotate).await.ok();
    let values = helm(fleet, "get values causeway -o yaml").await.ok();
    let file = fleet.directory().join("values.yaml");
    std::fs::write(&file, &values).expect("a file");
    let back = format!(
        "upgrade causeway {} --reset-values -f {} --set crds.install=false,crds.keep=true",
        chart.display(),
        file.display()
    );
    says(&helm(fleet, &back).await.refused(), "'unknown' not allowed");
    let known = values.replace("unknown: 1\n", "");
    std::fs::write(&file, known).expect("a file");
    helm(fleet, &back).await.ok();
    let columns = "{.spec.versions[0].additionalPrinterColumns[*].name}";
    let definition = "crd/clusters.cluster.karmada.io";
    says(&get(hub, definition, columns).await, " Endpoint");

    let upgrade = format!(
        "upgrade causeway {} --reset-then-reuse-values --set crds.install=true",
        newer.display()
    );
    helm(fleet, &upgrade).await.ok();
    says(&get(hub, definition, columns).await, " Endpoint");
}

async fn members_and_definitions_outlive_the_release(fleet: &Fleet) {
    let hub = fleet.hub();
    let removed = helm(fleet, "uninstall causeway").await.ok();
    says(&removed, "uninstalled");
    for kept in [
        "crd/clusters.cluster.karmada.io",
        "crd/multiclusterservices.networking.karmada.io",
        &format!("namespace/{MEMBERS_NAMESPACE}"),
        "secret/causeway-export-seal",
    ] {
        get(hub, kept, "{.metadata.name}").await;
    }
    for gone in ["deployment", "clusterrole"] {
        let get = ["get", gone, "causeway-controller", "-n", NAMESPACE];
        says(&hub.kubectl(get).await.refused(), "not found");
    }
}

async fn kubectl_mcs_takes_over_what_is_left(fleet: &Fleet) {
    let refused = mcs(fleet, "install --wait=false").await.refused();
    says(
        &refused,
        "clusters.cluster.karmada.io | conflicts with \"helm\"",
    );
    let install = "install --wait=false --force-conflicts";
    let installed = mcs(fleet, install).await.ok();
    says(
        &installed,
        "deployment.apps/causeway-webhook created | clusters.cluster.karmada.io configured",
    );
}

async fn helm_takes_over_when_it_is_allowed_to(fleet: &Fleet, chart: &Path) {
    let install = format!("install causeway {}", chart.display());
    let refused = helm(fleet, &install).await.refused();
    says(&refused, "cannot be imported into the current release");
    let install = format!("{install} --take-ownership --force-conflicts");
    helm(fleet, &install).await.ok();
    let refused = mcs(fleet, "install --wait=false").await.refused();
    says(&refused, "Helm release causeway");
    let crds = get(
        fleet.hub(),
        "crd/clusters.cluster.karmada.io",
        "{.metadata.labels}",
    )
    .await;
    says(&crds, r#""app.kubernetes.io/name":"causeway""#);
}

async fn definitions_that_helm_kept_can_be_removed(fleet: &Fleet) {
    helm(fleet, "uninstall causeway").await.ok();
    let removed = mcs(fleet, "uninstall --yes --crds").await.ok();
    says(
        &removed,
        "clusters.cluster.karmada.io deleted | multiclusterservices.networking.karmada.io deleted",
    );
}
