//! Nodes of a member.

use std::collections::BTreeSet;

use crate::model::map::HashMap;
use crate::model::{ObservedNode, Signal};

/// Nodes of a member, by name.
#[derive(Debug, Default)]
pub(crate) struct Nodes(HashMap<Box<str>, ObservedNode>);

impl Nodes {
    /// Returns the node of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&ObservedNode> {
        self.0.get(name)
    }

    /// Returns all nodes, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ObservedNode> {
        self.0.values()
    }

    /// Returns the ready nodes if each leads to its own endpoints alone, or if none is ready;
    /// `None` where any node leads to all endpoints.
    pub(crate) fn leading(&self, is_local: bool) -> Option<BTreeSet<Box<str>>> {
        let ready = self.iter().filter(|node| node.is_ready);
        let ready: BTreeSet<_> = ready.map(|node| node.name.clone()).collect();
        (is_local || ready.is_empty()).then_some(ready)
    }

    /// Applies an event of the watch. Returns whether a node changed.
    pub(super) fn apply(&mut self, signal: Signal<ObservedNode>) -> bool {
        match signal {
            Signal::Listed(nodes) => {
                let listed = nodes.into_iter().map(|node| (node.name.clone(), node));
                let before = std::mem::replace(&mut self.0, listed.collect());
                before != self.0
            }
            Signal::Applied(node) => {
                let is_same = self.get(&node.name) == Some(&node);
                self.0.insert(node.name.clone(), node);
                !is_same
            }
            Signal::Deleted(node) => self.0.remove(&node.name).is_some(),
            _ => false,
        }
    }
}
