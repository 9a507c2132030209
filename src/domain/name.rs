use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::api::bounds;
use sha2::{Digest as _, Sha256};

/// A name that breaks its rule; the message says which rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(&'static str);

const CLUSTER_NAME_MAX: usize = 48;
const DERIVED_PREFIX: &str = "derived-";
const DERIVED_KEPT: usize = 46;
/// Number of characters of a Service's name that the name of its companion has.
const COMPANION_KEPT: usize = 54;

/// The name of a Cluster: a DNS-1123 label of at most 48 characters, as Karmada requires it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text is the name of a cluster.
    ///
    /// # Errors
    /// [`NameError`] where it is none.
    pub fn check(name: &str) -> Result<(), NameError> {
        if dns1123_label(name).is_ok() && name.len() <= CLUSTER_NAME_MAX {
            return Ok(());
        }
        Err(NameError(
            "a cluster name must consist of lower case alphanumeric characters or '-', must start and end with an \
             alphanumeric character, and has at most 48 characters (e.g. 'member1')",
        ))
    }
}

impl TryFrom<&str> for ClusterName {
    type Error = NameError;

    fn try_from(name: &str) -> Result<Self, NameError> {
        Self::check(name)?;
        Ok(Self(name.into()))
    }
}

impl Borrow<str> for ClusterName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A service: MultiClusterService, Service, ServiceExport and ServiceImport of one namespace and
/// name are one thing.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey {
    /// The namespace, the same in every cluster.
    pub namespace: Arc<str>,
    /// The name, the same in every cluster.
    pub name: Arc<str>,
}

impl ServiceKey {
    /// The key of that namespace and name.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of the Service that stands for the imported service in a member: `derived-<name>`;
    /// where that has more than 63 characters, `derived-<first 46>-<8 hexadecimal digits of the
    /// name's hash>`.
    pub fn derived(&self) -> Self {
        let plain = format!("{DERIVED_PREFIX}{}", self.name);
        if plain.len() <= bounds::LABEL {
            return Self::new(self.namespace.clone(), plain);
        }
        let cut = self.name.get(..DERIVED_KEPT).unwrap_or(&self.name);
        let hash = short_hash([&*self.name]);
        Self::new(
            self.namespace.clone(),
            format!("{DERIVED_PREFIX}{cut}-{hash}"),
        )
    }

    /// Returns the key of the Service by which clusters of other networks enter where the Service
    /// itself is no entry: the first 54 characters of the name, and 8 hexadecimal digits.
    pub fn companion(&self) -> Self {
        let kept = self.name.get(..COMPANION_KEPT).unwrap_or(&self.name);
        let hash = short_hash(["companion", &*self.name]);
        Self::new(self.namespace.clone(), format!("{kept}-{hash}"))
    }

    /// Returns the service whose companion may bear this key, unless its name was cut.
    pub fn entered(&self) -> Option<Self> {
        let (name, _) = self.name.rsplit_once('-')?;
        let service = Self::new(self.namespace.clone(), name);
        (service.companion() == *self).then_some(service)
    }

    /// The service whose derived Service bears this key, as far as the name alone tells: a name
    /// that was cut does not tell it ([`ServiceKey::is_cut`]).
    pub fn underived(&self) -> Option<Self> {
        let name = self.name.strip_prefix(DERIVED_PREFIX)?;
        Some(Self::new(self.namespace.clone(), name))
    }

    /// Whether the name may be that of a derived Service whose service's name was too long for it.
    pub fn is_cut(&self) -> bool {
        self.name.len() == bounds::LABEL && self.name.starts_with(DERIVED_PREFIX)
    }
}

/// Whether a text may be the value of a label that is not empty (Kubernetes, "Labels and
/// Selectors").
pub fn is_label_value(text: &str) -> bool {
    let outer = |byte: &u8| byte.is_ascii_alphanumeric();
    let inner = |byte: &u8| outer(byte) || b"-_.".contains(byte);
    let bytes = text.as_bytes();
    bytes.len() <= bounds::LABEL
        && bytes.iter().all(inner)
        && bytes.first().is_some_and(outer)
        && bytes.last().is_some_and(outer)
}

/// Whether a text is a qualified name, such as the key of a label: a name, after an optional
/// DNS-1123 subdomain and a slash (Kubernetes, "Labels and Selectors").
pub fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_subdomain(domain) && is_label_value(name),
        None => is_label_value(text),
    }
}

/// Whether a text is a DNS-1123 subdomain, as the names of most objects are.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= bounds::SUBDOMAIN && text.split('.').all(|part| dns1123_label(part).is_ok())
}

/// Returns eight hexadecimal digits that distinguish these texts in a name.
///
/// 32 bits are no identity: who chooses the texts can construct a collision. A name needs as much
/// of the texts themselves as it has room for, and its reader compares the whole object.
pub fn short_hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    let digest = hasher.finalize();
    digest
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for ServiceKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Checks a DNS-1123 label (RFC 1123): what a namespace, a cluster, a port name and a Service's
/// name are. Whether a Service's name may begin with a digit is for each API server to say
/// (KEP-5311: from Kubernetes 1.36 on).
///
/// # Errors
/// [`NameError`] with the rule that the name breaks.
pub fn dns1123_label(name: &str) -> Result<(), NameError> {
    let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good = name.len() <= bounds::LABEL
        && name.chars().all(|c| outer(c) || c == '-')
        && name.starts_with(outer)
        && name.ends_with(outer);
    if good {
        return Ok(());
    }
    Err(NameError(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', must start and \
         end with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc')",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_recognized() {
        for (text, fine) in [
            ("a", true),
            ("6f1c-A_b.c", true),
            ("", false),
            ("-a", false),
            ("a.", false),
            ("a b", false),
            ("a,b=c", false),
            ("ä", false),
        ] {
            assert_eq!(is_label_value(text), fine, "{text:?}");
        }
        assert!(is_label_value(&"x".repeat(63)) && !is_label_value(&"x".repeat(64)));
    }

    #[test]
    fn a_cluster_is_named_by_a_label_of_at_most_48_characters() {
        for good in ["a", "member1", "1-2-3", &"x".repeat(48)] {
            assert!(ClusterName::try_from(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "clusterB",
            "a.b",
            "-a",
            "a-",
            "a_b",
            "ä",
            &"x".repeat(49),
            &"x".repeat(64),
        ] {
            assert!(ClusterName::try_from(bad).is_err(), "{bad}");
        }
    }

    /// Whether API servers of every version accept the name for a Service.
    fn is_allowed_everywhere(name: &str) -> bool {
        dns1123_label(name).is_ok() && name.starts_with(|c: char| c.is_ascii_lowercase())
    }

    #[test]
    fn derived_service_name_fits_63_characters() {
        let key = |name: &str| ServiceKey::new("shop", name);
        assert_eq!(key("foo").derived(), key("derived-foo"));
        assert_eq!(key("derived-foo").underived(), Some(key("foo")));
        assert_eq!(key("foo").underived(), None);
        assert!(key(&"a".repeat(56)).derived().is_cut());
        assert!(!key(&"a".repeat(54)).derived().is_cut() && !key(&"a".repeat(63)).is_cut());
        for length in 1..=63 {
            let name = key(&"x".repeat(length)).derived().name;
            assert!(is_allowed_everywhere(&name), "{name}");
        }
        let long = [
            key(&format!("{}a", "x".repeat(60))),
            key(&format!("{}b", "x".repeat(60))),
        ];
        assert_ne!(long[0].derived(), long[1].derived());
        assert!(
            long[0]
                .derived()
                .name
                .starts_with(&format!("derived-{}-", "x".repeat(46)))
        );
        let dashed = key(&format!("{}{}", "a-".repeat(23), "b".repeat(16))).derived();
        assert!(is_allowed_everywhere(&dashed.name), "{dashed}");
        assert_eq!(key("1foo").derived(), key("derived-1foo"));
    }
}
