//! Errors of HTTP, before any JSON.

use super::Row;
use crate::client::{fine, post};

const JSON: &str = "Content-Type: application/json";

/// A head of these lines, and a body as it is.
fn raw(lines: &[&str], body: &[u8]) -> Vec<u8> {
    [lines.join("\r\n").as_bytes(), b"\r\n\r\n", body].concat()
}

/// A usual request with these lines in its head.
fn with_lines(lines: &[&str]) -> Vec<u8> {
    let body = fine().to_string();
    let length = format!("Content-Length: {}", body.len());
    let first = ["POST /mutate HTTP/1.1", "Host: x", &length];
    raw(&[&first, lines].concat(), body.as_bytes())
}

/// A chunked body, as it is.
fn chunked(body: &[u8]) -> Vec<u8> {
    let lines = [
        "POST /mutate HTTP/1.1",
        "Host: x",
        JSON,
        "Transfer-Encoding: chunked",
    ];
    raw(&lines, body)
}

fn in_chunks(body: &str, size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in body.as_bytes().chunks(size) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    chunked(&out)
}

pub(super) fn rows() -> Vec<Row> {
    let line = |line: &str| raw(&[line, "Host: x", "Content-Length: 0"], b"");
    let head = |lines: &[&str]| {
        let first = ["POST /mutate HTTP/1.1", JSON];
        raw(&[&first, lines].concat(), b"")
    };
    let many: Vec<String> = (0..200).map(|n| format!("X-{n}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let long = format!("X: {}", "y".repeat(17 * 1024));
    let usual = fine().to_string();
    let padding = " ".repeat(7 * 1024 * 1024 - usual.len());
    vec![
        (
            "GET",
            line("GET /validate HTTP/1.1"),
            "405 GET is not served; POST is",
        ),
        (
            "a small method",
            line("post /validate HTTP/1.1"),
            "405 post is not served; POST is",
        ),
        (
            "TRACE",
            line("TRACE /validate HTTP/1.1"),
            "405 TRACE is not served; POST is",
        ),
        (
            "CONNECT",
            line("CONNECT evil:443 HTTP/1.1"),
            "404  is not served; /mutate and /validate are",
        ),
        (
            "OPTIONS of all",
            line("OPTIONS * HTTP/1.1"),
            "404 * is not served; /mutate and /validate are",
        ),
        (
            "nowhere",
            line("POST / HTTP/1.1"),
            "404 / is not served; /mutate and /validate are",
        ),
        (
            "a GET from nowhere",
            line("GET /nowhere HTTP/1.1"),
            "404 /nowhere is not served; /mutate and /validate are",
        ),
        (
            "a slash at the end",
            line("POST /validate/ HTTP/1.1"),
            "404 /validate/ is not served; /mutate and /validate are",
        ),
        (
            "a query",
            post("/mutate?timeout=5s&x=%00", &usual),
            "allowed, patched",
        ),
        (
            "two slashes",
            line("POST //validate HTTP/1.1"),
            "404 //validate is not served; /mutate and /validate are",
        ),
        (
            "a detour",
            line("POST /x/../validate HTTP/1.1"),
            "404 /x/../validate is not served; /mutate and /validate are",
        ),
        ("a coded slash", line("POST %2fvalidate HTTP/1.1"), "400 "),
        ("another version", line("POST /validate HTTP/9.9"), "400 "),
        (
            "HTTP/2 without sending",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            "400 HTTP/2 is not served; HTTP/1.1 is.",
        ),
        ("no HTTP", b"\x00\x01\x02\x03\r\n\r\n".to_vec(), "400 "),
        (
            "a redis command",
            b"*1\r\n$4\r\nPING\r\n\r\n".to_vec(),
            "400 ",
        ),
        (
            "no content type",
            raw(&["POST /mutate HTTP/1.1", "Content-Length: 2"], b"{}"),
            "415 the content type must be application/json",
        ),
        (
            "another content type",
            with_lines(&["Content-Type: text/plain"]),
            "415 the content type must be application/json",
        ),
        (
            "a longer content type",
            with_lines(&["Content-Type: application/jsonx"]),
            "415 the content type must be application/json",
        ),
        (
            "a content type with its encoding",
            with_lines(&["Content-Type: application/json; charset=utf-8"]),
            "allowed, patched",
        ),
        (
            "a content type in capitals",
            with_lines(&["Content-Type: Application/JSON ;x=y"]),
            "allowed, patched",
        ),
        (
            "the first of two content types counts",
            with_lines(&[JSON, "Content-Type: text/plain"]),
            "allowed, patched",
        ),
        (
            "compressed",
            with_lines(&[JSON, "Content-Encoding: gzip"]),
            "415 a body with a content encoding is not read; send plain JSON",
        ),
        (
            "an upgrade",
            with_lines(&[JSON, "Connection: upgrade", "Upgrade: websocket"]),
            "allowed, patched",
        ),
        (
            "an unknown expectation",
            with_lines(&[JSON, "Expect: wonders"]),
            "allowed, patched",
        ),
        (
            "the rest is to come",
            head(&["Content-Length: 7340033"]),
            "413 the body is larger than 7340032 bytes",
        ),
        (
            "and is to be requested",
            head(&["Content-Length: 7340033", "Expect: 100-continue"]),
            "413 the body is larger than 7340032 bytes",
        ),
        (
            "a length beyond reason",
            head(&["Content-Length: 9999999999999999999"]),
            "413 the body is larger than 7340032 bytes",
        ),
        (
            "a length beyond 64 bits",
            head(&["Content-Length: 99999999999999999999"]),
            "400 ",
        ),
        ("a negative length", head(&["Content-Length: -1"]), "400 "),
        (
            "two lengths",
            head(&["Content-Length: 2", "Content-Length: 3"]),
            "400 ",
        ),
        ("a length in hex", head(&["Content-Length: 0x10"]), "400 "),
        (
            "an unknown coding",
            head(&["Transfer-Encoding: gzip"]),
            "400 ",
        ),
        (
            "chunked is not the last coding",
            head(&["Transfer-Encoding: chunked, gzip"]),
            "400 ",
        ),
        (
            "chunked before HTTP/1.1",
            raw(
                &["POST /mutate HTTP/1.0", "Transfer-Encoding: chunked"],
                b"0\r\n\r\n",
            ),
            "400 ",
        ),
        ("200 headers", head(&many), "431 "),
        ("a head of 17 KiB", head(&[&long]), "431 "),
        ("a header that is none", head(&["no colon here"]), "400 "),
        (
            "a space before the colon",
            head(&["Content-Length : 2"]),
            "400 ",
        ),
        ("a folded header", head(&["X: a", " b"]), "400 "),
        ("a zero byte in a header", head(&["X: a\0b"]), "400 "),
        ("chunked", in_chunks(&usual, 100), "allowed, patched"),
        ("one byte a chunk", in_chunks(&usual, 1), "allowed, patched"),
        (
            "the largest body",
            post("/mutate", &format!("{usual}{padding}")),
            "allowed, patched",
        ),
        (
            "too much in chunks",
            in_chunks(&" ".repeat(7 * 1024 * 1024 + 1), 65_536),
            "413 the body is larger than 7340032 bytes",
        ),
        (
            "chunks without end",
            chunked(b"5\r\n{    \r\n5\r\n     \r\nzz\r\n"),
            "400 the body broke off: error reading a body from connection: Invalid chunk size line: missing size digit",
        ),
        (
            "a chunk beyond 64 bits",
            chunked(b"fffffffffffffffff\r\n"),
            "400 the body broke off: error reading a body from connection: invalid chunk size: overflow",
        ),
        (
            "a chunk with endless extensions",
            chunked(format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(20_000)).as_bytes()),
            "400 the body broke off: error reading a body from connection: chunk extensions over limit",
        ),
        (
            "nothing",
            post("/mutate", ""),
            "400 the body is no AdmissionReview: EOF while parsing a value at line 1 column 0",
        ),
    ]
}
