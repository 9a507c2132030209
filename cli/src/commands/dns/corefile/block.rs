//! Server block that serves the clusterset's zone.
//!
//! The zone gets its own server block, and the kubernetes plugin in that block opens its own
//! connections. If CoreDNS cannot read the ServiceImports, only names of the clusterset fail. A
//! shared server block would leave CoreDNS not ready, and CoreDNS would answer SERVFAIL for every
//! unknown name (coredns/coredns, `plugin/kubernetes`, HasSynced).

use std::collections::BTreeSet;

use super::{Corefile, CorefileError, Entry, ZONE, zone_and_port};
use crate::args::Multicluster;

/// Plugins that the zone's server block repeats from the cluster's one, with all options: listen
/// addresses, logs, metrics and the order of addresses.
const SHARED: [&str; 5] = ["bind", "errors", "log", "prometheus", "loadbalance"];
/// Options that the zone's kubernetes plugin repeats: access to the API server and TTL of answers.
const SHARED_OPTIONS: [&str; 4] = ["endpoint", "tls", "kubeconfig", "ttl"];

impl Corefile {
    /// Returns the server block of the zone, derived from that of the cluster's zone.
    ///
    /// # Errors
    /// [`CorefileError`] if no server block of the Corefile answers plain DNS of the cluster.
    pub(crate) fn block(&self, form: Multicluster) -> Result<String, CorefileError> {
        let of_cluster = self.blocks.iter().find_map(|block| {
            let mut plugins = block.entries.iter();
            let kubernetes = plugins.find(|plugin| plugin.name() == "kubernetes")?;
            Some((block, kubernetes))
        });
        let (of_cluster, kubernetes) = of_cluster.ok_or(CorefileError::NoKubernetes)?;
        let ports = of_cluster.words().filter_map(zone_and_port);
        let mut ports: BTreeSet<_> = ports.map(|(_, port)| port).collect();
        if ports.contains(&Some(53)) {
            ports.remove(&None);
        }
        if ports.is_empty() {
            return Err(CorefileError::NotPlain(of_cluster.line.clone()));
        }
        let keys = ports.iter().map(|port| match port {
            Some(port) => format!("{ZONE}:{port}"),
            None => ZONE.to_owned(),
        });
        let keys: Vec<_> = keys.collect();
        let mut block = Entry {
            line: keys.join(" "),
            entries: of_cluster.entries.clone(),
        };
        block
            .entries
            .retain(|plugin| SHARED.contains(&plugin.name()));
        let mut serving = serving(form);
        let options = kubernetes.entries.iter().filter(|option| match form {
            Multicluster::Option => SHARED_OPTIONS.contains(&option.name()),
            Multicluster::Plugin => option.name() == "kubeconfig",
        });
        serving.entries.extend(options.cloned());
        block.entries.push(serving);
        Ok(block.written(""))
    }
}

/// Returns a server block for a Corefile that cannot be followed.
pub(crate) fn block_by_hand(form: Multicluster) -> String {
    let block = Entry {
        line: format!("{ZONE}:53"),
        entries: vec![Entry::new("errors"), serving(form)],
    };
    block.written("")
}

/// Returns the plugin that serves the zone.
fn serving(form: Multicluster) -> Entry {
    let multicluster = Entry::new(&format!("multicluster {ZONE}"));
    match form {
        Multicluster::Option => Entry {
            line: format!("kubernetes {ZONE}"),
            entries: vec![multicluster],
        },
        Multicluster::Plugin => multicluster,
    }
}

impl Entry {
    pub(super) fn written(&self, indentation: &str) -> String {
        let inner = format!("{indentation}    ");
        let entries: String = self.entries.iter().map(|one| one.written(&inner)).collect();
        let line = &self.line;
        match entries.is_empty() {
            true => format!("{indentation}{line}\n"),
            false => format!("{indentation}{line} {{\n{entries}{indentation}}}\n"),
        }
    }
}
