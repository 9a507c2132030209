//! Names by which clients outside all clusters reach a service, read from an annotation.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::failover::Failover;
use super::field::FieldError;
use super::name::{is_qualified, is_subdomain};
use crate::api::labels;

/// Names that DNS is to publish for a service, in order; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hostnames {
    names: Box<[Box<str>]>,
    routing: Option<Box<str>>,
}

/// Request of a service for names in DNS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestedHostnames {
    /// None.
    #[default]
    Nothing,
    /// An annotation cannot be read: published names stay as they are.
    Unreadable,
    /// These names.
    Names(Hostnames),
}

impl Hostnames {
    /// Maximum number of names of a service.
    pub const MAX: usize = 16;

    /// Reads names that commas separate. Errors go to `report`, and a wrong value counts as none.
    pub fn read(text: &str, report: &mut dyn FnMut(FieldError)) -> Option<Self> {
        let path = Failover::path(labels::HOSTNAME);
        if text.split(',').nth(Self::MAX).is_some() {
            report(FieldError::too_many(path, Self::MAX));
            return None;
        }
        let mut names: Vec<Box<str>> = Vec::new();
        let mut is_right = true;
        for word in text.split(',').map(str::trim) {
            let error = match check(word) {
                Err(detail) => FieldError::invalid(&path, word, detail),
                Ok(()) if names.iter().any(|name| **name == *word) => {
                    FieldError::duplicate(&path, word, "write each name once")
                }
                Ok(()) => {
                    names.push(word.into());
                    continue;
                }
            };
            is_right = false;
            report(error);
        }
        is_right.then(|| Self {
            names: names.into(),
            routing: None,
        })
    }

    /// Lists the names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Returns the property by which DNS chooses among the clusters; `None` if one record has the
    /// targets of all.
    pub fn routing(&self) -> Option<&str> {
        self.routing.as_deref()
    }
}

impl RequestedHostnames {
    /// Reads the annotations of a service. Errors go to `report`.
    pub fn of(meta: &ObjectMeta, report: &mut dyn FnMut(FieldError)) -> Self {
        let annotation = |name| meta.annotations.as_ref().and_then(|all| all.get(name));
        let Some(text) = annotation(labels::HOSTNAME) else {
            return Self::Nothing;
        };
        let read = Hostnames::read(text, report);
        let routing = annotation(labels::HOSTNAME_ROUTING);
        match (read, routing.map(|text| read_routing(text, report))) {
            (None, _) | (_, Some(None)) => Self::Unreadable,
            (Some(read), routing) => Self::Names(Hostnames {
                routing: routing.flatten(),
                ..read
            }),
        }
    }
}

/// Reads the property by which DNS chooses among clusters. An error goes to `report`, and a wrong
/// value counts as none.
pub fn read_routing(text: &str, report: &mut dyn FnMut(FieldError)) -> Option<Box<str>> {
    if text.contains('/') && is_qualified(text) {
        return Some(text.into());
    }
    let path = Failover::path(labels::HOSTNAME_ROUTING);
    let detail = "write one property of ExternalDNS as provider/property, such as aws/region";
    report(FieldError::invalid(path, text, detail));
    None
}

/// Whether a text may be the value of a routing property: 1 to 128 visible ASCII characters. It
/// becomes a set identifier, which Route 53 limits to 128 characters.
pub fn is_routing_value(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns a DNS name in the form in which names are compared: in lower case and without a dot at
/// its end. A readable [`Hostnames`] has this form.
pub fn canonical_name(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a text is a DNS name in that form, and no address: a DNS-1123 subdomain whose last label
/// is no number.
pub fn is_dns_name(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or_default();
    is_subdomain(text) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// Checks a name that DNS is to publish.
///
/// # Errors
/// The rule that the name breaks.
fn check(name: &str) -> Result<(), &'static str> {
    if !name.contains('.') || !is_subdomain(name) {
        return Err(
            "write a full DNS name in lower case, without a dot at its end, of at most 253 \
             characters and with at most 63 between two dots, such as foo.example.com",
        );
    }
    match is_dns_name(name) {
        true => Ok(()),
        false => Err("write a DNS name, such as foo.example.com, not an address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, Vec<String>> {
        let mut errors = Vec::new();
        let read = Hostnames::read(text, &mut |error| errors.push(error.to_string()));
        let names = read.map(|names| names.iter().map(str::to_owned).collect());
        assert_eq!(names.is_none(), !errors.is_empty(), "{text}");
        names.ok_or(errors)
    }

    #[test]
    fn names_are_read_in_order() {
        let long = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        for (text, expected) in [
            ("foo.example.com", vec!["foo.example.com"]),
            (
                " a.example.com ,b.1e100.net",
                vec!["a.example.com", "b.1e100.net"],
            ),
            (&long, vec![&*long]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(read(text), Ok(expected));
        }
    }

    #[test]
    fn wrong_name_is_refused_with_a_remedy() {
        let path = "metadata.annotations[mcs.causeway.dev/hostname]: ";
        let full = "write a full DNS name in lower case, without a dot at its end, of at most 253 \
                    characters and with at most 63 between two dots, such as foo.example.com";
        for (text, expected) in [
            ("", format!("Invalid value: \"\": {full}")),
            ("foo", format!("Invalid value: \"foo\": {full}")),
            ("foo.example.com.", format!("Invalid value: \"foo.example.com.\": {full}")),
            ("Foo.example.com", format!("Invalid value: \"Foo.example.com\": {full}")),
            ("*.example.com", format!("Invalid value: \"*.example.com\": {full}")),
            (
                "192.0.2.1",
                "Invalid value: \"192.0.2.1\": write a DNS name, such as foo.example.com, not an address"
                    .to_owned(),
            ),
            (
                "a.example.com,a.example.com",
                "Duplicate value: \"a.example.com\": write each name once".to_owned(),
            ),
        ] {
            assert_eq!(read(text), Err(vec![format!("{path}{expected}")]), "{text}");
        }
        let many: Vec<_> = (0..=Hostnames::MAX)
            .map(|n| format!("a{n}.example.com"))
            .collect();
        let expected = format!("{path}Too many: must have at most 16 items");
        assert_eq!(read(&many.join(",")), Err(vec![expected]));
        for text in [
            "a.example.com,",
            &format!("{}.com", "a".repeat(64)),
            "a..com",
            "a_b.com",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn routing_is_one_property_of_a_provider() {
        let path = "metadata.annotations[mcs.causeway.dev/hostname-routing]";
        let remedy = "write one property of ExternalDNS as provider/property, such as aws/region";
        for (text, is_right) in [
            ("aws/region", true),
            ("aws/geolocation-country-code", true),
            ("webhook/Geo.Code_1", true),
            ("", false),
            ("region", false),
            ("aws/", false),
            ("/region", false),
            ("aws/a/b", false),
            ("aws/region,aws/weight", false),
            ("aws/region=eu", false),
            ("AWS/region", false),
            (&format!("aws/{}", "a".repeat(64)), false),
        ] {
            let mut errors = Vec::new();
            let read = read_routing(text, &mut |error| errors.push(error.to_string()));
            assert_eq!(read.as_deref(), is_right.then_some(text));
            let error = format!("{path}: Invalid value: {text:?}: {remedy}");
            assert_eq!(errors, if is_right { vec![] } else { vec![error] });
        }
    }

    #[test]
    fn wrong_routing_makes_the_request_unreadable() {
        for (hostname, routing, expected) in [
            (Some("a.example.com"), None, Some(None)),
            (
                Some("a.example.com"),
                Some("aws/region"),
                Some(Some("aws/region")),
            ),
            (Some("a.example.com"), Some("region"), None),
            (Some("a"), Some("aws/region"), None),
        ] {
            let all = [
                (labels::HOSTNAME, hostname),
                (labels::HOSTNAME_ROUTING, routing),
            ];
            let all = all.into_iter();
            let all = all.filter_map(|(name, text)| Some((name.to_owned(), text?.to_owned())));
            let meta = ObjectMeta {
                annotations: Some(all.collect()),
                ..ObjectMeta::default()
            };
            let read = RequestedHostnames::of(&meta, &mut |_| {});
            let routing = match &read {
                RequestedHostnames::Names(names) => Some(names.routing()),
                other => {
                    assert_eq!(*other, RequestedHostnames::Unreadable);
                    None
                }
            };
            assert_eq!(routing, expected, "{hostname:?} {routing:?}");
        }
    }

    #[test]
    fn routing_value_is_short_and_visible() {
        for (text, expected) in [
            ("eu-west-1", true),
            ("*", true),
            ("49.2,-74.0", true),
            (&"a".repeat(128), true),
            (&"a".repeat(129), false),
            ("", false),
            ("eu west", false),
            ("süd", false),
        ] {
            assert_eq!(is_routing_value(text), expected, "{text}");
        }
    }
}
