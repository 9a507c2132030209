//! Commands whose output nobody reads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

use std::process::{Command, Stdio};

#[test]
fn a_closed_pipe_is_no_failure() {
    for line in [
        "completion bash",
        "completion elvish",
        "completion fish",
        "completion powershell",
        "completion zsh",
        "version --client",
        "--help",
        "--version",
        "install --help",
        "__complete status --",
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-mcs"))
            .args(line.split(' '))
            .stdin(Stdio::null())
            .stdout(writer)
            .output()
            .expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{line}");
    }
}
