//! Client certificates: who is accepted, and who is rejected.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use causeway_certs::{Authority, Credentials, Leaf, Purpose};
use tokio::time::sleep;

use crate::client::{Client, fine, post};
use crate::running::{LONG, Webhook, files, nobody};

fn authority(name: &str) -> Authority {
    Authority::new(name, LONG * 100, SystemTime::now()).expect("an authority")
}

fn certificate(authority: &Authority, common_name: &str, dns: &[&str]) -> Credentials {
    let leaf = Leaf {
        common_name: common_name.to_owned(),
        names: dns.iter().map(ToString::to_string).collect(),
        validity: LONG * 10,
        purpose: Purpose::Client,
        ..Leaf::default()
    };
    authority
        .issue(&leaf, SystemTime::now())
        .expect("a certificate")
}

/// Whether a client with that certificate is answered.
async fn is_accepted(webhook: &Webhook, files: &Path, shown: Option<&Credentials>) -> bool {
    let shown = shown.map(|shown| (shown.certificate.as_str(), shown.key.as_str()));
    let client = Client::with(webhook, files, shown);
    let request = post("/mutate", &fine().to_string());
    match client.try_say(&request).await {
        Some(answer) => {
            assert!(answer.is_allowed(), "{answer:?}");
            true
        }
        None => false,
    }
}

#[tokio::test]
async fn client_certificate_needs_the_authority_and_a_name() {
    let files = files(nobody());
    let ours = authority("callers");
    let other = authority("callers");
    let path = files.path().join("callers.crt");
    std::fs::write(&path, ours.pem()).expect("a file");
    let flag = format!("--client-ca={}", path.display());
    let names = "--client-name=kube-apiserver,apiserver.example";
    let mut any = Webhook::start(files.path(), &[&flag]);
    let log = "--log=info,causeway_webhook=debug";
    let mut named = Webhook::start(files.path(), &[&flag, names, log]);

    let expired = Leaf {
        common_name: "kube-apiserver".to_owned(),
        validity: Duration::from_secs(1),
        purpose: Purpose::Client,
        ..Leaf::default()
    };
    let expired = ours
        .issue(&expired, SystemTime::now() - LONG * 20)
        .expect("a certificate");
    let cases = [
        ("none", None, false, false),
        (
            "by common name",
            Some(certificate(&ours, "kube-apiserver", &[])),
            true,
            true,
        ),
        (
            "by DNS name",
            Some(certificate(&ours, "x", &["y", "apiserver.example"])),
            true,
            true,
        ),
        (
            "of another name",
            Some(certificate(&ours, "kube-apiserver2", &["example"])),
            true,
            false,
        ),
        (
            "of another authority",
            Some(certificate(&other, "kube-apiserver", &[])),
            false,
            false,
        ),
        ("expired", Some(expired), false, false),
    ];
    for (what, shown, by_any, by_named) in cases {
        let shown = shown.as_ref();
        assert_eq!(
            is_accepted(&any, files.path(), shown).await,
            by_any,
            "{what}"
        );
        assert_eq!(
            is_accepted(&named, files.path(), shown).await,
            by_named,
            "{what}"
        );
    }
    let refused = "causeway_webhook_connections_rejected_total{reason=\"handshake\"}";
    // A connection is counted when its task ends, which may be after its client has noticed.
    any.until("3 are refused", |webhook| webhook.metric(refused) == 3);
    named.until("4 are refused", |webhook| webhook.metric(refused) == 4);
    let log = named.log();
    for words in [
        "TLS handshake failed",
        "error=peer sent no certificates",
        "CN=kube-apiserver2",
        "BadSignature",
    ] {
        assert!(log.contains(words), "{words} is not in {log}");
    }
}

#[tokio::test]
async fn new_authorities_are_loaded_and_rubbish_is_not() {
    let files = files(nobody());
    let (old, new) = (authority("old"), authority("new"));
    let path = files.path().join("callers.crt");
    let write = |text: &str| std::fs::write(&path, text).expect("a file");
    write(old.pem());
    let flag = format!("--client-ca={}", path.display());
    let mut webhook = Webhook::start(files.path(), &[&flag]);
    let (with_old, with_new) = (certificate(&old, "a", &[]), certificate(&new, "a", &[]));
    for (text, old_is_good, new_is_good) in [
        (format!("{}{}", old.pem(), new.pem()), true, true),
        (new.pem().to_owned(), false, true),
    ] {
        write(&text);
        let begun = Instant::now();
        loop {
            let found = [
                is_accepted(&webhook, files.path(), Some(&with_old)).await,
                is_accepted(&webhook, files.path(), Some(&with_new)).await,
            ];
            if found == [old_is_good, new_is_good] {
                break;
            }
            assert!(begun.elapsed() < LONG, "still {found:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }
    write("rubbish");
    webhook.until("it complains", |webhook| {
        webhook
            .log()
            .contains("client CA not reloaded, last valid one stays in use error=\"no PEM certificate found\"")
    });
    assert!(is_accepted(&webhook, files.path(), Some(&with_new)).await);
}

#[test]
fn names_without_an_authority_are_a_mistake() {
    let files = files(nobody());
    let output = crate::running::command()
        .args(["--client-name=x", "--bind=127.0.0.1:0"])
        .arg(format!("--tls-dir={}", files.path().display()))
        .arg(format!(
            "--kubeconfig={}",
            files.path().join("kubeconfig").display()
        ))
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("--client-name x: needs --client-ca"),
        "{text}"
    );
}
