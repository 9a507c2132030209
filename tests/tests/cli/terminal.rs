//! Output on a terminal: colours, lines that fit, and progress.

use std::path::Path;

use causeway_tests::kubectl::{Command, Output};
use causeway_tests::{Fleet, Installation, SOON, binaries, eventually, multi_cluster_service};

use crate::join_all;

const SCRIPT: &str = "/usr/bin/script";

/// Runs `kubectl-mcs` on a terminal of that many columns (`script`, of Debian's bsdutils). What it
/// prints on both outputs is in `stdout`.
async fn on_terminal(fleet: &Fleet, columns: u16, environment: &[&str], args: &str) -> Output {
    let program = binaries::causeway("kubectl-mcs");
    let line = format!(
        "stty cols {columns} rows 50; {} {} {args}",
        environment.join(" "),
        program.display()
    );
    let command = Command::new(fleet.reaper(), fleet.directory(), SCRIPT)
        .env("TERM", "xterm")
        .env("KUBECONFIG", fleet.hub().kubeconfig().display().to_string())
        .args(["-qec", &line, "/dev/null"]);
    command.run().await
}

/// The text without the sequences that command a terminal, line by line.
fn lines(output: &Output) -> Vec<String> {
    let mut text = String::new();
    for (index, part) in output.stdout.split("\u{1b}[").enumerate() {
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        let end = end.filter(|_| index > 0).map_or(0, |at| at + 1);
        text.push_str(&part[end..]);
    }
    // What is written over is not seen any more.
    let seen = text.lines().filter_map(|line| line.rsplit('\r').next());
    seen.map(|line| line.trim_end().to_owned()).collect()
}

/// Output of `kubectl mcs status` of this namespace on a terminal of 100 columns.
struct Status<'a> {
    fleet: &'a Fleet,
    namespace: &'a str,
}

impl Status<'_> {
    async fn shown(&self, environment: &[&str], more: &str) -> Output {
        let args = format!("status -n {} {more}", self.namespace);
        on_terminal(self.fleet, 100, environment, &args).await
    }

    async fn is_coloured_and_fits(&self) {
        let shown = self.shown(&[], "").await;
        let synced = format!("{GREEN}Synced");
        assert!(shown.stdout.contains(&synced), "{shown:?}");
        assert!(shown.stdout.contains(RED), "{shown:?}");
        for name in ["", SERVICE] {
            let shown = self.shown(&[], name).await;
            let lines = lines(&shown);
            let too_long = lines.iter().filter(|line| line.chars().count() > 100);
            assert_eq!(too_long.collect::<Vec<_>>(), Vec::<&String>::new());
            assert!(lines.join("\n").contains(SERVICE), "{shown:?}");
        }
    }

    /// Checks colours; the progress on stderr is not checked here.
    async fn has_no_colours_where_nobody_wants_them(&self) {
        for (environment, more) in [
            (&["NO_COLOR=1"][..], "2>/dev/null"),
            (&[], "--color never 2>/dev/null"),
            (&[], "-o json --color always 2>/dev/null"),
            (&[], "2>/dev/null | cat"),
        ] {
            let shown = self.shown(environment, more).await;
            assert!(!shown.stdout.contains('\u{1b}'), "{more}: {shown:?}");
            assert!(shown.stdout.contains(SERVICE), "{more}: {shown:?}");
        }
        let always = "--color always 2>/dev/null | cat";
        let asked = self.shown(&["NO_COLOR=1"], always).await;
        assert!(asked.stdout.contains(GREEN), "{asked:?}");
        let piped = self.shown(&[], "2>/dev/null | cat").await;
        let whole = NAMES.join(",");
        assert!(piped.stdout.contains(&whole), "cells are whole: {piped:?}");
    }

    /// A member that does not answer takes as long as it may.
    async fn shows_how_far_it_is(&self) {
        self.fleet.member("member3").pause();
        let slow = self.shown(&[], "").await;
        let dumb = self.shown(&["TERM=dumb"], "").await;
        self.fleet.member("member3").resume();
        assert!(slow.stdout.contains("reading members: 2 of 3"), "{slow:?}");
        assert!(!dumb.stdout.contains("reading members"), "{dumb:?}");
        let text = lines(&slow).join("\n");
        let missing = "member3 are not shown";
        assert!(text.contains(missing), "{text}");
    }
}

const GREEN: &str = "\u{1b}[32m";
const RED: &str = "\u{1b}[31m";
const NAMES: [&str; 3] = ["a-member-with-a-rather-long-name", "member2", "member3"];
const SERVICE: &str = "a-service-of-some-length";

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn terminal_output_has_colours_and_fits_and_a_pipe_has_neither() {
    if !Path::new(SCRIPT).exists() {
        return eprintln!("skipped: there is no {SCRIPT} (Debian: bsdutils)");
    }
    let fleet = Fleet::builder().named_members(NAMES).start().await;
    let installation = Installation::new(&fleet).await;
    let _controller = installation.controller().start().await;
    join_all(&installation, &fleet, &NAMES).await;
    let space = fleet.space("terminal").await;
    let mcs = multi_cluster_service(SERVICE).providers(NAMES);
    mcs.consumers(NAMES).create(&space).await;
    let status = Status {
        fleet: &fleet,
        namespace: space.name(),
    };
    eventually("the controller says what is missing", SOON, async || {
        let shown = status.shown(&[], "2>/dev/null | cat").await;
        shown.stdout.contains("ServiceNotFound")
    })
    .await;

    status.is_coloured_and_fits().await;
    status.has_no_colours_where_nobody_wants_them().await;
    status.shows_how_far_it_is().await;
    let output = installation.kubectl_mcs(["status", "-A"]).await;
    assert!(!output.stderr.contains("reading members"), "{output:?}");
}
