//! Admission of requests: the page itself and a user who opens its address. Rejected are other
//! pages in the same browser, host names that resolve to 127.0.0.1 (DNS rebinding) and other users
//! of the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use crate::cluster::random::{self, NoRandom};

/// Policy without foreign content, inline code or framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Header of Fetch Metadata Request Headers, section 2.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Default port of HTTP.
const HTTP: u16 = 80;

/// First path segment of a one-time address.
pub(super) const ONCE: &str = "open";

/// Secret part of the address: 128 random bits as 32 hexadecimal digits.
#[derive(Clone)]
pub(super) struct Token(String);

impl Token {
    /// Returns a new random token.
    pub(super) fn random() -> Result<Self, NoRandom> {
        random::digits::<16>().map(Self)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in constant time: the duration does not reveal the length of a correct prefix.
    fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        let differences = own.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
        own.len() == other.len() && differences == 0
    }
}

/// Reason of a rejection. The response contains nothing of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("only GET is served, and POST where the page starts verify")]
    Method,
    #[error("wrong Host; open the address that kubectl mcs ui printed")]
    Host,
    #[error("another page may not read this one")]
    Origin,
    #[error(
        "this address was opened already; open the one that kubectl mcs ui printed, and if it was not you \
         who opened it, end kubectl mcs ui with Ctrl-C"
    )]
    Once,
    #[error("wrong or no token; open the whole address that kubectl mcs ui printed")]
    Token,
}

impl Refused {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Host | Self::Origin | Self::Token | Self::Once => StatusCode::FORBIDDEN,
        }
    }
}

/// Expected values of requests.
#[derive(Clone)]
pub(super) struct Guard {
    token: Token,
    /// Token of the one-time address, with `is_opened` as the record of its use.
    once: Token,
    is_opened: Arc<AtomicBool>,
    hosts: Vec<String>,
}

/// Admitted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admitted<'a> {
    /// Path below the token, without a leading slash.
    Below(&'a str),
    /// First use of the one-time token: the client is redirected to this path.
    Open(String),
}

impl Guard {
    /// Returns the guard of a server on `port` of 127.0.0.1.
    pub(super) fn new(token: Token, once: Token, port: u16) -> Self {
        let names = ["127.0.0.1", "localhost"];
        let with_port = names.map(|name| format!("{name}:{port}"));
        // Browsers omit the default port.
        let without = names.into_iter().filter(|_| port == HTTP);
        let hosts = with_port.into_iter().chain(without.map(str::to_owned));
        Self {
            token,
            once,
            is_opened: Arc::default(),
            hosts: hosts.collect(),
        }
    }

    /// Admits requests with the token, and one request with the one-time token.
    ///
    /// # Errors
    /// [`Refused`] with the first failed check.
    pub(super) fn admit<'a>(
        &self,
        method: &Method,
        uri: &'a Uri,
        headers: &HeaderMap,
    ) -> Result<Admitted<'a>, Refused> {
        if !self.names_this_server(uri, headers) {
            return Err(Refused::Host);
        }
        if !self.is_of_this_page(headers) {
            return Err(Refused::Origin);
        }
        let path = uri.path().strip_prefix('/').unwrap_or_default();
        let (token, below) = path.split_once('/').ok_or(Refused::Token)?;
        let is_once = token == ONCE && self.once.is(below);
        if !is_once && !self.token.is(token) {
            return Err(Refused::Token);
        }
        match *method {
            Method::GET => {}
            // A browser sends the Origin of each POST.
            Method::POST if !is_once && headers.contains_key(ORIGIN) => {}
            Method::POST if !is_once => return Err(Refused::Origin),
            _ => return Err(Refused::Method),
        }
        if !is_once {
            return Ok(Admitted::Below(below));
        }
        match self.is_opened.swap(true, Ordering::Relaxed) {
            true => Err(Refused::Once),
            false => Ok(Admitted::Open(format!("/{}/", self.token.as_str()))),
        }
    }

    /// Whether Host names this server. A foreign name that resolves to 127.0.0.1 is rejected.
    fn names_this_server(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (first, more) = (hosts.next(), hosts.next());
        let is_own = |text: &str| self.hosts.iter().any(|host| host == text);
        let host = first.and_then(|host| host.to_str().ok());
        let authority = uri.authority().map(|authority| authority.as_str());
        more.is_none() && host.is_some_and(is_own) && authority.is_none_or(is_own)
    }

    /// Whether this page or a user sent the request, according to Origin and Sec-Fetch-Site.
    /// Browsers send `none` for an address that a user opens.
    fn is_of_this_page(&self, headers: &HeaderMap) -> bool {
        let own = |origin: &HeaderValue| {
            let host = origin.to_str().ok();
            let host = host.and_then(|text| text.strip_prefix("http://"));
            host.is_some_and(|host| self.hosts.iter().any(|own| own == host))
        };
        let same = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
        headers.get_all(ORIGIN).iter().all(own) && headers.get_all(SEC_FETCH_SITE).iter().all(same)
    }
}

/// Adds the security headers to a response.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_and_of_32_digits() {
        let (one, two) = (Token::random().expect("one"), Token::random().expect("two"));
        assert_ne!(one.as_str(), two.as_str());
        assert_eq!(one.as_str().len(), 32);
        assert!(one.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(one.is(one.as_str()) && !one.is(&one.as_str()[..31]) && !one.is(two.as_str()));
    }

    #[test]
    fn default_port_may_be_omitted_in_host_and_origin() {
        let token = || Token("0123456789abcdef0123456789abcdef".to_owned());
        let uri = Uri::from_static("/0123456789abcdef0123456789abcdef/");
        for (port, is_admitted) in [(80, true), (8080, false)] {
            let guard = Guard::new(token(), token(), port);
            for host in ["127.0.0.1", "localhost"] {
                let mut headers = HeaderMap::new();
                headers.insert(HOST, HeaderValue::from_static(host));
                let origin = HeaderValue::try_from(format!("http://{host}")).expect("a value");
                headers.insert(ORIGIN, origin);
                let admitted = guard.admit(&Method::POST, &uri, &headers);
                assert_eq!(admitted.is_ok(), is_admitted, "{host} on port {port}");
            }
        }
    }

    #[test]
    fn a_one_time_address_leads_to_the_page_once() {
        let token = Token("0123456789abcdef0123456789abcdef".to_owned());
        let once = Token("fedcba9876543210fedcba9876543210".to_owned());
        let guard = Guard::new(token, once, 8001);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("127.0.0.1:8001"));
        let admit = |method: &Method, uri: &'static str| {
            let uri = Uri::from_static(uri);
            let admitted = guard.admit(method, &uri, &headers)?;
            match admitted {
                Admitted::Open(path) => Ok(path),
                Admitted::Below(path) => Ok(format!("below {path}")),
            }
        };
        let once = "/open/fedcba9876543210fedcba9876543210";
        for (method, uri, refused) in [
            (
                Method::GET,
                "/open/0123456789abcdef0123456789abcdef",
                Refused::Token,
            ),
            (
                Method::GET,
                "/fedcba9876543210fedcba9876543210/",
                Refused::Token,
            ),
            (Method::POST, once, Refused::Method),
        ] {
            assert_eq!(admit(&method, uri), Err(refused), "{uri}");
        }
        let page = "/0123456789abcdef0123456789abcdef/";
        assert_eq!(admit(&Method::GET, once), Ok(page.to_owned()));
        assert_eq!(admit(&Method::GET, once), Err(Refused::Once));
        assert_eq!(admit(&Method::GET, page), Ok("below ".to_owned()));
    }
}
