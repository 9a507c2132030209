//! When an absence is a deletion.
//!
//! Traffic depends on what causeway deletes, and it deletes a copy when its source is gone. An API server says that something is
//! gone in two ways: a watch shows it deleted, or a list lacks it. A DELETED event counts at once. What a list lacks is weighed
//! here, and nowhere else.
//!
//! # Expected flow
//! 1. A process starts, or a member is engaged: the first complete list is its *initial list*. No deletion was observed before
//!    it, so it is compared with what others record: copies name the source that they were made from ([`initial_list`]).
//! 2. The watch breaks and its version expired: the next complete list is a *relist*. It is compared with what was observed
//!    before it by the *deletion guard* of the watch ([`relist`]).
//! 3. Where either lacks so much that the list itself may be wrong, its deletions are *suspended*: what it lacks is kept, and a
//!    *second list* is requested, half a minute later and over a new connection.
//! 4. The second list *confirms* the deletions, or holds the objects: they were never gone. A person may confirm in its place
//!    (`kubectl mcs confirm-deletions`); a list is requested at once then, and what it lacks is deleted.
//!
//! # States
//! A list is unlisted, unconfirmed or confirmed ([`list`]). Deletions are either counted, suspended, or suspected: an initial
//! list's are *suspected* as long as it is unconfirmed, and the member, or the Cluster, is unknown meanwhile.
//! [`MemberEvidence`] and [`HubEvidence`] hold the lists of one API server together.
//!
//! # Guarantees
//! - A deletion counts only where a DELETED event, or a complete list of the most recent state, shows it.
//! - A large loss counts only when a second list lacks the same. *Large* is more than ten objects, and more than a fifth.
//! - However few are missing, a second list is needed where the list is of an older state than was observed, where an object
//!   with finalizers went unobserved, where a provider has lost all that copies name, and where copies come from a Cluster
//!   that the hub lacks.
//! - Objects that were observed with a deletionTimestamp were expected to go: they are no loss.
//! - An API server that does not answer, or serves a kind no longer when it is asked once ([`discovery`]), has deleted nothing.
//!   Nor has a member that is not synced, or a server that answers 404 without naming the object.
//! - A version that a copy names and its source's cluster does not show is lost only if a second list does not show it either
//!   ([`rollback`]).
//! - What was observed deleted is not brought back by the answer to a write ([`tombstones`]).
//! - Each suspicion ends: the list that ends it is requested when it arises.
//!
//! # Assumptions
//! - A list is complete and of the most recent state: it is read from a quorum, and no part of it is reported.
//! - Versions grow, but for a restore of the store.
//! - An API server that lists wrongly once lists rightly, or is unreachable, half a minute later.
//!
//! # Caveats
//! - A store that is restored to a state in which nothing was exposed lists the same twice. That counts.
//! - What no copy names is not compared with an initial list.
//! - An honest large loss is withdrawn half a minute late.
//!
//! The table test of this module reads like the tables in docs/design/deletion-safety.md.

pub mod discovery;
mod hub;
pub mod initial_list;
pub mod list;
mod member;
pub mod relist;
pub mod rollback;
pub mod tombstones;

pub use self::hub::HubEvidence;
pub use self::member::MemberEvidence;

/// So many objects may be missing from a list, or such a share of all, and count as deleted at once.
const FEW: usize = 10;
const SHARE: usize = 5;

/// Whether so many are missing that their deletions are suspended.
fn is_large_loss(missing: usize, of: usize) -> bool {
    missing > FEW.max(of / SHARE)
}

#[cfg(test)]
mod tests;
