//! How much is answered and held at one time.

use std::sync::atomic::{AtomicUsize, Ordering};

use causeway::process::args::Checks;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Semaphore, SemaphorePermit};

const KIB: usize = 1024;

/// The bytes of a body at most: an update carries two objects of up to 3 MiB each.
pub(crate) const BODY_MAX: usize = 7 * KIB * KIB;

/// How much of a body counts for nothing, so that usual requests never wait for large ones.
pub(crate) const FREE: usize = 16 * KIB;

/// How much the webhook takes on at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections. Beyond them the one that is missed least is closed.
    pub connections: usize,
    /// Requests whose head has arrived and that are not answered. Beyond them new ones are refused.
    pub in_flight: usize,
    /// Bytes of bodies, not counting the first 16 KiB of each. A body beyond that waits until there is room for all of it.
    pub body_bytes: usize,
}

/// File descriptors that are no clients' connections: the hub's, the admin server's, logs.
const OTHER_FILES: usize = 64;

impl Limits {
    /// Raises how many files the process may open as far as it may, and takes on no more connections than that allows.
    #[must_use]
    pub fn within_open_files(mut self) -> Self {
        let possible = raise_open_files().saturating_sub(OTHER_FILES).max(1);
        if self.connections > possible {
            tracing::warn!(
                asked_for = self.connections,
                possible,
                "fewer connections are possible: raise the limit of open files (ulimit -n)"
            );
            self.connections = possible;
        }
        self
    }
}

/// Raises how many files the process may open to what it may raise it to, and says how many that is.
pub fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!("the limit of open files stays as it is: {error}");
            limit.current
        }
    };
    let unlimited = || usize::MAX;
    current.map_or_else(unlimited, |files| {
        usize::try_from(files).unwrap_or(usize::MAX)
    })
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2048,
            in_flight: 1024,
            body_bytes: 32 * 1024 * 1024,
        }
    }
}

/// The flags of the limits.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Connections that are open at one time. Beyond them the one that is missed least is closed
    #[arg(
        long,
        env = "CAUSEWAY_MAX_CONNECTIONS",
        value_name = "NUMBER",
        default_value = "2048"
    )]
    max_connections: String,
    /// Requests that are answered at one time. Beyond them new ones are refused with 429, which an API server repeats
    #[arg(
        long,
        env = "CAUSEWAY_MAX_IN_FLIGHT",
        value_name = "NUMBER",
        default_value = "1024"
    )]
    max_in_flight: String,
    /// MiB of request bodies that are held at one time, not counting the first 16 KiB of each. Larger bodies wait for room
    #[arg(
        long,
        env = "CAUSEWAY_MAX_BODY_MIB",
        value_name = "NUMBER",
        default_value = "32"
    )]
    max_body_mib: String,
}

impl LimitArgs {
    /// Checks the flags.
    pub fn check(&self, checks: &mut Checks) -> Option<Limits> {
        let mut at_least = |flag, value, least: usize| {
            let number = checks.parse::<usize>(flag, value)?;
            if number < least {
                checks.wrong(flag, value, format_args!("must be at least {least}"));
            }
            Some(number)
        };
        let connections = at_least("--max-connections", &self.max_connections, 16);
        let in_flight = at_least("--max-in-flight", &self.max_in_flight, 1);
        let largest = BODY_MAX.div_ceil(KIB * KIB);
        let mib = at_least("--max-body-mib", &self.max_body_mib, largest);
        Some(Limits {
            connections: connections?,
            in_flight: in_flight?,
            body_bytes: mib?.saturating_mul(KIB * KIB),
        })
    }
}

/// What the webhook has taken on.
#[derive(Debug)]
pub(crate) struct Load {
    max_in_flight: usize,
    in_flight: AtomicUsize,
    body_kib: Semaphore,
}

/// One more request was too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Load {
    pub(crate) fn new(limits: &Limits) -> Self {
        let kib = (limits.body_bytes / KIB).min(Semaphore::MAX_PERMITS);
        Self {
            max_in_flight: limits.in_flight,
            in_flight: AtomicUsize::new(0),
            body_kib: Semaphore::new(kib),
        }
    }

    /// Takes a request on until the guard is dropped. Where there are enough, `make_room` may end another, which is then
    /// replaced by this one.
    pub(crate) fn admit(&self, make_room: impl FnOnce() -> bool) -> Result<Admitted<'_>, Full> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let admitted = Admitted {
            load: self,
            drawn: None,
        };
        if before < self.max_in_flight || make_room() {
            Ok(admitted)
        } else {
            Err(Full)
        }
    }
}

/// A request that was taken on, and what it may hold of its body.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    load: &'a Load,
    drawn: Option<SemaphorePermit<'a>>,
}

impl<'a> Admitted<'a> {
    /// Whether a body of so many bytes may be held already.
    pub(crate) fn may_hold(&self, bytes: usize) -> bool {
        bytes <= FREE || self.drawn.is_some()
    }

    /// Makes room for a body of at most so many bytes, at once or not at all.
    pub(crate) fn try_draw(&mut self, bytes: usize) -> bool {
        self.drawn = self.load.body_kib.try_acquire_many(kib(bytes)).ok();
        self.drawn.is_some()
    }

    /// Waits until there is room for a body of at most so many bytes.
    pub(crate) fn draw(
        &self,
        bytes: usize,
    ) -> impl Future<Output = Option<SemaphorePermit<'a>>> + use<'a> {
        let load = self.load;
        async move { load.body_kib.acquire_many(kib(bytes)).await.ok() }
    }

    /// Holds what was drawn.
    pub(crate) fn hold(&mut self, drawn: Option<SemaphorePermit<'a>>) {
        self.drawn = drawn;
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.saturating_sub(FREE).div_ceil(KIB)).unwrap_or(u32::MAX)
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.load.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const LIMITS: Limits = Limits {
        connections: 1,
        in_flight: 2,
        body_bytes: 10 * KIB,
    };

    #[test]
    fn a_request_beyond_the_limit_is_taken_on_only_in_place_of_another() {
        let load = Load::new(&LIMITS);
        let first = load.admit(|| false).expect("room");
        let _second = load.admit(|| false).expect("room");
        assert_eq!(load.admit(|| false).err(), Some(Full));
        let third = load.admit(|| true).expect("room was made");
        drop(first);
        assert_eq!(load.admit(|| false).err(), Some(Full));
        drop(third);
        load.admit(|| false).expect("room");
        assert_eq!(load.in_flight.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn large_bodies_share_a_budget_and_small_ones_need_none() {
        let load = Load::new(&LIMITS);
        let mut large = load.admit(|| false).expect("room");
        assert!(!large.may_hold(FREE + 1));
        assert!(large.try_draw(FREE + 9 * KIB) && large.may_hold(FREE + 1));
        let mut other = load.admit(|| false).expect("room");
        assert!(other.may_hold(FREE));
        assert!(!other.try_draw(FREE + KIB + 1));
        assert!(other.draw(FREE + KIB + 1).now_or_never().is_none());
        drop(large);
        let drawn = other.draw(FREE + KIB + 1).now_or_never().expect("room");
        other.hold(drawn);
        assert!(other.may_hold(FREE + 1));
        drop(other);
        assert_eq!(load.body_kib.available_permits(), 10);
    }
}
