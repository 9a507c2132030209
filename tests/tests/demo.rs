//! `make demo` itself: it ends well, and says where it does not.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output};

use causeway_tests::{binaries, network};

fn demo() -> Command {
    Command::new(env!("CARGO_BIN_EXE_demo"))
}

fn last_lines(output: &Output) -> (String, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_default().to_owned();
    (text, last)
}

#[ignore = "slow: make test ALL=1"]
#[test]
fn the_demo_ends_with_demo_ok() {
    let output = demo().output().unwrap();
    let (text, last) = last_lines(&output);
    assert!(output.status.success(), "{text}");
    assert_eq!(last, "demo: ok", "{text}");
    assert!(
        text.contains("make demo KEEP=1 leaves it running"),
        "{text}"
    );
    let networks = match network::prerequisites() {
        Ok(()) => "clustera reaches it by node port ",
        Err(_) => "Skipped, because no packets are sent here",
    };
    assert!(text.contains(networks), "{text}");
}

#[test]
fn a_demo_that_fails_names_the_step() {
    let programs = tempfile::tempdir().unwrap();
    for program in ["causeway-webhook", "causeway-controller"] {
        symlink(binaries::causeway(program), programs.path().join(program)).unwrap();
    }
    let broken = programs.path().join("kubectl-mcs");
    std::fs::write(
        &broken,
        "#!/bin/sh\necho 'error: broken on purpose'\nexit 3\n",
    )
    .unwrap();
    std::fs::set_permissions(&broken, PermissionsExt::from_mode(0o755)).unwrap();
    let output = demo()
        .env("CAUSEWAY_BIN_DIR", programs.path())
        .output()
        .unwrap();
    let (text, last) = last_lines(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("broken on purpose"), "{text}");
    assert!(
        text.contains("demo: failed at step 3: The clusters join the hub"),
        "{text}"
    );
    assert!(last.contains("kubectl mcs join clustera"), "{last}");
}
