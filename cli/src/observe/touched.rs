//! Effects of changes of the observed state.

use std::collections::BTreeSet;

use causeway::domain::ServiceKey;

/// Effect of a change: objects whose views may be outdated.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Services with changed objects, on the hub or in a member.
    pub services: BTreeSet<ServiceKey>,
    /// Changed namespaces of a member.
    pub namespaces: BTreeSet<String>,
    /// Changed Clusters of the hub.
    pub clusters: BTreeSet<String>,
    /// Whether any service may have changed.
    pub all: bool,
    /// Whether the API server became readable or unreadable, or serves other kinds.
    pub link: bool,
    /// Whether Nodes of the member changed.
    pub nodes: bool,
    /// Whether reports on paths from the member changed.
    pub paths: bool,
    /// Whether the set of members with required Nodes may have changed.
    pub node_needs: bool,
    /// Member of the change. `None` for the hub.
    pub member: Option<String>,
}

impl Touched {
    /// Returns the effect of a change of `services`.
    pub(super) fn services(services: BTreeSet<ServiceKey>) -> Self {
        Self {
            services,
            ..Self::default()
        }
    }

    /// Adds the effect of another change of the API server.
    pub(super) fn add(&mut self, next: Self) {
        self.services.extend(next.services);
        self.namespaces.extend(next.namespaces);
        self.clusters.extend(next.clusters);
        self.all |= next.all;
        self.link |= next.link;
        self.nodes |= next.nodes;
        self.paths |= next.paths;
        self.node_needs |= next.node_needs;
    }
}
