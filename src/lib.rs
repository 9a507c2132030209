//! The shared words of causeway: the API objects as they are on the wire ([`api`]), the types that
//! hold their invariants ([`domain`]), and, as features, connections of kubeconfigs (`kubeconfig`),
//! where members are (`target`) and listening sockets (`listener`), all with `client`, and what
//! every process needs (`process`).

pub mod api;
pub mod domain;
#[cfg(feature = "client")]
pub mod kubeconfig;
#[cfg(feature = "client")]
pub mod listener;
#[cfg(feature = "process")]
pub mod process;
#[cfg(feature = "client")]
pub mod target;
