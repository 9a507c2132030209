//! `kubectl mcs bug-report`: everything that is needed is in the archive, and no secret.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use causeway_tests::causeway::NAMESPACE;
use causeway_tests::{
    Cluster, Fleet, Installation, SOON, Space, eventually, multi_cluster_service, service,
};
use flate2::read::GzDecoder;
use futures::StreamExt as _;
use serde_json::json;

use crate::pods::Pods;
use crate::{ends, join_all, reader};

/// Text in every secret of this test, and nowhere else.
const CANARY: &str = "c4narysings";
const JWT: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJjNG5hcnlzaW5ncyJ9.c2lnbmF0dXJl";

/// The texts of an archive by their paths, without the directory that holds them all.
fn unpacked(file: &Path) -> BTreeMap<String, String> {
    let file = std::fs::File::open(file).expect("the archive");
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    let mut texts = BTreeMap::new();
    for entry in archive.entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").display().to_string();
        let (_, path) = path.split_once('/').expect("a directory");
        let path = path.to_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("a text");
        texts.insert(path, text);
    }
    texts
}

/// The token of the administrator of a cluster.
fn token_of(cluster: &Cluster) -> String {
    let text = std::fs::read_to_string(cluster.kubeconfig()).expect("a kubeconfig");
    let kubeconfig: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
    let token = kubeconfig["users"][0]["user"]["token"].as_str();
    token.expect("a token").to_owned()
}

/// The tokens of people and of causeway.
async fn tokens(fleet: &Fleet) -> Vec<String> {
    let name = ["secret", "member1", "-n", "causeway-members"];
    let get = ["get", "-o", "jsonpath={.data.token}"]
        .into_iter()
        .chain(name);
    let encoded = fleet.hub().kubectl(get).await.ok();
    let decoded = STANDARD.decode(encoded.trim()).expect("base64");
    let of_causeway = String::from_utf8(decoded).expect("a token");
    let people = [fleet.hub(), fleet.member("member1")].map(token_of);
    people.into_iter().chain([encoded, of_causeway]).collect()
}

/// A MultiClusterService whose Service is gone.
async fn unready(hub: &Cluster, installation: &Installation, space: &Space<'_>) {
    service("foo").port("http", 80).create(hub, space).await;
    multi_cluster_service("foo").create(space).await;
    let delete = ["delete", "service", "foo", "-n", space.name()];
    hub.kubectl(delete).await.ok();
    eventually("the controller says what is missing", SOON, async || {
        let status = ["status", "foo", "-n", space.name()];
        let output = installation.kubectl_mcs(status).await;
        output.stdout.contains("ServiceNotFound")
    })
    .await;
}

/// Lists the places of a canary, also in base64.
fn leaks(files: &BTreeMap<String, String>, secrets: &[String]) -> Vec<String> {
    let hides =
        |text: &str| text.contains(CANARY) || secrets.iter().any(|secret| text.contains(secret));
    let encoded = |word: &str| {
        let decoded = STANDARD_NO_PAD.decode(word.trim_end_matches('=')).ok();
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        decoded.is_some_and(|text| hides(&text))
    };
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let lines = files
        .iter()
        .flat_map(|(path, text)| text.lines().map(move |line| (path, line)));
    let leaking = lines.filter(|(_, line)| {
        let mut words = line.split(|c| !is_base64(c));
        hides(line) || words.any(encoded)
    });
    leaking
        .map(|(path, line)| format!("{path}: {line}"))
        .collect()
}

/// Secrets in all places of objects where people put them.
async fn plant(hub: &Cluster, member: &Cluster, space: &Space<'_>) {
    let kubeconfig = format!("users: [{{name: a, user: {{token: {CANARY}}}}}]");
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        // kubectl apply puts all of it into an annotation once more.
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other", "namespace": NAMESPACE, "annotations": {"note": CANARY}},
         "stringData": {"password": format!("in a Secret {CANARY}"), "pem": format!("-----BEGIN RSA PRIVATE KEY-----\n{CANARY}AAAAAAAAAAAA\n-----END RSA PRIVATE KEY-----\n")}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "other", "namespace": NAMESPACE, "annotations": {"example.com/kubeconfig": kubeconfig}},
         "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}, "annotations": {"vault/x": CANARY}}, "spec": {"containers": [{
            "name": "a", "image": "a", "args": ["--token", CANARY, format!("--client-secret={CANARY}")],
            "command": ["sh", "-c", format!("curl -H 'Authorization: Bearer {CANARY}1' https://me:{CANARY}@x/")],
            "env": [{"name": "CAUSEWAY_TOKEN", "value": CANARY}, {"name": "OTEL_EXPORTER_OTLP_HEADERS", "value": format!("x={CANARY}")}],
            "livenessProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "x", "value": CANARY}]}},
         }]}}}},
        {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "other", "namespace": NAMESPACE}, "message": format!("failed with password={CANARY} and {JWT}"),
         "reason": "Failed", "type": "Warning", "involvedObject": {"kind": "Pod", "name": "a", "namespace": NAMESPACE}},
        {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "member3", "annotations": {"example.com/kubeconfig": kubeconfig}},
         "spec": {"syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1", "proxyURL": format!("http://me:{CANARY}@127.0.0.1:1"),
                  "secretRef": {"namespace": "causeway-members", "name": "member3"}}},
        {"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService", "metadata": {"name": "bar", "namespace": space.name(), "annotations": {"example.com/kubeconfig": kubeconfig}},
         "spec": {"types": ["CrossCluster"]}},
    ]});
    hub.kubectl_with(["apply", "-f", "-"], objects.to_string())
        .await
        .ok();
    let export = json!({"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
        "metadata": {"name": "bar", "namespace": space.name(), "annotations": {"example.com/token": CANARY}}});
    member
        .kubectl_with(["apply", "-f", "-"], export.to_string())
        .await
        .ok();
}

/// Secrets in logs, as programs write them there.
fn log(pods: &Pods<'_>) {
    let encoded = STANDARD.encode(format!("in a Secret {CANARY}"));
    let lines = [
        "level=info msg=\"lease acquired\" identity=causeway-controller-0".to_owned(),
        format!("read in a Secret {CANARY} from a file"),
        format!("read {encoded} from a file"),
        format!(
            "{{\"fields\":{{\"message\":\"request failed\",\"headers\":\"Authorization: Bearer {CANARY}1\"}}}}"
        ),
        format!("{{\"message\":\"{{\\\"password\\\": \\\"{CANARY}\\\"}}\"}}"),
        format!("GET https://me:{CANARY}@proxy/api?access_token={CANARY}"),
        format!("flags: --kubeconfig=/a --client-secret {CANARY}"),
    ];
    pods.log("controller-0", "controller", false, &lines.join("\n"));
    pods.log(
        "controller-0",
        "controller",
        true,
        &format!("panicked with {JWT}\n"),
    );
    let key = format!("-----BEGIN EC PRIVATE KEY-----\n{CANARY}\n-----END EC PRIVATE KEY-----\n");
    let encoded = STANDARD.encode(&key);
    pods.log(
        "webhook-0",
        "webhook",
        false,
        &format!("key {key}\nagain {encoded}\nend of the log\n"),
    );
    pods.log("webhook-0", "webhook", true, "");
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn all_that_is_needed_is_gathered_and_no_secret_of_any_place() {
    let fleet = Fleet::builder().members(2).start().await;
    let hub = fleet.hub();
    let installation = Installation::new(&fleet).await;
    let webhook = installation.webhook().start().await;
    installation.register(&webhook).await;
    let controller = installation.controller().start().await;
    join_all(&installation, &fleet, &["member1", "member2"]).await;
    let space = fleet.space("reported").await;
    service("bar").port("http", 80).create(hub, &space).await;
    let pods = match Pods::start(&fleet, &installation).await {
        Ok(pods) => pods,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    let container = json!({"args": ["--token", CANARY], "env": [{"name": "A", "value": CANARY}]});
    pods.add(
        "controller-0",
        "controller",
        controller.admin(),
        container.clone(),
    )
    .await;
    pods.add("webhook-0", "webhook", webhook.admin(), container)
        .await;
    log(&pods);
    plant(hub, fleet.member("member1"), &space).await;
    unready(hub, &installation, &space).await;
    fleet.member("member2").pause();

    let file = fleet.directory().join("report.tar.gz");
    let path = file.display().to_string();
    let report = installation.kubectl_mcs(["bug-report", "-o", &path]).await;
    fleet.member("member2").resume();
    ends(
        &report,
        3,
        "Gathered in | Left out: | Not in it: | member2: | member3: | Look through it before you send it",
    );
    let files = unpacked(&file);
    let secrets = tokens(&fleet).await;
    assert_eq!(leaks(&files, &secrets), Vec::<String>::new());
    assert!(!report.stdout.contains(CANARY), "{}", report.stdout);
    is_complete(&files, &space);

    let again = installation.kubectl_mcs(["bug-report", "-o", &path]).await;
    ends(&again, 1, "cannot be written");
    somebody_without_rights_gets_a_report_that_says_so(&installation, hub, &space, &fleet).await;
    a_list_that_is_cut_is_named(&installation, hub, &space, &fleet).await;
}

/// The API server does not count what a selector leaves over.
async fn a_list_that_is_cut_is_named(
    installation: &Installation,
    hub: &Cluster,
    space: &Space<'_>,
    fleet: &Fleet,
) {
    let event = |number: usize| -> k8s_openapi::api::core::v1::Event {
        serde_json::from_value(json!({
            "metadata": {"name": format!("many-{number}"), "namespace": space.name()},
            "reportingComponent": "causeway-controller", "reportingInstance": "a", "action": "a",
            "eventTime": "2026-11-25T00:00:00.000000Z", "reason": "Many", "type": "Normal",
            "involvedObject": {"kind": "Service", "name": "foo", "namespace": space.name()},
        }))
        .expect("an Event")
    };
    let events = space.api(hub);
    let create = (0..=1000).map(|number| {
        let (events, event) = (events.clone(), event(number));
        async move {
            events
                .create(&Default::default(), &event)
                .await
                .expect("an Event")
        }
    });
    let created = futures::stream::iter(create).buffer_unordered(16);
    assert_eq!(created.count().await, 1001);
    let file = fleet.directory().join("many.tar.gz");
    let path = file.display().to_string();
    let args = ["bug-report", "-n", space.name(), "-o", &path];
    let report = installation.kubectl_mcs(args).await;
    let said = format!(
        "events of namespace {} of the hub: only the first 1000 are there",
        space.name()
    );
    ends(&report, 3, &said);
}

/// Words that each file must have for an analysis.
const NEEDED: [(&str, &str); 23] = [
    ("versions.txt", "kubectl-mcs: v | hub: v1"),
    (
        "hub/images.txt",
        "controller-0 controller: causeway/causeway-controller:1 | restarts=1",
    ),
    ("check.txt", "registered, with a caBundle | controller"),
    ("status.txt", "member1 | Synced | foo | ServiceNotFound"),
    ("status.json", "\"ready\": false"),
    ("explain/NAMESPACE/foo.txt", "foo"),
    (
        "hub/objects/multiclusterservices.yaml",
        "name: foo | name: bar | conditions: | ServiceNotFound",
    ),
    ("hub/objects/clusters.yaml", "name: member1 | Synced"),
    ("hub/objects/services.yaml", "name: bar"),
    (
        "hub/objects/deployments.yaml",
        "example.com/kubeconfig: | CAUSEWAY_TOKEN | [left out]",
    ),
    (
        "hub/objects/secrets-without-data.yaml",
        "name: other | password: | bytes | name: member1",
    ),
    (
        "hub/objects/customresourcedefinitions.yaml",
        "multiclusterservices.networking.karmada.io",
    ),
    (
        "hub/objects/validatingwebhookconfigurations.yaml",
        "caBundle",
    ),
    ("hub/events.yaml", "message: failed with password"),
    (
        "hub/logs/controller-0/controller.log",
        "lease acquired | request failed",
    ),
    (
        "hub/logs/controller-0/controller.previous.log",
        "panicked with [left out]",
    ),
    ("hub/logs/webhook-0/webhook.log", "end of the log"),
    (
        "hub/admin/controller-0/metrics.txt",
        "causeway_controller_leader 1",
    ),
    (
        "hub/admin/webhook-0/metrics.txt",
        "causeway_webhook_connections",
    ),
    ("hub/admin/controller-0/readyz.txt", "ok"),
    ("members/versions.txt", "member1: v1"),
    (
        "members/member1/serviceexports.yaml",
        "name: bar | example.com/token:",
    ),
    ("README.txt", "hub/logs/ | Left out: | Not in it: | member2"),
];

#[track_caller]
fn is_complete(files: &BTreeMap<String, String>, space: &Space<'_>) {
    for (path, words) in NEEDED {
        let path = path.replace("NAMESPACE", space.name());
        let text = files.get(&path);
        let text = text.unwrap_or_else(|| panic!("no {path} in {:?}", files.keys()));
        for word in words.split('|').map(str::trim) {
            assert!(text.contains(word), "{path} lacks {word:?}:\n{text}");
        }
    }
}

async fn somebody_without_rights_gets_a_report_that_says_so(
    installation: &Installation,
    hub: &Cluster,
    space: &Space<'_>,
    fleet: &Fleet,
) {
    let kubeconfig = reader(hub, space.name()).await;
    let file = fleet.directory().join("reader.tar.gz");
    let path = file.display().to_string();
    let args = [
        "bug-report",
        "--output-file",
        &path,
        "--kubeconfig",
        &kubeconfig,
    ];
    let report = installation.kubectl_mcs(args).await;
    ends(
        &report,
        3,
        "Secrets of namespace causeway-members | forbidden | pods of causeway | member1",
    );
    let files = unpacked(&file);
    assert_eq!(leaks(&files, &[]), Vec::<String>::new());
    assert!(files["hub/objects/multiclusterservices.yaml"].contains("name: foo"));
    assert!(files["README.txt"].contains("pods of causeway"));

    let file = fleet.directory().join("nobody.tar.gz");
    let path = file.display().to_string();
    let text = std::fs::read_to_string(hub.kubeconfig()).expect("a kubeconfig");
    let closed = fleet.directory().join("closed.kubeconfig");
    std::fs::write(&closed, text.replace(hub.url(), "https://127.0.0.1:1")).expect("a kubeconfig");
    let closed = closed.display().to_string();
    let report = installation
        .kubectl_mcs(["bug-report", "-o", &path, "--kubeconfig", &closed])
        .await;
    ends(&report, 3, "the hub and the members: cannot reach the hub");
    assert!(unpacked(&file)["versions.txt"].contains("hub: unknown"));
}
