//! A slow network between the hub's API server and a webhook.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway_tests::{Cluster, Installation, Running};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// So many bytes go to the webhook in each turn.
const BYTES: usize = 100;
const TURN: Duration = Duration::from_millis(50);
/// The body of a review that bears an annotation of this size takes some three seconds.
pub(crate) const LARGE: usize = 5_000;
/// Label of the objects that the registration by the slow link selects.
pub(crate) const LABEL: &str = "tests.causeway.dev/slow-link";

/// Passes on slowly what the API server sends, and at once what is answered. Dropping it ends it.
pub(crate) struct SlowLink {
    address: SocketAddr,
    task: AbortHandle,
}

impl SlowLink {
    pub(crate) async fn to(webhook: &Running) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let target = webhook.bind().to_owned();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass_on(near, target.clone()));
            }
        });
        Self {
            address,
            task: task.abort_handle(),
        }
    }

    /// Has the hub validate what bears [`LABEL`] through this link too.
    pub(crate) async fn register(&self, hub: &Cluster, installation: &Installation) {
        let registration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "slow-link"},
            "webhooks": [{
                "name": "slow-link.tests.causeway.dev",
                "clientConfig": {
                    "url": format!("https://{}/validate", self.address),
                    "caBundle": STANDARD.encode(installation.authority().pem()),
                },
                "rules": [{
                    "apiGroups": ["networking.karmada.io"], "apiVersions": ["v1alpha1"],
                    "operations": ["CREATE"], "resources": ["multiclusterservices"],
                }],
                "objectSelector": {"matchLabels": {LABEL: "true"}},
                "timeoutSeconds": 10,
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        });
        hub.apply(&registration.to_string()).await.ok();
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(near: TcpStream, target: String) {
    let Ok(far) = TcpStream::connect(target).await else {
        return;
    };
    let (requests, mut to_near) = near.into_split();
    let (mut answers, to_far) = far.into_split();
    tokio::select! {
        () = slowly(requests, to_far) => {}
        // How it ended is for its ends to notice.
        _ = tokio::io::copy(&mut answers, &mut to_near) => {}
    }
}

async fn slowly(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut buffer = [0; BYTES];
    let mut due = Instant::now();
    let mut waited = due;
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        // A turn that was late is made up for, a pause between requests is not.
        if waited.elapsed() > 10 * TURN {
            due = Instant::now();
        }
        due += TURN;
        sleep_until(due).await;
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        waited = Instant::now();
    }
}
