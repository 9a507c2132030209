//! Corefile parser and lookup of the server block that answers for the clusterset's zone.
//!
//! The parser reads a Corefile as every distribution writes it: a block begins with `{` at the end
//! of a line, and ends with a line `}`. It follows the imports of k3s, AKS and Gardener, which are
//! the files of a mounted ConfigMap. Everything else that CoreDNS accepts (coredns/caddy,
//! `caddyfile/lexer.go` and `caddyfile/parse.go`) is an error: the parser never guesses.

mod block;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(super) use self::block::block_by_hand;
use crate::args::Multicluster;

/// Zone of the clusterset (KEP-1645, "DNS").
pub(crate) const ZONE: &str = "clusterset.local";

/// Corefile that cannot be followed, or that shows no server block for the zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CorefileError {
    #[error("this command does not follow the line {0:?}")]
    Line(String),
    #[error("this command does not follow its import of {0}")]
    Import(String),
    #[error("its last block has no end")]
    Open,
    #[error("no server block has the kubernetes plugin")]
    NoKubernetes,
    #[error("the server block of the kubernetes plugin does not answer plain DNS ({0})")]
    NotPlain(String),
}

/// Directories of which every file is known, by path without a final slash.
pub(super) type Directories = BTreeMap<String, Files>;
/// Files of a directory by name. `None` for a file with unknown content.
pub(super) type Files = BTreeMap<String, Option<String>>;

/// Corefile with all its imports.
#[derive(Clone, Debug)]
pub(super) struct Corefile {
    /// Server blocks. Blocks of an imported file take the position of the import.
    pub blocks: Vec<Entry>,
    /// Absolute patterns of the imports, and whether they are outside of server blocks.
    pub imports: Vec<(String, bool)>,
}

/// Server block, plugin or option: a line, and the entries between its braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Line without its comment and its brace.
    line: String,
    entries: Vec<Entry>,
}

/// Result of the lookup of the clusterset's zone. A server block is named by its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ZoneState {
    /// Server block with multicluster, and the form of it.
    Served(Multicluster, String),
    /// No server block of the zone. A parent zone may have one.
    Nothing,
    /// Server block with the kubernetes plugin for the zone, without the option.
    WithoutOption(String),
    /// Server block of the zone or of a subzone, without both.
    Other(String),
}

impl Corefile {
    /// Parses the Corefile at `path`.
    ///
    /// # Errors
    /// [`CorefileError`] for lines and imports that are not followed.
    pub(super) fn read(
        text: &str,
        path: &str,
        directories: &Directories,
    ) -> Result<Self, CorefileError> {
        let mut reader = Reader {
            directory: path.rsplit_once('/').map_or("", |(directory, _)| directory),
            directories,
            open: Vec::new(),
            blocks: Vec::new(),
            imports: Vec::new(),
        };
        reader.file(text.trim_start_matches('\u{feff}'), true)?;
        match reader.open.is_empty() {
            true => Ok(Self {
                blocks: reader.blocks,
                imports: reader.imports,
            }),
            false => Err(CorefileError::Open),
        }
    }

    /// Returns the state of the server block that answers for names of the clusterset's zone:
    /// CoreDNS uses the block with the longest matching zone. A block of a subzone takes a part of
    /// the names.
    pub(super) fn answer(&self) -> ZoneState {
        let reach = |block: &Entry| block.words().filter_map(reach).max();
        let longest = self.blocks.iter().filter_map(reach).max();
        let mut nearest = self.blocks.clone();
        nearest.retain(|block| longest.is_some() && reach(block) == longest);
        let keys = |block: &Entry| block.line.clone();
        if let Some(served) = nearest
            .iter()
            .find_map(|one| Some((one.form()?, keys(one))))
        {
            return ZoneState::Served(served.0, served.1);
        }
        let is_kubernetes = |plugin: &Entry| plugin.name() == "kubernetes";
        let mut blocks = nearest.iter();
        if let Some(block) = blocks.find(|one| one.plugins_of_zone().any(is_kubernetes)) {
            return ZoneState::WithoutOption(keys(block));
        }
        match nearest.first() {
            Some(block) if longest >= Some(labels(ZONE)) => ZoneState::Other(keys(block)),
            _ => ZoneState::Nothing,
        }
    }

    /// Whether CoreDNS reloads a changed Corefile by itself.
    pub(super) fn reloads(&self) -> bool {
        let mut plugins = self.blocks.iter().flat_map(|block| &block.entries);
        plugins.any(|plugin| plugin.name() == "reload")
    }

    /// Whether a server block has the clusterset's zone or a parent zone other than the root.
    pub(super) fn has_block_of_zone(&self) -> bool {
        let keys = self.blocks.iter().flat_map(Entry::words);
        let mut reaches = keys.filter_map(reach);
        reaches.any(|reach| (1..=labels(ZONE)).contains(&reach))
    }
}

impl Entry {
    fn new(line: &str) -> Self {
        Self {
            line: line.trim().to_owned(),
            entries: Vec::new(),
        }
    }

    /// Returns the words of the line. A word in quotes is without them.
    fn words(&self) -> impl Iterator<Item = &str> {
        self.line.split_whitespace().map(unquoted)
    }

    fn name(&self) -> &str {
        self.words().next().unwrap_or_default()
    }

    /// Returns the form in which a server block serves the clusterset's zone.
    fn form(&self) -> Option<Multicluster> {
        let serves =
            |option: &Entry| option.name() == "multicluster" && option.words().skip(1).any(is_zone);
        self.plugins_of_zone()
            .find_map(|plugin| match plugin.name() {
                "multicluster" => Some(Multicluster::Plugin),
                "kubernetes" if plugin.entries.iter().any(serves) => Some(Multicluster::Option),
                _ => None,
            })
    }

    /// Returns the plugins of a server block that have the clusterset's zone as an argument. A
    /// plugin without arguments has the zones of its server block.
    fn plugins_of_zone(&self) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(|plugin| match plugin.words().nth(1) {
                Some(_) => plugin.words().skip(1).any(is_zone),
                None => self.words().any(is_zone),
            })
    }
}

fn unquoted(word: &str) -> &str {
    let inner = word.strip_prefix('"');
    inner
        .and_then(|word| word.strip_suffix('"'))
        .unwrap_or(word)
}

/// Splits a key such as `dns://cluster.local.:53` into its zone in lower case and its port. `None`
/// for other than plain DNS.
fn zone_and_port(key: &str) -> Option<(String, Option<u16>)> {
    let key = key.trim_end_matches(',').to_ascii_lowercase();
    let key = match key.split_once("://") {
        Some(("dns", rest)) => rest,
        Some(_) => return None,
        None => &key,
    };
    let (zone, port) = match key.rsplit_once(':') {
        Some((zone, port)) if port.parse::<u16>().is_ok() => (zone, port.parse().ok()),
        _ => (key, None),
    };
    Some((zone.trim_end_matches('.').to_owned(), port))
}

fn is_zone(word: &str) -> bool {
    zone_and_port(word).is_some_and(|(zone, _)| zone == ZONE)
}

/// Returns the number of labels of a plain DNS zone that covers names of the clusterset's zone.
fn reach(key: &str) -> Option<usize> {
    let (zone, _) = zone_and_port(key)?;
    let is_in = |zone: &str, parent: &str| {
        let rest = zone.strip_suffix(parent);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let covers = zone.is_empty() || is_in(ZONE, &zone) || is_in(&zone, ZONE);
    covers.then(|| labels(&zone))
}

fn labels(zone: &str) -> usize {
    zone.split('.').filter(|label| !label.is_empty()).count()
}

/// Parser of a Corefile and its imports.
struct Reader<'a> {
    /// Directory of the Corefile.
    directory: &'a str,
    directories: &'a Directories,
    /// Entries without an end so far, from the outermost.
    open: Vec<Entry>,
    blocks: Vec<Entry>,
    imports: Vec<(String, bool)>,
}

impl<'a> Reader<'a> {
    fn file(&mut self, text: &str, is_corefile: bool) -> Result<(), CorefileError> {
        for line in text.lines() {
            let unfollowed = || CorefileError::Line(line.trim().to_owned());
            let code = without_comment(line).ok_or_else(unfollowed)?;
            let words: Vec<_> = code.split_whitespace().map(unquoted).collect();
            match words.as_slice() {
                [] => {}
                ["import", pattern] if is_corefile => self.import(pattern)?,
                ["import", ..] => return Err(CorefileError::Import(code.to_owned())),
                ["}"] => {
                    let ended = self.open.pop().ok_or_else(unfollowed)?;
                    let outer = self.open.last_mut().map(|outer| &mut outer.entries);
                    outer.unwrap_or(&mut self.blocks).push(ended);
                }
                [before @ .., "{"] if is_followed(before, self.open.is_empty()) => {
                    self.open.push(Entry::new(code.trim_end_matches('{')));
                }
                words if is_followed(words, false) => {
                    let outer = self.open.last_mut().ok_or_else(unfollowed)?;
                    outer.entries.push(Entry::new(code));
                }
                _ => return Err(unfollowed()),
            }
        }
        Ok(())
    }

    fn import(&mut self, pattern: &str) -> Result<(), CorefileError> {
        let absolute = match pattern.starts_with('/') {
            true => pattern.to_owned(),
            false => format!("{}/{}", self.directory, pattern.trim_start_matches("./")),
        };
        let contents = self.matching(&absolute);
        for content in contents.ok_or_else(|| CorefileError::Import(pattern.to_owned()))? {
            self.file(content, false)?;
        }
        self.imports.push((absolute, self.open.is_empty()));
        Ok(())
    }

    /// Returns the contents of the files that match a pattern. `None` if a matching file or its
    /// content may be unknown.
    fn matching(&self, pattern: &str) -> Option<Vec<&'a str>> {
        let (directory, name) = pattern.rsplit_once('/')?;
        let files = self.directories.get(directory)?;
        let (before, after) = name.split_once('*')?;
        if name.contains(['?', '[', '\\']) || after.contains('*') {
            return None;
        }
        let matches = |name: &str| {
            let rest = name.strip_prefix(before);
            rest.is_some_and(|rest| rest.ends_with(after))
        };
        let found = files.iter().filter(|(name, _)| matches(name));
        found.map(|(_, content)| content.as_deref()).collect()
    }
}

/// Whether the parser follows the words of a line before its brace. A snippet and a key that
/// depends on a variable are not followed.
fn is_followed(words: &[&str], is_block: bool) -> bool {
    let is_key = |word: &str| !word.starts_with('(') && !word.contains('{');
    let is_word = |word: &&str| !matches!(*word, "{" | "}") && (!is_block || is_key(word));
    !words.is_empty() && words.iter().all(is_word)
}

/// Returns the line before its comment. `None` for a quote that continues on the next line, and for
/// a `#` inside a word.
fn without_comment(line: &str) -> Option<&str> {
    let begins_word = |at: usize| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        before.is_none_or(char::is_whitespace)
    };
    let mut marks = line.match_indices('#').map(|(at, _)| at);
    let code = line.get(..marks.find(|at| begins_word(*at)).unwrap_or(line.len()))?;
    let is_whole = !code.contains('#') && code.matches('"').count() % 2 == 0;
    is_whole.then_some(code.trim())
}
