//! Types at the crate's border: reports of watches, planned items, writes and their results.

mod cluster_id;
pub(crate) mod defaults;
mod event;
mod failure;
mod hub_objects;
mod item;
pub(crate) mod map;
mod member_state;
pub(crate) mod memory;
mod node;
pub(crate) mod object;
mod priority;
mod profile;
pub mod propagation;
pub mod served;
pub mod slice;
mod time_point;
mod work;
mod write;

pub use self::cluster_id::ReportedId;
pub use self::event::{Generation, HubEvent, Identity, MemberEvent, Needs, Signal, Term};
pub use self::failure::{Failure, FailureKind};
pub(crate) use self::hub_objects::{HubDnsEndpoint, RecordedTargets};
pub use self::hub_objects::{HubExport, HubImport, HubNamespace};
pub use self::item::Item;
pub(crate) use self::member_state::RequiredKind;
pub use self::member_state::{Configuration, ConfigurationError, LeftOut, MemberState, Refusal};
pub use self::node::ObservedNode;
pub use self::priority::Priority;
pub(crate) use self::profile::REGION_PROPERTY;
pub use self::profile::{Profile, ProfileAccess, ProfileId, ProfileProblem};
pub use self::propagation::Propagation;
pub use self::time_point::TimePoint;
pub use self::work::ServiceWork;
pub(crate) use self::write::status_patch;
pub use self::write::{
    Ack, Dispatch, ObjectEvent, ObjectId, ObservedVersion, Operation, SliceId, TargetCluster,
    Write, WriteResult,
};
