//! The testbed: real etcd, API servers, controller managers and, with root, real packets, on one
//! machine and without containers.
//!
//! ```no_run
//! use causeway_tests::{Fleet, SOON, eventually, service};
//!
//! # async fn test() {
//! let fleet = Fleet::builder().members(2).start().await;
//! let space = fleet.space("shop").await;
//! let member = fleet.member("member1");
//! service("foo").port("http", 80).create(member, &space).await;
//! space.backends("foo").count(2).create(member).await;
//! eventually("two endpoints", SOON, || async {
//!     space.ready_addresses(member, "foo").await.len() == 2
//! })
//! .await;
//! # }
//! ```
//!
//! What fails here ends the test: these functions panic, with a message that says what was
//! attempted. Every program that is started ends with the process that asked for it, however that
//! ends ([`reaper`]), and directories and network namespaces go with it.

pub mod audit;
pub mod binaries;
pub mod book;
pub mod causeway;
pub mod chart;
pub mod clock;
pub mod cluster;
pub mod clusterset;
pub mod control_plane;
pub mod dns;
pub mod eventually;
pub mod external_dns;
pub mod fixtures;
pub mod fleet;
pub mod forward_proxy;
pub mod health;
mod http;
pub mod karmada;
pub mod konnectivity;
mod kubeconfig;
pub mod kubectl;
pub mod kubelet;
pub mod log_pipe;
pub mod machine;
pub mod metrics;
pub mod network;
mod node;
pub mod otlp;
pub mod path_reports;
mod paths;
pub mod ports;
pub mod prometheus;
pub mod proxy;
pub mod reaper;
pub mod registry;
pub mod relay;
pub mod release;
pub mod requests;
pub mod seen;
pub mod soak;
pub mod space;
pub mod stage;
pub mod store;
pub mod tunnel;
pub mod ui;
pub mod write;

pub use causeway::{Environment, Installation, Running};
pub use cluster::Cluster;
pub use clusterset::{service_export, service_import};
pub use eventually::{LONG, SOON, eventually, same, throughout};
pub use fixtures::{multi_cluster_service, pod, service};
pub use fleet::Fleet;
pub use karmada::Karmada;
pub use node::node;
pub use paths::repository;
pub use proxy::{Fault, Proxy};
pub use release::Release;
pub use soak::soak;
pub use space::Space;
pub use stage::addresses;
pub use ui::Ui;
