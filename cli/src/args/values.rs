//! Values with a grammar, and the errors of malformed ones.

use std::time::Duration;

pub(super) use causeway::domain::parse_duration as duration;
use causeway::domain::{Network, Reach, is_label_value};
use clap::Arg;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use http::Uri;

use crate::cluster::bundle::parts::is_https;
use crate::cluster::lease::LeaseName;

/// A flag with an optional value, for `#[arg(optional_value = "..")]`.
pub(super) trait OptionalValue {
    /// Accepts a value only after `=`. Without one the flag has the value `missing`.
    fn optional_value(self, missing: &'static str) -> Self;
}

impl OptionalValue for Arg {
    fn optional_value(self, missing: &'static str) -> Self {
        let optional = self.num_args(0..=1).require_equals(true);
        optional.default_missing_value(missing)
    }
}

/// Parses the lifetime of a token. API servers issue none for less than ten minutes (TokenRequest,
/// authentication.k8s.io/v1, `spec.expirationSeconds`).
pub(super) fn token_lifetime(text: &str) -> Result<Duration, &'static str> {
    const MIN: Duration = Duration::from_secs(600);
    let lifetime = duration(text).ok().filter(|lifetime| *lifetime >= MIN);
    lifetime.ok_or("write a duration such as 24h, from 10m on")
}

/// Parses a whole percentage above 0%.
pub(super) fn percentage(text: &str) -> Result<u8, &'static str> {
    let number = text.strip_suffix('%').and_then(|text| text.parse().ok());
    let number = number.filter(|number| (1..=100).contains(number));
    number.ok_or("write a percentage from 1% to 100%, such as 10%")
}

/// Parses the time within which a member enrols.
pub(super) fn enrolment_time(text: &str) -> Result<Duration, &'static str> {
    const MAX: Duration = Duration::from_secs(24 * 60 * 60);
    let is_possible = |time: &Duration| !time.is_zero() && *time <= MAX;
    let time = duration(text).ok().filter(is_possible);
    time.ok_or("write a duration such as 10m, up to 24h")
}

/// Parses an address of admin endpoints, with a scheme or without.
pub(super) fn admin_url(text: &str) -> Result<Uri, &'static str> {
    let text = match text.split_once("://") {
        Some(_) => text.to_owned(),
        None => format!("http://{text}"),
    };
    let is_address = |url: &Uri| {
        let is_http = matches!(url.scheme_str(), Some("http" | "https"));
        is_http && url.host().is_some_and(|host| !host.is_empty())
    };
    let url = text.parse().ok().filter(is_address);
    url.ok_or("write it as http://127.0.0.1:8081")
}

/// Parses the URL of an API server. Returns it without trailing slashes.
pub(super) fn api_endpoint(text: &str) -> Result<String, &'static str> {
    let is_endpoint = is_https(text);
    is_endpoint
        .then(|| text.trim_end_matches('/').to_owned())
        .ok_or("write it as https://10.0.0.2:6443")
}

/// Parses a region or a zone: the value of a node's label (Kubernetes, "Labels and Selectors").
pub(super) fn place(text: &str) -> Result<String, &'static str> {
    is_label_value(text).then(|| text.to_owned()).ok_or(
        "write it as the nodes' labels have it: at most 63 letters, digits, dots, dashes and underscores",
    )
}

/// Parses the name of a network. An empty one names the network of all clusters without a name.
pub(super) fn network(text: &str) -> Result<String, &'static str> {
    let network = Network::read(text);
    let is_whole = network.name().unwrap_or_default() == text;
    let is_network = is_whole && network.is_valid();
    is_network.then(|| text.to_owned()).ok_or(
        "a network is a DNS label: at most 63 lower-case letters, digits and dashes; none for the \
         network of all clusters without a name",
    )
}

/// Returns the parser of a way by which clusters of other networks reach a member.
pub(super) fn reach() -> impl TypedValueParser<Value = Reach> {
    let values = PossibleValuesParser::new(Reach::VALUES);
    values.try_map(|text| {
        Reach::read(&text)
            .ok_or("name one of node-ports, node-ports=external, load-balancer, cluster-ip")
    })
}

/// Parses the name of an image, as far as it can be wrong without a registry.
pub(super) fn image(text: &str) -> Result<String, &'static str> {
    let is_plain = |c: char| c.is_ascii_graphic();
    let is_image = !text.is_empty() && text.chars().all(is_plain) && !text.contains("://");
    is_image
        .then(|| text.to_owned())
        .ok_or("write it as registry.example/team/kubectl-mcs:TAG, without https://")
}

pub(super) fn lease(text: &str) -> Result<LeaseName, &'static str> {
    match text.split_once('/') {
        _ if text.is_empty() => Ok(LeaseName(None)),
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(LeaseName(Some((namespace.to_owned(), name.to_owned()))))
        }
        _ => Err("write it as NAMESPACE/NAME"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_url_has_a_scheme_or_not() {
        for text in [
            "127.0.0.1:8081",
            "http://127.0.0.1:8081",
            "http://127.0.0.1:8081/",
        ] {
            let url = admin_url(text).expect(text);
            assert_eq!(url.to_string(), "http://127.0.0.1:8081/", "{text}");
        }
        for text in ["http://", "", "ftp://a", "a b"] {
            let refused = Err("write it as http://127.0.0.1:8081");
            assert_eq!(admin_url(text), refused, "{text}");
        }
    }

    #[test]
    fn api_endpoint_is_an_https_url() {
        let url = api_endpoint("https://10.0.0.2:6443/");
        assert_eq!(url, Ok("https://10.0.0.2:6443".to_owned()));
        for text in [
            "",
            "10.0.0.2:6443",
            "http://10.0.0.2",
            "https://",
            "nonsense",
        ] {
            let refused = Err("write it as https://10.0.0.2:6443");
            assert_eq!(api_endpoint(text), refused, "{text}");
        }
    }
}
