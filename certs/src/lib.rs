//! Certificates of causeway: a private certificate authority, the leaves that it signs, and their
//! rotation by any number of replicas. Nothing here reads a clock, a file or the network.

mod change;
mod fault;
mod issue;
mod request;
mod rotation;
mod stored;
mod trust;

pub use change::ChangeError;
pub use fault::Fault;
pub use issue::{Authority, Credentials, IssueError, Leaf, Purpose};
pub use request::{Request, RequestKey};
pub use rotation::{
    Change, Decision, Lifetimes, LifetimesError, RotationRequest, Situation, decide,
};
pub use stored::{
    CA_CERTIFICATE, CA_KEY, CERTIFICATE, Contents, KEY, NEXT_CERTIFICATE, NEXT_KEY, Names,
    OLD_UNTIL, Secrets, Served, Signer, Stored,
};
pub use trust::{
    Bundle, Period, Publication, PublicationTracker, Trusted, bundle_pem, certificate_pem,
};
