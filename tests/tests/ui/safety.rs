use causeway_tests::Ui;
use causeway_tests::reaper::Exit;
use causeway_tests::ui::Answer;
use causeway_tests::{SOON, eventually};
use http::StatusCode;

use crate::env;

/// A word of what the page shows, in no answer to whoever is refused.
const SHOWN: &str = "clusters";

// Statuses and reasons of refused requests.
const TOKEN: (u16, &str) = (403, "wrong or no token");
const HOST: (u16, &str) = (403, "wrong Host");
const PAGE: (u16, &str) = (403, "another page");
const METHOD: (u16, &str) = (405, "only GET");

/// Refused, with a line of text and nothing of what is shown; the headers are there nevertheless.
#[track_caller]
fn is_refused(answer: &Answer, (status, reason): (u16, &str), what: &str) {
    assert_eq!(answer.status.as_u16(), status, "{what}: {answer:?}");
    assert!(answer.body.contains(reason), "{what}: {answer:?}");
    assert_eq!(answer.body.lines().count(), 1, "{what}: {answer:?}");
    assert!(!answer.body.contains(SHOWN), "{what}: {answer:?}");
    is_protected(answer, what);
}

#[track_caller]
fn is_protected(answer: &Answer, what: &str) {
    let header = |name: &str| {
        answer
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let policy = header("content-security-policy").unwrap_or_default();
    for directive in [
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(directive), "{what}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{what}: {policy}");
    for (name, value) in [
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        assert_eq!(header(name), Some(value), "{what}: {name}");
    }
    for name in answer.headers.keys() {
        let name = name.as_str();
        assert!(!name.starts_with("access-control-"), "{what}: {name}");
        assert_ne!(name, "set-cookie", "{what}");
    }
}

#[tokio::test]
async fn requests_without_token_or_from_other_pages_are_refused() {
    let ui = env().await.ui(&[]).await;
    without_the_token(&ui).await;
    by_another_name(&ui).await;
    from_another_page(&ui).await;
    by_another_method(&ui).await;
    as_the_page_itself(&ui).await;
    ends_when_it_is_terminated(&ui).await;
}

async fn without_the_token(ui: &Ui) {
    let guessed = "0".repeat(32);
    let (short, last) = ui.token().split_at(31);
    let other = if last == "0" { "1" } else { "0" };
    for path in [
        "/".to_owned(),
        "/api/events".to_owned(),
        "/api/services/shop/foo/events".to_owned(),
        format!("/{guessed}/api/events"),
        format!("/{short}/api/events"),
        format!("/{short}{other}/"),
        format!("/{}/", ui.token().to_uppercase()),
        format!("/{}", ui.token()),
        format!("//{}/", ui.token()),
        format!("/x/{}/", ui.token()),
        format!("/?{}/", ui.token()),
        format!("/api/events?token={}", ui.token()),
        format!("/{}/../{}/api/events", guessed, ui.token()),
    ] {
        let request = ui.bare_request("GET", &path).header("host", ui.address());
        is_refused(&ui.send(request).await, TOKEN, &path);
    }
}

/// A page of evil.example whose name leads to 127.0.0.1 (DNS rebinding) knows the token at most
/// from somewhere else.
async fn by_another_name(ui: &Ui) {
    let (_, port) = ui.address().split_once(':').unwrap();
    for host in [
        format!("evil.example:{port}"),
        "evil.example".to_owned(),
        "127.0.0.1".to_owned(),
        "127.0.0.1:1".to_owned(),
        format!("127.0.0.1:{port}.evil.example"),
        String::new(),
    ] {
        let path = format!("/{}/api/events", ui.token());
        let request = ui.bare_request("GET", &path).header("host", &host);
        is_refused(&ui.send(request).await, HOST, &host);
        let both = ui.request("GET", "api/events").header("host", &host);
        is_refused(&ui.send(both).await, HOST, &host);
    }
    let page = format!("/{}/", ui.token());
    let elsewhere = format!("http://evil.example:{port}{page}");
    let elsewhere = ui.bare_request("GET", &elsewhere);
    for (request, what) in [
        (ui.bare_request("GET", &page), "no Host"),
        (ui.request("GET", "").header("host", ui.address()), "twice"),
        (elsewhere.header("host", ui.address()), "another URI"),
    ] {
        is_refused(&ui.send(request).await, HOST, what);
    }
    let named = ui.bare_request("GET", &page);
    let answer = ui
        .send(named.header("host", format!("localhost:{port}")))
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
}

async fn from_another_page(ui: &Ui) {
    let tls = format!("https://{}", ui.address());
    for (name, value) in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
        ("origin", &*tls),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        for path in ["", "app.js", "api/events", "api/services/shop/foo/events"] {
            let request = ui.request("GET", path).header(name, value);
            is_refused(
                &ui.send(request).await,
                PAGE,
                &format!("{name}: {value}, {path}"),
            );
        }
    }
    let own = format!("http://{}", ui.address());
    for (name, value) in [
        ("origin", own.as_str()),
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-site", "none"),
    ] {
        let answer = ui.send(ui.request("GET", "").header(name, value)).await;
        assert_eq!(answer.status, StatusCode::OK, "{name}: {value}");
    }
}

async fn by_another_method(ui: &Ui) {
    for method in ["PUT", "PATCH", "DELETE", "OPTIONS"] {
        for path in ["", "api/events"] {
            let answer = ui.send(ui.request(method, path)).await;
            is_refused(&answer, METHOD, &format!("{method} {path}"));
        }
    }
    let head = ui.send(ui.request("HEAD", "")).await;
    assert_eq!(head.status, StatusCode::METHOD_NOT_ALLOWED, "{head:?}");
    let own = format!("http://{}", ui.address());
    let verify = "api/services/shop/foo/verify";
    for (method, path, origin, refusal) in [
        ("POST", verify, None, PAGE),
        ("POST", verify, Some("http://evil.example"), PAGE),
        ("POST", verify, Some(&*own), (403, "--verify")),
        ("POST", "api/events", Some(&*own), METHOD),
        ("GET", verify, Some(&*own), METHOD),
    ] {
        let request = ui.request(method, path);
        let request = match origin {
            Some(origin) => request.header("origin", origin),
            None => request,
        };
        is_refused(
            &ui.send(request).await,
            refusal,
            &format!("{method} {path} {origin:?}"),
        );
    }
    let preflight = ui
        .request("OPTIONS", "api/events")
        .header("origin", "http://evil.example")
        .header("access-control-request-method", "GET");
    is_refused(&ui.send(preflight).await, PAGE, "a preflight request");
}

async fn as_the_page_itself(ui: &Ui) {
    for (path, content_type) in [
        ("", "text/html; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
        ("favicon.svg", "image/svg+xml"),
        ("api/events", "text/event-stream"),
    ] {
        let answer = ui.send(ui.request("GET", path)).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
        assert_eq!(answer.headers["content-type"], content_type, "{path}");
        assert!(!answer.body.is_empty(), "{path}");
        is_protected(&answer, path);
    }
    for path in [
        "index.html.bak",
        "api",
        "api/secrets",
        "api/services/shop/events",
    ] {
        let absent = (404, "no such page");
        is_refused(&ui.send(ui.request("GET", path)).await, absent, path);
    }
}

async fn ends_when_it_is_terminated(ui: &Ui) {
    let _page = ui.page().await;
    ui.process().terminate();
    let ended = eventually("it ends", SOON, || async { ui.process().exit() }).await;
    assert_eq!(ended, Exit::Code(0), "{}", ui.process().log_tail(20));
    let said = ui.process().log_tail(20);
    assert!(!said.contains("error"), "{said}");
}
