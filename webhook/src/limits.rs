//! Limits of connections, of requests and of the bytes of their bodies, at one time.

use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use causeway::process::admin::CONNECTIONS_MAX;
use causeway::process::args::Checks;
use causeway::process::open_files;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

const KIB: usize = 1024;

/// Maximum size of a body, in bytes: an update carries two objects of up to 3 MiB each.
pub const BODY_MAX: usize = 7 * KIB * KIB;

/// Size up to which a body needs no budget, in bytes, so that usual requests never wait for large
/// ones.
pub(crate) const FREE: usize = 16 * KIB;

/// Maximum number of connections, requests and bytes at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections. A further one evicts the least recently active one.
    pub connections: usize,
    /// Requests between head and answer. A further one evicts a slow body, or is rejected.
    pub in_flight: usize,
    /// Bytes of bodies, without the first 16 KiB of each. A further body waits until all of it
    /// fits.
    pub body_bytes: usize,
}

/// Divisor of the memory limit: bodies may take the half.
const BODIES_SHARE: usize = 2;

/// Bytes in memory for each byte of a body while it is decoded: the body, serde_json's copy of a
/// string with escapes, and the strings of the object.
const DECODING_COST: usize = 3;

/// Divisor of the memory limit: the errors of bodies that do not decode may take a quarter.
const ERRORS_SHARE: usize = 4;

/// Bytes in memory for each byte of a body in the error of one that does not decode, until it is
/// shortened: serde quotes a text whole, and escapes a control character with six bytes.
const ERROR_COST: usize = 6;

/// Returns how many bytes of large bodies are decoded at one time.
fn decoded_bytes(memory: Option<usize>) -> usize {
    let possible = memory.map(|bytes| (bytes / ERRORS_SHARE / ERROR_COST).max(BODY_MAX));
    possible.unwrap_or(usize::MAX)
}

/// Returns the lowest `memory.max` of the cgroups (v2) of this process; `None` without a limit.
fn memory_limit() -> Option<usize> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    lowest_memory_limit(Path::new("/sys/fs/cgroup"), Path::new(own))
}

fn lowest_memory_limit(root: &Path, own: &Path) -> Option<usize> {
    let limits = own.ancestors().filter_map(|group| {
        let limit = std::fs::read_to_string(root.join(group).join("memory.max")).ok()?;
        limit.trim().parse().ok()
    });
    limits.min()
}

/// Number of other file descriptors: connections to the hub, of the admin server, logs.
const OTHER_FILES: usize = 64 + CONNECTIONS_MAX;

impl Limits {
    /// Lowers the limit of bodies to what the memory of the process allows.
    #[must_use]
    pub fn within_memory(self) -> Self {
        match memory_limit() {
            Some(bytes) => self.within_memory_of(bytes),
            None => self,
        }
    }

    fn within_memory_of(mut self, bytes: usize) -> Self {
        let possible = (bytes / BODIES_SHARE / DECODING_COST).max(BODY_MAX);
        if self.body_bytes > possible {
            tracing::warn!(
                max_body_mib = self.body_bytes / (KIB * KIB),
                lowered_to = possible / (KIB * KIB),
                memory_mib = bytes / (KIB * KIB),
                "limit of bodies lowered: raise the limit of memory"
            );
            self.body_bytes = possible;
        }
        self
    }

    /// Raises the limit of open files as far as possible, and lowers that of connections to it.
    #[must_use]
    pub fn within_open_files(mut self) -> Self {
        let possible = open_files::raise().saturating_sub(OTHER_FILES).max(1);
        if self.connections > possible {
            tracing::warn!(
                max_connections = self.connections,
                lowered_to = possible,
                "limit of connections lowered: raise the limit of open files (ulimit -n)"
            );
            self.connections = possible;
        }
        self
    }
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

/// Flags of the limits.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Maximum number of open connections. A further one closes the least recently active one
    #[arg(
        long,
        env = "CAUSEWAY_MAX_CONNECTIONS",
        value_name = "NUMBER",
        default_value = "2048"
    )]
    max_connections: String,
    /// Maximum number of requests in flight. Further ones are answered with 429, which an API
    /// server retries
    #[arg(
        long,
        env = "CAUSEWAY_MAX_IN_FLIGHT",
        value_name = "NUMBER",
        default_value = "1024"
    )]
    max_in_flight: String,
    /// Maximum size of all request bodies in memory, in MiB, without the first 16 KiB of each.
    /// Further bodies wait
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
            let rule = format_args!("must be at least {least}");
            checks.parse_where(flag, value, |number| *number >= least, rule)
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

/// Enforces the limits on requests and on their bodies.
#[derive(Debug)]
pub(crate) struct Limiter {
    requests: Semaphore,
    body_kib: Semaphore,
    decoders: Arc<Semaphore>,
    decoded_kib: Arc<Semaphore>,
}

impl Limiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        let permits = |number: usize| Semaphore::new(number.min(Semaphore::MAX_PERMITS));
        Self {
            requests: permits(limits.in_flight),
            body_kib: permits(limits.body_bytes / KIB),
            decoders: Arc::new(Semaphore::new(decoders())),
            decoded_kib: Arc::new(permits(decoded_bytes(memory_limit()) / KIB)),
        }
    }

    /// Waits until a large body may be decoded, which takes a core for a while, and memory for an
    /// error.
    pub(crate) async fn decoder(&self, bytes: usize) -> Option<[OwnedSemaphorePermit; 2]> {
        let core = Arc::clone(&self.decoders).acquire_owned().await.ok()?;
        let kib = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX);
        let memory = Arc::clone(&self.decoded_kib).acquire_many_owned(kib);
        Some([core, memory.await.ok()?])
    }

    /// Admits a request until the permit is dropped. At the limit `evict` may end another request,
    /// in whose place this one is admitted; `None` if it does not.
    pub(crate) async fn admit(&self, evict: impl FnOnce() -> bool) -> Option<Permit<'_>> {
        let request = match self.requests.try_acquire() {
            Ok(request) => request,
            Err(_) if evict() => self.requests.acquire().await.ok()?,
            Err(_) => return None,
        };
        Some(Permit {
            limiter: self,
            _request: request,
            body: None,
        })
    }
}

/// Permit of a request and of the memory for its body.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    limiter: &'a Limiter,
    _request: SemaphorePermit<'a>,
    body: Option<SemaphorePermit<'a>>,
}

impl Permit<'_> {
    /// Whether a body of that size may be held.
    pub(crate) fn covers(&self, bytes: usize) -> bool {
        bytes <= FREE || self.body.is_some()
    }

    /// Reserves the budget of a body, at once or not at all.
    pub(crate) fn try_reserve(&mut self, bytes: usize) -> bool {
        self.body = self.limiter.body_kib.try_acquire_many(kib(bytes)).ok();
        self.body.is_some()
    }

    /// Waits for the budget of a body.
    pub(crate) async fn reserve(&mut self, bytes: usize) {
        let reserved = self.limiter.body_kib.acquire_many(kib(bytes)).await;
        self.body = reserved.ok();
    }
}

/// Returns how many large bodies are decoded at one time: half of the cores, at least one.
fn decoders() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    (cores / 2).max(1)
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.saturating_sub(FREE).div_ceil(KIB)).unwrap_or(u32::MAX)
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

    fn admit(limiter: &Limiter) -> Option<Permit<'_>> {
        limiter.admit(|| false).now_or_never().flatten()
    }

    #[test]
    fn request_beyond_the_limit_needs_the_place_of_another() {
        let limiter = Limiter::new(&LIMITS);
        let first = admit(&limiter).expect("a permit");
        let _second = admit(&limiter).expect("a permit");
        assert!(admit(&limiter).is_none());
        let mut third = std::pin::pin!(limiter.admit(|| true));
        assert!(third.as_mut().now_or_never().is_none(), "before one goes");
        drop(first);
        assert!(admit(&limiter).is_none(), "the third is before it");
        let third = third.now_or_never().flatten().expect("one was evicted");
        assert!(admit(&limiter).is_none());
        drop(third);
        admit(&limiter).expect("a permit");
        assert_eq!(limiter.requests.available_permits(), 1);
    }

    #[test]
    fn bodies_take_at_most_a_sixth_of_the_memory() {
        let mib = |number: usize| number * KIB * KIB;
        let limits = Limits::default();
        for (memory, bodies) in [(mib(1024), 32), (mib(192), 32), (mib(96), 16), (mib(1), 7)] {
            let lowered = limits.within_memory_of(memory);
            assert_eq!(lowered.body_bytes, mib(bodies), "of {memory}");
            assert_eq!(lowered.connections, limits.connections);
        }
    }

    #[test]
    fn errors_of_bodies_take_at_most_a_quarter_of_the_memory() {
        let mib = |number: usize| number * KIB * KIB;
        for (memory, decoded) in [(mib(768), mib(32)), (mib(192), mib(8)), (mib(64), BODY_MAX)] {
            assert_eq!(decoded_bytes(Some(memory)), decoded, "of {memory}");
        }
        assert_eq!(decoded_bytes(None), usize::MAX);
        let limiter = Limiter::new(&LIMITS);
        let decoder = limiter.decoder(BODY_MAX).now_or_never();
        assert!(decoder.flatten().is_some(), "one largest body is decoded");
    }

    #[test]
    fn lowest_memory_limit_of_all_cgroups_applies() {
        let root = tempfile::tempdir().expect("a directory");
        let own = Path::new("pods/one");
        std::fs::create_dir_all(root.path().join(own)).expect("directories");
        let set = |group: &str, limit: &str| {
            std::fs::write(root.path().join(group).join("memory.max"), limit).expect("a file");
        };
        let limit = || lowest_memory_limit(root.path(), own);
        assert_eq!(limit(), None);
        set("pods/one", "max\n");
        assert_eq!(limit(), None);
        set("pods", "2000\n");
        assert_eq!(limit(), Some(2000));
        set("pods/one", "1000\n");
        assert_eq!(limit(), Some(1000));
    }

    #[test]
    fn large_bodies_share_a_budget_and_small_ones_need_none() {
        let limiter = Limiter::new(&LIMITS);
        let mut large = admit(&limiter).expect("a permit");
        assert!(!large.covers(FREE + 1));
        assert!(large.try_reserve(FREE + 9 * KIB) && large.covers(FREE + 1));
        let mut other = admit(&limiter).expect("a permit");
        assert!(other.covers(FREE));
        assert!(!other.try_reserve(FREE + KIB + 1));
        assert!(other.reserve(FREE + KIB + 1).now_or_never().is_none());
        drop(large);
        let reserved = other.reserve(FREE + KIB + 1).now_or_never();
        reserved.expect("room");
        assert!(other.covers(FREE + 1));
        drop(other);
        assert_eq!(limiter.body_kib.available_permits(), 10);
    }
}
