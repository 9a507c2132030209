//! MultiClusterServices that were requested by name, and the number of concurrent requests.

use std::time::Instant;

use http::{Method, Request};
use parking_lot::Mutex;

/// A request for one MultiClusterService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Its name.
    pub name: String,
    /// Time of its arrival.
    pub arrival: Instant,
    /// Number of such requests that were under way on its arrival, including itself.
    pub under_way: usize,
}

/// The lookups that came through a proxy.
#[derive(Debug, Default)]
pub(super) struct Lookups(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    all: Vec<Lookup>,
    under_way: usize,
}

/// A lookup that is under way.
pub(super) struct UnderWay<'a>(&'a Lookups);

impl Lookups {
    /// Notes a request, if it is a lookup, until that is dropped.
    pub(super) fn note<B>(&self, request: &Request<B>) -> Option<UnderWay<'_>> {
        let (collection, name) = request.uri().path().rsplit_once('/')?;
        let is_lookup =
            request.method() == Method::GET && collection.ends_with("/multiclusterservices");
        is_lookup.then(|| {
            let mut state = self.0.lock();
            state.under_way += 1;
            let under_way = state.under_way;
            state.all.push(Lookup {
                name: name.to_owned(),
                arrival: Instant::now(),
                under_way,
            });
            UnderWay(self)
        })
    }

    /// All that came until now, in their order.
    pub(super) fn all(&self) -> Vec<Lookup> {
        self.0.lock().all.clone()
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.0.lock().under_way -= 1;
    }
}
