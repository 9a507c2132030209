//! Fresh ports on the loopback.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::paths;

/// Below the kernel's range for outgoing connections, so that no client's end takes a port between
/// its reservation and its use.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port that nobody listens on, and that no other test process on this machine is given while
/// this one lives.
pub fn fresh() -> u16 {
    let locks = paths::target().join("testbed/ports");
    std::fs::create_dir_all(&locks)
        .unwrap_or_else(|e| panic!("cannot make {}: {e}", locks.display()));
    let start = u16::try_from(std::process::id() % u32::from(COUNT)).unwrap_or_default();
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (start.wrapping_mul(7).wrapping_add(step)) % COUNT;
        let lock = File::create(locks.join(port.to_string())).expect("a lock file for a port");
        if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            // Held until the process ends: a restarted API server needs its port again.
            std::mem::forget(lock);
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT)
}
