//! Kubeconfigs by which the user reads members, in place of the credentials on the hub.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{LoadError, Loaded, load};
use crate::cluster::access::MembersArgs;
use crate::term::table::listed;

/// Kubeconfigs of members that the user gives.
#[derive(Debug, Default)]
pub(crate) struct MemberKubeconfigs {
    /// File of each member that has one of its own.
    own: BTreeMap<String, PathBuf>,
    /// File with a context for each member. `None` is the kubeconfig of the hub.
    shared: Option<PathBuf>,
    /// Contexts of the shared file, if the user gives one.
    shared_contexts: BTreeSet<String>,
    /// Context of each member for which the user gives one.
    contexts: BTreeMap<String, String>,
}

/// Kubeconfig and context of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberContext {
    /// `None` is kubectl's default kubeconfig.
    pub path: Option<PathBuf>,
    /// `None` is the current context.
    pub context: Option<String>,
}

impl MemberKubeconfigs {
    /// Reads the kubeconfigs that the user gives. `hub` is the one of the hub, which has the
    /// contexts of members without a file.
    ///
    /// # Errors
    /// [`LoadError`] if a file cannot be read, has no context that the user names, or is one of two
    /// for all members.
    pub(crate) fn read(args: &MembersArgs, hub: Option<&Path>) -> Result<Self, LoadError> {
        let contexts = args.contexts.iter().cloned().collect();
        let mut all = Self {
            shared: hub.map(Path::to_owned),
            contexts,
            ..Self::default()
        };
        let mut is_shared = false;
        for file in &args.files {
            let loaded = load(Some(&file.path))?;
            match &file.member {
                Some(member) => {
                    let context = all.contexts.get(member);
                    context.map_or(Ok(()), |context| is_in(&loaded, context))?;
                    all.own.insert(member.clone(), file.path.clone());
                }
                None if is_shared => {
                    return Err(super::unusable(
                        &loaded.files,
                        "it is a second file for all members; give --member-kubeconfig MEMBER=FILE \
                         for each"
                            .to_owned(),
                    ));
                }
                None => {
                    is_shared = true;
                    all.shared = Some(file.path.clone());
                    all.shared_contexts = contexts_of(&loaded).map(ToOwned::to_owned).collect();
                }
            }
        }
        all.check_shared()?;
        Ok(all)
    }

    /// Checks that the shared file has the contexts of members without a file.
    fn check_shared(&self) -> Result<(), LoadError> {
        let mut named = self.contexts.iter();
        if named.all(|(member, _)| self.own.contains_key(member)) {
            return Ok(());
        }
        let loaded = load(self.shared.as_deref())?;
        let named = self.contexts.iter();
        let mut named = named.filter(|(member, _)| !self.own.contains_key(*member));
        named.try_for_each(|(_, context)| is_in(&loaded, context))
    }

    /// Whether the user gives no kubeconfig of any member.
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.contexts.is_empty() && self.shared_contexts.is_empty()
    }

    /// Returns the members that the user names.
    pub(crate) fn named(&self) -> impl Iterator<Item = &String> {
        self.own.keys().chain(self.contexts.keys())
    }

    /// Returns kubeconfig and context of a member, unless the user gives none.
    pub(crate) fn of(&self, member: &str) -> Option<MemberContext> {
        let is_given = self.own.contains_key(member)
            || self.contexts.contains_key(member)
            || self.shared_contexts.contains(member);
        is_given.then(|| self.or_by_name(member))
    }

    /// Returns kubeconfig and context of a member. Without one of the user it is the context of the
    /// member's name.
    pub(crate) fn or_by_name(&self, member: &str) -> MemberContext {
        let context = self.contexts.get(member).cloned();
        match self.own.get(member) {
            Some(path) => MemberContext {
                path: Some(path.clone()),
                context,
            },
            None => MemberContext {
                path: self.shared.clone(),
                context: Some(context.unwrap_or_else(|| member.to_owned())),
            },
        }
    }

    /// Returns the error of a shared file that has no context of any of the members, and none that
    /// the user names.
    pub(crate) fn without_members(&self, members: &BTreeSet<String>) -> Option<String> {
        let is_used = self.contexts.keys().any(|one| !self.own.contains_key(one))
            || !self.shared_contexts.is_disjoint(members);
        let file = self.shared.as_ref()?;
        if self.shared_contexts.is_empty() || is_used {
            return None;
        }
        let contexts: Vec<_> = self.shared_contexts.iter().map(String::as_str).collect();
        Some(format!(
            "{}: no context has the name of a member; give --member MEMBER=CONTEXT, of {}, or \
             --member-kubeconfig MEMBER=FILE",
            file.display(),
            listed(&contexts)
        ))
    }
}

fn contexts_of(loaded: &Loaded) -> impl Iterator<Item = &str> {
    let contexts = loaded.kubeconfig.contexts.iter();
    contexts.map(|context| context.name.as_str())
}

fn is_in(loaded: &Loaded, context: &str) -> Result<(), LoadError> {
    if contexts_of(loaded).any(|one| one == context) {
        return Ok(());
    }
    let contexts: Vec<_> = contexts_of(loaded).collect();
    let why = format!(
        "context {context:?} does not exist, but {}",
        listed(&contexts)
    );
    Err(super::unusable(&loaded.files, why))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        members: MembersArgs,
    }

    fn kubeconfig(directory: &Path, name: &str, contexts: &[&str]) {
        let contexts = contexts.iter();
        let contexts =
            contexts.map(|name| format!("- {{name: {name}, context: {{cluster: a}}}}\n"));
        let text = format!("contexts:\n{}", contexts.collect::<String>());
        fs::write(directory.join(name), text).expect("a file");
    }

    fn read(directory: &Path, line: &str) -> Result<MemberKubeconfigs, String> {
        let line = line.replace("DIR", &directory.display().to_string());
        let line = Line::try_parse_from(["x"].into_iter().chain(line.split_whitespace()));
        let line = line.map_err(|error| error.to_string())?;
        let hub = directory.join("hub");
        let read = MemberKubeconfigs::read(&line.members, Some(&hub));
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn each_member_has_the_context_that_the_user_gives() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        kubeconfig(directory, "hub", &["hub", "prod-2"]);
        kubeconfig(directory, "all", &["a", "b", "prod-1"]);
        kubeconfig(directory, "one", &["default"]);
        for (line, member, expected) in [
            ("", "a", None),
            ("--member-kubeconfig DIR/all", "a", Some(("all", Some("a")))),
            ("--member-kubeconfig DIR/all", "c", None),
            (
                "--member-kubeconfig DIR/all --member c=prod-1",
                "c",
                Some(("all", Some("prod-1"))),
            ),
            ("--member c=prod-2", "c", Some(("hub", Some("prod-2")))),
            ("--member-kubeconfig a=DIR/one", "a", Some(("one", None))),
            (
                "--member-kubeconfig a=DIR/one --member a=default",
                "a",
                Some(("one", Some("default"))),
            ),
            (
                "--member-kubeconfig a=DIR/one --member-kubeconfig DIR/all",
                "b",
                Some(("all", Some("b"))),
            ),
        ] {
            let expected = expected.map(|(file, context)| MemberContext {
                path: Some(directory.join(file)),
                context: context.map(ToOwned::to_owned),
            });
            let read = read(directory, line).expect(line);
            assert_eq!(read.of(member), expected, "{line}");
        }
    }

    #[test]
    fn wrong_files_and_contexts_are_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        kubeconfig(directory, "hub", &["hub"]);
        kubeconfig(directory, "all", &["a", "b"]);
        for (line, expected) in [
            ("--member-kubeconfig DIR/none", "No such file"),
            ("--member a=b", "hub: context \"b\" does not exist, but hub"),
            (
                "--member-kubeconfig DIR/all --member a=c",
                "all: context \"c\" does not exist, but a, b",
            ),
            (
                "--member-kubeconfig a=DIR/all --member a=c",
                "all: context \"c\" does not exist, but a, b",
            ),
            (
                "--member-kubeconfig DIR/all --member-kubeconfig DIR/hub",
                "MEMBER=FILE for each",
            ),
            ("--member a", "MEMBER=CONTEXT"),
            ("--member-kubeconfig a=", "MEMBER=FILE"),
        ] {
            let error = read(directory, line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
        let read = read(directory, "--member-kubeconfig DIR/all").expect("a file");
        let members = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(read.without_members(&members(&["a", "x"])), None);
        let why = read.without_members(&members(&["x"])).expect("an error");
        assert!(why.contains("MEMBER=CONTEXT, of a, b"), "{why}");
    }
}
