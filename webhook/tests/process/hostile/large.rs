//! Errors in long strings that no rule reads.

use super::{Row, fine_with};
use crate::client::{post, post_bytes};

pub(super) fn rows() -> Vec<Row> {
    let long = "x".repeat(20_000);
    let user = |name: &str| format!("\"userInfo\":{{\"username\":\"{long}{name}}}");
    let mutate = |name: &str| post("/mutate", &fine_with("\"userInfo\":{}", &user(name)));
    let whole = fine_with("\"userInfo\":{}", &user("\""));
    let broken_off = &whole[..whole.find(&long).expect("it is there") + long.len()];
    let mut no_utf8 = whole.clone().into_bytes();
    no_utf8.splice(20_582..20_582, *b"\xc3\x28");
    vec![
        ("a long text", mutate("\""), "allowed, patched"),
        (
            "half a surrogate pair in a long text that is not read",
            mutate("\\ud800\""),
            "allowed, patched",
        ),
        (
            "a line break in a long text",
            mutate("\n\""),
            "400 the body is no AdmissionReview: control character (\\u0000-\\u001F) found while parsing a string at line 1 column 20582",
        ),
        (
            "an unknown escape in a long text",
            mutate("\\x41\""),
            "400 the body is no AdmissionReview: invalid escape at line 1 column 20584",
        ),
        (
            "half an escape in a long text",
            mutate("\\u12\""),
            "400 the body is no AdmissionReview: invalid escape at line 1 column 20588",
        ),
        (
            "a long text that breaks off",
            post("/mutate", broken_off),
            "400 the body is no AdmissionReview: EOF while parsing a string at line 1 column 20582",
        ),
        (
            "something after a long text",
            mutate("\"x"),
            "400 the body is no AdmissionReview: expected `,` or `}` at line 1 column 20584",
        ),
        (
            "invalid UTF-8 in a long text",
            post_bytes("/mutate", &no_utf8),
            "400 the body is not UTF-8: invalid utf-8 sequence of 1 bytes from index 20582",
        ),
        (
            "two specs after a long text",
            post(
                "/validate",
                &fine_with(
                    "\"spec\":{\"types\":[]}",
                    &format!("\"note\":\"{long}\",\"spec\":{{\"types\":[]}},\"spec\":{{}}"),
                ),
            ),
            "denied 400 the MultiClusterService cannot be read: duplicate field `spec` at line 1 column 20164",
        ),
    ]
}
