//! Certificates that are replaced again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use causeway_tests::causeway::NAMESPACE;
use causeway_tests::write::merge;
use causeway_tests::{Cluster, SOON, eventually};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use tokio::task::JoinHandle;

/// The Secret of the certificate that the replicas share.
pub(crate) const SECRET: &str = "causeway-webhook-tls";
/// The Secret of its authority.
const CA_SECRET: &str = "causeway-webhook-ca";

const ROTATE: &str = "mcs.causeway.dev/rotate";

/// One rotation in this many is of the authority too.
const AUTHORITY_TURN: usize = 7;

/// Number of replaced certificates.
#[derive(Debug, Default)]
pub(crate) struct Replaced {
    leaves: AtomicUsize,
    authorities: AtomicUsize,
}

impl Replaced {
    /// Serving certificates.
    pub(crate) fn leaves(&self) -> usize {
        self.leaves.load(Ordering::Relaxed)
    }

    /// Authorities that sign them.
    pub(crate) fn authorities(&self) -> usize {
        self.authorities.load(Ordering::Relaxed)
    }
}

/// Somebody who asks for new certificates, the next as soon as the last is there.
pub(crate) struct Rotations {
    pub(crate) replaced: Arc<Replaced>,
    stop: Arc<AtomicBool>,
    asking: JoinHandle<()>,
}

impl Rotations {
    pub(crate) fn start(hub: &Cluster) -> Self {
        let secrets = Api::namespaced(hub.client(), NAMESPACE);
        let (replaced, stop) = (Arc::<Replaced>::default(), Arc::default());
        let asking = tokio::spawn(ask(secrets, Arc::clone(&replaced), Arc::clone(&stop)));
        Self {
            replaced,
            stop,
            asking,
        }
    }

    /// Waits for the rotation at hand, and ends. Panics where one never came.
    pub(crate) async fn stop(self) -> Arc<Replaced> {
        self.stop.store(true, Ordering::Relaxed);
        self.asking.await.expect("every rotation came");
        self.replaced
    }
}

async fn ask(secrets: Api<Secret>, replaced: Arc<Replaced>, stop: Arc<AtomicBool>) {
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let what = if turn % AUTHORITY_TURN == 0 {
            "ca"
        } else {
            "leaf"
        };
        let before = stored(&secrets).await;
        let patch = json!({"metadata": {"annotations": {ROTATE: what}}});
        merge(&secrets, SECRET, patch).await;
        eventually(&format!("a new {what}"), SOON * 2, async || {
            let now = stored(&secrets).await;
            let done = !now.is_asked_for && now.leaf != before.leaf;
            let signed = what == "leaf" || now.authority != before.authority;
            if done && signed {
                Ok(())
            } else {
                Err(format!("{now:?}"))
            }
        })
        .await;
        replaced.leaves.fetch_add(1, Ordering::Relaxed);
        if what == "ca" {
            replaced.authorities.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[derive(Debug)]
struct Stored {
    leaf: Option<ByteString>,
    authority: Option<Vec<u8>>,
    is_asked_for: bool,
}

async fn stored(secrets: &Api<Secret>) -> Stored {
    let secret = secrets.get(SECRET).await;
    let secret = secret.unwrap_or_else(|error| panic!("the Secret cannot be read: {error}"));
    let authority = secrets.get(CA_SECRET).await;
    let authority = authority.unwrap_or_else(|error| panic!("the Secret cannot be read: {error}"));
    let annotations = secret.metadata.annotations.unwrap_or_default();
    let mut data = secret.data.unwrap_or_default();
    Stored {
        leaf: data.remove("tls.crt"),
        authority: authority
            .data
            .and_then(|mut data| data.remove("ca.key"))
            .map(|key| key.0),
        is_asked_for: annotations.contains_key(ROTATE),
    }
}
