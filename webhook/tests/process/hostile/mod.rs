//! Hostile requests, each with its exact answer: over TLS, from one server, whose memory is
//! bounded.

mod envelope;
mod http;
mod large;
mod long;
mod objects;
mod syntax;

use serde_json::{Value, json};

use crate::client::{Answer, Client, fine};
use crate::running::{Webhook, files, nobody};

/// Memory that the allocator may keep of the largest requests, of up to 7 MiB each.
const KEPT_KIB: i64 = 64 * 1024;

/// Growth of the memory after all but the largest requests have been repeated.
const GROWTH_KIB: i64 = 4 * 1024;

/// Maximum size of an answer, and of the log lines of a request, in bytes.
const ANSWER_MAX: usize = 64 * 1024;

/// Name of a case, its request, and the [`summary`] of its answer.
type Row = (&'static str, Vec<u8>, &'static str);

/// An answer in one line: of a review the decision, of anything else the status and its message.
fn summary(answer: &Answer) -> String {
    let Ok(body) = serde_json::from_str::<Value>(&answer.body) else {
        return format!("{} {}", answer.code, answer.body.trim());
    };
    let response = &body["response"];
    if answer.code != 200 {
        let status = [&body["kind"], &body["apiVersion"], &body["status"]];
        assert_eq!(status, ["Status", "v1", "Failure"], "{answer:?}");
        let head = answer.head.to_lowercase();
        assert!(head.contains("content-type: application/json"), "{head}");
        assert!(body["reason"].is_string(), "{answer:?}");
        assert_eq!(body["code"], answer.code, "{answer:?}");
        return format!("{} {}", answer.code, text(&body["message"]));
    }
    assert_eq!(body["kind"], "AdmissionReview", "{answer:?}");
    let status = &response["status"];
    if response["allowed"] == json!(true) {
        let patch = if response["patch"].is_null() {
            ""
        } else {
            ", patched"
        };
        return format!("allowed{patch}");
    }
    format!("denied {} {}", status["code"], text(&status["message"]))
}

/// A text; a long one by its end.
fn text(value: &Value) -> String {
    let all = value.as_str().expect("a text");
    let skipped = all.chars().count().saturating_sub(200);
    all.chars().skip(skipped).collect()
}

/// A usual request with one part of its text replaced.
fn fine_with(from: &str, to: &str) -> String {
    let text = fine().to_string();
    assert_eq!(text.matches(from).count(), 1, "{from} in {text}");
    text.replace(from, to)
}

#[tokio::test]
async fn hostile_requests_get_exact_answers_and_bounded_memory() {
    let files = files(nobody());
    let webhook = Webhook::start(files.path(), &[]);
    let client = Client::new(&webhook, files.path());
    let rows = [
        http::rows(),
        syntax::rows(),
        envelope::rows(),
        objects::rows(),
        large::rows(),
    ]
    .concat();
    assert!(rows.len() >= 60);
    client.send_usual().await;
    let before = webhook.memory();
    let mut wrong = Vec::new();
    for (what, bytes, expected) in &rows {
        let answer = client.say(bytes).await;
        assert!(answer.body.len() < ANSWER_MAX, "{what}");
        let found = summary(&answer);
        if found != *expected {
            wrong.push(format!("{what}: {found}\n  instead of {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let growth = webhook.memory() - before;
    assert!(growth < KEPT_KIB, "it grew by {growth} KiB");
    let small = rows.iter().filter(|(_, bytes, _)| bytes.len() < 64 * 1024);
    for (_, bytes, _) in small.cycle().take(2 * rows.len()) {
        client.say(bytes).await;
    }
    client.send_usual().await;
    let again = webhook.memory() - before - growth;
    assert!(again < GROWTH_KIB, "it grew by {again} KiB in the end");
    assert!(!webhook.log().contains("panicked"), "{}", webhook.log());
    println!(
        "{} requests, grown by {growth} KiB and then by {again} KiB",
        rows.len()
    );
}

#[tokio::test]
async fn answers_and_log_lines_quote_the_beginning_of_long_texts() {
    let files = files(nobody());
    let webhook = Webhook::start(files.path(), &[]);
    let client = Client::new(&webhook, files.path());
    for (what, bytes, expected) in long::rows() {
        let before = webhook.log().len();
        let answer = client.say(&bytes).await;
        let size = answer.body.len();
        assert!(size < ANSWER_MAX, "{what}: {size} bytes");
        let found = summary(&answer);
        assert!(found.starts_with(expected), "{what}: {found}");
        client.send_usual().await;
        let logged = webhook.log().len() - before;
        assert!(logged < ANSWER_MAX, "{what}: {logged} bytes in the log");
    }
}
