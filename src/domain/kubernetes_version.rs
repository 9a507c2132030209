//! Versions of Kubernetes.

use std::fmt;

use k8s_openapi::apimachinery::pkg::version::Info;

/// The major and the minor version by which an API server behaves. The default, 0.0, is older than
/// all that are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesVersion {
    major: u32,
    minor: u32,
}

impl KubernetesVersion {
    /// The first that has what causeway needs of a member (EndpointSlices of discovery.k8s.io/v1).
    pub const OLDEST_MEMBER: Self = Self::new(1, 21);
    /// The first that has what the registration of the webhook needs (matchConditions, v1).
    pub const OLDEST_HUB: Self = Self::new(1, 30);

    /// Returns the version of these numbers.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// As an API server reports it: the emulated version where it emulates one (KEP-4330). Vendors
    /// write a minor version such as `21+`. `None` where no number is found.
    pub fn of(info: &Info) -> Option<Self> {
        let emulated = info.emulation_major.as_ref();
        let emulated = emulated.zip(info.emulation_minor.as_ref());
        let emulated = emulated.filter(|(major, minor)| !major.is_empty() && !minor.is_empty());
        let (major, minor) = emulated.unwrap_or((&info.major, &info.minor));
        let number = |text: &str| {
            let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
            digits.parse().ok()
        };
        Some(Self::new(number(major)?, number(minor)?))
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_vendors_and_emulated_ones_are_parsed() {
        for (reported, emulated, expected) in [
            (("1", "36"), None, Some((1, 36))),
            (("1", "20+"), None, Some((1, 20))),
            (("1", "34"), Some(("", "")), Some((1, 34))),
            (("1", "36"), Some(("1", "33")), Some((1, 33))),
            (("1", ""), None, None),
            (("", "x"), None, None),
        ] {
            let info = Info {
                major: reported.0.to_owned(),
                minor: reported.1.to_owned(),
                emulation_major: emulated.map(|(major, _)| major.to_owned()),
                emulation_minor: emulated.map(|(_, minor)| minor.to_owned()),
                ..Info::default()
            };
            let expected = expected.map(|(major, minor)| KubernetesVersion::new(major, minor));
            assert_eq!(
                KubernetesVersion::of(&info),
                expected,
                "{reported:?} {emulated:?}"
            );
        }
        assert!(KubernetesVersion::new(1, 9) < KubernetesVersion::OLDEST_MEMBER);
    }
}
