//! The events that the one loop receives: from the watches, and in answer to its own requests.
#![allow(
    clippy::large_enum_variant,
    reason = "most events are the large ones, and each is moved twice"
)]

use std::net::IpAddr;

use causeway::domain::{ClusterName, ServiceKey};
use causeway_engine::model::{Failure, Generation, HubEvent, MemberEvent, Propagation, SliceId};

use crate::given::Given;

/// Number of times that the credentials of members were requested in another way.
pub type Round = u64;

/// Events that wait to be applied. A watch that is faster waits for its turn: senders are let in
/// one after the other, so no more than twice as many events of a member that floods come before
/// one of another.
pub const WAITING: usize = 256;

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// The hub said something.
    Hub(HubEvent),
    /// A member said something.
    Member {
        /// Name of the member.
        name: ClusterName,
        /// Generation of its engagement.
        generation: Generation,
        /// Event of the member.
        event: MemberEvent,
    },
    /// The hub has that MultiClusterService, or has it not.
    LookedUp {
        /// The service.
        key: ServiceKey,
        /// Whether the hub holds a MultiClusterService of that key.
        exists: Result<bool, Failure>,
    },
    /// The other writer of a copy over which there is a write conflict.
    Writer {
        /// The member that holds the copy.
        cluster: ClusterName,
        /// The service of the copy, as it is reconciled.
        key: ServiceKey,
        /// The copy.
        slice: SliceId,
        /// Its field manager. `None` where the managed fields name no other than causeway.
        found: Result<Option<String>, Failure>,
    },
    /// Addresses of a hostname of a load balancer.
    Resolved {
        /// Hostname.
        host: Box<str>,
        /// Its addresses, never none.
        addresses: Vec<IpAddr>,
    },
    /// A plugin gave credentials for a member, or failed.
    Credentials {
        /// Name of the member.
        name: ClusterName,
        /// Round in which they were requested.
        round: Round,
        /// Its token.
        outcome: Result<Given, Failure>,
    },
    /// The state of Karmada's propagation of a Service.
    Propagated {
        /// The Service.
        key: ServiceKey,
        /// Outcome of the lookup.
        outcome: Result<Propagation, Failure>,
    },
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;
    use tokio::sync::mpsc;

    use super::WAITING;

    #[tokio::test]
    async fn a_member_that_floods_is_never_far_ahead_of_another() {
        const FLOODS: usize = 5;
        let (sender, mut events) = mpsc::channel(WAITING);
        for _ in 0..FLOODS {
            let sender = sender.clone();
            tokio::spawn(async move { while sender.send("flood").await.is_ok() {} });
        }
        for _ in 0..20 {
            while events.len() < WAITING {
                tokio::task::yield_now().await;
            }
            let mut quiet = pin!(sender.send("quiet"));
            assert!(poll!(&mut quiet).is_pending(), "it waits for its turn");
            let mut ahead = 0;
            let receive = async {
                while events.recv().await != Some("quiet") {
                    ahead += 1;
                }
            };
            let (sent, ()) = tokio::join!(quiet, receive);
            assert!(sent.is_ok() && ahead <= 2 * WAITING, "{ahead}");
        }
    }
}
