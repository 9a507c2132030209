//! The member that a client of the front names: the user of its proxy credentials.
//!
//! Every client of an HTTP proxy can send a user (`http://edge1@host:7080`, RFC 7617): causeway,
//! kubectl by `HTTPS_PROXY`, and Karmada by `spec.proxyURL`. The host of CONNECT names the member to
//! none of them: they send the address of its API server, which many members share. The password is
//! not read, because it protects nothing: a NetworkPolicy decides who reaches the front.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::domain::ClusterName;
use http::HeaderMap;
use http::header::PROXY_AUTHORIZATION;

/// Returns the member that the headers of CONNECT name; `None` if they name none.
pub fn named(headers: &HeaderMap) -> Option<ClusterName> {
    let mut values = headers.get_all(PROXY_AUTHORIZATION).into_iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, credentials) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let credentials = STANDARD.decode(credentials.trim()).ok()?;
    let (user, _) = std::str::from_utf8(&credentials).ok()?.split_once(':')?;
    ClusterName::try_from(user).ok()
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
        named(&headers).map(|name| name.to_string())
    }

    #[test]
    fn member_is_the_user_of_basic_credentials() {
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(of(&[&basic("edge1:")]).as_deref(), Some("edge1"));
        assert_eq!(of(&[&basic("edge1:secret")]).as_deref(), Some("edge1"));
        assert_eq!(of(&["bAsIc ZWRnZTE6"]).as_deref(), Some("edge1"));
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
