//! EndpointSlices in the index: sources in a compact form, copies as an identity and a hash.

mod canonical;
mod content;
mod copy_endpoint;
mod endpoint;
mod observed;
mod place;
mod protobuf;
mod source;
mod uid;
mod wire;

pub use self::content::{CONTENT_ANNOTATIONS, CONTENT_LABELS, Content, ContentHash, content_hash};
pub use self::copy_endpoint::CopyEndpoint;
pub use self::observed::{
    CopiedSlice, Exposure, KarmadasSlice, ObservedSlice, SliceRole, UnmanagedSlice,
};
pub use self::protobuf::slice_message;
pub use self::source::{AddressType, SliceManager, SlicePort, SourceEndpoint, SourceSlice};
pub use self::uid::{SourceVersion, Uid};
pub use self::wire::{SliceDecoder, Unreadable, WireSlice};
