//! Certificates that need nobody: issued by the webhook itself, kept in one Secret that all replicas share, trusted through the
//! caBundle of causeway's webhook configurations, and renewed.
//!
//! What is to be done is [`causeway_certs::decide`]'s affair. Here the Secret and the configurations are watched, and the decision
//! is made anew whenever one of them changes or time has passed. A decision that asks for a write is never carried out
//! on what was cached: the configurations are read, then the Secret, and it is made again on these. A caBundle is patched on the
//! condition that it is as it was read, so no replica that lags behind can take out an authority that another has
//! stored since. At rest nothing is asked of the hub but the watches.

mod args;
mod cache;
mod hub;
mod keeper;
mod look;
mod pace;

use causeway::process::Process;
use kube::Client;
use std::sync::Arc;

use crate::metrics::Metrics;
use crate::tls::Resolver;

pub(crate) use args::CertificateArgs;
pub use args::SelfManaged;

/// The name of causeway's MutatingWebhookConfiguration and of its ValidatingWebhookConfiguration.
pub const REGISTRATION: &str = "causeway";

/// Annotation of the Secret: `leaf` asks for a new serving certificate, `ca` for a new authority and then a leaf of it. It
/// goes when that is done.
pub const ROTATE: &str = "mcs.causeway.dev/rotate";

/// Begins to keep the certificates. The process is ready once there is one to serve.
pub fn keep(
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
    let keeper = keeper::Keeper::new(
        config,
        hub,
        cache,
        keeper::Serving::new(resolver, metrics.clone(), readiness),
    );
    tasks.spawn("certificates", keeper.run(tasks.shutdown()));
}
