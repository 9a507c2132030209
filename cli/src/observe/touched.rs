//! Effects of changes of the observed state.

use std::collections::BTreeSet;

use causeway::domain::ServiceKey;

/// The effect of a change: objects whose views may be others now.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Services of which an object changed, on the hub or in a member.
    pub services: BTreeSet<ServiceKey>,
    /// Namespaces of a member that changed.
    pub namespaces: BTreeSet<String>,
    /// Clusters that changed on the hub.
    pub clusters: BTreeSet<String>,
    /// Whether any service may have changed.
    pub all: bool,
    /// Whether the API server can be read now and could not before, or the other way round, or
    /// serves other kinds.
    pub link: bool,
    /// Whether Nodes of the member changed.
    pub nodes: bool,
    /// Whether the members whose Nodes are needed may have changed.
    pub node_needs: bool,
    /// The member in which it happened; the hub if `None`.
    pub member: Option<String>,
}

impl Touched {
    /// Returns the effect of a change of these services.
    pub(super) fn services(services: BTreeSet<ServiceKey>) -> Self {
        Self {
            services,
            ..Self::default()
        }
    }

    /// Adds the effect of the next change of the same API server.
    pub(super) fn add(&mut self, next: Self) {
        self.services.extend(next.services);
        self.namespaces.extend(next.namespaces);
        self.clusters.extend(next.clusters);
        self.all |= next.all;
        self.link |= next.link;
        self.nodes |= next.nodes;
        self.node_needs |= next.node_needs;
    }
}
