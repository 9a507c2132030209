//! The documents: what they name is there, what is there they name, and they stay short.

mod blocks;
mod book;
mod defaults;
mod logs;
mod product;

use std::collections::BTreeSet;
use std::path::Path;

use book::{Kind, Page};
use causeway_engine::reasons::Reason;
use causeway_tests::repository;

/// Flags of other programs that the book names by themselves.
const OTHERS_FLAGS: [&str; 16] = [
    "--admission-control-config-file",
    "--agent-identifiers",
    "--cluster-api-endpoint",
    "--domain-filter",
    "--enable-feature",
    "--events",
    "--force-conflicts",
    "--help",
    "--keepalive-time",
    "--policy",
    "--proxy-strategies",
    "--report-secrets",
    "--server-ca-cert",
    "--server-count",
    "--service-account-max-token-expiration",
    "--tracing-config-file",
];

/// Words of others in CamelCase that the sources do not name.
const OTHERS_WORDS: [&str; 0] = [];

/// A cell of a table holds a fact, in a sentence or two; an explanation is a paragraph.
const CELL_MAX: usize = 200;

/// Statement of the page for capacity planning about the chart.
const LIMIT: &str = "The chart limits the controller's memory to ";

/// Files that a reader makes.
const READERS_FILES: [&str; 4] = [
    "mcs.yaml",
    "causeway.yaml",
    "admission.yaml",
    "kubeconfig.yaml",
];

/// Files of one kind, by their paths in the repository; none that is built or hidden.
pub(crate) fn files_below(root: &Path, extension: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory)
            .expect("a directory")
            .flatten()
        {
            let (path, name) = (entry.path(), entry.file_name());
            let is_hidden = name.to_string_lossy().starts_with('.');
            let is_built = path == root.join("target") || name == "node_modules";
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_hidden && !is_built => directories.push(path),
                Ok(kind)
                    if kind.is_file() && path.extension().is_some_and(|it| it == extension) =>
                {
                    let path = path.strip_prefix(root).expect("a path below the root");
                    files.push(path.display().to_string());
                }
                _ => {}
            }
        }
    }
    files.sort();
    files
}

fn none(what: &str, wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
}

fn broken(page: &Page, link: &str) -> Option<String> {
    let (path, anchor) = page.target(link);
    let is_there = repository().join(&path).exists();
    let is_whole = match &anchor {
        Some(anchor) if is_there && path.ends_with(".md") => {
            book::page(&path).anchors().contains(anchor)
        }
        _ => is_there,
    };
    (!is_whole).then(|| format!("{}: {link}", page.path))
}

#[test]
fn every_link_leads_somewhere() {
    let pages = book::pages();
    let mut links = 0;
    let mut wrong = Vec::new();
    for page in &pages {
        let mut own = page.links();
        own.retain(|link| !link.starts_with("http://") && !link.starts_with("https://"));
        links += own.len();
        wrong.extend(own.iter().filter_map(|link| broken(page, link)));
    }
    assert!(links > 100, "{links} links were found");
    none("links that lead nowhere", wrong);
}

#[test]
fn every_page_that_a_program_names_is_there() {
    let root = Page {
        path: "README.md".to_owned(),
        ..Page::default()
    };
    let mut wrong = Vec::new();
    let mut named = 0;
    for (path, source) in product::sources() {
        let words = source.split([' ', '"', '`', '(', ')', ',', ';', '\n']);
        let pages = words.filter(|word| word.contains(".md") && !word.contains('{'));
        for link in pages.map(|word| word.trim_end_matches(['.', ':'])) {
            named += 1;
            wrong.extend(broken(&root, link).map(|_| format!("{path}: {link}")));
        }
    }
    assert!(named > 1, "{named} pages are named");
    none("pages that sources name and that are not there", wrong);
}

#[test]
fn every_file_that_the_book_names_is_there() {
    let root = repository();
    let kinds = ["rs", "yaml", "md", "toml", "go", "c"];
    let files: Vec<String> = kinds
        .iter()
        .flat_map(|kind| files_below(&root, kind))
        .map(|path| format!("/{path}"))
        .collect();
    let is_path = |text: &str| {
        let is_plain = text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
        let (name, kind) = text.rsplit_once('.').unwrap_or_default();
        is_plain && !name.is_empty() && kinds.contains(&kind)
    };
    let mut wrong = Vec::new();
    for page in book::book() {
        let spans = page.spans().into_iter();
        let named = spans.filter(|span| is_path(span) && !READERS_FILES.contains(&span.as_str()));
        let missing = named.filter(|span| {
            let end = format!("/{}", span.trim_start_matches('/'));
            !files.iter().any(|path| path.ends_with(&end))
        });
        wrong.extend(missing.map(|span| format!("{}: {span}", page.path)));
    }
    none("files that the book names and that are not there", wrong);
}

/// The words of a command up to where the shell takes over.
fn words(command: &str) -> Vec<&str> {
    let ends = ["|", ">", "<", "&&", ";"];
    let words = command.split_whitespace();
    words.take_while(|word| !ends.contains(word)).collect()
}

#[test]
fn every_command_in_the_book_can_be_given() {
    let commands = product::commands();
    let programs = product::PROGRAMS.map(|program| (program, product::flags_of(program)));
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for page in book::book() {
        for text in page.commands().into_iter().chain(page.spans()) {
            let words = words(&text);
            let (flags, rest) = match words.as_slice() {
                ["kubectl", "mcs", "COMMAND", ..] => continue,
                ["kubectl", "mcs", command, rest @ ..] => {
                    let below = rest.first().map(|word| format!("{command} {word}"));
                    let below = below.filter(|name| commands.contains_key(name));
                    let name = below.unwrap_or_else(|| (*command).to_owned());
                    let flags = commands.get(&name);
                    seen.insert(name);
                    (flags, rest)
                }
                [program, rest @ ..] => {
                    let known = programs.iter().find(|(name, _)| name == program);
                    let Some((_, flags)) = known else { continue };
                    (Some(flags), rest)
                }
                [] => continue,
            };
            let unknown = |word: &&&str| {
                word.starts_with('-')
                    && !flags.is_some_and(|all| all.contains(&product::bare(word)))
            };
            if flags.is_none() || rest.iter().any(|word| unknown(&word)) {
                wrong.push(format!("{}: {text}", page.path));
            }
        }
    }
    none("commands that nobody can give", wrong);
    let missing: Vec<_> = commands
        .into_keys()
        .filter(|name| !seen.contains(name))
        .collect();
    none("commands that the book does not name", missing);
}

#[test]
fn every_flag_is_in_the_book_and_none_that_is_not_there() {
    let spans_of = |pages: &[Page]| -> BTreeSet<String> {
        let spans = pages.iter().flat_map(Page::spans);
        let words = spans.flat_map(|span| {
            span.split_whitespace()
                .map(product::bare)
                .collect::<Vec<_>>()
        });
        words.filter(|word| word.starts_with('-')).collect()
    };
    let of_programs: BTreeSet<_> = product::PROGRAMS
        .into_iter()
        .flat_map(product::flags_of)
        .collect();
    let of_commands: BTreeSet<_> = product::commands().into_values().flatten().collect();
    assert!(of_programs.len() > 25 && of_commands.len() > 25);
    let reported = ["--help", "-h", "--version", "-V"];
    let missing = |all: &BTreeSet<String>, path: &str| -> Vec<String> {
        let in_page = spans_of(&[book::page(path)]);
        let all = all.iter().filter(|flag| !reported.contains(&flag.as_str()));
        let missing = all.filter(|flag| !in_page.contains(*flag));
        missing.map(|flag| format!("{path}: {flag}")).collect()
    };
    none(
        "flags that are not in the book",
        missing(&of_programs, "docs/reference.md"),
    );
    none(
        "flags that are not in the book",
        missing(&of_commands, "docs/cli.md"),
    );

    let mut wrong = Vec::new();
    for page in book::book() {
        let spans = page
            .spans()
            .into_iter()
            .filter(|span| span.starts_with("--"));
        let flags = spans.map(|span| product::bare(&span));
        let unknown = flags.filter(|flag| {
            let is_known = of_programs.contains(flag) || of_commands.contains(flag);
            !is_known && !OTHERS_FLAGS.contains(&flag.as_str())
        });
        wrong.extend(unknown.map(|flag| format!("{}: {flag}", page.path)));
    }
    none("flags in the book that are not there", wrong);
}

#[test]
fn every_metric_is_in_the_book_and_none_that_is_not_there() {
    let metrics = product::metrics();
    assert!(metrics.len() > 15, "{metrics:?}");
    let mut named = BTreeSet::new();
    let mut wrong = Vec::new();
    for page in book::book() {
        let spans = page.spans().into_iter().chain(page.commands());
        let texts: Vec<_> = spans.collect();
        let words = texts
            .iter()
            .flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
        for word in words.filter(|word| word.starts_with("causeway_")) {
            if metrics.contains(word) {
                named.insert((page.path.clone(), word.to_owned()));
            } else {
                wrong.push(format!("{}: {word}", page.path));
            }
        }
    }
    none("metrics in the book that are not there", wrong);
    let page = "docs/reference.md".to_owned();
    let missing = metrics
        .into_iter()
        .filter(|name| !named.contains(&(page.clone(), name.clone())));
    none("metrics that docs/reference.md lacks", missing.collect());
}

#[test]
fn every_reason_has_an_anchor_and_none_that_is_not_there() {
    let page = book::page("docs/troubleshooting.md");
    let anchors = page.anchors();
    let reasons = Reason::ALL.iter().map(|reason| reason.as_str().to_owned());
    let of_the_tunnel = product::reasons_of_the_tunnel();
    assert!(of_the_tunnel.len() > 5, "{of_the_tunnel:?}");
    let reasons = reasons.chain(of_the_tunnel.iter().cloned());
    let missing = reasons
        .clone()
        .filter(|reason| !anchors.contains(&reason.to_lowercase()));
    none(
        "reasons without an anchor in docs/troubleshooting.md",
        missing.collect(),
    );

    let known = product::literals().into_iter().chain(reasons);
    let known: BTreeSet<_> = known.chain(product::alerts()).collect();
    let headings = page
        .headings(3)
        .into_iter()
        .filter(|heading| product::is_camel_case(heading));
    let unknown = headings
        .filter(|heading| !known.contains(*heading))
        .map(str::to_owned);
    none("headings of no reason", unknown.collect());
    let known: BTreeSet<_> = known.iter().map(|reason| reason.to_lowercase()).collect();
    let unknown = page.ids().into_iter().filter(|id| !known.contains(id));
    none("anchors of no reason", unknown.collect());
}

#[test]
fn page_and_messages_name_the_same_kinds_of_leftovers() {
    let commands = book::page("docs/members.md").commands();
    let deleted: Vec<_> = commands
        .iter()
        .filter(|command| command.ends_with("-l mcs.causeway.dev/hub=UID"))
        .filter_map(|command| command.strip_prefix("kubectl delete ")?.split(' ').next())
        .collect();
    assert_eq!(deleted.len(), 2, "{deleted:?}");
    let sources = product::sources();
    for path in [
        "cli/src/commands/membership/hub.rs",
        "engine/src/messages/events.rs",
    ] {
        for kinds in &deleted {
            assert!(sources[path].contains(kinds), "{path}: {kinds}");
        }
    }
}

#[test]
fn every_name_in_the_book_is_in_the_sources() {
    let sources = product::sources();
    let root = repository().join("manifests");
    let manifests = files_below(&root, "yaml").into_iter();
    let manifests =
        manifests.map(|path| std::fs::read_to_string(root.join(path)).expect("a manifest"));
    let texts: Vec<String> = sources.into_values().chain(manifests).collect();
    let known: BTreeSet<&str> = texts
        .iter()
        .flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric()))
        .collect();
    let mut wrong = Vec::new();
    for page in book::book() {
        let names = page
            .spans()
            .into_iter()
            .filter(|span| product::has_humps(span));
        let unknown = names.filter(|name| {
            !known.contains(name.as_str()) && !OTHERS_WORDS.contains(&name.as_str())
        });
        wrong.extend(unknown.map(|name| format!("{}: {name}", page.path)));
    }
    none("names in the book that no source has", wrong);
}

#[test]
fn pages_are_short_and_narrow() {
    let mut wrong = Vec::new();
    for (path, lines, is_all) in [
        ("README.md", 120, true),
        ("ARCHITECTURE.md", 150, true),
        ("SECURITY.md", 60, false),
    ] {
        let text = std::fs::read_to_string(repository().join(path)).expect("a page");
        if text.lines().count() > lines {
            wrong.push(format!("{path} has more than {lines} lines"));
        }
        let wide = text
            .lines()
            .filter(|line| is_all && line.chars().count() > 100);
        wrong.extend(wide.map(|line| format!("{path}: {line}")));
    }
    for page in book::book() {
        let prose = page.lines.iter().filter(|line| line.kind == Kind::Prose);
        let wide = prose.filter(|line| line.text.chars().count() > 100);
        wrong.extend(wide.map(|line| format!("{}: {}", page.path, line.text)));
        let rows = page.lines.iter().filter(|line| line.kind == Kind::Table);
        let cells = rows.flat_map(|line| line.text.split('|'));
        let wide = cells.filter(|cell| cell.trim().chars().count() > CELL_MAX);
        wrong.extend(wide.map(|cell| format!("{}: {cell}", page.path)));
    }
    none("what is too long", wrong);
}

#[test]
fn a_decision_is_a_page_with_four_parts_and_is_listed() {
    let parts = [
        "Context",
        "Decision",
        "Consequences",
        "What would make us change it",
    ];
    let listed = book::page("docs/decisions/README.md").links();
    let mut decisions = book::book();
    decisions.retain(|page| page.path.starts_with("docs/decisions/0"));
    assert!(decisions.len() > 20);
    for page in decisions {
        assert_eq!(page.headings(2), parts, "{}", page.path);
        assert!(
            page.lines.len() < 60,
            "{} is longer than a screen",
            page.path
        );
        let name = page.path.trim_start_matches("docs/decisions/").to_owned();
        assert!(listed.contains(&name), "{name} is not listed");
    }
}

#[test]
fn the_memory_limit_of_the_controller_is_that_of_the_page_for_capacity_planning() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).expect(path);
    let page = read("docs/capacity.md");
    let said = page.split_once(LIMIT).map(|(_, rest)| rest);
    let said = said
        .and_then(|rest| rest.split_once("**"))
        .map(|(limit, _)| limit);
    let workloads = read("manifests/hub/workloads.yaml");
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&workloads).expect("YAML");
    let is_controller = |one: &&serde_json::Value| {
        one["kind"] == "Deployment" && one["metadata"]["name"] == "causeway-controller"
    };
    let controller = documents.iter().find(is_controller).expect("a Deployment");
    let container = &controller["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"]["memory"].as_str(), said);
}
