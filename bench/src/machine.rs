//! Linux's figures of processes and of the machine.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// Core of the servers.
pub(crate) const SERVER: usize = 0;
/// Core of the load.
pub(crate) const LOAD: usize = 1;

/// Keeps the calling thread on a core.
pub(crate) fn keep_thread_on(core: usize) -> anyhow::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core)?;
    let kept = sched_setaffinity(Pid::from_raw(0), &cores);
    kept.with_context(|| format!("there are no cores {SERVER} and {LOAD}"))
}

/// Returns the CPU time of all threads of a process, also of those that have ended.
pub(crate) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.try_into()?));
    let time = clock.and_then(ClockId::now);
    let time = time.with_context(|| format!("no CPU clock of process {pid}"))?;
    Ok(time.into())
}

/// Returns the CPU of a process during that time from now on, in percent of a core.
pub(crate) async fn cpu_during(pid: u32, time: Duration) -> anyhow::Result<f64> {
    let before = cpu_time(pid)?;
    tokio::time::sleep(time).await;
    Ok((cpu_time(pid)? - before).as_secs_f64() / time.as_secs_f64() * 100.0)
}

/// Returns the CPU time of the calling thread.
pub(crate) fn own_cpu_time() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Memory of a process, in MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Memory {
    pub(crate) resident: f64,
    /// Maximum since [`forget_peak`].
    pub(crate) peak: f64,
}

pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mebibytes = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = value.and_then(|value| value.trim().strip_suffix(" kB"));
        let kibibytes: f64 = kibibytes.context("a process has ended")?.parse()?;
        anyhow::Ok(kibibytes / 1024.0)
    };
    Ok(Memory {
        resident: mebibytes("VmRSS:")?,
        peak: mebibytes("VmHWM:")?,
    })
}

/// Begins to count the peak again.
pub(crate) fn forget_peak(pid: u32) -> anyhow::Result<()> {
    let file = format!("/proc/{pid}/clear_refs");
    std::fs::write(&file, "5").with_context(|| format!("cannot write {file}"))
}

/// Moment from which the machine is observed.
pub(crate) struct Observed {
    since: Instant,
    /// Seconds of all cores in other programs, and in the machine's host for others.
    others: f64,
}

impl Observed {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        let mut others = busy(&stat).with_context(|| format!("/proc/stat is {stat:?}"))?;
        // Programs that this one started must have ended.
        for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
            let usage = getrusage(who)?;
            let own = usage.user_time() + usage.system_time();
            others -= own.num_microseconds() as f64 / 1e6;
        }
        Ok(Self {
            since: Instant::now(),
            others,
        })
    }

    /// Returns the percentage of all cores that others took since then.
    pub(crate) fn taken(&self) -> anyhow::Result<f64> {
        let cores = std::thread::available_parallelism()?.get() as f64;
        let taken = Self::start()?.others - self.others;
        Ok((taken / cores / self.since.elapsed().as_secs_f64() * 100.0).max(0.0))
    }
}

/// Returns the seconds of user, nice, system and steal since the machine started. Interrupts are
/// nobody's work.
fn busy(stat: &str) -> Option<f64> {
    const TICKS: f64 = 100.0;
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields = line.split_whitespace().map_while(|text| text.parse().ok());
    match *fields.collect::<Vec<f64>>() {
        [user, nice, system, _, _, _, _, steal, ..] => Some((user + nice + system + steal) / TICKS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_and_process_are_measured() {
        let stat = "cpu  100 20 30 1000 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!((busy(stat), busy("cpu  1 2 3")), (Some(1.58), None));
        let memory = memory(std::process::id()).unwrap();
        assert!(memory.resident > 0.5 && memory.peak >= memory.resident);
        assert!(cpu_time(std::process::id()).unwrap() >= own_cpu_time().unwrap());
    }
}
