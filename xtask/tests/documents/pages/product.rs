//! Commands, flags, metrics and reasons of the programs, from the programs and their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use causeway_tests::{binaries, repository};

use super::files_below;

/// Flags, long and short, with their dashes.
pub(super) type Flags = BTreeSet<String>;

/// Programs of causeway that run in clusters.
pub(super) const PROGRAMS: [&str; 4] = [
    "causeway-webhook",
    "causeway-controller",
    "causeway-tunnel",
    "causeway-agent",
];

/// Sources of the Events of causeway-tunnel and causeway-agent.
const EVENTS: [&str; 2] = [
    "tunnel/src/paths/events.rs",
    "tunnel/src/tunnel/refusals.rs",
];

/// Actions and types of these Events.
const NO_REASONS: [&str; 3] = ["Enrol", "Probe", "Warning"];

/// The flags of one of the [`PROGRAMS`].
pub(super) fn flags_of(program: &str) -> Flags {
    flags(&help(program, &[]))
}

/// The flags of a program that have a default, with it.
pub(super) fn defaults(program: &str) -> BTreeMap<String, String> {
    let help = help(program, &[]);
    // The description of a flag may go on for some lines.
    let flags = help.split("\n      --").skip(1);
    let defaults = flags.filter_map(|text| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // An address such as [::]:8081 has a bracket itself.
        let default = text.split_once("[default: ")?.1.split("] ").next()?;
        let default = default.strip_suffix(']').unwrap_or(default);
        Some((format!("--{}", bare(&text)), default.to_owned()))
    });
    defaults.collect()
}

/// The commands of `kubectl mcs`, those below others too, and the flags of each.
pub(super) fn commands() -> BTreeMap<String, Flags> {
    let mut all = BTreeMap::new();
    for name in names_in(&help("kubectl-mcs", &[])) {
        let text = help("kubectl-mcs", &[&name]);
        for below in names_in(&text) {
            let flags = flags(&help("kubectl-mcs", &[&name, &below]));
            all.insert(format!("{name} {below}"), flags);
        }
        all.insert(name, flags(&text));
    }
    all
}

/// The commands that a help text lists.
fn names_in(help: &str) -> Vec<String> {
    let list = help.split("\nCommands:").nth(1).unwrap_or_default();
    let list = list.split("\n\n").next().unwrap_or_default();
    // What is indented further goes on with the line above it.
    let names = list.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?;
        (!name.starts_with(' ')).then(|| name.split_whitespace().next())?
    });
    names.map(str::to_owned).collect()
}

fn help(program: &str, words: &[&str]) -> String {
    let output = Command::new(binaries::causeway(program))
        .args(words)
        .arg("--help")
        .output()
        .unwrap_or_else(|e| panic!("{program} cannot be run: {e}"));
    String::from_utf8(output.stdout).expect("help is text")
}

/// Help shows a flag at the beginning of a line, two or six blanks in.
fn flags(help: &str) -> Flags {
    let lines = help.lines().filter_map(|line| {
        let flag = line.strip_prefix("  ")?;
        let flag = flag.strip_prefix("    ").unwrap_or(flag);
        flag.starts_with('-').then_some(flag)
    });
    let words = lines.flat_map(|line| {
        line.split([' ', ','])
            .take_while(|word| !word.starts_with('<'))
    });
    let flags = words.filter(|word| word.starts_with('-')).map(bare);
    flags.collect()
}

/// A flag without its value.
pub(super) fn bare(word: &str) -> String {
    let end = word
        .find(['=', '[', '<', ',', ' ', ':'])
        .unwrap_or(word.len());
    word.get(..end).unwrap_or_default().to_owned()
}

/// The sources of the programs without their tests, by path.
pub(super) fn sources() -> BTreeMap<String, String> {
    let root = repository();
    let files = files_below(&root, "rs").into_iter().filter(|path| {
        let elsewhere = ["tests/", "bench/", "fuzz/"];
        let is_test =
            path.contains("/tests/") || path.contains("tests.rs") || path.contains("fixtures");
        !elsewhere
            .iter()
            .any(|directory| path.starts_with(directory))
            && !is_test
    });
    let read = files.map(|path| {
        let text = std::fs::read_to_string(root.join(&path)).expect("a source");
        let product = text
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or_default();
        (path, product.to_owned())
    });
    read.collect()
}

/// The names of all metrics, as `/metrics` shows them.
pub(super) fn metrics() -> BTreeSet<String> {
    let mut metrics = BTreeSet::new();
    for source in sources().values() {
        let prefix = source.split("sub_registry_with_prefix(").nth(1);
        let prefix = prefix.and_then(literal).map(|prefix| format!("{prefix}_"));
        let prefix = prefix.unwrap_or_default();
        let calls = source.split("registry.register(").skip(1);
        let calls = calls.filter_map(|call| call.split(");").next());
        let tables = source.split("register_metrics! {").skip(1);
        let rows = tables.filter_map(|table| table.split("\n        }").next());
        let rows = rows.flat_map(|table| table.trim_end_matches(';').split(";\n"));
        for call in calls.chain(rows) {
            let Some(name) = literal(call) else { continue };
            let suffix = if is_counter(source, call) {
                "_total"
            } else {
                ""
            };
            metrics.insert(format!("{prefix}{name}{suffix}"));
        }
    }
    metrics
}

/// Whether what is registered is declared as a counter, of which OpenMetrics shows the total.
fn is_counter(source: &str, call: &str) -> bool {
    let value = call
        .trim_end()
        .trim_end_matches(',')
        .trim_end_matches(".clone()");
    let field = value.rsplit(['.', ' ', ',']).next().unwrap_or_default();
    let declared = format!("{field}: ");
    let lines = source.lines().map(str::trim);
    let mut types = lines.filter_map(|line| line.strip_prefix(&declared));
    types.any(|of| of.contains("Counter"))
}

/// The string with which a text begins, but for blanks.
fn literal(text: &str) -> Option<&str> {
    Some(text.trim_start().strip_prefix('"')?.split_once('"')?.0)
}

/// All string literals of one word in CamelCase.
pub(super) fn literals() -> BTreeSet<String> {
    let sources = sources();
    let literals = sources.values().flat_map(|text| literals_of(text));
    literals.collect()
}

/// Names of the alerts.
pub(super) fn alerts() -> Vec<String> {
    let rules = fs::read_to_string(repository().join("manifests/monitoring/rules.yaml"));
    let rules = rules.expect("rules");
    let names = rules
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

/// Reasons of the Events of causeway-tunnel and causeway-agent.
pub(super) fn reasons_of_the_tunnel() -> BTreeSet<String> {
    let sources = sources();
    let literals = EVENTS.iter().flat_map(|path| literals_of(&sources[*path]));
    let reasons = literals.filter(|literal| !NO_REASONS.contains(&literal.as_str()));
    reasons.collect()
}

/// The string literals of a source that are one word in CamelCase.
fn literals_of(source: &str) -> impl Iterator<Item = String> {
    let strings = source.split('"');
    let literals = strings.filter(|text| is_camel_case(text));
    literals.map(str::to_owned)
}

/// Whether it is one word such as `NotReady`; also `Ready`.
pub(super) fn is_camel_case(word: &str) -> bool {
    let is_word = word.chars().all(|c| c.is_ascii_alphanumeric());
    let begins = word.starts_with(|c: char| c.is_ascii_uppercase());
    is_word && begins && word.contains(|c: char| c.is_ascii_lowercase())
}

/// Whether a word has a capital within it too, so that it is no word of a language.
pub(super) fn has_humps(word: &str) -> bool {
    is_camel_case(word) && word.chars().skip(1).any(|c| c.is_ascii_uppercase())
}
