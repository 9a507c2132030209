//! Token with which a hub connects to a member. Deleting its Secret in the member revokes the
//! token.

use std::time::Duration;

use causeway::api::labels;
use causeway::domain::protected::DEFAULT_NAMESPACE;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, PostParams};
use serde_json::json;
use tokio::time::Instant;

use super::{ACCOUNT, Credentials, MemberError, authorities, published_authorities, short};
use crate::cluster::api_server::ApiServer;
use crate::cluster::objects::{self, ObjectError};
use crate::cluster::token::secret_of;
use crate::cluster::wait;
use crate::term::exit::Failure;
use crate::term::output;

/// Secret annotation that makes the member's controller manager store an account's token in the
/// Secret.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const TOKEN_WITHIN: Duration = Duration::from_secs(30);

/// Parameters of a token that replaces the hub's current one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewToken<'a> {
    /// Current token of the hub, if any.
    pub used: Option<&'a str>,
    /// Validity of the token. `None` requests a token that is valid until its Secret is deleted.
    pub lifetime: Option<Duration>,
}

impl NewToken<'_> {
    /// Returns the Secret for the new token, and the Secret of the current token.
    pub(super) fn secrets(self, hub_uid: &str) -> Result<[DynamicObject; 2], ObjectError> {
        let [first, second] = token_names(hub_uid);
        let used = self.used.and_then(secret_of);
        let (new, old) = match used == Some(first.clone()) {
            true => (second, first),
            false => (first, second),
        };
        let new = match self.lifetime {
            None => token_secret(hub_uid, &new)?,
            Some(_) => anchor(hub_uid, &new)?,
        };
        Ok([new, token_secret(hub_uid, &old)?])
    }
}

/// Returns the Secret in which the member's controller manager stores a token. Each hub has its
/// own, and each of several hubs can leave a member independently.
pub(crate) fn token_secret(hub_uid: &str, name: &str) -> Result<DynamicObject, ObjectError> {
    let mut secret = anchor(hub_uid, name)?;
    secret.data["type"] = json!("kubernetes.io/service-account-token");
    let annotations = secret.metadata.annotations.get_or_insert_default();
    annotations.insert(ACCOUNT_NAME.to_owned(), ACCOUNT.to_owned());
    Ok(secret)
}

/// Returns the empty Secret that a requested token is bound to.
fn anchor(hub_uid: &str, name: &str) -> Result<DynamicObject, ObjectError> {
    objects::object(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": name,
            "namespace": DEFAULT_NAMESPACE,
            "labels": { "app.kubernetes.io/name": "causeway", labels::HUB: hub_uid },
        },
    }))
}

/// Returns the two possible names of a hub's token Secret. Each join uses the free one.
pub(crate) fn token_names(hub_uid: &str) -> [String; 2] {
    let first = format!("causeway-hub-{}", short(hub_uid));
    let second = format!("{first}-2");
    [first, second]
}

/// Waits until the member's controller manager has stored the token in the Secret.
pub(super) async fn filled(member: &ApiServer, name: &str) -> Result<Credentials, Failure> {
    let text = |secret: &Secret, key: &str| {
        let bytes = secret.data.as_ref()?.get(key)?.0.clone();
        String::from_utf8(bytes)
            .ok()
            .filter(|text| !text.is_empty())
    };
    let deadline = Instant::now() + TOKEN_WITHIN;
    let found = wait::until(member.within(DEFAULT_NAMESPACE), name, deadline, |secret| {
        let secret = secret?;
        Some((
            text(secret, "token")?,
            text(secret, "ca.crt").unwrap_or_default(),
        ))
    });
    let (token, cluster_ca) = found.await.map_err(|late| MemberError::NoToken {
        namespace: DEFAULT_NAMESPACE,
        name: name.to_owned(),
        seconds: TOKEN_WITHIN.as_secs(),
        late,
    })?;
    let ca_bundle = authorities(member, &cluster_ca)?;
    Ok(Credentials { token, ca_bundle })
}

/// Requests a token that is bound to its Secret and has a lifetime (TokenRequest,
/// authentication.k8s.io/v1). The member may shorten the lifetime.
pub(super) async fn requested(
    member: &ApiServer,
    secret: &DynamicObject,
    lifetime: Duration,
) -> Result<Credentials, Failure> {
    let name = secret.name_any();
    let not_issued = || MemberError::NotIssued(name.clone());
    let stored = objects::get(member, secret).await?.ok_or_else(not_issued)?;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX)),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Secret".to_owned()),
                name: Some(name.clone()),
                uid: stored.uid(),
            }),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let accounts = member.within::<ServiceAccount>(DEFAULT_NAMESPACE);
    let parameters = PostParams::default();
    let issued = accounts.create_token_request(ACCOUNT, &parameters, &request);
    let status = member
        .request(issued)
        .await?
        .status
        .ok_or_else(not_issued)?;
    let expires = status.expiration_timestamp.0;
    output::result(format_args!(
        "member: token issued until {expires}; join again before"
    ))?;
    Ok(Credentials {
        token: status.token,
        ca_bundle: published_authorities(member).await?,
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn token(claims: &serde_json::Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn new_token_gets_the_secret_that_the_used_one_does_not_have() {
        const HUB: &str = "1b4e28ba-2fa1";
        let [first, second] = token_names(HUB);
        let of_secret =
            |name: &str| token(&json!({"kubernetes.io/serviceaccount/secret.name": name}));
        let bound =
            |name: &str| token(&json!({"kubernetes.io": {"secret": {"name": name, "uid": "u"}}}));
        for (used, new, old) in [
            (None, &first, &second),
            (Some("no.token".to_owned()), &first, &second),
            (Some(of_secret("another")), &first, &second),
            (Some(of_secret(&first)), &second, &first),
            (Some(of_secret(&second)), &first, &second),
            (Some(bound(&first)), &second, &first),
            (Some(bound(&second)), &first, &second),
        ] {
            let token = NewToken {
                used: used.as_deref(),
                lifetime: None,
            };
            let secrets = token.secrets(HUB).expect("Secrets");
            let names = secrets.map(|secret| secret.name_any());
            assert_eq!(names, [new.clone(), old.clone()], "{used:?}");
        }
    }
}
