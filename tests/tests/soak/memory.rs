//! Memory of the processes, in MiB.

/// Rounds before what is held is steady.
const WARMING: usize = 3;
/// Fewer rounds than this tell nothing.
const ENOUGH: usize = 15;
/// Permitted growth: an allocator returns memory late.
const MARGIN: f64 = 8.0;

/// The samples of a run, one a round.
#[derive(Default)]
pub(super) struct Memory(Vec<f64>);

impl Memory {
    pub(super) fn sample(&mut self, held: f64) {
        self.0.push(held);
    }

    /// The means of the first and of the last third, after warming up.
    pub(super) fn thirds(&self) -> Option<(f64, f64)> {
        let steady = self.0.get(WARMING..)?;
        let third = steady.len() / 3;
        let mean = |some: &[f64]| some.iter().sum::<f64>() / some.len() as f64;
        (self.0.len() >= ENOUGH).then(|| {
            (
                mean(&steady[..third]),
                mean(&steady[steady.len() - third..]),
            )
        })
    }

    /// Whether what was held at the end is not more than what was held at first.
    pub(super) fn is_flat(&self) -> bool {
        self.thirds()
            .is_none_or(|(first, last)| last <= 1.25 * first + MARGIN)
    }
}

/// The resident memory of a process, in MiB.
pub(super) fn resident(pid: u32) -> f64 {
    let path = format!("/proc/{pid}/status");
    let status =
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read {path}: {e}"));
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next());
    let kilobytes: f64 = kilobytes
        .and_then(|text| text.parse().ok())
        .expect("kilobytes");
    kilobytes / 1024.0
}

#[test]
fn memory_that_grows_is_found_in_runs_that_are_long_enough() {
    let run = |samples: usize, growth: f64| {
        let held = (0..samples).map(|round| 50.0 + growth * round as f64);
        Memory(held.collect()).is_flat()
    };
    let cases = [
        (100, 0.0, true),
        (100, 0.1, true),
        (100, 1.0, false),
        (10, 9.0, true),
    ];
    for (samples, growth, flat) in cases {
        assert_eq!(
            run(samples, growth),
            flat,
            "{samples} rounds, {growth} MiB a round"
        );
    }
}
