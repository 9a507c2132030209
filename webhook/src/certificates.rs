//! Self-managed certificates: the webhook issues them, stores them in two Secrets that all replicas
//! share, publishes the authority in the caBundle of causeway's webhook configurations, and rotates.
//!
//! [`causeway_certs::decide`] decides. Here the Secrets and the configurations are
//! watched, and the decision is made again whenever one of them changes or time has passed. A
//! decision that needs a write is never carried out on the cache: the configurations are read, then
//! the Secrets, and it is made again on these. A caBundle is patched on the condition that it is as it
//! was read, so no replica that lags behind can remove an authority that another has stored since. At
//! rest the hub has the watches of this, and no requests.

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

/// The name of causeway's MutatingWebhookConfiguration and of its ValidatingWebhookConfiguration.
pub const REGISTRATION: &str = "causeway";

/// Annotation of the serving Secret: `leaf` requests a new serving certificate, `ca` a new authority and then
/// a leaf of it. It is removed when that is under way.
pub const ROTATE: &str = "mcs.causeway.dev/rotate";

/// Begins to rotate the certificates. The process is ready once there is one to serve.
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
    hub.watch(&cache, tasks, readiness);
    let rotator = rotator::Rotator::new(
        config,
        hub,
        cache,
        rotator::Serving::new(resolver, metrics.clone(), readiness),
    );
    tasks.spawn("certificates", rotator.run(tasks.shutdown()));
}
