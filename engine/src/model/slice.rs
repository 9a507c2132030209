//! EndpointSlices by the role that they have for causeway, and the content of copies.

mod content;
mod decoder;
mod observed;

pub use causeway_wire::{
    AddressType, Content, ContentHash, CopyEndpoint, SliceManager, SlicePort, SourceEndpoint,
    SourceSlice, SourceVersion, Uid, Unreadable,
};

pub(crate) use self::content::{CONTENT_ANNOTATIONS, CONTENT_LABELS};
pub use self::content::{content, content_hash};
pub use self::decoder::{SliceDecoder, WireSlice};
pub(crate) use self::observed::{CopiedSlice, KarmadasSlice, UnmanagedSlice};
pub use self::observed::{Exposure, ObservedSlice, SliceRole};
