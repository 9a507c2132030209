//! Choice among the endpoints of a provider.

use std::net::IpAddr;

use causeway::domain::ClusterName;
use twox_hash::XxHash3_128;

use crate::model::slice::Cut;

/// Endpoints of a provider that are ready in one consumer: those whose hash is below the cut of
/// their address family. Hashes depend on the consumer, so consumers choose different endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subset {
    pub(super) seed: u64,
    /// Cuts of IPv4 and of IPv6; `None` where all endpoints are chosen.
    pub(super) cuts: [Option<u32>; 2],
}

impl Subset {
    /// Whether the endpoint of that address is chosen.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        let [ipv4, ipv6] = self.cuts;
        let cut = if address.is_ipv6() { ipv6 } else { ipv4 };
        cut.is_none_or(|below| hash(self.seed, address) < below)
    }

    /// Returns the cuts of both families.
    pub(crate) fn cuts(&self) -> [Option<Cut>; 2] {
        let [ipv4, ipv6] = self.cuts;
        let cut = |is_ipv6| move |below| Cut { is_ipv6, below };
        [ipv4.map(cut(false)), ipv6.map(cut(true))]
    }
}

/// Returns the hash of a consumer. It is the same in every process and release.
pub(super) fn seed(consumer: &ClusterName) -> u64 {
    let hash = XxHash3_128::oneshot(consumer.as_str().as_bytes());
    let [.., a, b, c, d, e, f, g, h] = hash.to_be_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Returns the hash of an endpoint for a consumer. It is the same in every process and release.
pub(super) fn hash(seed: u64, address: IpAddr) -> u32 {
    let hash = match address {
        IpAddr::V4(address) => XxHash3_128::oneshot_with_seed(seed, &address.octets()),
        IpAddr::V6(address) => XxHash3_128::oneshot_with_seed(seed, &address.octets()),
    };
    let [.., a, b, c, d] = hash.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}
