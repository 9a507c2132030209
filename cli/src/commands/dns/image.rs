//! Support of a CoreDNS image for the zone of a clusterset, derived from the image name.

#[cfg(test)]
mod tests;

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
}
