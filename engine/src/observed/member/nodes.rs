//! Nodes of a member.

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
