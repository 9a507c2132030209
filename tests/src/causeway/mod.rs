//! causeway itself: its own manifests, its own programs, and the rights that the manifests give them.

mod install;
pub mod replicas;
mod running;

pub(crate) use install::manifest;
pub use install::{Installation, MEMBERS_NAMESPACE, NAMESPACE};
pub use replicas::Replicas;
pub use running::{Launch, Running};

use futures::future::join_all;

use crate::Fleet;
use crate::fleet::Builder;

/// A fleet with causeway at work: installed on the hub, one webhook, one controller, every member joined.
pub struct Environment {
    /// Ended first, so that nothing is logged about clusters that go away.
    pub controller: Running,
    /// Registered with the hub's API server.
    pub webhook: Running,
    /// Objects that are installed on the hub.
    pub installation: Installation,
    /// The clusters.
    pub fleet: Fleet,
}

impl Environment {
    /// Starts all of it.
    pub async fn start(builder: Builder) -> Self {
        Self::of(builder.start().await).await
    }

    /// Starts causeway in a fleet that has none.
    pub async fn of(fleet: Fleet) -> Self {
        Self::with_controller(fleet, |controller| controller).await
    }

    /// The same, with a controller that is launched in another way.
    pub async fn with_controller(fleet: Fleet, change: impl FnOnce(Launch) -> Launch) -> Self {
        let installation = Installation::new(&fleet).await;
        let webhook = installation.webhook().start().await;
        installation.register(&webhook).await;
        let controller = change(installation.controller()).start().await;
        join_all(
            fleet
                .members()
                .iter()
                .map(|member| installation.join(member)),
        )
        .await;
        Self {
            controller,
            webhook,
            installation,
            fleet,
        }
    }
}
