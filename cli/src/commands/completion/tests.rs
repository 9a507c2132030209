use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::*;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(ToOwned::to_owned).collect()
}

fn candidates(line: &str) -> Vec<Candidate> {
    match complete(&words(line)) {
        Completion::Candidates(candidates) => candidates,
        other => panic!("{line}: {other:?}"),
    }
}

/// Returns the candidates for the last word of a line.
fn offered(line: &str) -> Vec<String> {
    let candidates = candidates(line).into_iter();
    candidates.map(|candidate| candidate.value).collect()
}

fn kubeconfig(server: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: prod-1\n\
         clusters: [{{name: hub, cluster: {{server: \"{server}\"}}}}]\n\
         users: [{{name: somebody, user: {{token: t}}}}]\n\
         contexts:\n\
         - {{name: prod-1, context: {{cluster: hub, user: somebody}}}}\n\
         - {{name: prod-2, context: {{cluster: hub, user: somebody}}}}\n\
         - {{name: test, context: {{cluster: hub, user: somebody}}}}\n"
    );
    std::fs::write(file.path(), text).expect("written");
    file
}

#[test]
fn it_is_requested_by_the_name_of_the_program_or_by_the_first_argument() {
    let requested = |line: &str| requested(line.split(' ').map(OsString::from));
    let status = Some(words("status -"));
    for (line, expected) in [
        ("kubectl_complete-mcs status -", status.clone()),
        ("/usr/bin/kubectl_complete-mcs status -", status.clone()),
        ("kubectl_complete-mcs.exe status -", status.clone()),
        ("kubectl-mcs __complete status -", status),
        ("kubectl_complete-mcs", Some(Vec::new())),
        ("kubectl-mcs status -", None),
        ("kubectl-mcs status __complete", None),
    ] {
        assert_eq!(requested(line), expected, "{line}");
    }
}

#[test]
fn commands_come_with_what_they_do() {
    let all = offered("");
    assert_eq!(all.first().map(String::as_str), Some("install"));
    assert!(
        all.iter().any(|name| name == "confirm-deletions"),
        "{all:?}"
    );
    assert_eq!(complete(&[]), complete(&words("")));
    assert_eq!(
        candidates("dr"),
        [Candidate {
            value: "drain".to_owned(),
            description: "Stop using the endpoints that a cluster provides".to_owned(),
        }]
    );
    assert_eq!(offered("-n shop --context=a dr"), ["drain"]);
    for line in ["nonsense ", "--nonsense ", "status -x ", "version foo "] {
        assert_eq!(offered(line), Vec::<String>::new(), "{line}");
    }
}

/// Command lines, with flags that are offered and flags that are not.
const FLAGS: &str = "\
status - | --wait -o --output -A --context -h | --dry-run
status -A --a | --allow-insecure-members | --all-namespaces
status --o | --output | --wait
-n shop status - | --context | --namespace -n
install --crds-only -- | --dry-run --wait | --skip-crds --karmada
drain a --undo -- | --timeout | --wait --undo
adopt foo -- | --dry-run | --all
status -A -w -- | --color --output | --wait --watch
top --admin-url a -- | --admin-url --sort-by --interval | --wait
bug-report -o a -- | --tail --lease | --output-file
diff -f a -- | --filename | --wait
tunnel -- | --admin-url --color | --member-kubeconfig
tunnel add a --tunnel b - | --member-kubeconfig -o --dry-run | --admin-url --tunnel
";

#[test]
fn flags_are_those_that_may_be_given_now() {
    for case in FLAGS.lines() {
        let [line, there, missing] = case.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{case}");
        };
        let all = offered(line);
        let has = |flag: &str| all.iter().any(|one| one == flag);
        assert!(there.split(' ').all(has), "{line}: {all:?}");
        assert!(!missing.split(' ').any(has), "{line}: {all:?}");
    }
    for line in ["status -- -", "status --help -", "-o", "status --wait="] {
        assert_eq!(offered(line), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn what_is_required_comes_first() {
    for line in ["dns a ", "dns a -", "dns ", "dns --fix a --"] {
        assert_eq!(offered(line), ["--member-kubeconfig"], "{line}");
    }
    assert_eq!(offered("tunnel add a "), ["--tunnel"]);
    assert_eq!(offered("join a --ti"), ["--timeout"]);
    assert_eq!(offered("diff "), ["--filename", "-f"]);
    assert_eq!(offered("diff -f a "), Vec::<String>::new());
}

#[test]
fn a_value_is_completed_beside_its_flag_and_behind_an_equals_sign() {
    for (line, expected) in [
        ("status -o ", "json yaml"),
        ("status --output y", "yaml"),
        ("status --output=", "json yaml"),
        ("status -A -o=j", "json"),
        ("status --color ", "auto always never"),
        ("top --sort-by ", "changes writes endpoints lag name"),
        ("status -Ao ", "json yaml"),
        ("status -oyaml -A --wai", "--wait"),
        ("install --dry-run=", "client server"),
        ("install --dry-run --wait=f", "false"),
        ("uninstall --dry-run=", "client"),
        ("install --missing-service ", "deny warn"),
        ("completion ba", "bash"),
        ("tunnel ", "add remove"),
        ("tunnel re", "remove"),
        ("tunnel add a -o ", "json yaml"),
        (
            "join a --reach ",
            "node-ports node-ports=external load-balancer cluster-ip",
        ),
    ] {
        assert_eq!(offered(line).join(" "), expected, "{line}");
    }
    for line in ["status --timeout ", "install --dry-run ", "drain a "] {
        assert_eq!(offered(line), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn files_are_left_to_the_shell() {
    for line in [
        "--kubeconfig ",
        "status --kubeconfig=a",
        "join a --member-kubeconfig ",
    ] {
        assert_eq!(complete(&words(line)), Completion::File, "{line}");
    }
    let manifests = complete(&words("diff -f "));
    assert_eq!(manifests.to_string(), "json\nyaml\nyml\n:8");
}

#[test]
fn contexts_are_those_of_the_kubeconfig_that_was_given() {
    let file = kubeconfig("https://127.0.0.1:1");
    let path = file.path().display().to_string();
    for case in [
        "--kubeconfig FILE --context  | prod-1 prod-2 test",
        "status --kubeconfig=FILE --context=p | prod-1 prod-2",
        "join a --member-kubeconfig FILE --member-context t | test",
        "join a --member-kubeconfig /nowhere --member-context  | ",
        "join a --member-context  | ",
    ] {
        let (line, expected) = case.split_once(" | ").expect("two columns");
        let all = offered(&line.replace("FILE", &path));
        assert_eq!(all.join(" "), expected, "{line}");
    }
}

#[test]
fn values_that_name_a_member_continue_after_its_name() {
    let own = kubeconfig("https://127.0.0.1:1");
    let hub = kubeconfig("https://127.0.0.1:2");
    let (own, hub) = (own.path().display(), hub.path().display());
    let text = std::fs::read_to_string(hub.to_string()).expect("it");
    std::fs::write(hub.to_string(), text.replace("prod-", "hub-")).expect("written");
    let both = format!("explain foo --kubeconfig {hub} --member-kubeconfig a={own}");
    for case in [
        "--member a= | a=prod-1 a=prod-2 a=test",
        "--member=a=prod-2 | a=prod-2",
        "--member b=h | b=hub-1 b=hub-2",
        "--member-kubeconfig OWN --member b=t | b=test",
        "--member-kubeconfig /nowhere --member b= | ",
    ] {
        let (line, expected) = case.split_once(" | ").expect("two columns");
        let line = line.replace("OWN", &own.to_string());
        let all = offered(&format!("{both} {line}"));
        assert_eq!(all.join(" "), expected, "{line}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let of = directory.path().display();
    for name in ["one.yaml", "other", ".hidden"] {
        std::fs::write(directory.path().join(name), "").expect("a file");
    }
    std::fs::create_dir(directory.path().join("more")).expect("a directory");
    for (typed, expected, directive) in [
        ("a=DIR/o", "a=DIR/one.yaml a=DIR/other", 4),
        ("a=DIR/m", "a=DIR/more/", 6),
        ("a=DIR/", "a=DIR/more/ a=DIR/one.yaml a=DIR/other", 4),
        ("a=DIR/.", "a=DIR/.hidden", 4),
        ("a=DIR/none/", "", 4),
    ] {
        let line = format!("top --member-kubeconfig {typed}").replace("DIR", &of.to_string());
        assert_eq!(
            offered(&line).join(" "),
            expected.replace("DIR", &of.to_string()),
            "{line}"
        );
        assert_eq!(complete(&words(&line)).directive(), directive, "{line}");
    }
    let shared = complete(&words("top --member-kubeconfig on"));
    assert_eq!(shared, Completion::File);
}

#[test]
fn nothing_is_offered_and_nobody_waits_where_the_hub_does_not_answer() {
    // The listener accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let silent = kubeconfig(&format!("https://{address}"));
    let closed = kubeconfig("https://127.0.0.1:1");
    let begun = Instant::now();
    for file in [&silent, &closed] {
        let path = file.path().display();
        let line = format!("--kubeconfig {path} drain ");
        assert_eq!(complete(&words(&line)).to_string(), ":4");
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn it_is_printed_as_cobra_prints_it() {
    let candidates = [("a", "what a does"), ("b", "")].map(|(value, description)| Candidate {
        value: value.to_owned(),
        description: description.to_owned(),
    });
    let text = Completion::Candidates(candidates.into()).to_string();
    assert_eq!(text, "a\twhat a does\nb\n:4");
    assert_eq!(Completion::File.to_string(), ":0");
    let long = StyledStr::from("one\ntwo");
    assert_eq!(Candidate::new("c", Some(&long)).description, "one");
}
