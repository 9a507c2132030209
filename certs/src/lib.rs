//! Certificates of causeway: a private certificate authority, the leaves that it signs, and their renewal by any number
//! of replicas. Nothing here reads a clock, a file or the network.

mod change;
mod fault;
mod issue;
mod renew;
mod stored;
mod trust;

pub use change::ChangeError;
pub use fault::Fault;
pub use issue::{Authority, Credentials, IssueError, Leaf, Validity};
pub use renew::{Change, Decision, Lifetimes, LifetimesError, Situation, Wish, decide};
pub use stored::{
    CA_CERTIFICATE, CA_KEY, CERTIFICATE, Contents, KEY, NEXT_CERTIFICATE, NEXT_KEY, Names,
    OLD_UNTIL, Served, Signer, Stored,
};
pub use trust::{Bundle, Period, Publication, Trusted, Witness, bundle_pem};
