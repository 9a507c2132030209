//! Self-managed certificates: the webhook issues them, stores them in two Secrets that all replicas
//! share, publishes the authority in the caBundle of causeway's webhook configurations, and
//! rotates.
//!
//! [`causeway_certs::decide`] decides. The rotator watches the Secrets and the configurations, and
//! decides again whenever one of them changes or time has passed. No write rests on the cache:
//! before a write the rotator reads the configurations, then the Secrets, and decides on these. It
//! patches a caBundle on the condition that it is unchanged, so no replica that lags behind removes
//! an authority that another one has stored. At rest the hub serves watches and no requests.

mod args;
mod cache;
mod hub;
mod repair_backoff;
mod rotator;
mod snapshot;

use causeway::process::Process;
use kube::Client;
use std::sync::Arc;

use crate::metrics::Metrics;
use crate::tls::Resolver;

pub(crate) use args::CertificateArgs;
pub use args::SelfManaged;

/// Name of causeway's MutatingWebhookConfiguration and ValidatingWebhookConfiguration.
pub const REGISTRATION: &str = "causeway";

/// Annotation of the serving Secret: `leaf` requests a new serving certificate, `ca` a new
/// authority and a leaf of it. The write that begins this removes the annotation.
pub const ROTATE: &str = "mcs.causeway.dev/rotate";

/// Spawns the rotation of the certificates. The process is ready once it serves one.
pub fn rotate(
    config: SelfManaged,
    client: Client,
    resolver: Arc<Resolver>,
    metrics: &Metrics,
    process: &Process,
) {
    let tasks = &process.tasks;
    let readiness = &process.readiness;
    let cache = cache::Cache::default();
    let hub = hub::Hub::new(client, &config);
    hub.watch(&cache, tasks, readiness, metrics);
    let rotator = rotator::Rotator::new(
        config,
        hub,
        cache,
        rotator::Serving::new(resolver, metrics.clone(), readiness),
    );
    tasks.spawn("certificates", rotator.run(tasks.shutdown()));
}
