//! Shell completion: the scripts of `kubectl mcs completion`, and responses to kubectl's
//! completion.
//!
//! kubectl completes `kubectl mcs` by running `kubectl_complete-mcs` with the words after `mcs`,
//! the last of which is incomplete. It expects the output of cobra's `__complete`: one candidate
//! per line, with its description after a tab, and a directive in the last line.
//!
//! The candidates come from clap's description of the command line.
//! docs/decisions/0041-table-and-completion-stay-ours.md lists the features that the engine of
//! clap_complete lacks.

mod line;
mod members;
mod names;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory as _, ValueHint};
use clap_complete::Shell;

use self::line::{Line, Subject};
use self::names::Names;
use crate::args::CommandLine;
use crate::term::output::{self, OutputError};

/// Program name that kubectl runs to complete `kubectl mcs`.
const COMPLETER: &str = "kubectl_complete-mcs";
/// First argument of a completion request in cobra's protocol.
const REQUEST: &str = "__complete";
/// File extensions that kubectl offers for its own `--filename`.
const MANIFESTS: [&str; 3] = ["json", "yaml", "yml"];

/// Returns the words to complete if a shell started this process for completion.
pub(crate) fn requested(mut args: impl Iterator<Item = OsString>) -> Option<Vec<String>> {
    let program = args.next()?;
    let mut words = args.peekable();
    let is_request = words.next_if(|word| word == REQUEST).is_some();
    (is_request || is_completer(&program)).then(|| {
        words
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    })
}

fn is_completer(program: &OsStr) -> bool {
    let name = Path::new(program).file_stem();
    name.is_some_and(|name| name == COMPLETER)
}

/// Prints the completions of the last word.
pub(crate) fn answer(words: &[String]) -> Result<(), OutputError> {
    output::result(complete(words))
}

/// Prints the script that completes `kubectl-mcs` in a shell.
pub(crate) fn script(shell: Shell) -> Result<(), OutputError> {
    let mut command = CommandLine::command().bin_name("kubectl-mcs");
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "kubectl-mcs", &mut script);
    output::raw(&script)
}

/// Completions of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Completion {
    /// One of these candidates.
    Candidates(Vec<Candidate>),
    /// Path of a file. The shell completes it.
    File,
    /// Path of a file with one of the extensions of [`MANIFESTS`]. The shell completes it.
    Manifest,
}

/// Candidate value with its description.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    value: String,
    description: String,
}

impl Candidate {
    /// Creates a candidate with the first line of a description, because shells show one line.
    fn new(value: impl Into<String>, description: Option<&StyledStr>) -> Self {
        let description = description.map(ToString::to_string).unwrap_or_default();
        Self {
            value: value.into(),
            description: description.lines().next().unwrap_or_default().to_owned(),
        }
    }
}

impl Completion {
    /// Returns cobra's `ShellCompDirective`. The shell adds no space to candidates that go on.
    fn directive(&self) -> u8 {
        let goes_on = |one: &Candidate| one.value.ends_with(['=', '/']);
        match self {
            Self::File => 0,
            Self::Candidates(all) if !all.is_empty() && all.iter().all(goes_on) => 6,
            Self::Candidates(_) => 4,
            Self::Manifest => 8,
        }
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Candidates(candidates) => {
                for Candidate { value, description } in candidates {
                    let tab = if description.is_empty() { "" } else { "\t" };
                    writeln!(out, "{value}{tab}{description}")?;
                }
            }
            Self::File => {}
            Self::Manifest => writeln!(out, "{}", MANIFESTS.join("\n"))?,
        }
        write!(out, ":{}", self.directive())
    }
}

fn complete(words: &[String]) -> Completion {
    let mut command = CommandLine::command();
    command.build();
    let (typed, before) = match words.split_last() {
        Some((typed, before)) => (typed.as_str(), before),
        None => ("", words),
    };
    let Some(line) = Line::read(&command, before) else {
        return Completion::Candidates(Vec::new());
    };
    let (subject, typed) = line.subject(typed);
    let candidates = match subject {
        Subject::Command => commands(line.command()).collect(),
        Subject::Flag => {
            let required = matching(spellings(line.required()), typed);
            if required.is_empty() {
                spellings(line.possible()).collect()
            } else {
                required
            }
        }
        Subject::Value(flag) => return value(&line, flag, typed),
        Subject::Positional(arg) => {
            let mut candidates = match arg.map(|arg| value(&line, arg, typed)) {
                Some(Completion::Candidates(values)) => values,
                Some(file) => return file,
                None => Vec::new(),
            };
            candidates.extend(spellings(line.required()));
            candidates
        }
        Subject::Nothing => Vec::new(),
    };
    Completion::Candidates(matching(candidates, typed))
}

fn matching(candidates: impl IntoIterator<Item = Candidate>, typed: &str) -> Vec<Candidate> {
    let candidates = candidates.into_iter();
    candidates
        .filter(|candidate| candidate.value.starts_with(typed))
        .collect()
}

fn commands(command: &Command) -> impl Iterator<Item = Candidate> {
    let commands = command.get_subcommands().filter(|one| !one.is_hide_set());
    commands.map(|one| Candidate::new(one.get_name(), one.get_about()))
}

/// Returns the long and the short spelling of each flag.
fn spellings(flags: Vec<&Arg>) -> impl Iterator<Item = Candidate> {
    flags.into_iter().flat_map(|flag| {
        let long = flag.get_long().map(|long| format!("--{long}"));
        let short = flag.get_short().map(|short| format!("-{short}"));
        let spellings = long.into_iter().chain(short);
        spellings.map(|spelling| Candidate::new(spelling, flag.get_help()))
    })
}

fn value(line: &Line<'_>, arg: &Arg, typed: &str) -> Completion {
    if let Some(completion) = members::value(line, arg.get_id().as_str(), typed) {
        return completion;
    }
    let possible = arg.get_possible_values();
    let candidates: Vec<_> = if !possible.is_empty() {
        let possible = possible.iter().filter(|value| !value.is_hide_set());
        let candidates = possible.map(|value| Candidate::new(value.get_name(), value.get_help()));
        candidates.collect()
    } else if let Some(names) = Names::of(line.command().get_name(), arg.get_id().as_str()) {
        let names = names.read_in_time(line.access()).into_iter();
        names.map(|name| Candidate::new(name, None)).collect()
    } else {
        match arg.get_value_hint() {
            ValueHint::AnyPath if arg.get_id() == "filename" => return Completion::Manifest,
            ValueHint::AnyPath => return Completion::File,
            _ => Vec::new(),
        }
    };
    Completion::Candidates(matching(candidates, typed))
}
