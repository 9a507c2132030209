//! Protocol Buffers, as API servers send built-in kinds: an iterator over the fields of a message,
//! which copies none of them, and an encoder.
//!
//! Encoding: <https://protobuf.dev/programming-guides/encoding/>; envelope of an object:
//! <https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding>.

mod read;
mod write;

pub use self::read::{Fields, Malformed, Value, object};
pub(crate) use self::write::MAGIC;
pub use self::write::{Message, enveloped};
