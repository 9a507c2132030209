//! Decoders of the objects of a kind.

use causeway_engine::model::slice::{SliceDecoder, WireSlice};
use causeway_wire::{Object, Unreadable};
use serde::de::DeserializeOwned;

/// Decoder of the objects of one watch. A clone may decode some of them in another thread.
pub trait Decoder<K>: Clone + Send + Sync + 'static {
    /// Whether it decodes protobuf too, and requests that.
    const PROTOBUF: bool = false;

    /// Decodes an object.
    ///
    /// # Errors
    /// The object is of another kind, or has an encoding that was not requested.
    fn decode(&mut self, object: Object<'_>) -> Result<K, Unreadable>;
}

/// Decoder of JSON into the type of the objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl<K: DeserializeOwned> Decoder<K> for Json {
    fn decode(&mut self, object: Object<'_>) -> Result<K, Unreadable> {
        Ok(serde_json::from_str(object.json()?)?)
    }
}

impl Decoder<WireSlice> for SliceDecoder {
    const PROTOBUF: bool = true;

    fn decode(&mut self, object: Object<'_>) -> Result<WireSlice, Unreadable> {
        SliceDecoder::decode(self, object)
    }
}
