//! Listening sockets: `[::]` accepts clients of both address families.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net::sockopt::set_ipv6_v6only;
use tokio::net::{TcpListener, TcpSocket};

/// Maximum number of connections that wait to be accepted, as in [`TcpListener::bind`].
const BACKLOG: u32 = 128;

/// Listens on an address; port 0 takes a free one. `[::]` accepts IPv4 too, whatever the sysctl
/// `net.ipv6.bindv6only` is. A kernel without IPv6 listens on `0.0.0.0` instead.
///
/// # Errors
/// The error of the system if the address is not available.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if address.ip() != Ipv6Addr::UNSPECIFIED {
        return TcpListener::bind(address).await;
    }
    match listen_on_both_families(address) {
        Err(error) if is_without_ipv6(&error) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

fn listen_on_both_families(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    set_ipv6_v6only(&socket, false)?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Whether the kernel lacks IPv6, for example because of `ipv6.disable=1`.
fn is_without_ipv6(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

/// Returns the address of a client, with a plain IPv4 address in place of an IPv4-mapped one, which
/// a socket of both families reports.
pub fn canonical(client: SocketAddr) -> SocketAddr {
    SocketAddr::new(client.ip().to_canonical(), client.port())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn unspecified_ipv6_address_accepts_both_families() {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let listener = listen(any).await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let both = [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ];
        for own in both {
            // A machine without IPv6 has no ::1.
            if TcpListener::bind((own, 0)).await.is_err() {
                continue;
            }
            let client = TcpStream::connect((own, port)).await.expect("it listens");
            let (_stream, from) = listener.accept().await.expect("a client");
            let expected = client.local_addr().expect("its address");
            assert_eq!(canonical(from), expected);
        }
    }

    #[test]
    fn kernel_without_ipv6_is_recognized_by_its_error() {
        for (errno, expected) in [
            (Errno::AFNOSUPPORT, true),
            (Errno::ADDRNOTAVAIL, true),
            (Errno::ADDRINUSE, false),
            (Errno::ACCESS, false),
        ] {
            assert_eq!(is_without_ipv6(&errno.into()), expected, "{errno:?}");
        }
    }
}
