//! Plain HTTP on the loopback, for admin endpoints and etcd.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// GETs a path: the status and the body.
///
/// # Errors
/// Where no HTTP answer comes.
pub(crate) async fn get(address: &str, path: &str) -> io::Result<(u16, String)> {
    get_accepting(address, path, "*/*").await
}

/// As [`get`], for who reads answers of that type.
///
/// # Errors
/// As of [`get`].
pub(crate) async fn get_accepting(
    address: &str,
    path: &str,
    accept: &str,
) -> io::Result<(u16, String)> {
    let head = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\naccept: {accept}\r\n\r\n");
    ask(address, &head).await
}

/// POSTs a body of JSON: the status and the body of the answer.
///
/// # Errors
/// As of [`get`].
pub(crate) async fn post(address: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.0\r\nhost: {address}\r\ncontent-length: {length}\r\n");
    ask(address, &format!("{head}\r\n{body}")).await
}

async fn ask(address: &str, request: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let malformed = || io::Error::other(format!("no HTTP answer: {answer:?}"));
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((status.ok_or_else(malformed)?, body.to_owned()))
}
