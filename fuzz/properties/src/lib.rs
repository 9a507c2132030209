//! What holds for any input of causeway: a property is a function of bytes that panics where it
//! does not hold.
//!
//! `make fuzz` looks for counterexamples with libFuzzer (`fuzz/targets`); `make test` asks the same
//! of every seed (`fuzz/seeds`) and of mutations of them that are the same every time (`tests/`).
//! An input is a JSON document, so that a seed can be read and written by a person. One that is no
//! document of the property's kind holds trivially.
//!
//! | property | input |
//! | --- | --- |
//! | [`envelope`] | the body of a request to the webhook, as it comes |
//! | [`admission`] | `{object, stored?, request?, policy?, hub?}`: a change of a MultiClusterService and what the webhook knows |
//! | [`planning`] | `{object, service?, clusters?, members?}`: a MultiClusterService and what the controller knows |
//! | [`decoding`] | an answer of an API server, or `{slice, edits, part}`: an EndpointSlice and damage to its bytes |
//! | [`watching`] | `{kind, items, events}`: what an API server lists and then tells of one kind |

pub mod admission;
pub mod decoding;
pub mod envelope;
pub mod mutation;
pub mod planning;
pub mod schema;
mod server;
mod vocabulary;
pub mod watching;

use serde_json::Value;

/// The document in an input, where it is one.
fn document(input: &[u8]) -> Option<Value> {
    serde_json::from_slice(input).ok().filter(Value::is_object)
}
