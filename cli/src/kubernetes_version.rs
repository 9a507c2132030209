//! Releases of Kubernetes.

use k8s_openapi::apimachinery::pkg::version::Info;

/// A release of Kubernetes: its major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KubernetesVersion {
    major: u32,
    minor: u32,
}

impl KubernetesVersion {
    /// The first that has what MultiClusterService needs of a member (EndpointSlice v1).
    pub(crate) const OLDEST_MEMBER: Self = Self::new(1, 21);
    /// The first that has what the registration of the webhook needs (matchConditions, v1).
    pub(crate) const OLDEST_HUB: Self = Self::new(1, 30);

    const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Major and minor number, as the engine has them.
    pub(crate) const fn release(self) -> (u32, u32) {
        (self.major, self.minor)
    }

    /// As an API server tells it; providers write a minor such as `21+`.
    pub(crate) fn of(info: &Info) -> Option<Self> {
        let number = |text: &str| {
            text.trim_end_matches(|c: char| !c.is_ascii_digit())
                .parse()
                .ok()
        };
        Some(Self::new(number(&info.major)?, number(&info.minor)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_providers_write_it() {
        let reported = |major: &str, minor: &str| {
            KubernetesVersion::of(&Info {
                major: major.to_owned(),
                minor: minor.to_owned(),
                ..Info::default()
            })
        };
        assert_eq!(reported("1", "36"), Some(KubernetesVersion::new(1, 36)));
        assert_eq!(reported("1", "20+"), Some(KubernetesVersion::new(1, 20)));
        assert!(reported("1", "9") < Some(KubernetesVersion::OLDEST_MEMBER));
        assert_eq!(reported("", "x"), None);
    }
}
