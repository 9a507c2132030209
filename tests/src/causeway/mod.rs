//! causeway itself: its own manifests, its own programs, and the rights that the manifests give
//! them.

mod environment;
mod install;
mod lent;
mod objects;
pub mod replicas;
mod running;

pub use environment::{Builder, Environment};
pub(crate) use install::manifest;
pub use install::{Installation, MEMBERS_NAMESPACE, NAMESPACE};
pub use lent::Lent;
pub use replicas::Replicas;
pub use running::{Launch, Running};
