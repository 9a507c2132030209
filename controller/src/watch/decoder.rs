//! Decoders of the objects of a kind.

use causeway_engine::model::slice::{SliceDecoder, Unreadable, WireSlice};
use serde::de::DeserializeOwned;

use crate::encoding::Object;

/// Reads the objects of one watch. A clone may read some of them in another thread.
pub trait Decoder<K>: Clone + Send + Sync + 'static {
    /// Whether it reads protobuf too, and would rather.
    const PROTOBUF: bool = false;

    /// The object.
    ///
    /// # Errors
    /// Where it is none of that kind, or in an encoding that was not asked for.
    fn decode(&mut self, object: Object<'_>) -> Result<K, Unreadable>;
}

/// Reads JSON as the type of the objects says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl<K: DeserializeOwned> Decoder<K> for Json {
    fn decode(&mut self, object: Object<'_>) -> Result<K, Unreadable> {
        match object {
            Object::Json(text) => Ok(serde_json::from_str(text.get())?),
            Object::Protobuf(_) => Err(Unreadable::NotAskedFor),
        }
    }
}

impl Decoder<WireSlice> for SliceDecoder {
    const PROTOBUF: bool = true;

    fn decode(&mut self, object: Object<'_>) -> Result<WireSlice, Unreadable> {
        match object {
            Object::Json(text) => self.json(text.get()),
            Object::Protobuf(message) => self.protobuf(message),
        }
    }
}
