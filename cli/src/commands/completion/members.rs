//! Completion of `--member MEMBER=CONTEXT` and `--member-kubeconfig [MEMBER=]FILE`.

use std::fs;
use std::path::Path;

use causeway::domain::ClusterName;

use super::line::Line;
use super::names::{Kind, Names};
use super::{Candidate, Completion, matching};

/// Maximum number of files of a directory that are offered.
const MAX_FILES: usize = 500;

/// Returns the completion of a value that names a member, or `None` for values of other arguments.
pub(super) fn value(line: &Line<'_>, arg: &str, typed: &str) -> Option<Completion> {
    let candidates: Vec<_> = match (arg, typed.split_once('=')) {
        ("contexts", None) => {
            let members = Names::Objects(Kind::Cluster).read_in_time(line.access());
            members.iter().map(|name| format!("{name}=")).collect()
        }
        ("contexts", Some((member, _))) => {
            let names = Names::ContextsOf(member.to_owned());
            let contexts = names.read_in_time(line.access()).into_iter();
            contexts.map(|name| format!("{member}={name}")).collect()
        }
        // Shells complete files of whole words alone.
        ("files", Some((member, path))) if ClusterName::try_from(member).is_ok() => {
            let files = files(path).into_iter();
            files.map(|file| format!("{member}={file}")).collect()
        }
        _ => return None,
    };
    let candidates = candidates.into_iter().map(|one| Candidate::new(one, None));
    Some(Completion::Candidates(matching(candidates, typed)))
}

/// Lists the files beside an incomplete path, with that path's own directory. Directories end with
/// a slash. Hidden files are offered once their dot is typed.
fn files(typed: &str) -> Vec<String> {
    let (directory, name) = match typed.rfind('/') {
        Some(slash) => typed.split_at(slash + 1),
        None => ("", typed),
    };
    let place = if directory.is_empty() { "." } else { directory };
    let Ok(entries) = fs::read_dir(Path::new(place)) else {
        return Vec::new();
    };
    let files = entries.flatten().filter_map(|entry| {
        let file = entry.file_name().into_string().ok()?;
        let is_wanted = file.starts_with(name) && (name.starts_with('.') || !file.starts_with('.'));
        let slash = if entry.path().is_dir() { "/" } else { "" };
        is_wanted.then(|| format!("{directory}{file}{slash}"))
    });
    let mut files: Vec<_> = files.take(MAX_FILES).collect();
    files.sort();
    files
}
