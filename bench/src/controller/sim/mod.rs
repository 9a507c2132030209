//! Many API servers in one process, light enough for a hundred clusters with millions of objects: they speak what Kubernetes'
//! own do of lists, watches and writes, and hold their large objects as a few numbers.

pub(crate) mod documents;
pub(crate) mod journal;
pub(crate) mod kind;
pub(crate) mod protobuf;
pub(crate) mod seed;
mod server;
pub(crate) mod services;
pub(crate) mod simulation;
pub(crate) mod store;
pub(crate) mod text;
mod writes;

#[cfg(test)]
mod tests;
