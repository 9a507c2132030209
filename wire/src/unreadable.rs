//! Error of an object that cannot be read.

use thiserror::Error;

use crate::protobuf::Malformed;

/// Reason why an object cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The JSON cannot be read.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The protobuf cannot be read.
    #[error(transparent)]
    Protobuf(#[from] Malformed),
    /// The metadata can be read, and nothing else.
    #[error("only its metadata can be read")]
    Content,
    /// The answer is another object than a list, or a list without a resourceVersion.
    #[error("the answer is not a list with a resourceVersion")]
    NoList,
    /// The object has more bytes than the caller accepts.
    #[error("it is too long")]
    TooLong,
    /// The page has more objects than the caller accepts.
    #[error("it has too many objects")]
    TooMany,
    /// The object of JSON has more objects within it than this maximum.
    #[error("it has more than {0} objects within it")]
    TooManyParts(usize),
    /// The object is protobuf, which the client did not request.
    #[error("it is protobuf, which was not asked for")]
    NotAskedFor,
}
