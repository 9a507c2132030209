//! Flags, readiness, and how the program ends.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::running::{Webhook, command, files, nobody};

#[test]
fn invalid_flags_are_reported_at_once_with_exit_code_2() {
    let output = command()
        .args([
            "--tls-dir=/no/such/dir",
            "--bind=here",
            "--missing-service=maybe",
            "--allow-namespace=A",
            "--client-ca=/no/such/ca.crt",
            "--max-connections=3",
            "--max-in-flight=none",
            "--max-body-mib=1",
        ])
        .env("CAUSEWAY_UNKNOWN_CLUSTER", "perhaps")
        .env("CAUSEWAY_LOG_FORMAT", "xml")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for part in [
        "error: 11 flags are wrong:",
        "--tls-dir /no/such/dir: cannot read /no/such/dir/tls.crt: ",
        "--bind \"here\": ",
        "--missing-service \"maybe\": must be deny or warn",
        "--unknown-cluster \"perhaps\": must be deny or warn",
        "--client-ca /no/such/ca.crt: cannot read /no/such/ca.crt: ",
        "--max-connections \"3\": must be at least 16",
        "--max-in-flight \"none\": invalid digit",
        "--max-body-mib \"1\": must be at least 7",
        "--allow-namespace \"A\": ",
        "--log-format \"xml\": must be text or json",
        "--kubeconfig is missing: needed outside of a pod",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn help_groups_every_flag_and_names_its_variable() {
    let output = command().arg("--help").output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "Hub:",
        "Serving:",
        "Callers:",
        "Limits:",
        "Rules:",
        "Admin server:",
        "Logs:",
        "CAUSEWAY_TLS_DIR",
        "CAUSEWAY_CLIENT_CA",
        "CAUSEWAY_MAX_CONNECTIONS",
        "CAUSEWAY_MISSING_SERVICE",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn readyz_names_awaited_things_and_a_signal_ends_the_wait() {
    let files = files(nobody());
    let mut webhook = Webhook::start(files.path(), &[]);
    assert!(webhook.get("/livez").starts_with("HTTP/1.1 200"));
    webhook.until("both caches are awaited", |webhook| {
        let ready = webhook.get("/readyz");
        assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
        ready.contains("awaiting the Services of the hub, the Clusters of the hub\n")
    });
    assert!(
        webhook
            .get("/metrics")
            .contains("causeway_certificate_expiry_timestamp_seconds ")
    );
    webhook.signal("-TERM");
    webhook.until("it is shutting down", |webhook| {
        webhook.get("/readyz").ends_with("shutting down\n")
    });
    let (status, log) = webhook.ends();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn second_signal_ends_the_process_at_once() {
    // It takes connections without ever answering.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let files = files(silent.local_addr().expect("an address"));
    let mut webhook = Webhook::start(files.path(), &[]);
    webhook.signal("-TERM");
    webhook.until("it is shutting down", |webhook| {
        webhook.get("/readyz").ends_with("shutting down\n")
    });
    let second = Instant::now();
    webhook.signal("-INT");
    let (status, log) = webhook.ends();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("aborted by a second signal"), "{log}");
    assert!(
        second.elapsed() < Duration::from_secs(3),
        "it took {:?}",
        second.elapsed()
    );
}

#[test]
fn address_in_use_is_an_error_with_the_address() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let files = files(nobody());
    let address = taken.local_addr().expect("an address");
    let output = command()
        .arg(format!("--bind={address}"))
        .arg("--admin-bind=127.0.0.1:0")
        .arg(format!("--tls-dir={}", files.path().display()))
        .arg(format!(
            "--kubeconfig={}",
            files.path().join("kubeconfig").display()
        ))
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains(&format!("the webhook cannot listen on {address}")),
        "{text}"
    );
    assert_eq!(text.matches("Address already in use").count(), 1, "{text}");
}
