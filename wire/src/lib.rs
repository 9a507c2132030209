//! EndpointSlices between the bytes of an API server and the memory of causeway: decoder, compact
//! form, encoder, canonical form and content hash.
//!
//! # Why this is a crate
//!
//! Nearly all that a controller reads and holds are EndpointSlices: 200,000 sources of 100
//! endpoints each, and a copy of each in every consumer. Typed objects of `k8s-openapi` would take
//! many times the memory, and a start would spend its time in allocations; see decisions 0031 and
//! 0034 in docs/decisions. So a slice is decoded by hand:
//!
//! - A [source](RawSlice::source) goes from the bytes of the answer straight into a
//!   [`SourceSlice`], of which an endpoint with one IPv4 address takes 8 bytes.
//! - A [copy](RawSlice::content_hash) becomes a [`ContentHash`] of 16 bytes. Endpoints that have
//!   the canonical form, in which causeway encodes them, are hashed without being decoded.
//! - A slice of JSON, or a typed one, is [encoded](message) first: there is one decoder.
//! - A [page](PageReader) of a list is read while it arrives, and only one object of it is held.
//!
//! Such code is easily wrong in ways that a type does not show, so it is apart from the code that
//! decides. It knows labels, plans and clusters of causeway as little as it can: the caller reads
//! the labels of a [`RawSlice`], decides what the slice is, and chooses the form. The crate has no
//! client, no task and no clock; `make pure` refuses a dependency that could do IO.
//!
//! # Way of a slice
//!
//! ```text
//! PageReader, WatchEvent -> Object -> message -> RawSlice -> SourceSlice   (sources)
//!                                                         -> ContentHash   (copies)
//! SourceEndpoint -> CopyEndpoint -> ContentHash                            (desired copies)
//!                                -> EndpointSlice -> encode                (their writes)
//! ```
//!
//! # What guards it
//!
//! | guard | holds |
//! | --- | --- |
//! | `wire/tests/differential` | random slices: `prost`, `serde_json` and the encoder agree |
//! | `fuzz/targets/decoding.rs` | any bytes: no panic, and the length of parts changes nothing |
//! | `fuzz/targets/watching.rs` | an object that cannot be read hides no other one |
//! | `tests/tests/connections/encodings.rs` | real API servers: protobuf and JSON agree |
//! | `make bench ONLY="controller start"` | memory and CPU of a start with 200,000 slices |

mod answer;
pub mod protobuf;
mod slice;
mod unreadable;

pub use self::answer::{Object, Page, PageReader, WatchEvent};
pub use self::slice::{
    AddressType, ContentHash, CopyEndpoint, Places, RawSlice, SliceManager, SlicePort,
    SourceEndpoint, SourceSlice, SourceVersion, Uid, encode, message,
};
pub use self::unreadable::Unreadable;
