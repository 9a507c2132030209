//! A watch of the objects of some names, by a label selector that changes while it runs.
//!
//! A new name is listed while the watch goes on. Then the watch is opened again with the selector
//! of all names, at the older of two versions: the one up to which the known names were reported,
//! and that of the list. No event is missed; those that were reported already are skipped by their
//! versions. The objects of a name that is dropped are forgotten: their absence shows nothing.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use causeway::process::backoff::Backoff;
use causeway_engine::model::slice::{ServiceNames, SliceScope, selector_of};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Settings;
use super::decoder::Decoder;
use super::list::Objects;
use super::source::Source;

/// Time between two changes of the selector. An API server reads all objects of the kind for each.
const PAUSE: Duration = Duration::from_secs(1);

/// Names that a watch is to cover, and its reports when they change.
pub struct Scope<K, T, E> {
    /// Names of the services that are to be covered.
    pub wanted: watch::Receiver<Option<SliceScope>>,
    /// Names that the first list covers.
    pub names: Arc<ServiceNames>,
    /// Returns the name of the service of an object.
    pub service: fn(&K) -> Arc<str>,
    /// Wraps the report that the watch covers other names, with the objects of the new ones.
    pub rescoped: Box<dyn Fn(Arc<ServiceNames>, Vec<T>) -> E + Send + Sync>,
}

/// Complete list of the objects of new names.
pub(super) struct Joined<K> {
    pub(super) names: Arc<ServiceNames>,
    pub(super) listed: (Objects<K>, String),
}

/// List of the objects of new names under way; [`Joining::next`] is pending without one.
pub(super) struct Joining<K>(Option<Pin<Box<dyn Future<Output = Joined<K>> + Send>>>);

/// Names of a watch at work.
pub(super) struct Scoped<K, T, E> {
    pub(super) scope: Scope<K, T, E>,
    /// Name of the service of each observed object, by the object's hash.
    homes: HashMap<u64, Arc<str>>,
    reported: Reported,
    /// Time before which the names stay as they are.
    until: Instant,
}

/// Versions up to which the objects of each name were reported.
#[derive(Debug, Default)]
struct Reported {
    /// Version of the names that are not in `names`.
    others: u64,
    names: HashMap<Arc<str>, u64>,
}

impl<K, T, E> Scoped<K, T, E> {
    pub(super) fn new(scope: Scope<K, T, E>) -> Self {
        Self {
            scope,
            homes: HashMap::new(),
            reported: Reported::default(),
            until: Instant::now(),
        }
    }

    pub(super) fn selector(&self) -> String {
        selector_of(&self.scope.names)
    }

    /// Notes that all names were listed at one version, with these objects. Those observed before
    /// are retained if their deletions are suspended.
    pub(super) fn note_list(
        &mut self,
        homes: impl Iterator<Item = (u64, Arc<str>)>,
        is_complete: bool,
    ) {
        if is_complete {
            self.homes.clear();
        }
        self.homes.extend(homes);
        self.reported = Reported::default();
    }

    pub(super) fn note(&mut self, id: u64, object: &K) {
        self.homes.insert(id, (self.scope.service)(object));
    }

    pub(super) fn note_deleted(&mut self, id: u64) {
        self.homes.remove(&id);
    }

    /// Whether the event of the object was reported before the watch was opened again.
    pub(super) fn is_reported(&self, object: &K, version: Option<&str>) -> bool {
        let version = version.and_then(|version| version.parse().ok());
        let name = (self.scope.service)(object);
        version.is_some_and(|version| self.reported.has(&name, version))
    }

    /// Waits until the names differ; for ever once they are all names.
    pub(super) async fn differs(&mut self) -> Arc<ServiceNames> {
        sleep_until(self.until).await;
        let known = self.scope.names.clone();
        let differs = |wanted: &Option<SliceScope>| match wanted {
            Some(SliceScope::Named(names)) => *names != known,
            Some(SliceScope::All) | None => false,
        };
        let wanted = self.scope.wanted.wait_for(differs).await;
        let wanted = wanted.map(|wanted| wanted.clone());
        match wanted {
            Ok(Some(SliceScope::Named(names))) => names,
            _ => std::future::pending().await,
        }
    }

    /// Returns the names that are still wanted; `None` if all are.
    pub(super) fn wanted_of_known(&self) -> Option<Arc<ServiceNames>> {
        let wanted = self.scope.wanted.borrow();
        let Some(SliceScope::Named(wanted)) = &*wanted else {
            return None;
        };
        let known = &self.scope.names;
        (!known.is_subset(wanted)).then(|| Arc::new(known.intersection(wanted).cloned().collect()))
    }

    /// Covers other names from now on. Returns the hashes of the objects to forget, and the version
    /// at which the watch is to be opened; `None` if the versions cannot be compared.
    pub(super) fn rescope(
        &mut self,
        names: Arc<ServiceNames>,
        version: &str,
        listed: Option<&str>,
    ) -> (Vec<u64>, Option<String>) {
        let new = names.difference(&self.scope.names).cloned();
        let at = match listed {
            None => Some(version.to_owned()),
            Some(listed) => self.reported.join(new, version, listed),
        };
        let gone = self.homes.iter().filter(|(_, name)| !names.contains(*name));
        let gone: Vec<_> = gone.map(|(id, _)| *id).collect();
        gone.iter().for_each(|id| drop(self.homes.remove(id)));
        self.scope.names = names;
        self.until = Instant::now() + PAUSE;
        (gone, at)
    }
}

impl Reported {
    fn has(&self, name: &Arc<str>, version: u64) -> bool {
        version <= self.names.get(name).copied().unwrap_or(self.others)
    }

    /// Notes that new names were listed at a version, while the others were reported up to another.
    /// Returns the older one.
    fn join(
        &mut self,
        new: impl Iterator<Item = Arc<str>>,
        version: &str,
        listed: &str,
    ) -> Option<String> {
        let (current, list): (u64, u64) = (version.parse().ok()?, listed.parse().ok()?);
        self.others = self.others.max(current);
        let others = self.others;
        self.names.retain(|_, reported| {
            *reported = current.max(*reported);
            *reported != others
        });
        self.names.extend(new.map(|name| (name, list)));
        Some(current.min(list).to_string())
    }
}

impl<K> Joining<K>
where
    K: kube::Resource<DynamicType: Default> + Send + 'static,
{
    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Begins to list the objects of the new ones of these names. A failed list is repeated.
    pub(super) fn begin<D: Decoder<K>>(
        &mut self,
        source: &Source<K, D>,
        names: Arc<ServiceNames>,
        known: &ServiceNames,
        cluster: Arc<str>,
    ) {
        let new: ServiceNames = names.difference(known).cloned().collect();
        let mut source = source.clone();
        source.labels = Some(selector_of(&new));
        let Settings {
            first_retry,
            last_retry,
            ..
        } = source.settings;
        self.0 = Some(Box::pin(async move {
            let mut backoff = Backoff::new(first_retry, last_retry);
            loop {
                match source.list(None, |object, bytes| (object, bytes)).await {
                    Ok(listed) => return Joined { names, listed },
                    Err(error) => {
                        tracing::warn!(%cluster, services = new.len(), %error, "EndpointSlices of new services not listed, retrying");
                        tokio::time::sleep(backoff.pause()).await;
                    }
                }
            }
        }));
    }

    pub(super) async fn next(&mut self) -> Joined<K> {
        match &mut self.0 {
            Some(listing) => {
                let joined = listing.await;
                self.0 = None;
                joined
            }
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the version at which the watch is opened again after a list of `new` at `listed`.
    fn join(reported: &mut Reported, new: &str, version: u64, listed: u64) -> u64 {
        let at = reported.join(
            [new.into()].into_iter(),
            &version.to_string(),
            &listed.to_string(),
        );
        at.and_then(|at| at.parse().ok())
            .expect("versions that compare")
    }

    #[test]
    fn reopened_watch_begins_at_the_older_version_and_skips_what_was_reported() {
        for (version, listed, at, skipped) in [
            // A list that is newer than the watch: events of known names are awaited.
            (10, 15, 10, [("known", 10), ("new", 15)]),
            // A watch that is ahead of the list: events of the new name are awaited.
            (20, 15, 15, [("known", 20), ("new", 15)]),
            (15, 15, 15, [("known", 15), ("new", 15)]),
        ] {
            let mut reported = Reported::default();
            assert_eq!(join(&mut reported, "new", version, listed), at);
            for (name, last) in skipped {
                let name: Arc<str> = name.into();
                assert!(reported.has(&name, last), "{name} at {last}");
                assert!(!reported.has(&name, last + 1), "{name} after {last}");
            }
        }
    }

    #[test]
    fn names_that_join_before_others_were_replayed_keep_their_versions() {
        let mut reported = Reported::default();
        assert_eq!(join(&mut reported, "a", 20, 15), 15);
        // The replay has reached 17 when the next name is listed.
        assert_eq!(join(&mut reported, "b", 17, 30), 17);
        for (name, last) in [("known", 20), ("a", 17), ("b", 30)] {
            let name: Arc<str> = name.into();
            assert!(reported.has(&name, last) && !reported.has(&name, last + 1));
        }
        assert_eq!(join(&mut reported, "c", 40, 41), 40);
        for (name, last) in [("known", 40), ("a", 40), ("b", 40), ("c", 41)] {
            let name: Arc<str> = name.into();
            assert!(reported.has(&name, last) && !reported.has(&name, last + 1));
        }
    }

    #[test]
    fn versions_that_are_no_numbers_are_not_compared() {
        let mut reported = Reported::default();
        for (version, listed) in [("x", "1"), ("1", "x")] {
            assert_eq!(reported.join(std::iter::empty(), version, listed), None);
        }
    }
}
