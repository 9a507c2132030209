//! Certificates of causeway: a private certificate authority and the leaves that it signs.

mod issue;

pub use issue::{Authority, Credentials, IssueError, Leaf, Validity};
