//! Address ranges that a member may give to others. Every endpoint of a member is checked.

use std::net::IpAddr;

use ipnet::IpNet;

use super::ClusterName;

/// The address ranges of a Cluster, as its annotation declares them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Declared {
    /// The ranges; where there are none, every address is the Cluster's to give.
    pub ranges: Vec<IpNet>,
    /// Parts of the annotation that are no ranges, and are ignored.
    pub unreadable: Vec<Box<str>>,
}

/// The ranges that decide about one provider's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranges {
    own: Vec<IpNet>,
    others: Vec<(ClusterName, Vec<IpNet>)>,
}

/// Reason why an address is not copied to other clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRefusal {
    /// Traffic to it does not leave the node.
    NotRoutable(IpAddr),
    /// The Cluster declares ranges, and it is in none of them.
    Outside(IpAddr),
    /// It is in a range that another Cluster declares.
    OfAnother(IpAddr, ClusterName),
}

impl Declared {
    /// Reads ranges that are joined by commas, such as `10.1.0.0/16,fd00:1::/48`.
    pub fn read(text: &str) -> Self {
        let mut declared = Self::default();
        let parts = text.split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            match part.parse() {
                Ok(range) => declared.ranges.push(range),
                Err(_) => declared.unreadable.push(part.into()),
            }
        }
        declared
    }
}

impl Ranges {
    /// Returns the ranges that decide about the addresses of a provider, from its own and those of
    /// the others.
    pub fn new<'a>(
        own: &Declared,
        others: impl Iterator<Item = (&'a ClusterName, &'a Declared)>,
    ) -> Self {
        let declaring = others.filter(|(_, declared)| !declared.ranges.is_empty());
        Self {
            own: own.ranges.clone(),
            others: declaring
                .map(|(name, declared)| (name.clone(), declared.ranges.clone()))
                .collect(),
        }
    }

    /// Returns why an address is not copied, if so.
    pub fn refusal(&self, address: IpAddr) -> Option<AddressRefusal> {
        let address = address.to_canonical();
        if !is_routable(address) {
            return Some(AddressRefusal::NotRoutable(address));
        }
        let within = |ranges: &[IpNet]| ranges.iter().any(|range| range.contains(&address));
        if !self.own.is_empty() {
            let outside = !within(&self.own);
            return outside.then_some(AddressRefusal::Outside(address));
        }
        let mut others = self.others.iter();
        let (other, _) = others.find(|(_, ranges)| within(ranges))?;
        Some(AddressRefusal::OfAnother(address, other.clone()))
    }
}

/// Whether traffic to that address can leave the node: a member must not point others at
/// themselves.
fn is_routable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            !(v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_unspecified()
                || v4.is_broadcast())
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_multicast()
                || v6.is_unspecified())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ClusterName {
        ClusterName::try_from(text).expect("a name")
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn refused(ranges: &Ranges, address: &str) -> Option<AddressRefusal> {
        ranges.refusal(ip(address))
    }

    #[test]
    fn an_address_that_points_at_the_consumer_itself_is_refused() {
        for address in [
            "127.0.0.1",
            "169.254.0.7",
            "224.0.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "::1",
            "fe80::1",
            "ff02::1",
            "::",
            "::ffff:127.0.0.1",
        ] {
            assert!(refused(&Ranges::default(), address).is_some(), "{address}");
        }
        for address in ["10.0.0.1", "192.0.2.1", "fd00::1", "2001:db8::1"] {
            assert_eq!(refused(&Ranges::default(), address), None, "{address}");
        }
    }

    #[test]
    fn declared_ranges_bound_their_cluster_and_keep_others_out() {
        let (member1, member2) = (name("member1"), name("member2"));
        let first = Declared::read("10.1.0.0/16, fd00:1::/48");
        let none = Declared::default();
        let of_first = Ranges::new(&first, [(&member2, &none)].into_iter());
        let of_second = Ranges::new(&none, [(&member1, &first)].into_iter());
        let outside = |address| Some(AddressRefusal::Outside(ip(address)));
        let inside = |address| Some(AddressRefusal::OfAnother(ip(address), member1.clone()));
        for (address, first, second) in [
            ("10.1.2.3", None, inside("10.1.2.3")),
            ("fd00:1::5", None, inside("fd00:1::5")),
            ("10.2.0.1", outside("10.2.0.1"), None),
            ("fd00:2::5", outside("fd00:2::5"), None),
        ] {
            assert_eq!(refused(&of_first, address), first);
            assert_eq!(refused(&of_second, address), second);
        }
    }

    #[test]
    fn malformed_ranges_are_skipped_and_reported() {
        let declared = Declared::read("10.1.0.0/33,, 10.2.0.0/16 ,pods");
        assert_eq!(declared.ranges, ["10.2.0.0/16".parse().expect("a range")]);
        assert_eq!(declared.unreadable, ["10.1.0.0/33".into(), "pods".into()]);
        assert_eq!(Declared::read(""), Declared::default());
    }
}
