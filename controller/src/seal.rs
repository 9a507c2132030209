//! The Secret that holds the key of the seal.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow, ensure};
use causeway_engine::seal::Seal;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};

/// The Secret that holds the key, in the controller's namespace.
pub const SECRET: &str = "causeway-export-seal";
const FIELD: &str = "key";
const LENGTH: usize = digest::SHA256_OUTPUT_LEN;
const CONFLICT: u16 = 409;

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
