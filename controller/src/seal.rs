//! The Secret that holds the key of the seal.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use causeway::process::backoff::spread;
use causeway_engine::seal::Seal;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use thiserror::Error;
use tokio::time::{sleep, timeout};

/// The Secret that holds the key, in the controller's namespace.
pub const SECRET: &str = "causeway-export-seal";
const FIELD: &str = "key";
const LENGTH: usize = digest::SHA256_OUTPUT_LEN;
const CONFLICT: u16 = 409;

/// Average interval of the requests for a key that the hub refused.
pub const EVERY: Duration = Duration::from_secs(60);
/// Maximum time of such a request.
const DEADLINE: Duration = Duration::from_secs(10);

/// The hub allows the key to be read that it refused at the start.
#[derive(Debug, Error)]
#[error(
    "the key of the export seal in namespace {namespace} can be read now; \
     the process restarts to use it"
)]
pub struct Readable {
    namespace: String,
}

/// Reads the key from the hub, and makes it where there is none yet: the first replica does for
/// all.
///
/// # Errors
/// Where the hub does not answer, does not let the key be read or made, or holds something else in
/// its place.
pub async fn keep(client: &Client, namespace: &str) -> anyhow::Result<Seal> {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    loop {
        let stored = secrets.get_opt(SECRET).await.context("cannot be read")?;
        if let Some(key) = stored.as_ref().and_then(key_of) {
            ensure!(
                key.len() == LENGTH,
                "has {} bytes in data.{FIELD} where {LENGTH} are the key; delete the Secret, and restart the controllers",
                key.len()
            );
            return Ok(Seal::new(key));
        }
        let made = match stored {
            // The manifests have it, so that no right to make Secrets is needed.
            Some(empty) => {
                let filled = with_key(empty)?;
                secrets
                    .replace(SECRET, &PostParams::default(), &filled)
                    .await
            }
            None => {
                secrets
                    .create(&PostParams::default(), &with_key(named())?)
                    .await
            }
        };
        match made {
            Err(kube::Error::Api(refused)) if refused.code == CONFLICT => {}
            // What is stored is what counts: it is read again.
            made => drop(made.context("cannot be made")?),
        }
    }
}

/// Requests the key again and again after the hub refused it. The order of exports depends on the
/// key, so a process uses only the key of its start.
///
/// # Errors
/// [`Readable`] as soon as the key can be read.
pub async fn until_readable(
    client: Client,
    namespace: String,
    every: Duration,
) -> Result<(), Readable> {
    loop {
        sleep(spread(every.mul_f64(0.75), every.mul_f64(1.25))).await;
        let kept = timeout(DEADLINE, keep(&client, &namespace)).await;
        if matches!(kept, Ok(Ok(_))) {
            return Err(Readable { namespace });
        }
    }
}

fn key_of(secret: &Secret) -> Option<&[u8]> {
    let ByteString(key) = secret.data.as_ref()?.get(FIELD)?;
    Some(key)
}

fn named() -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(SECRET.to_owned());
    let labels = [
        ("app.kubernetes.io/name", "causeway"),
        ("app.kubernetes.io/component", "controller"),
    ];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    secret.metadata.labels = Some(labels.into());
    secret
}

fn with_key(secret: Secret) -> anyhow::Result<Secret> {
    let mut key = vec![0; LENGTH];
    let made = SystemRandom::new().fill(&mut key);
    made.map_err(|_| anyhow!("this machine gives no random numbers"))?;
    Ok(Secret {
        data: Some(BTreeMap::from([(FIELD.to_owned(), ByteString(key))])),
        ..secret
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::http;

    #[tokio::test]
    async fn key_that_becomes_readable_ends_the_process() {
        let (client, mut requests, accepting) = http::listen().await;
        let every = Duration::from_millis(1);
        let waiting = tokio::spawn(until_readable(client, "hub".to_owned(), every));
        let path = format!("/api/v1/namespaces/hub/secrets/{SECRET}");
        for _ in 0..2 {
            let asked = requests.recv().await.expect("a request");
            assert_eq!(asked.path, path);
            asked.refuse(403, "Forbidden", "no").await;
        }
        let asked = requests.recv().await.expect("a request");
        assert!(!waiting.is_finished(), "the key is refused");
        let key = "A".repeat(43);
        let secret =
            format!(r#"{{"metadata":{{"name":"{SECRET}"}},"data":{{"{FIELD}":"{key}="}}}}"#);
        asked.answer(200, &secret).await;
        let ended = waiting
            .await
            .expect("no panic")
            .expect_err("it is readable");
        assert_eq!(ended.namespace, "hub");
        accepting.abort();
    }
}
