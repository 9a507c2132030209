//! The Secrets on the hub by which members enrol and renew.

use std::time::Duration;

use causeway::api::absence::absent_object;
use causeway::api::labels;
use causeway::domain::ClusterName;
use causeway::domain::enrolment::{
    CLUSTER_UID, EXPIRES, HASH, NAMESPACE, USED_BY, bootstrap_name, member_name,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::digest::Digest;

/// Time for one request to the hub.
const REQUEST: Duration = Duration::from_secs(2);
/// Attempts to mark a token as used while others do the same.
const ATTEMPTS: usize = 3;

/// Reason why a member gets no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum BootstrapError {
    #[error("the member is not joined by a file")]
    Unknown,
    #[error("the token is another one")]
    Token,
    #[error("the token was valid until {0}")]
    Expired(String),
    #[error("the token is used already, by another key")]
    Used {
        /// UID of the member's Cluster, if the join stored it.
        cluster: Option<String>,
    },
    #[error("the member was removed since this certificate was issued")]
    Removed,
    #[error("the hub was not asked: {0}")]
    Hub(#[from] Box<kube::Error>),
    #[error("the hub did not answer in time")]
    Slow(#[from] Elapsed),
    #[error("others use the token at this moment")]
    Busy,
}

impl BootstrapError {
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Token => "token",
            Self::Expired(_) => "expired",
            Self::Used { .. } => "used",
            Self::Removed => "removed",
            Self::Hub(_) | Self::Slow(_) | Self::Busy => "unavailable",
        }
    }

    /// Whether the agent may repeat the request as it is.
    pub(super) fn is_transient(&self) -> bool {
        self.label() == "unavailable"
    }
}

/// The Secrets of a hub.
pub(super) struct Bootstraps(Api<Secret>);

impl Bootstraps {
    pub(super) fn new(hub: Client) -> Self {
        Self(Api::namespaced(hub, NAMESPACE))
    }

    /// Uses the token of a member for a public key. The same key may use it again until it expires,
    /// because an answer may have been lost. Returns the [id](Self::id) of the member.
    pub(super) async fn take(
        &self,
        member: &ClusterName,
        token: Digest,
        key: Digest,
    ) -> Result<String, BootstrapError> {
        let id = self.id(member).await?.ok_or(BootstrapError::Unknown)?;
        for _ in 0..ATTEMPTS {
            let secret = self.get(&bootstrap_name(member), member).await?;
            let mut secret = secret.ok_or(BootstrapError::Unknown)?;
            if check(&secret, token, key, Timestamp::now())? {
                return Ok(id);
            }
            let data = secret.data.get_or_insert_default();
            data.insert(USED_BY.to_owned(), ByteString(key.hex().into_bytes()));
            // Of two replicas that have read the same version, the hub accepts one.
            let name = secret.name_any();
            let parameters = PostParams::default();
            let used = self.0.replace(&name, &parameters, &secret);
            match timeout(REQUEST, used).await? {
                Ok(_) => return Ok(id),
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(Box::new(error).into()),
            }
        }
        Err(BootstrapError::Busy)
    }

    /// Checks that the agent with a certificate of this id is still that of the member.
    pub(super) async fn check(&self, member: &ClusterName, id: &str) -> Result<(), BootstrapError> {
        match self.id(member).await? {
            Some(current) if current == id => Ok(()),
            Some(_) | None => Err(BootstrapError::Removed),
        }
    }

    /// Returns the id of a member from its join to its removal, which certificates contain.
    async fn id(&self, member: &ClusterName) -> Result<Option<String>, BootstrapError> {
        let secret = self.get(&member_name(member), member).await?;
        Ok(secret.and_then(|secret| secret.metadata.uid))
    }

    async fn get(
        &self,
        name: &str,
        member: &ClusterName,
    ) -> Result<Option<Secret>, BootstrapError> {
        let found = match timeout(REQUEST, self.0.get(name)).await? {
            Ok(secret) => Some(secret),
            Err(kube::Error::Api(status)) if absent_object(&status) == Some(name) => None,
            Err(error) => return Err(Box::new(error).into()),
        };
        let is_of = |secret: &Secret| {
            let label = secret.labels().get(labels::CLUSTER);
            label.is_some_and(|name| name == member.as_str())
        };
        Ok(found.filter(is_of))
    }
}

/// Checks the token for a key. Returns whether that key has used it. A token that another key has
/// used counts as used even after its end, and so does one whose key cannot be read.
fn check(
    secret: &Secret,
    token: Digest,
    key: Digest,
    now: Timestamp,
) -> Result<bool, BootstrapError> {
    let data = secret.data.as_ref();
    let text = |key| {
        let value = data?.get(key)?;
        std::str::from_utf8(&value.0).ok().map(str::trim)
    };
    let expected = text(HASH).and_then(Digest::parse);
    if expected != Some(token) {
        return Err(BootstrapError::Token);
    }
    let used_by = text(USED_BY);
    if used_by.is_some_and(|used_by| Digest::parse(used_by) != Some(key)) {
        let cluster = text(CLUSTER_UID).map(str::to_owned);
        return Err(BootstrapError::Used { cluster });
    }
    let expires = text(EXPIRES).unwrap_or_default();
    let is_valid = expires.parse().is_ok_and(|end: Timestamp| now < end);
    match is_valid {
        true => Ok(used_by.is_some()),
        false => Err(BootstrapError::Expired(expires.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn token_counts_once_and_until_its_end() {
        let (token, key) = (Digest::of(b"token"), Digest::of(b"key"));
        let now: Timestamp = "2026-11-27T12:00:00Z".parse().expect("a time");
        let said = |values: &[(&str, &str)]| {
            let values = values
                .iter()
                .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
            let secret = Secret {
                data: Some(values.collect::<BTreeMap<_, _>>()),
                ..Secret::default()
            };
            match check(&secret, token, key, now) {
                Ok(true) => "again",
                Ok(false) => "free",
                Err(error) => error.label(),
            }
        };
        let (hash, used_by) = (token.hex(), key.hex());
        let (hash, end) = ((HASH, hash.as_str()), (EXPIRES, "2026-11-27T12:00:01Z"));
        let (own, other) = ((USED_BY, used_by.as_str()), (USED_BY, hash.1));
        let ended = (EXPIRES, "2026-11-27T12:00:00Z");
        for (values, expected) in [
            (&[hash, end][..], "free"),
            (&[hash, end, own], "again"),
            (&[hash, end, other], "used"),
            (&[hash, end, (USED_BY, "?")], "used"),
            (&[hash, ended], "expired"),
            (&[hash, ended, own], "expired"),
            (&[hash, ended, other], "used"),
            (&[hash, other], "used"),
            (&[hash, (EXPIRES, "never")], "expired"),
            (&[hash], "expired"),
            (&[(HASH, used_by.as_str()), end], "token"),
            (&[(HASH, ""), end], "token"),
            (&[end], "token"),
            (&[], "token"),
        ] {
            assert_eq!(said(values), expected, "{values:?}");
        }
    }
}
