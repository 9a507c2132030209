//! EndpointSlices: sources in a compact form, copies as a hash of their content.

mod address;
mod canonical;
mod content;
mod copy_endpoint;
mod encode;
mod endpoint;
mod fields;
mod json;
mod parts;
mod place;
mod raw;
mod source;
mod texts;
mod uid;

pub use self::content::ContentHash;
pub use self::copy_endpoint::CopyEndpoint;
pub use self::encode::encode;
pub use self::json::message;
pub use self::place::Places;
pub use self::raw::RawSlice;
pub use self::source::{AddressType, SliceManager, SlicePort, SourceEndpoint, SourceSlice};
pub use self::uid::{SourceVersion, Uid};
