//! Names by which clients outside all clusters reach a service, read from an annotation.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::failover::Failover;
use super::field::FieldError;
use super::name::is_subdomain;
use crate::api::labels;

/// Names that DNS is to publish for a service, in order; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hostnames(Box<[Box<str>]>);

/// Request of a service for names in DNS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestedHostnames {
    /// None.
    #[default]
    Nothing,
    /// The annotation cannot be read: published names stay as they are.
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
        is_right.then(|| Self(names.into()))
    }

    /// Lists the names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }
}

impl RequestedHostnames {
    /// Reads the annotation of a service. Errors go to `report`.
    pub fn of(meta: &ObjectMeta, report: &mut dyn FnMut(FieldError)) -> Self {
        let annotations = meta.annotations.as_ref();
        match annotations.and_then(|all| all.get(labels::HOSTNAME)) {
            None => Self::Nothing,
            Some(text) => Hostnames::read(text, report).map_or(Self::Unreadable, Self::Names),
        }
    }
}

/// Returns a DNS name in the form in which names are compared: in lower case and without a dot at
/// its end. A readable [`Hostnames`] has this form.
pub fn canonical_name(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Checks a name that DNS is to publish.
///
/// # Errors
/// The rule that the name breaks.
fn check(name: &str) -> Result<(), &'static str> {
    let Some((_, last)) = name.rsplit_once('.').filter(|_| is_subdomain(name)) else {
        return Err(
            "write a full DNS name in lower case, without a dot at its end, of at most 253 \
             characters and with at most 63 between two dots, such as foo.example.com",
        );
    };
    match last.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Err("write a DNS name, such as foo.example.com, not an address"),
        false => Ok(()),
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
}
