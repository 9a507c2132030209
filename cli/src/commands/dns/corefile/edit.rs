//! Additions that make a Corefile serve the clusterset's zone. Every other byte remains.
//!
//! The zone gets its own server block, and the kubernetes plugin in that block opens its own
//! connections. If CoreDNS cannot read the ServiceImports, only names of the clusterset fail. A
//! shared server block would leave CoreDNS not ready, and CoreDNS would answer SERVFAIL for every
//! unknown name (coredns/coredns, `plugin/kubernetes`, HasSynced).

use super::{Block, Corefile, CorefileError, Files, Key, Plugin, ZoneState};
use crate::args::Multicluster;

/// Zone of the clusterset (KEP-1645, "DNS").
pub(crate) const ZONE: &str = "clusterset.local";

/// Plugins that the zone's server block repeats from the cluster's one, with all options: listen
/// addresses, logs, metrics and the order of addresses.
const SHARED: [&str; 5] = ["bind", "errors", "log", "prometheus", "loadbalance"];
/// Options that the zone's kubernetes plugin repeats: access to the API server and TTL of answers.
const SHARED_OPTIONS: [&str; 4] = ["endpoint", "tls", "kubeconfig", "ttl"];

impl Corefile {
    /// Returns the text with the additions that serve the zone in `form`. `None` if the zone is
    /// served.
    ///
    /// # Errors
    /// [`CorefileError`] if the additions are impossible or do not lead to `form`.
    pub(crate) fn completed(
        &self,
        text: &str,
        path: &str,
        files: &Files,
        form: Multicluster,
    ) -> Result<Option<String>, CorefileError> {
        let (completed, keys) = match self.answer() {
            ZoneState::Served(..) => return Ok(None),
            ZoneState::Nothing => (with_block(text, &self.block(form)?), String::new()),
            ZoneState::WithoutOption(keys) => {
                let completed = self
                    .with_option(text)
                    .filter(|_| form == Multicluster::Option);
                let incomplete = || CorefileError::Incomplete {
                    zone: ZONE,
                    keys: keys.clone(),
                };
                (completed.ok_or_else(incomplete)?, keys)
            }
            ZoneState::Other(keys, plugins) => {
                let zone = ZONE;
                return Err(CorefileError::Taken {
                    zone,
                    keys,
                    plugins,
                });
            }
        };
        match Self::read(&completed, path, files)?.answer() {
            ZoneState::Served(served, _) if served == form => Ok(Some(completed)),
            _ => Err(CorefileError::Incomplete { zone: ZONE, keys }),
        }
    }

    /// Returns the server block of the zone, derived from that of the cluster's zone.
    pub(crate) fn block(&self, form: Multicluster) -> Result<String, CorefileError> {
        let kubernetes = |block: &&Block| block.kubernetes().is_some();
        let of_cluster = self.blocks.iter().find(kubernetes);
        let of_cluster = of_cluster.ok_or(CorefileError::NoKubernetes)?;
        let keys = of_cluster.keys.iter().map(|key| Key::read(key));
        let mut ports = Vec::new();
        for key in keys.filter(Key::is_plain) {
            if !ports.contains(&key.port) {
                ports.push(key.port);
            }
        }
        if ports.is_empty() {
            return Err(CorefileError::NotPlain(of_cluster.keys.join(" ")));
        }
        let keys: Vec<_> = ports.iter().map(|port| format!("{ZONE}{port}")).collect();
        let mut text = format!("{} {{\n", keys.join(" "));
        for plugin in &of_cluster.plugins {
            if SHARED.contains(&&*plugin.name) {
                text.push_str(&repeated(plugin)?);
            }
        }
        let options = of_cluster.kubernetes().into_iter();
        let options = options.flat_map(|plugin| &plugin.options);
        let shared = options.filter_map(|words| {
            let (name, args) = words.split_first()?;
            let is_shared = match form {
                Multicluster::Option => SHARED_OPTIONS.contains(&&**name),
                Multicluster::Plugin => name == "kubeconfig",
            };
            is_shared.then(|| format!("        {}\n", line(name, args)))
        });
        let shared: String = shared.collect();
        text.push_str(&match (form, shared.as_str()) {
            (Multicluster::Option, _) => {
                format!("    kubernetes {ZONE} {{\n        multicluster {ZONE}\n{shared}    }}\n")
            }
            (Multicluster::Plugin, "") => format!("    multicluster {ZONE}\n"),
            (Multicluster::Plugin, _) => format!("    multicluster {ZONE} {{\n{shared}    }}\n"),
        });
        text.push_str("}\n");
        Ok(text)
    }

    /// Inserts the option into the kubernetes plugin that has the zone. `None` for an imported
    /// plugin and for braces that are empty or begin with an option on the same line.
    fn with_option(&self, text: &str) -> Option<String> {
        let own = self.blocks.iter().filter(|block| block.is_own);
        let place = own.filter_map(|block| block.zone_plugin()?.at).next()?;
        let indentation_before = |at: usize| {
            let line = text.get(..at)?.rsplit('\n').next()?;
            line.trim().is_empty().then_some(line)
        };
        let (at, added) = match place.first_option {
            Some(first) => {
                let indentation = indentation_before(first)?;
                let at = first - indentation.len();
                (at, format!("{indentation}multicluster {ZONE}\n"))
            }
            None if place.has_braces => return None,
            None => {
                let indentation = indentation_before(place.begins)?;
                let option = format!("{indentation}    multicluster {ZONE}");
                (place.line_ends, format!(" {{\n{option}\n{indentation}}}"))
            }
        };
        let (before, after) = text.split_at_checked(at)?;
        Some(format!("{before}{added}{after}"))
    }
}

impl Block {
    fn kubernetes(&self) -> Option<&Plugin> {
        let mut plugins = self.plugins.iter();
        plugins.find(|plugin| plugin.name == "kubernetes")
    }
}

/// Returns the text of a plugin with its options.
///
/// # Errors
/// [`CorefileError::Unrepeatable`] if the text would parse as another plugin.
fn repeated(plugin: &Plugin) -> Result<String, CorefileError> {
    let unrepeatable = || CorefileError::Unrepeatable(plugin.name.clone());
    let mut text = format!("    {}", line(&plugin.name, &plugin.args));
    if !plugin.options.is_empty() {
        text.push_str(" {\n");
        for (name, args) in plugin
            .options
            .iter()
            .filter_map(|words| words.split_first())
        {
            text.push_str(&format!("        {}\n", line(name, args)));
        }
        text.push_str("    }");
    }
    text.push('\n');
    let read = Corefile::read(&format!(". {{\n{text}}}\n"), "/", &Files::new());
    let read = read.map_err(|_| unrepeatable())?;
    let same = |one: &Plugin| {
        one.name == plugin.name && one.args == plugin.args && one.options == plugin.options
    };
    match read.blocks.iter().map(|block| &*block.plugins).next() {
        Some([one]) if same(one) && !plugin.is_nested => Ok(text),
        _ => Err(unrepeatable()),
    }
}

/// Appends a server block to the text.
pub(crate) fn with_block(text: &str, block: &str) -> String {
    let end = match text.is_empty() || text.ends_with('\n') {
        true => "",
        false => "\n",
    };
    format!("{text}{end}{block}")
}

/// Joins words to a line, and quotes each word that would not parse as one token.
fn line(name: &str, args: &[String]) -> String {
    let quoted = |word: &String| {
        let is_plain = |c: char| !c.is_whitespace() && c != '#' && c != '"';
        match !word.is_empty() && word.chars().all(is_plain) {
            true => word.clone(),
            false => format!("\"{}\"", word.replace('"', "\\\"")),
        }
    };
    let words = std::iter::once(name.to_owned()).chain(args.iter().map(quoted));
    words.collect::<Vec<_>>().join(" ")
}
