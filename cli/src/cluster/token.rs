//! Claims of ServiceAccount tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// Period of validity, from the claims of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub issued: Timestamp,
    pub ends: Timestamp,
}

impl Validity {
    /// Reads a token. Returns `None` if it is valid until its Secret is deleted, or if its claims
    /// are unreadable.
    pub(crate) fn of(token: &str) -> Option<Self> {
        let claims = Claims::read(token)?;
        Some(Self {
            issued: Timestamp::from_second(claims.iat?).ok()?,
            ends: Timestamp::from_second(claims.exp?).ok()?,
        })
    }
}

/// Claims of a ServiceAccount token (RFC 7519).
#[derive(Deserialize)]
struct Claims {
    iat: Option<i64>,
    exp: Option<i64>,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: Option<String>,
    #[serde(rename = "kubernetes.io")]
    bound: Option<Bound>,
}

impl Claims {
    /// Reads the claims without verifying the signature.
    fn read(token: &str) -> Option<Self> {
        let claims = token.split('.').nth(1)?;
        let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
        serde_json::from_slice(&claims).ok()
    }
}

#[derive(Deserialize)]
struct Bound {
    secret: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Returns the name of the Secret that a token is bound to, from its claims. The signature is not
/// verified: the name only selects which of the hub's own two Secrets is free.
pub(crate) fn secret_of(token: &str) -> Option<String> {
    let claims = Claims::read(token)?;
    let bound = || Some(claims.bound?.secret?.name);
    claims.secret.or_else(bound)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(claims: &serde_json::Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn validity_is_what_a_token_says() {
        let validity = Validity::of(&token(&json!({"iat": 60, "exp": 660}))).expect("it ends");
        assert_eq!(validity.ends.duration_since(validity.issued).as_secs(), 600);
        for endless in ["", "a.b", "opaque", &token(&json!({"iat": 60}))] {
            assert_eq!(Validity::of(endless), None, "{endless}");
        }
    }
}
