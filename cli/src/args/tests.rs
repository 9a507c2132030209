use std::time::SystemTime;

use causeway::domain::Reach;
use clap::CommandFactory as _;
use clap::error::ErrorKind;
use k8s_openapi::api::core::v1::Secret;

use super::values::{network, place, token_lifetime};
use super::*;
use crate::cluster::tunnel::TunnelError;
use crate::cluster::tunnel::authority::TunnelAuthority;

fn parse(line: &str) -> Result<CommandLine, clap::Error> {
    CommandLine::try_parse_from(["kubectl-mcs"].into_iter().chain(line.split_whitespace()))
}

/// Asserts that each command of `kubectl mcs` in a message parses. Words behind its last flag may
/// be prose, and a single word only names a command.
pub(crate) fn assert_commands_parse(message: &str) {
    let lower = |word: &str| match word {
        "HOST[:PORT]" => "host".to_owned(),
        "URL" => "https://host".to_owned(),
        name if name.chars().all(|c| c.is_ascii_uppercase()) => name.to_lowercase(),
        word => word.to_owned(),
    };
    for rest in message.split("kubectl mcs ").skip(1) {
        let command = rest.split([',', ';', ')', '"', '\\', '\n']).next();
        let words = command.unwrap_or_default().split_whitespace();
        let words: Vec<_> = words.map(lower).collect();
        let flags = words.iter().rposition(|word| word.starts_with('-'));
        let mut ends = flags.map_or(1, |last| last + 1)..=words.len();
        let parses = ends.any(|end| parse(&words[..end].join(" ")).is_ok());
        assert!(parses || words.len() == 1, "{words:?} of {message}");
    }
}

#[test]
fn commands_of_messages_parse() {
    for golden in [
        include_str!("../golden/adopt.txt"),
        include_str!("../golden/check.txt"),
        include_str!("../golden/dns.txt"),
        include_str!("../golden/explain.txt"),
        include_str!("../golden/hand_over.txt"),
        include_str!("../golden/status.txt"),
    ] {
        golden.lines().for_each(assert_commands_parse);
    }
    let unusable = TunnelAuthority::read(&Secret::default(), SystemTime::now());
    let unusable = TunnelError::Authority(unusable.expect_err("no certificate"));
    assert_commands_parse(&unusable.to_string());
}

#[test]
fn the_command_line_is_consistent() {
    CommandLine::command().debug_assert();
}

/// Lists the arguments of a command and of all commands below it that read an environment variable.
fn reading_the_environment(command: &clap::Command) -> Vec<String> {
    let own = command.get_arguments();
    let own = own.filter(|arg| arg.get_env().is_some());
    let own = own.map(|arg| format!("{} {}", command.get_name(), arg.get_id()));
    let below = command.get_subcommands().flat_map(reading_the_environment);
    own.chain(below).collect()
}

#[test]
fn no_argument_reads_an_environment_variable() {
    let mut command = CommandLine::command();
    command.build();
    assert_eq!(reading_the_environment(&command), Vec::<String>::new());

    let yes = clap::Arg::new("yes").long("yes").env("CAUSEWAY_YES");
    let bad = command.mut_subcommand("uninstall", |uninstall| uninstall.mut_arg("yes", |_| yes));
    assert_eq!(reading_the_environment(&bad), ["uninstall yes"]);
}

#[test]
fn the_flags_of_kubectl_stand_before_and_after_the_command() {
    for line in [
        "--kubeconfig f --context c -n shop status foo",
        "status foo --kubeconfig f --context c --namespace shop",
    ] {
        let hub = parse(line).expect(line).hub;
        assert_eq!(hub.kubeconfig.as_deref(), Some("f".as_ref()), "{line}");
        assert_eq!(
            (hub.context.as_deref(), hub.namespace.as_deref()),
            (Some("c"), Some("shop"))
        );
    }
}

const WRONG: [(ErrorKind, &[&str]); 7] = [
    (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, &[""]),
    (ErrorKind::InvalidSubcommand, &["jion a"]),
    (
        ErrorKind::MissingRequiredArgument,
        &[
            "join a",
            "join --member-kubeconfig f",
            "status --wait --for=endpoints",
            "status foo --for=endpoints",
            "join a --member-kubeconfig f --only hub",
            "drain",
            "confirm-deletions",
            "shift foo --to a --every 5m",
            "adopt",
            "hand-over",
            "explain",
            "dns a",
            "join a --member-kubeconfig f --pull",
            "join a --member-kubeconfig f --tunnel h",
            "join a --member-kubeconfig f --agent-image i",
            "unjoin a --member-context c",
            "tunnel add a --tunnel h",
            "tunnel add a -o yaml",
            "tunnel remove",
            "tunnel remove a --member-context c",
            "install --secrets-only",
            "join a -o yaml --member-context c",
            "join a -o yaml --report-paths",
            "install --enrolment",
            "install --webhook-url https://a:1",
            "install --external --webhook-ca f",
        ],
    ),
    (
        ErrorKind::InvalidValue,
        &[
            "join a --member-kubeconfig f --dry-run=server",
            "tunnel remove a --dry-run=server",
            "status -o xml",
            "status --color red",
            "status foo --wait --for=pods",
            "top --sort-by age",
            "hand-over foo --wait=soon",
            "dns a --member-kubeconfig f --image-has=both",
            "join a --member-kubeconfig f --reach nodeports",
            "install --missing-service=maybe",
            "install --dry-run=none",
            "install --wait=soon",
            "uninstall --dry-run=server",
        ],
    ),
    (
        ErrorKind::ValueValidation,
        &[
            "join a --member-kubeconfig f --region=",
            "join a --member-kubeconfig f --zone a,,b",
            "join a --member-kubeconfig f --network Edge_1",
            "join a --member-kubeconfig f --api-endpoint http://a",
            "join a -o yaml --enrol-within 25h",
            "top --interval 0s",
            "shift foo --to a --every 5m --step 10",
            "shift foo --to a --every 5m --step 0%",
            "top --admin-url http://",
            "status --timeout soon",
            "status --timeout=-5s",
            "ui --port http",
            "explain shop/foo",
            "status Foo",
            "shift my_svc --to a --every 5m --step 10%",
            "adopt foo.",
            "status --namespace=",
            "explain foo --lease x",
            "explain foo --tunnel-front https://a",
            "explain foo --tunnel-front http://a",
            "install --tunnel https://a",
            "install --external --webhook-url http://a",
            "install --external --webhook-url a:1",
            "install --registry https://a",
            "install --registry /",
            "install --image-tag a:b",
            "join a --member-kubeconfig f --pull --tunnel a:b",
        ],
    ),
    (
        ErrorKind::ArgumentConflict,
        &[
            "status -w --wait",
            "status foo -A",
            "adopt foo --all",
            "confirm-deletions a --wait --dry-run",
            "drain a --undo --wait",
            "dns a --member-kubeconfig f --fix -o json",
            "tunnel add a --tunnel h -o yaml --member-kubeconfig f",
            "tunnel add a --tunnel h -o yaml --force-conflicts",
            "tunnel add a --tunnel h -o yaml --timeout 1s",
            "tunnel --admin-url http://a:1 add a --tunnel h -o yaml",
            "install --tunnel h --secrets-only --external",
            "install --crds-only --skip-crds",
            "install --crds-only --external",
            "install --cert-manager --external",
            "install --missing-service=warn --external",
            "uninstall --keep-services --cascade",
            "uninstall --keep-services --crds",
        ],
    ),
    (ErrorKind::UnknownArgument, &["bug-report --tail -1"]),
];

#[test]
fn wrong_usage_is_reported_apart_and_exits_with_2() {
    for (kind, lines) in WRONG {
        for line in lines {
            let error = parse(line).expect_err(line);
            assert_eq!((error.kind(), error.exit_code()), (kind, 2), "{line}");
        }
    }
}

fn install(line: &str) -> InstallArgs {
    match parse(&format!("install {line}")).expect(line).command {
        Command::Install(args) => *args,
        other => panic!("not install: {other:?}"),
    }
}

#[test]
fn install_and_adopt_wait_unless_asked_otherwise() {
    for (flag, wait) in [
        ("", true),
        ("--wait", true),
        ("--wait=true", true),
        ("--wait=false", false),
    ] {
        assert_eq!(install(flag).waiting.wait, wait, "{flag}");
        let line = format!("adopt --all {flag}");
        let Command::Adopt(args) = parse(&line).expect(&line).command else {
            panic!("{line} is no adopt");
        };
        assert_eq!(args.waiting.wait, wait, "{line}");
    }
    assert_eq!(install("").waiting.timeout, Duration::from_secs(300));
}

#[test]
fn a_dry_run_is_the_clients_unless_the_server_is_asked_for() {
    for (line, place) in [
        ("", None),
        ("--dry-run", Some(DryRun::Client)),
        ("--dry-run=client", Some(DryRun::Client)),
        ("--dry-run=server", Some(DryRun::Server)),
    ] {
        assert_eq!(install(line).dry_run, place, "{line}");
    }
}

#[test]
fn a_registry_and_a_url_are_kept_without_their_last_slash() {
    let args =
        install("--registry localhost:5000/team/ --external --webhook-url https://[::1]:9443/");
    assert_eq!(args.images.registry.as_deref(), Some("localhost:5000/team"));
    let url = args.parts.webhook_url;
    assert_eq!(url.as_deref(), Some("https://[::1]:9443"));
}

#[test]
fn durations_are_written_as_go_writes_them() {
    for (text, seconds) in [("30s", 30), ("2m", 120), ("1h30m", 5400), ("0s", 0)] {
        assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    for text in ["", "30", "-1s", "soon"] {
        assert!(duration(text).is_err(), "{text}");
    }
}

#[test]
fn lifetime_of_a_token_is_ten_minutes_at_least() {
    assert_eq!(token_lifetime("10m"), Ok(Duration::from_secs(600)));
    for text in ["", "9m59s", "soon"] {
        let refused = Err("write a duration such as 24h, from 10m on");
        assert_eq!(token_lifetime(text), refused, "{text}");
    }
}

#[test]
fn a_place_is_what_nodes_have_in_their_labels() {
    let longest = "z".repeat(63);
    for text in ["eu-west-1", "eu-west-1a", "Rack_7.B", "1", &longest] {
        assert_eq!(place(text), Ok(text.to_owned()));
    }
    let longer = "z".repeat(64);
    for text in ["", "-a", "a.", "eu west", "a/b", "ä", &longer] {
        let refused = place(text).expect_err(text);
        assert!(refused.starts_with("write it as the nodes' labels have it: at most 63"));
    }
    for line in ["--zone a --zone b,c", "--zone a,b,c", "--zone=a,b --zone=c"] {
        let line = format!("join m --member-kubeconfig f {line}");
        let Command::Join(args) = parse(&line).expect(&line).command else {
            panic!("{line} is no join");
        };
        assert_eq!(args.zones, ["a", "b", "c"], "{line}");
    }
}

#[test]
fn network_is_a_dns_label_or_empty() {
    let longest = "n".repeat(63);
    for text in ["", "edge", "edge-1", &longest] {
        assert_eq!(network(text), Ok(text.to_owned()));
    }
    let longer = "n".repeat(64);
    for text in ["Edge", "edge_1", "-edge", " edge", "a.b", &longer] {
        let refused = network(text).expect_err(text);
        assert!(refused.starts_with("a network is a DNS label: at most 63 lower-case"));
    }
}

#[test]
fn reach_is_one_of_four_ways() {
    for way in Reach::ALL {
        let line = format!("join m --member-kubeconfig f --reach {way}");
        let Command::Join(args) = parse(&line).expect(&line).command else {
            panic!("{line} is no join");
        };
        assert_eq!(args.reach, Some(way));
    }
    let error = parse("join m --member-kubeconfig f --reach pods").expect_err("refused");
    let text = error.to_string();
    assert!(
        text.contains("'pods'") && text.contains("node-ports=external"),
        "{text}"
    );
}

#[test]
fn help_speaks_of_kubectl_mcs() {
    let error = parse("join --help").expect_err("help");
    assert!(
        error.to_string().contains("Usage: kubectl mcs join"),
        "{error}"
    );
}

#[test]
fn request_timeouts_are_read_as_kubectl_reads_them() {
    let year = 365 * 24 * 3600;
    for (text, seconds) in [
        ("30s", 30),
        ("2m", 120),
        ("7", 7),
        ("0", year),
        ("0s", year),
    ] {
        let expected = Duration::from_secs(seconds);
        assert_eq!(
            crate::cluster::access::request_timeout(text),
            Ok(expected),
            "{text}"
        );
    }
    for text in ["", "soon", "-1", "1.5"] {
        assert!(
            crate::cluster::access::request_timeout(text).is_err(),
            "{text}"
        );
    }
}

#[test]
fn a_group_is_impersonated_with_a_user_only() {
    let read = |line: &str| CommandLine::try_parse_from(line.split(' '));
    let line =
        read("kubectl-mcs status --as ann --as-group dev --as-group ops").expect("it parses");
    assert_eq!(line.hub.as_user.as_deref(), Some("ann"));
    assert_eq!(line.hub.as_group, ["dev", "ops"]);
    assert!(read("kubectl-mcs status --as-group dev").is_err());
}
