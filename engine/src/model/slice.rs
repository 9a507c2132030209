//! EndpointSlices by the role that they have for causeway, and the content of copies.

mod content;
mod cut;
mod decoder;
mod observed;
mod scope;

pub use causeway_wire::{
    AddressType, ContentHash, CopyEndpoint, SliceManager, SlicePort, SourceEndpoint, SourceSlice,
    SourceVersion, Uid, Unreadable,
};

#[cfg(test)]
pub(crate) use self::content::content_hash;
pub(crate) use self::content::{CONTENT_ANNOTATIONS, CONTENT_LABELS, values};
pub(crate) use self::cut::Cut;
pub use self::decoder::{SliceDecoder, WireSlice};
pub(crate) use self::observed::{CopiedSlice, KarmadasSlice, UnmanagedSlice};
pub use self::observed::{Exposure, ObservedSlice, SliceRole};
pub use self::scope::{MOST_NAMES, ServiceNames, SliceScope, collect_names, selector_of};
