//! Errors of JSON.

use super::{Row, fine_with};
use crate::client::{fine, post, post_bytes};

pub(super) fn rows() -> Vec<Row> {
    let mutate = |body: &str| post("/mutate", body);
    let bytes = |body: &[u8]| post_bytes("/mutate", body);
    let replaced = |from: &str, to: &[u8]| {
        let text = fine_with(from, "\u{1}");
        let (before, after) = text.split_once('\u{1}').expect("it is there");
        bytes(&[before.as_bytes(), to, after.as_bytes()].concat())
    };
    let deep = |open: &str, close: &str, depth: usize| {
        let nested = format!("{}{}", open.repeat(depth), close.repeat(depth));
        mutate(&fine_with(
            "\"userInfo\":{}",
            &format!("\"userInfo\":{{\"extra\":{nested}1}}").replace("1}", "}"),
        ))
    };
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep_type = |depth: usize| {
        let from = "\"spec\":{\"types\":[]}";
        let body = fine_with(from, &format!("\"spec\":{{\"types\":{}}}", lists(depth)));
        post("/validate", &body)
    };
    let utf16: Vec<u8> = fine()
        .to_string()
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    vec![
        (
            "half an object",
            mutate("{"),
            "400 the body is no AdmissionReview: EOF while parsing an object at line 1 column 1",
        ),
        (
            "a list",
            mutate("[]"),
            "400 the body is no AdmissionReview: invalid type: sequence, expected an object at line 1 column 0",
        ),
        (
            "null",
            mutate("null"),
            "400 the body is no AdmissionReview: invalid type: null, expected an object at line 1 column 4",
        ),
        (
            "a number",
            mutate("1"),
            "400 the body is no AdmissionReview: invalid type: integer `1`, expected an object at line 1 column 1",
        ),
        (
            "a text",
            mutate("\"AdmissionReview\""),
            "400 the body is no AdmissionReview: invalid type: string \"AdmissionReview\", expected an object at line 1 column 17",
        ),
        (
            "an empty object",
            mutate("{}"),
            "400 the body is \"\" of \"\", not an AdmissionReview of admission.k8s.io/v1; register the webhook with admissionReviewVersions: [v1]",
        ),
        (
            "YAML",
            mutate("apiVersion: admission.k8s.io/v1"),
            "400 the body is no AdmissionReview: expected value at line 1 column 1",
        ),
        (
            "a form",
            mutate("a=b&c=d"),
            "400 the body is no AdmissionReview: expected value at line 1 column 1",
        ),
        (
            "white space before",
            mutate(&format!(" \n\t{}", fine())),
            "allowed, patched",
        ),
        (
            "white space after",
            mutate(&format!("{} \n\t", fine())),
            "allowed, patched",
        ),
        (
            "something after",
            mutate(&format!("{}x", fine())),
            "400 the body is no AdmissionReview: trailing characters at line 1 column 574",
        ),
        (
            "another object after",
            mutate(&format!("{}{}", fine(), fine())),
            "400 the body is no AdmissionReview: trailing characters at line 1 column 574",
        ),
        (
            "a zero byte after",
            mutate(&format!("{}\0", fine())),
            "400 the body is no AdmissionReview: trailing characters at line 1 column 574",
        ),
        (
            "a byte order mark",
            mutate(&format!("\u{feff}{}", fine())),
            "400 the body is no AdmissionReview: expected value at line 1 column 1",
        ),
        (
            "UTF-16",
            bytes(&utf16),
            "400 the body is no AdmissionReview: key must be a string at line 1 column 2",
        ),
        (
            "invalid UTF-8 in the uid",
            replaced("0c9a8d74", b"\xff\xfe"),
            "400 the body is not UTF-8: invalid utf-8 sequence of 1 bytes from index 520",
        ),
        (
            "invalid UTF-8 in what is not read",
            replaced(
                "\"userInfo\":{}",
                b"\"userInfo\":{\"username\":\"\xc3\x28\"}",
            ),
            "400 the body is not UTF-8: invalid utf-8 sequence of 1 bytes from index 582",
        ),
        (
            "overlong UTF-8",
            replaced("0c9a8d74", b"\xc0\xaf"),
            "400 the body is not UTF-8: invalid utf-8 sequence of 1 bytes from index 520",
        ),
        (
            "a surrogate as UTF-8",
            replaced("0c9a8d74", b"\xed\xa0\x80"),
            "400 the body is not UTF-8: invalid utf-8 sequence of 1 bytes from index 520",
        ),
        (
            "half a surrogate pair",
            mutate(&fine_with("0c9a8d74", "\\ud800")),
            "400 the body is no AdmissionReview: unexpected end of hex escape at line 1 column 456",
        ),
        (
            "a line break in a text",
            mutate(&fine_with("0c9a8d74", "a\nb")),
            "400 the body is no AdmissionReview: control character (\\u0000-\\u001F) found while parsing a string at line 1 column 521",
        ),
        (
            "an unknown escape",
            mutate(&fine_with("0c9a8d74", "\\x41")),
            "400 the body is no AdmissionReview: invalid escape at line 1 column 522",
        ),
        (
            "a trailing comma",
            mutate(&fine_with("\"userInfo\":{}", "\"userInfo\":{},")),
            "400 the body is no AdmissionReview: key must be a string at line 1 column 573",
        ),
        (
            "a comment",
            mutate(&fine_with("\"userInfo\":{}", "/* x */\"userInfo\":{}")),
            "400 the body is no AdmissionReview: key must be a string at line 1 column 559",
        ),
        (
            "NaN",
            mutate(&fine_with("\"userInfo\":{}", "\"userInfo\":NaN")),
            "400 the body is no AdmissionReview: expected value at line 1 column 570",
        ),
        (
            "a leading zero",
            mutate(&fine_with("\"userInfo\":{}", "\"userInfo\":01")),
            "400 the body is no AdmissionReview: invalid number at line 1 column 571",
        ),
        (
            "a number beyond all",
            mutate(&fine_with("\"userInfo\":{}", "\"userInfo\":1e999999")),
            "allowed, patched",
        ),
        (
            "single quotes",
            mutate(&fine_with("\"userInfo\":{}", "'userInfo':{}")),
            "400 the body is no AdmissionReview: key must be a string at line 1 column 559",
        ),
        ("100 levels", deep("[", "]", 100), "allowed, patched"),
        ("130 levels", deep("[", "]", 130), "allowed, patched"),
        (
            "300,000 levels of lists",
            deep("[", "]", 300_000),
            "allowed, patched",
        ),
        (
            "300,000 levels of objects and lists",
            deep("{\"a\":[", "]}", 150_000),
            "allowed, patched",
        ),
        (
            "300,000 levels in what is decoded",
            deep_type(300_000),
            "denied 400 the MultiClusterService cannot be read: invalid type: sequence, expected a string at line 1 column 145",
        ),
        (
            "200,000 levels as oldObject",
            mutate(&fine_with(
                "\"oldObject\":null",
                &format!("\"oldObject\":{}", lists(200_000)),
            )),
            "allowed, patched",
        ),
        (
            "3,000,000 levels that are never closed",
            mutate(&"[".repeat(3_000_000)),
            "400 the body is no AdmissionReview: invalid type: sequence, expected an object at line 1 column 0",
        ),
        (
            "3,000,000 levels that are never closed, in what is not read",
            mutate(&fine_with(
                "\"userInfo\":{}",
                &format!("\"userInfo\":{}", "[".repeat(3_000_000)),
            )),
            "400 the body is no AdmissionReview: expected value at line 1 column 3000570",
        ),
        (
            "brackets in a text",
            mutate(&fine_with(
                "\"userInfo\":{}",
                &format!("\"userInfo\":{{\"a\":\"{}\"}}", "[{".repeat(5000)),
            )),
            "allowed, patched",
        ),
    ]
}
