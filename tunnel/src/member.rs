//! The member that a client of the front names: the user of its proxy credentials.
//!
//! Every client of an HTTP proxy can send a user (`http://edge1@host:7080`, RFC 7617): causeway,
//! kubectl by `HTTPS_PROXY`, and Karmada by `spec.proxyURL`. The host of CONNECT names the member
//! to none of them: they send the address of its API server, which many members share. The front
//! without credentials ignores the password: a NetworkPolicy decides who reaches it. The
//! [authenticated](crate::passwords) one verifies it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::domain::ClusterName;
use http::HeaderMap;
use http::header::PROXY_AUTHORIZATION;

/// A member and a password, as the user and password of a client.
pub struct Credentials {
    /// The member.
    pub member: ClusterName,
    /// The password, which may be empty.
    pub password: Vec<u8>,
}

/// Returns the credentials in the headers of CONNECT; `None` if they name no member.
pub fn credentials(headers: &HeaderMap) -> Option<Credentials> {
    let mut values = headers.get_all(PROXY_AUTHORIZATION).into_iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, credentials) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let credentials = STANDARD.decode(credentials.trim()).ok()?;
    let colon = credentials.iter().position(|byte| *byte == b':')?;
    let (user, password) = credentials.split_at_checked(colon)?;
    let user = std::str::from_utf8(user).ok()?;
    Some(Credentials {
        member: ClusterName::try_from(user).ok()?,
        password: password.get(1..)?.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_str(value).unwrap();
            headers.append(PROXY_AUTHORIZATION, value);
        }
        let found = credentials(&headers)?;
        let password = String::from_utf8_lossy(&found.password).into_owned();
        Some(format!("{} {password}", found.member))
    }

    #[test]
    fn member_is_the_user_of_basic_credentials() {
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(of(&[&basic("edge1:")]).as_deref(), Some("edge1 "));
        let with_colon = of(&[&basic("edge1:a:b")]);
        assert_eq!(with_colon.as_deref(), Some("edge1 a:b"));
        assert_eq!(of(&["bAsIc ZWRnZTE6"]).as_deref(), Some("edge1 "));
        for values in [
            &[][..],
            &[&*basic("edge1:"), &*basic("edge2:")],
            &["Bearer ZWRnZTE6"],
            &["Basic"],
            &["Basic !"],
            &[&*basic("edge1")],
            &[&*basic("Edge1:")],
            &[&*basic(":")],
            &[&*basic("../x:")],
        ] {
            assert_eq!(of(values), None, "{values:?}");
        }
    }
}
