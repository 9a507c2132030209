//! Whether the machine is quiet enough to evaluate what is measured on it.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use crate::proc;

/// The part of all cores that other programs may take.
const MOST_TAKEN: f64 = 0.05;
/// The part of the cores' time that the machine's host may give to others.
const MOST_STOLEN: f64 = 0.01;
/// How long it is looked at before anything is started.
const LOOK: Duration = Duration::from_secs(3);

/// What happened on the machine beside the measurement, from a moment on.
pub(crate) struct Beside {
    since: Instant,
    machine: Ticks,
    /// This process and those that it started and that ended.
    own: u64,
}

/// What all cores did since the machine started, in ticks of 10 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    /// In programs and for them.
    busy: u64,
    /// Given to others by the machine's host.
    stolen: u64,
    all: u64,
}

/// How quiet the machine was, as parts of the time of all cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quietness {
    taken: f64,
    stolen: f64,
}

impl Beside {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Ok(Self {
            since: Instant::now(),
            machine: Ticks::now()?,
            own: proc::own_ticks()?,
        })
    }

    /// How long ago that was.
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// How quiet it was since then. Whatever was started must have ended.
    pub(crate) fn quietness(&self) -> anyhow::Result<Quietness> {
        let (machine, own) = (Ticks::now()?, proc::own_ticks()?);
        let all = (machine.all - self.machine.all).max(1) as f64;
        let busy = machine.busy - self.machine.busy;
        let taken = busy.saturating_sub(own - self.own);
        Ok(Quietness {
            taken: taken as f64 / all,
            stolen: (machine.stolen - self.machine.stolen) as f64 / all,
        })
    }
}

/// Looks at the machine for some seconds, and says what it finds.
pub(crate) fn look() -> anyhow::Result<()> {
    let beside = Beside::start()?;
    std::thread::sleep(LOOK);
    let quietness = beside.quietness()?;
    let load = std::fs::read_to_string("/proc/loadavg").context("cannot read /proc/loadavg")?;
    let load = load.split_whitespace().next().unwrap_or_default();
    match quietness.is_enough() {
        true => eprintln!("The machine is quiet: {quietness}; load {load}."),
        false => eprintln!(
            "The machine is not quiet: {quietness}; load {load}. No goal will be evaluated."
        ),
    }
    Ok(())
}

impl Quietness {
    /// Whether goals are evaluated by what was measured meanwhile.
    pub(crate) fn is_enough(self) -> bool {
        self.taken <= MOST_TAKEN && self.stolen <= MOST_STOLEN
    }
}

impl fmt::Display for Quietness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: f64| 100.0 * part;
        write!(
            out,
            "other programs took {:.1} % of the cores ({:.0} % at most), {:.1} % was stolen ({:.0} %)",
            percent(self.taken),
            percent(MOST_TAKEN),
            percent(self.stolen),
            percent(MOST_STOLEN)
        )
    }
}

impl Ticks {
    fn now() -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Self::parse(&stat).ok_or_else(|| anyhow!("/proc/stat says {stat:?}"))
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq and steal. What interrupts take is nobody's.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<u64> = line
            .split_whitespace()
            .map_while(|text| text.parse().ok())
            .collect();
        let [user, nice, system, .., stolen] = *fields.get(..8)? else {
            return None;
        };
        Some(Self {
            busy: user + nice + system,
            stolen,
            all: fields[..8].iter().sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cores_did_is_read_without_what_guests_and_interrupts_took() {
        let stat = "cpu  100 20 30 1000 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        let ticks = Ticks {
            busy: 150,
            stolen: 8,
            all: 1176,
        };
        assert_eq!(Ticks::parse(stat), Some(ticks));
        assert_eq!(Ticks::parse("cpu  1 2 3"), None);
    }

    #[test]
    fn goals_are_evaluated_only_where_little_was_taken_and_less_stolen() {
        for (taken, stolen, enough) in [(0.05, 0.01, true), (0.06, 0.0, false), (0.0, 0.02, false)]
        {
            assert_eq!(Quietness { taken, stolen }.is_enough(), enough);
        }
    }
}
