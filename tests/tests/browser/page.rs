//! Promises of the page for any content: made-up data, from a server that speaks as `kubectl mcs
//! ui`.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::chromium;

/// The longest that it takes beside other programs.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// Each part of `cli/ui/test/parts.mjs` is a promise.
#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn the_page_is_what_it_should_be_in_a_real_browser() {
    if !chromium::is_there() {
        return;
    }
    let mut command = Command::new("node");
    command.arg("test/page.mjs");
    command.current_dir(chromium::directory());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = timeout(PATIENCE, command.output()).await;
    let output = ended.expect("an end in time").expect("node");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
}
