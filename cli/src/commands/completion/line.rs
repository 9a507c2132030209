//! Parses an incomplete command line by clap's description of it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Command};

use super::names::Access;
use crate::cluster::access::{HubArgs, MembersArgs, member_file};

/// Words before the incomplete word.
pub(super) struct Line<'a> {
    command: &'a Command,
    given: Vec<(&'a Arg, Option<&'a str>)>,
    /// Flag that expects its value next.
    pending: Option<&'a Arg>,
    positionals: usize,
    /// Whether `--` was given. Later words are not flags.
    is_escaped: bool,
}

/// Role of a word on the command line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject<'a> {
    Command,
    Flag,
    /// Value of a flag.
    Value(&'a Arg),
    /// Positional argument, or `None` if the command accepts no more.
    Positional(Option<&'a Arg>),
    Nothing,
}

impl<'a> Line<'a> {
    /// Parses the words. Returns `None` if a word is invalid, because its successor cannot be
    /// completed.
    pub(super) fn read(root: &'a Command, words: &'a [String]) -> Option<Self> {
        let mut line = Self {
            command: root,
            given: Vec::new(),
            pending: None,
            positionals: 0,
            is_escaped: false,
        };
        for word in words {
            line.push(word)?;
        }
        Some(line)
    }

    fn push(&mut self, word: &'a str) -> Option<()> {
        if let Some(flag) = self.pending.take() {
            self.given.push((flag, Some(word)));
        } else if self.is_escaped || !is_flag(word) {
            self.push_positional(word)?;
        } else if word == "--" {
            self.is_escaped = true;
        } else if let Some(word) = word.strip_prefix("--") {
            match word.split_once('=') {
                Some((name, value)) => self.given.push((self.long(name)?, Some(value))),
                None => self.push_flag(self.long(word)?),
            }
        } else {
            self.push_short(word)?;
        }
        Some(())
    }

    fn push_positional(&mut self, word: &'a str) -> Option<()> {
        if self.command.has_subcommands() {
            self.command = self.command.find_subcommand(word)?;
        } else {
            self.given.push((self.positional()?, Some(word)));
            self.positionals += 1;
        }
        Some(())
    }

    fn push_flag(&mut self, flag: &'a Arg) {
        if flag.get_action().takes_values() && !flag.is_require_equals_set() {
            self.pending = Some(flag);
        } else {
            self.given.push((flag, None));
        }
    }

    /// Parses one or more short flags, optionally with the value of the last: `-A`, `-Aojson`,
    /// `-o=json`.
    fn push_short(&mut self, word: &'a str) -> Option<()> {
        let mut letters = word.chars();
        letters.next();
        while let Some(letter) = letters.next() {
            let flag = self.short(letter)?;
            let rest = letters.as_str();
            if flag.get_action().takes_values() && !rest.is_empty() {
                let value = rest.strip_prefix('=').unwrap_or(rest);
                self.given.push((flag, Some(value)));
                break;
            }
            self.push_flag(flag);
        }
        Some(())
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        let mut flags = self.command.get_arguments();
        flags.find(|flag| flag.get_long() == Some(name))
    }

    fn short(&self, letter: char) -> Option<&'a Arg> {
        let mut flags = self.command.get_arguments();
        flags.find(|flag| flag.get_short() == Some(letter))
    }

    fn positional(&self) -> Option<&'a Arg> {
        let positional = self.command.get_positionals().nth(self.positionals)?;
        self.is_possible(positional).then_some(positional)
    }

    /// Returns the role of the incomplete word, and the part to complete.
    pub(super) fn subject<'t>(&self, typed: &'t str) -> (Subject<'a>, &'t str) {
        if self.is_given("help") || self.is_given("version") {
            return (Subject::Nothing, typed);
        }
        if let Some(flag) = self.pending {
            return (Subject::Value(flag), typed);
        }
        if typed.starts_with('-') && !self.is_escaped {
            return match typed.split_once('=') {
                Some((flag, value)) => (self.of_flag(flag), value),
                None => (Subject::Flag, typed),
            };
        }
        if self.command.has_subcommands() {
            return (Subject::Command, typed);
        }
        (Subject::Positional(self.positional()), typed)
    }

    fn of_flag(&self, flag: &str) -> Subject<'a> {
        let mut letters = flag.chars().skip(1);
        let flag = match (flag.strip_prefix("--"), letters.next(), letters.next()) {
            (Some(name), ..) => self.long(name),
            (None, Some(letter), None) => self.short(letter),
            _ => None,
        };
        match flag {
            Some(flag) if flag.get_action().takes_values() => Subject::Value(flag),
            _ => Subject::Nothing,
        }
    }

    /// Returns the command, or the program if no command is given yet.
    pub(super) fn command(&self) -> &'a Command {
        self.command
    }

    /// Returns the required flags that are missing.
    pub(super) fn required(&self) -> Vec<&'a Arg> {
        let flags = self.command.get_opts();
        flags
            .filter(|flag| flag.is_required_set() && !self.is_given(flag.get_id().as_str()))
            .collect()
    }

    /// Returns the flags that may be given next.
    pub(super) fn possible(&self) -> Vec<&'a Arg> {
        let arguments = self.command.get_arguments();
        let flags = arguments.filter(|one| !one.is_positional() && !one.is_hide_set());
        flags.filter(|flag| self.is_possible(flag)).collect()
    }

    fn is_possible(&self, arg: &Arg) -> bool {
        let is_again = self.is_given(arg.get_id().as_str());
        let may_repeat = matches!(arg.get_action(), ArgAction::Append | ArgAction::Count);
        let conflicts = |one: &Arg, other: &Arg| {
            let conflicts = self.command.get_arg_conflicts_with(one);
            conflicts.iter().any(|it| it.get_id() == other.get_id())
        };
        let mut given = self.given_here();
        (may_repeat || !is_again)
            && !given.any(|given| conflicts(given, arg) || conflicts(arg, given))
    }

    /// Returns the given arguments that the command itself defines.
    fn given_here(&self) -> impl Iterator<Item = &'a Arg> {
        let own = self.command.get_arguments();
        own.filter(|arg| self.is_given(arg.get_id().as_str()))
    }

    fn is_given(&self, id: &str) -> bool {
        self.given.iter().any(|(arg, _)| arg.get_id() == id)
    }

    /// Returns the last given value of an argument.
    fn value(&self, id: &str) -> Option<String> {
        self.values(id).pop()
    }

    /// Returns all given values of an argument.
    fn values(&self, id: &str) -> Vec<String> {
        let given = self.given.iter().filter(|(arg, _)| arg.get_id() == id);
        let values = given.filter_map(|(_, value)| *value);
        values.map(ToOwned::to_owned).collect()
    }

    /// Returns the access to the hub and the kubeconfig that the line selects.
    pub(super) fn access(&self) -> Access {
        Access {
            hub: HubArgs {
                kubeconfig: self.value("kubeconfig").map(PathBuf::from),
                context: self.value("context"),
                cluster: self.value("cluster"),
                user: self.value("user"),
                as_user: self.value("as_user"),
                as_group: self.values("as_group"),
                request_timeout: Duration::from_secs(5),
                namespace: self.value("namespace"),
                tunnel_front: None,
            },
            member_kubeconfig: self.value("member_kubeconfig").map(PathBuf::from),
            members: MembersArgs {
                files: self
                    .values("files")
                    .iter()
                    .flat_map(|text| member_file(text))
                    .collect(),
                contexts: Vec::new(),
            },
        }
    }
}

/// Whether a word is a flag. A single dash is a value that means standard input.
fn is_flag(word: &str) -> bool {
    word.starts_with('-') && word != "-"
}
