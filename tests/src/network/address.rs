//! An address at which an API server reaches what a Service of its cluster stands for.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use super::prerequisites::may_make_namespaces;
use super::{Network, is_root};

/// Documentation range (RFC 5737): asked for a route, and never sent anything.
const SOMEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 1), 9);

/// An address of this machine that may stand in an EndpointSlice: none of the loopback. As root it
/// is one of a network made for it, else one that the machine has; `network` makes a network that
/// lasts as long as the fleet.
pub(crate) fn endpoint_address(network: impl FnOnce() -> Network) -> Result<IpAddr, String> {
    if is_root() {
        may_make_namespaces()?;
        return Ok(network().host_address());
    }
    own_address().ok_or_else(|| {
        "EndpointSlices take no loopback addresses, and this machine has no other; run it as root, who makes one"
            .to_owned()
    })
}

/// The address that this machine sends from; `None` where it only has the loopback.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(SOMEWHERE).ok()?;
    match socket.local_addr().ok()?.ip() {
        IpAddr::V4(own) if !own.is_loopback() && !own.is_link_local() && !own.is_unspecified() => {
            Some(own.into())
        }
        _ => None,
    }
}
