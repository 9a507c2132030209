//! Answers of API servers, as JSON and as protobuf: single objects, events of watches, pages of
//! lists.
//!
//! The first byte of an answer shows its encoding: an object of JSON begins with a brace, protobuf
//! with `k8s`, and an event of protobuf with the first of four bytes of its length. The content
//! type, which proxies may change, is ignored. The fields of protobuf have the numbers of
//! `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`.

mod event;
mod object;
mod page;

pub use self::event::WatchEvent;
pub use self::object::Object;
pub use self::page::{Page, PageReader};
