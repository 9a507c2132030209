//! Support of a CoreDNS image for the zone of a clusterset, derived from the image name.

use crate::args::Multicluster;

/// Support of an image for the option multicluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Image {
    /// Version with the option in the kubernetes plugin.
    Has(CoreDnsVersion),
    /// Version without the option.
    Lacks(CoreDnsVersion),
    /// Image name without a CoreDNS version.
    Unknown,
}

/// Version of CoreDNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CoreDnsVersion(u32, u32, u32);

impl std::fmt::Display for CoreDnsVersion {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl CoreDnsVersion {
    /// First version whose kubernetes plugin has the option multicluster (release notes of CoreDNS
    /// 1.12.2; kubernetes/kubernetes has such a version since 1.35).
    const FIRST: Self = Self(1, 12, 2);

    /// Parses a tag such as `v1.12.3`, `1.13.1-eksbuild.1` or `v1.12.1-2`.
    fn of_tag(tag: &str) -> Option<Self> {
        let tag = tag.strip_prefix('v').unwrap_or(tag);
        let end = tag.find(|c: char| !c.is_ascii_digit() && c != '.');
        let mut numbers = tag.get(..end.unwrap_or(tag.len()))?.split('.');
        let mut number = || numbers.next()?.parse().ok();
        let version = Self(number()?, number()?, number()?);
        numbers.next().is_none().then_some(version)
    }
}

impl Image {
    /// Classifies an image by name. Distributors rename the image but retain CoreDNS' version as
    /// tag.
    pub(super) fn of(name: &str) -> Self {
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        let (path, last) = name.rsplit_once('/').unwrap_or(("", name));
        let (image, tag) = last.split_once(':').unwrap_or((last, ""));
        let is_coredns = image.contains("coredns") || path.ends_with("/coredns");
        match CoreDnsVersion::of_tag(tag).filter(|_| is_coredns) {
            Some(version) if version >= CoreDnsVersion::FIRST => Self::Has(version),
            Some(version) => Self::Lacks(version),
            None => Self::Unknown,
        }
    }

    /// Returns the form that the user states, else the form that the image name shows.
    pub(super) fn form(&self, given: Option<Multicluster>) -> Option<Multicluster> {
        given.or(match self {
            Self::Has(_) => Some(Multicluster::Option),
            Self::Lacks(_) | Self::Unknown => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_the_version_in_its_tag() {
        let has = Image::Has;
        for (name, expected) in [
            (
                "registry.k8s.io/coredns/coredns:v1.13.1",
                has(CoreDnsVersion(1, 13, 1)),
            ),
            (
                "registry.k8s.io/coredns/coredns:v1.12.1",
                Image::Lacks(CoreDnsVersion(1, 12, 1)),
            ),
            ("coredns/coredns:1.12.2", has(CoreDnsVersion(1, 12, 2))),
            (
                "rancher/mirrored-coredns-coredns:1.12.3",
                has(CoreDnsVersion(1, 12, 3)),
            ),
            (
                "rancher/hardened-coredns:v1.14.0-build20260101",
                has(CoreDnsVersion(1, 14, 0)),
            ),
            (
                "1.dkr.ecr.eu-west-1.amazonaws.com/eks/coredns:v1.11.4-eksbuild.2",
                Image::Lacks(CoreDnsVersion(1, 11, 4)),
            ),
            (
                "mcr.microsoft.com/oss/v2/kubernetes/coredns:v1.12.1-2",
                Image::Lacks(CoreDnsVersion(1, 12, 1)),
            ),
            (
                "localhost:5000/coredns:2.0.0@sha256:abc",
                has(CoreDnsVersion(2, 0, 0)),
            ),
            ("coredns/coredns@sha256:abc", Image::Unknown),
            ("coredns/coredns:latest", Image::Unknown),
            ("coredns/coredns:1.13", Image::Unknown),
            ("coredns/coredns:1.13.1.2", Image::Unknown),
            ("localhost:5000/coredns", Image::Unknown),
            ("somebody/dns:1.13.1", Image::Unknown),
            ("", Image::Unknown),
        ] {
            assert_eq!(Image::of(name), expected, "{name}");
        }
    }

    #[test]
    fn what_a_person_says_of_an_image_counts_more_than_its_tag() {
        let old = Image::of("coredns/coredns:1.11.1");
        assert_eq!(old.form(None), None);
        assert_eq!(
            old.form(Some(Multicluster::Plugin)),
            Some(Multicluster::Plugin)
        );
        let new = Image::of("coredns/coredns:1.14.7");
        assert_eq!(new.form(None), Some(Multicluster::Option));
    }
}
