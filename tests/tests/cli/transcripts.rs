//! The sessions that the book prints, typed as they are printed.

use std::path::PathBuf;

use causeway_tests::binaries;
use causeway_tests::book::blocks;
use causeway_tests::kubectl::{Command, Output};
use causeway_tests::{Fleet, Installation, Running, SOON, Space, eventually, service};

/// Command, and the output that the document prints.
struct Step {
    command: String,
    answer: String,
}

/// A person at a terminal, with a hub, members that are not joined, and the files that the book
/// speaks of.
struct Terminal {
    fleet: Fleet,
    home: PathBuf,
    _installation: Installation,
    _controller: Running,
}

impl Terminal {
    async fn open() -> Self {
        let fleet = Fleet::builder().members(3).start().await;
        let installation = Installation::new(&fleet).await;
        let controller = installation.controller().start().await;
        let home = fleet.directory().join("home");
        binaries::link_kubectl(&home.join("bin")).expect("the programs");
        std::fs::create_dir_all(home.join(".kube")).expect("a directory");
        for member in fleet.members() {
            let kubeconfig = home.join(".kube").join(member.name());
            std::fs::copy(member.kubeconfig(), kubeconfig).expect("a kubeconfig");
            let region = "topology.kubernetes.io/region=eu-west-1";
            let zone = "topology.kubernetes.io/zone=eu-west-1a";
            let label = ["label", "nodes", "--all", "--overwrite", region, zone];
            member.kubectl(label).await.ok();
        }
        let manifest = blocks("README.md", "yaml").into_iter().next();
        let manifest = manifest.expect("README.md has a MultiClusterService");
        std::fs::write(home.join("mcs.yaml"), manifest).expect("mcs.yaml");
        Self {
            fleet,
            home,
            _installation: installation,
            _controller: controller,
        }
    }

    async fn run(&self, command: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let home = self.home.display();
        Command::new(self.fleet.reaper(), self.fleet.directory(), "bash")
            .args(["-c", &format!("cd\n{command}")])
            .env("HOME", home.to_string())
            .env("KUBECONFIG", self.fleet.kubeconfig().display().to_string())
            .env("PATH", format!("{home}/bin:{path}"))
            .run()
            .await
    }

    /// Types the only session of a page.
    async fn type_session_of(&self, page: &str) {
        let [session] = <[_; 1]>::try_from(sessions(page))
            .unwrap_or_else(|all| panic!("{page} has {} sessions", all.len()));
        self.type_session(page, &session).await;
    }

    /// Types a session; reading commands are repeated until their output is the printed one.
    async fn type_session(&self, page: &str, session: &[Step]) {
        for step in session {
            let what = format!("{page}: {}\n{}", step.command, step.answer);
            let only_reads = ["kubectl mcs explain", "kubectl mcs diff"]
                .iter()
                .any(|reader| step.command.starts_with(reader));
            if only_reads {
                eventually(&what, SOON, || self.answer(step)).await;
                continue;
            }
            let answer = self.answer(step).await;
            answer.unwrap_or_else(|seen| panic!("{what}\nThe answer was:\n{seen}"));
        }
    }

    /// Runs a command. What it waits for, if it does not end at once, is no part of its answer.
    async fn answer(&self, step: &Step) -> Result<(), String> {
        let output = self.run(&step.command).await;
        let errors = output.stderr.split_inclusive('\n');
        let errors = errors.filter(|line| !line.starts_with("waiting: "));
        let seen = format!("{}{}", output.stdout, errors.collect::<String>());
        match fits(&lines(&step.answer), &lines(&seen)) {
            true => Ok(()),
            false => Err(seen),
        }
    }

    /// Waits until a member has no Service of that name in that namespace.
    async fn has_no_service(&self, member: &str, space: &Space<'_>, name: &str) {
        let member = self.fleet.member(member);
        eventually("the Service is gone", SOON, async || {
            let get = ["get", "service", name, "-n", space.name()];
            member.kubectl(get).await.stderr.contains("NotFound")
        })
        .await;
    }
}

/// The sessions of a page: each `$ ` is a command, with its here-document if it has one, and what
/// follows is the answer.
fn sessions(page: &str) -> Vec<Vec<Step>> {
    let sessions = blocks(page, "console").into_iter();
    sessions.map(|session| steps(&session)).collect()
}

fn steps(session: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = session.lines();
    while let Some(line) = lines.next() {
        if let Some(command) = line.strip_prefix("$ ") {
            let mut command = command.to_owned();
            if command.ends_with("<<EOT") {
                for line in lines.by_ref() {
                    command = format!("{command}\n{line}");
                    if line == "EOT" {
                        break;
                    }
                }
            }
            let answer = String::new();
            steps.push(Step { command, answer });
        } else {
            let step = steps.last_mut().expect("a command before its answer");
            step.answer.push_str(line);
            step.answer.push('\n');
        }
    }
    steps
}

/// The lines that say something, but for what varies: how wide the columns of a table are,
/// addresses, what tells this hub from others, and how long it took.
fn lines(text: &str) -> Vec<String> {
    let shape = |word: &str| {
        let bare = word.trim_matches(|c| matches!(c, ',' | ';' | '(' | ')'));
        let is_hash = |text: &str| text.len() == 8 && text.chars().all(|c| c.is_ascii_hexdigit());
        match bare.rsplit_once('-') {
            _ if bare.starts_with("https://") => "URL".to_owned(),
            _ if bare.parse::<std::net::IpAddr>().is_ok() => "ADDRESS".to_owned(),
            Some((name, hash)) if is_hash(hash) => format!("{name}-HASH"),
            _ => word.to_owned(),
        }
    };
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("waiting for "));
    let lines = lines.map(|line| {
        let words: Vec<_> = line.split_whitespace().map(shape).collect();
        words.join(" ")
    });
    lines.filter(|line| !line.is_empty()).collect()
}

/// Whether an answer is as printed; `...` stands for any lines.
fn fits(printed: &[String], seen: &[String]) -> bool {
    match printed.split_first() {
        None => seen.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=seen.len()).any(|skipped| fits(rest, &seen[skipped..]))
        }
        Some((first, rest)) => {
            seen.first() == Some(first) && seen.get(1..).is_some_and(|seen| fits(rest, seen))
        }
    }
}

#[test]
fn transcripts_may_differ_in_addresses_and_widths_only() {
    let printed = "NAME   ADDRESS\nfoo    10.0.0.1\n...\nend\n";
    for (seen, expected) in [
        ("NAME     ADDRESS\nfoo      10.65.0.77\nend\n", true),
        ("NAME ADDRESS\nfoo 10.65.0.77\nmore\nmuch more\nend\n", true),
        ("NAME ADDRESS\nfoo 10.65.0.77\nmore\n", false),
        ("NAME ADDRESS\nfoo none\nend\n", false),
        ("NAME ADDRESS\nfoo 10.65.0.77\nend\nand more\n", false),
    ] {
        assert_eq!(fits(&lines(printed), &lines(seen)), expected, "{seen}");
    }
}

#[tokio::test]
async fn the_sessions_in_the_book_go_as_they_are_printed() {
    let terminal = Terminal::open().await;
    let fleet = &terminal.fleet;
    terminal.type_session_of("docs/members.md").await;
    let join = "kubectl mcs join member2 --member-kubeconfig ~/.kube/member2";
    terminal.run(join).await.ok();
    for member in fleet.members() {
        let create = ["create", "namespace", "shop"];
        member.kubectl(create).await.ok();
    }
    let space = Space::existing(fleet, "shop");
    let provider = fleet.member("member1");
    space.backends("foo").count(2).create(provider).await;

    terminal.type_session_of("README.md").await;
    let delete = "kubectl -n shop delete mcs/foo service/foo";
    terminal.run(delete).await.ok();
    terminal.has_no_service("member1", &space, "foo").await;

    service("foo")
        .port("http", 80)
        .create(provider, &space)
        .await;
    terminal.type_session_of("docs/clusterset.md").await;
    let delete = "kubectl --context member1 -n shop delete serviceexport/foo service/foo";
    terminal.run(delete).await.ok();
    terminal
        .has_no_service("member2", &space, "derived-foo")
        .await;

    let [explain, diff] = <[_; 2]>::try_from(sessions("docs/cli.md"))
        .unwrap_or_else(|all| panic!("docs/cli.md has {} sessions", all.len()));
    service("foo")
        .port("http", 80)
        .create(fleet.hub(), &space)
        .await;
    let foreign = service("foo").port("other", 81);
    foreign.create(fleet.member("member2"), &space).await;
    terminal.run("kubectl apply -f mcs.yaml").await.ok();
    terminal.type_session("docs/cli.md", &explain).await;

    let delete = "kubectl --context member2 -n shop delete service foo";
    terminal.run(delete).await.ok();
    let join = "kubectl mcs join member3 --member-kubeconfig ~/.kube/member3";
    terminal.run(join).await.ok();
    terminal
        .run("kubectl mcs status foo -n shop --wait")
        .await
        .ok();
    terminal
        .run("sed -i s/member2/member3/ mcs.yaml")
        .await
        .ok();
    terminal.type_session("docs/cli.md", &diff).await;
}
