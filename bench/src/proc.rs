//! What Linux says of a process.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// The CPU time that all threads of a process have used, those that have ended too, to the nanosecond.
pub(crate) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.try_into()?));
    let time = clock.and_then(ClockId::now);
    let time = time.with_context(|| format!("cannot read the CPU clock of process {pid}"))?;
    Ok(time.into())
}

/// `utime`, `stime`, and the same of children: the fields from the 14th on, of which the second is a name in parentheses.
fn cpu_fields(stat: &str) -> Option<impl Iterator<Item = u64>> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields = after_name.split_whitespace().skip(11);
    Some(fields.map_while(|field| field.parse().ok()))
}

/// The CPU time of this process and of all that it started and that ended, in ticks of 10 ms.
pub(crate) fn own_ticks() -> anyhow::Result<u64> {
    let stat = read(std::process::id(), "stat")?;
    let times = cpu_fields(&stat).map(|fields| fields.take(4).sum());
    times.ok_or_else(|| anyhow!("/proc/self/stat says {stat:?}"))
}

/// The memory of a process that is in RAM, in MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Memory {
    /// Now.
    pub(crate) resident: f64,
    /// The most since [`forget_peak`].
    pub(crate) peak: f64,
}

/// How much memory a process has.
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let status = read(pid, "status")?;
    parse_memory(&status).ok_or_else(|| anyhow!("/proc/{pid}/status says {status:?}"))
}

fn parse_memory(status: &str) -> Option<Memory> {
    let mebibytes = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: f64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kibibytes / 1024.0)
    };
    Some(Memory {
        resident: mebibytes("VmRSS:")?,
        peak: mebibytes("VmHWM:")?,
    })
}

/// Begins to count the peak again.
pub(crate) fn forget_peak(pid: u32) -> anyhow::Result<()> {
    let file = format!("/proc/{pid}/clear_refs");
    std::fs::write(&file, "5").with_context(|| format!("cannot write {file}"))
}

/// The CPU time of the calling thread, to the nanosecond.
pub(crate) fn own_cpu_time() -> anyhow::Result<Duration> {
    let file = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let nanoseconds = text.split_whitespace().next().unwrap_or_default();
    let nanoseconds = nanoseconds
        .parse()
        .with_context(|| format!("{file} says {text:?}"))?;
    Ok(Duration::from_nanos(nanoseconds))
}

fn read(pid: u32, what: &str) -> anyhow::Result<String> {
    let file = format!("/proc/{pid}/{what}");
    std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_name_with_spaces_and_parentheses() {
        let stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20";
        assert_eq!(cpu_fields(stat).map(Iterator::sum), Some(195_u64));
        assert!(cpu_fields("42 (a) S 1 2").is_some_and(|fields| fields.count() == 0));
        assert!(cpu_fields("42").is_none());
    }

    #[test]
    fn memory_is_read_in_mebibytes() {
        let status = "Name:\tx\nVmHWM:\t   10240 kB\nVmRSS:\t    5120 kB\n";
        let memory = Memory {
            resident: 5.0,
            peak: 10.0,
        };
        assert_eq!(parse_memory(status), Some(memory));
    }

    #[test]
    fn this_process_can_be_measured() {
        let pid = std::process::id();
        let memory = memory(pid).unwrap();
        assert!(memory.resident > 0.5 && memory.peak >= memory.resident);
        let begun = own_cpu_time().unwrap();
        while own_cpu_time().unwrap() - begun < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        assert!(cpu_time(pid).unwrap() >= Duration::from_millis(20));
    }
}
