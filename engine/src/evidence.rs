//! Decides when an absence is a deletion.
//!
//! Traffic depends on what causeway deletes, and it deletes a copy when its source is gone. An API
//! server reports a removal in two ways: a watch shows the object deleted, or a list lacks it. A
//! DELETED event counts at once. Only this module decides whether a list that lacks objects counts.
//!
//! # Expected flow
//! 1. A process starts, or a member is engaged: the first complete list is its *initial list*. No
//!    deletion was observed before it, so it is compared with the records of others: copies name
//!    the source that they were made from ([`initial_list`]).
//! 2. The watch breaks and its version has expired: the next complete list is a *relist*. The
//!    *deletion guard* of the watch compares it with the objects that were observed before
//!    ([`relist`]).
//! 3. If either lacks so many objects that the list itself may be wrong, its deletions are
//!    *suspended*: the missing objects are retained, and a *second list* is requested, half a
//!    minute later and over a new connection.
//! 4. The second list *confirms* the deletions, or holds the objects: they were never gone. A
//!    person may confirm in its place (`kubectl mcs confirm-deletions`); then a list is requested
//!    at once, and the objects that it lacks are deleted.
//!
//! # States
//! A list is unlisted, unconfirmed or confirmed ([`list`]). Deletions are counted, suspended, or
//! suspected. Those of an initial list are *suspected* as long as it is unconfirmed, and the
//! member, or the Cluster, is unknown until then. [`MemberEvidence`] and [`HubEvidence`] hold the
//! lists of one API server together.
//!
//! # Guarantees
//! - A deletion counts only if a DELETED event, or a complete list of the most recent state, shows
//!   it.
//! - A large loss counts only when a second list lacks the same objects. *Large* is more than ten
//!   objects, and more than a fifth.
//! - However few objects are missing, a second list is needed in four cases: the list is of an
//!   older state than was observed, an object with finalizers went unobserved, a provider has lost
//!   all sources that copies name, or copies come from a Cluster that the hub lacks.
//! - Objects that were observed with a deletionTimestamp were expected to go: they are no loss.
//! - What another leader may have observed of a member that does not answer this process is not
//!   absent: a copy that names a later version than any that was observed of the member stays, and
//!   an export that an import or a copy names is unknown unless its deletion was observed.
//! - An API server that does not answer, or that no longer serves a kind in a single discovery
//!   ([`discovery`]), has deleted nothing. Nor has a member that is not synced, or a server that
//!   answers 404 without naming the object.
//! - While the watch of the hub's Services fails, none of them, and no port, is missing.
//! - A version that a copy names and that its source's cluster does not show is lost only if a
//!   second list does not show it either ([`rollback`]).
//! - A service whose slices no complete list covers is unknown, in a member of which exposed slices
//!   alone are watched.
//! - The answer to a write does not restore an object that was observed deleted ([`tombstones`]).
//! - Each suspicion ends: the list that ends it is requested when the suspicion arises, and again
//!   after the initial list of another watch.
//!
//! # Assumptions
//! - A list is complete and of the most recent state: it is read from a quorum, and no part of it
//!   is reported.
//! - Versions grow, except after a restore of the store.
//! - An API server that lists wrongly once lists rightly, or is unreachable, half a minute later.
//!
//! # Caveats
//! - A store that is restored to a state in which nothing was exposed lists the same twice. That
//!   counts.
//! - Objects that no copy names are not compared with an initial list.
//! - An honest large loss is withdrawn half a minute late.
//!
//! The table test of this module reads like the tables in docs/design/deletion-safety.md.

pub mod discovery;
mod hub;
pub(crate) mod initial_list;
pub(crate) mod list;
mod member;
mod proof;
pub mod relist;
pub(crate) mod rollback;
pub(crate) mod tombstones;

pub(crate) use self::hub::HubEvidence;
pub(crate) use self::member::MemberEvidence;
pub(crate) use self::proof::Proof;

/// Number of objects that may be missing from a list and count as deleted at once. A fifth of all
/// (`SHARE`) may be missing too.
const FEW: usize = 10;
const SHARE: usize = 5;

/// Whether as many are missing that their deletions are suspended.
fn is_large_loss(missing: usize, of: usize) -> bool {
    missing > FEW.max(of / SHARE)
}

#[cfg(test)]
mod tests;
