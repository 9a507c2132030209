//! Whether a process serves sensibly, and what it still awaits.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::metrics::ComputedGauge;

/// Dependencies that a process awaits before it is ready. Clones share the same readiness.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    awaited: BTreeMap<u64, Dependency>,
    shutting_down: bool,
}

#[derive(Debug)]
struct Dependency {
    name: String,
    /// Cause of its absence, if known.
    problem: Option<String>,
}

/// Reason why a process is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unready {
    /// These dependencies are awaited, in the order in which the process began to await them.
    Awaits(Vec<String>),
    /// The process is about to end.
    ShuttingDown,
}

/// One awaited dependency; the process is ready when all of these are dropped.
#[derive(Debug)]
#[must_use = "the process stops awaiting a dependency when its handle is dropped"]
pub struct Awaited {
    id: u64,
    readiness: Readiness,
}

impl Readiness {
    /// Makes the process unready until the handle is dropped; `name` is what /readyz says is
    /// awaited.
    pub fn awaits(&self, name: impl Into<String>) -> Awaited {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        let name = name.into();
        let problem = None;
        state.awaited.insert(id, Dependency { name, problem });
        Awaited {
            id,
            readiness: self.clone(),
        }
    }

    /// Makes the process unready for good.
    pub fn shut_down(&self) {
        self.state().shutting_down = true;
    }

    /// Whether the process serves sensibly.
    ///
    /// # Errors
    /// [`Unready`] with what is in the way.
    pub fn check(&self) -> Result<(), Unready> {
        let state = self.state();
        if state.shutting_down {
            Err(Unready::ShuttingDown)
        } else if state.awaited.is_empty() {
            Ok(())
        } else {
            let names = state
                .awaited
                .values()
                .map(|dependency| dependency.name.clone());
            Err(Unready::Awaits(names.collect()))
        }
    }

    /// A gauge that is 1 while the process is ready, else 0.
    pub fn gauge(&self) -> ComputedGauge {
        let readiness = self.clone();
        ComputedGauge::new(move || Some(f64::from(readiness.check().is_ok())))
    }

    /// Lists the known causes for which awaited dependencies are absent: `name: cause`.
    pub fn problems(&self) -> Vec<String> {
        let state = self.state();
        let known = state.awaited.values().filter_map(|dependency| {
            let problem = dependency.problem.as_ref()?;
            Some(format!("{}: {problem}", dependency.name))
        });
        known.collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Awaited {
    /// Says why the dependency is not there yet, for /readyz to tell.
    pub fn is_blocked_by(&self, why: impl Into<String>) {
        if let Some(dependency) = self.readiness.state().awaited.get_mut(&self.id) {
            dependency.problem = Some(why.into());
        }
    }

    /// The dependency is there.
    pub fn ready(self) {
        drop(self);
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.readiness.state().awaited.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_nothing_is_awaited() {
        let readiness = Readiness::default();
        assert_eq!(readiness.check(), Ok(()));
        let services = readiness.awaits("services");
        let clusters = readiness.awaits("clusters");
        assert_eq!(
            readiness.check(),
            Err(Unready::Awaits(vec!["services".into(), "clusters".into()]))
        );
        services.is_blocked_by("forbidden");
        clusters.is_blocked_by("refused");
        clusters.is_blocked_by("late");
        assert_eq!(
            readiness.problems(),
            ["services: forbidden", "clusters: late"]
        );
        services.ready();
        assert_eq!(
            readiness.check(),
            Err(Unready::Awaits(vec!["clusters".into()]))
        );
        assert_eq!(readiness.problems(), ["clusters: late"]);
        drop(clusters);
        assert_eq!(readiness.check(), Ok(()));
        assert!(readiness.problems().is_empty());
    }

    #[test]
    fn a_process_that_shuts_down_is_never_ready_again() {
        let readiness = Readiness::default();
        let late = readiness.awaits("late");
        readiness.shut_down();
        late.ready();
        assert_eq!(readiness.check(), Err(Unready::ShuttingDown));
    }
}
