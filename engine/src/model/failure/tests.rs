use kube::core::response::StatusDetails;

use super::*;

fn status(code: u16, reason: &str, message: &str, name: &str) -> Status {
    let details = StatusDetails {
        name: name.to_owned(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    };
    Status::failure(message, reason)
        .with_code(code)
        .with_details(details)
}

#[test]
fn what_an_api_server_answers_is_distinguished() {
    use FailureKind::*;
    let webhook = r#"Internal error occurred: failed calling webhook "v.example.org": dial tcp 10.0.0.1:443: refused"#;
    let cases = [
        (
            status(401, "Unauthorized", "Unauthorized", ""),
            Unauthorized,
            "unauthorized",
            true,
        ),
        (
            status(403, "Forbidden", "services is forbidden", ""),
            Forbidden,
            "forbidden: services is forbidden",
            false,
        ),
        (
            status(404, "NotFound", "services \"foo\" not found", "foo"),
            NotFound,
            "services \"foo\" not found",
            false,
        ),
        (
            status(
                404,
                "NotFound",
                "the server could not find the requested resource",
                "",
            ),
            NotServed,
            "the API server does not serve the resource",
            false,
        ),
        (
            status(404, "Failed to parse error data", "<html>", "foo"),
            NotServed,
            "the API server does not serve the resource",
            false,
        ),
        (
            status(409, "Conflict", "modified", "foo"),
            Conflict,
            "modified",
            false,
        ),
        (
            status(409, "AlreadyExists", "already exists", "foo"),
            AlreadyExists,
            "already exists",
            false,
        ),
        (
            status(410, "Expired", "too old: 5 (9)", ""),
            Expired,
            "the resourceVersion is no longer kept",
            false,
        ),
        (
            status(422, "Invalid", "spec.ports: Required", "foo"),
            Invalid,
            "spec.ports: Required",
            false,
        ),
        (
            status(
                422,
                "Invalid",
                "failed to allocate IP 10.0.0.9: provided IP is already allocated",
                "foo",
            ),
            AddressTaken,
            "failed to allocate IP 10.0.0.9: provided IP is already allocated",
            false,
        ),
        (
            status(429, "TooManyRequests", "slow down", ""),
            TooMany,
            "too many requests",
            false,
        ),
        (
            status(503, "ServiceUnavailable", "x", ""),
            Server,
            "the API server answers 503",
            true,
        ),
        (
            status(504, "Timeout", "x", ""),
            Timeout,
            "the API server got no answer in time",
            true,
        ),
        (
            status(500, "InternalError", webhook, ""),
            Other,
            "its admission webhook v.example.org fails",
            false,
        ),
    ];
    for (status, kind, text, whole) in cases {
        let failure = Failure::from_status(&status);
        assert_eq!(
            (
                failure.kind,
                failure.to_string().as_str(),
                failure.is_connection()
            ),
            (kind, text, whole)
        );
    }
}

#[test]
fn failures_are_equal_if_their_words_without_digits_are() {
    let refusal = |text: &str| Failure::from_status(&status(403, "Forbidden", text, ""));
    let cut = |text: &str| format!("{text}{}", " many".repeat(bounds::FOREIGN_TEXT));
    for (one, other, is_equal) in [
        ("Ray ID: 00000001", "Ray ID: 00000002", true),
        ("<b>id 9f8e7d6c</b>", "<b>id abc4def0</b>", true),
        ("in 3s, at 10.0.0.1:443", "in 1m4s, at 10.0.0.2:443", true),
        ("[no role, no rule]", "[no rule, no role]", true),
        (r#"cannot list "pods""#, r#"cannot watch "pods""#, false),
        ("exceeded quota: a", "denied by a policy: a", false),
        (&cut("no role"), &cut("no rule"), true),
    ] {
        assert_eq!(refusal(one) == refusal(other), is_equal, "{one}, {other}");
        let [one, other] = [one, other].map(|text| refusal(text).of_any_replica());
        assert_eq!(one, other);
    }
    let of_tls = |text| Failure::new(FailureKind::Tls, text);
    assert_ne!(
        of_tls("its certificate has expired"),
        of_tls("its certificate is for another name")
    );
}

#[test]
fn noted_failure_has_the_first_text_of_its_last_reason() {
    let refusal = |text: &str| Failure::from_status(&status(403, "Forbidden", text, ""));
    let mut last = None;
    for (text, expected) in [
        ("cannot list, try 1", "forbidden: cannot list, try 1"),
        ("cannot list, try 2", "forbidden: cannot list, try 1"),
        ("cannot watch, try 3", "forbidden: cannot watch, try 3"),
    ] {
        refusal(text).note(&mut last);
        let noted = last.as_ref().map(Failure::to_string);
        assert_eq!(noted.as_deref(), Some(expected));
    }
}

#[test]
fn failure_text_is_one_bounded_line() {
    let long = format!("a\n\u{1b}[2J{}", "x".repeat(16 * 1024 * 1024));
    for code in [403, 404, 409, 418, 422] {
        let text = Failure::from_status(&status(code, "", &long, "foo")).to_string();
        assert!(text.len() <= 2 * bounds::FOREIGN_TEXT + 2, "{code}");
        assert!(!text.contains(char::is_control), "{code}: {text}");
    }
}
