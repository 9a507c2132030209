//! What only the hub can have written, wherever it is kept: a text with a seal on it.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, anyhow, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hmac};

/// The Secret that holds the key, in the controller's namespace.
pub const SECRET: &str = "causeway-export-seal";
const FIELD: &str = "key";
const LENGTH: usize = digest::SHA256_OUTPUT_LEN;
const CONFLICT: u16 = 409;

/// A key by which texts are sealed (HMAC-SHA256, RFC 2104).
#[derive(Clone)]
pub struct Seal(hmac::Key);

impl Seal {
    /// The seal of that key.
    pub fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The seal for a text, in base64.
    pub fn put_on(&self, text: &str) -> String {
        BASE64_STANDARD.encode(hmac::sign(&self.0, text.as_bytes()))
    }

    /// Whether that is the seal of a text.
    pub fn is_on(&self, text: &str, found: &str) -> bool {
        let found = BASE64_STANDARD.decode(found);
        found.is_ok_and(|found| hmac::verify(&self.0, text.as_bytes(), &found).is_ok())
    }

    /// Reads the key from the hub, and makes it where there is none yet: the first replica does for all.
    ///
    /// # Errors
    /// Where the hub does not answer, does not let the key be read or made, or holds something else in its place.
    pub async fn keep(client: &Client, namespace: &str) -> anyhow::Result<Self> {
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        loop {
            let stored = secrets.get_opt(SECRET).await.context("cannot be read")?;
            if let Some(key) = stored.as_ref().and_then(key_of) {
                ensure!(
                    key.len() == LENGTH,
                    "has {} bytes in data.{FIELD} where {LENGTH} are the key; delete the Secret, and restart the controllers",
                    key.len()
                );
                return Ok(Self::new(key));
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
}

/// No key is ever printed.
impl fmt::Debug for Seal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Seal")
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

    #[test]
    fn a_seal_is_of_one_key_and_one_text() {
        let seal = Seal::new(b"a");
        let on_it = seal.put_on("text");
        assert!(seal.is_on("text", &on_it));
        for (seal, text, found) in [
            (&seal, "texts", &*on_it),
            (&Seal::new(b"b"), "text", &on_it),
            (&seal, "text", ""),
            (&seal, "text", "no base64"),
            (&seal, "text", &on_it[..40]),
        ] {
            assert!(!seal.is_on(text, found), "{text}: {found}");
        }
    }
}
