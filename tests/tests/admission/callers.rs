//! A webhook that lets in only who shows a certificate, and an API server that has one as
//! docs/mutual-tls.md says.

use std::path::Path;
use std::time::{Duration, SystemTime};

use causeway_certs::{Authority, Leaf, Purpose};
use causeway_tests::book::blocks;
use causeway_tests::causeway::Installation;
use causeway_tests::{Fleet, SOON, eventually};
use serde_json::json;

use crate::hub::{Hub, holds, mcs};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Directory of the API server's files, as the page names it.
const DIRECTORY: &str = "/etc/kubernetes/admission";

/// The YAML of the page that begins so, for another directory and every webhook.
fn documented(beginning: &str, directory: &Path) -> String {
    let mut blocks = blocks("docs/mutual-tls.md", "yaml").into_iter();
    let block = blocks.find(|block| block.contains(beginning));
    let block = block.expect("a block");
    let directory = directory.display().to_string();
    let host = "name: causeway-webhook.causeway-system.svc";
    block
        .replace(DIRECTORY, &directory)
        .replace(host, "name: '*'")
}

/// Writes the files of the page's first two steps.
fn write_files(directory: &Path) {
    let now = SystemTime::now();
    let authority = Authority::new("webhook callers", DAY, now).expect("an authority");
    let leaf = Leaf {
        common_name: "kube-apiserver".to_owned(),
        validity: DAY,
        purpose: Purpose::Client,
        ..Leaf::default()
    };
    let client = authority.issue(&leaf, now).expect("a certificate");
    let other = Authority::new("others", DAY, now).expect("an authority");
    for (file, text) in [
        ("ca.crt", authority.pem()),
        ("other.crt", other.pem()),
        ("client.crt", &client.certificate),
        ("client.key", &client.key),
        (
            "admission.yaml",
            &documented("kind: AdmissionConfiguration", directory),
        ),
        ("kubeconfig.yaml", &documented("kind: Config", directory)),
    ] {
        std::fs::write(directory.join(file), text).expect("a file");
    }
}

#[tokio::test]
async fn only_an_api_server_set_up_as_documented_is_let_in() {
    let files = tempfile::tempdir().expect("a directory");
    write_files(files.path());
    let file = |name: &str| files.path().join(name);
    let callers = file("callers.crt");
    std::fs::copy(file("ca.crt"), &callers).expect("a copy");
    let admission = file("admission.yaml").display().to_string();
    let fleet = Fleet::builder()
        .hub_flag(format!("--admission-control-config-file={admission}"))
        .start()
        .await;
    let installation = Installation::new(&fleet).await;
    let webhook = installation
        .webhook()
        .arg(format!("--client-ca={}", callers.display()))
        .arg("--client-name=kube-apiserver")
        .arg("--log=info,causeway_webhook=debug")
        .start()
        .await;
    installation.register(&webhook).await;
    let hub = Hub {
        webhook,
        installation,
        fleet,
    };
    let shop = hub.shop().await;
    let refused = shop
        .apply(&mcs("foo", json!({"ports": [{"port": 81}]})))
        .await;
    holds(&refused.refused(), &["Service", "has no port 81"]);
    shop.apply(&mcs("foo", json!({}))).await.ok();

    // The API server's certificate is of another authority now.
    std::fs::copy(file("other.crt"), &callers).expect("a copy");
    hub.webhook.restart().await;
    let refused = shop
        .apply(&mcs("foo", json!({"ports": [{"port": 80}]})))
        .await;
    // Which words follow is a race within the API server, between who reads the alert and who
    // writes the request.
    holds(&refused.refused(), &["failed calling webhook"]);
    eventually("the webhook logs why", SOON, || async {
        let log = std::fs::read_to_string(hub.webhook.process().log()).expect("the log");
        log.contains("TLS handshake failed") && log.contains("UnknownIssuer")
    })
    .await;

    // Both are trusted, without a restart.
    let both = [file("other.crt"), file("ca.crt")];
    let both = both.map(|file| std::fs::read_to_string(file).expect("a certificate"));
    std::fs::write(&callers, both.concat()).expect("a file");
    eventually("the API server is let in again", SOON, || async {
        let applied = shop
            .apply(&mcs("foo", json!({"ports": [{"port": 80}]})))
            .await;
        applied.exit.success()
    })
    .await;
}
