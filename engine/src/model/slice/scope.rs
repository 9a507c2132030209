//! Scope of the watch of a member's EndpointSlices, and its label selectors.

use std::collections::BTreeSet;
use std::sync::Arc;

use causeway::api::labels;
use causeway::domain::is_label_value;

/// Names of Services, in any namespace.
pub type ServiceNames = BTreeSet<Arc<str>>;

/// Maximum number of bytes that names take in the URL of a request. Proxies before API servers
/// accept request lines of 8 KiB.
pub const MOST_NAMES: usize = 6 * 1024;
/// Bytes of an encoded comma.
const COMMA: usize = 3;
/// Name that no Service can have: it has dots.
const NO_SERVICE: &str = labels::DOMAIN;

/// EndpointSlices of a member that are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SliceScope {
    /// All.
    #[default]
    All,
    /// Those that Kubernetes makes for Services of these names, and all that other controllers or
    /// people make: copies among them.
    Named(Arc<ServiceNames>),
}

impl SliceScope {
    /// Whether the slices of Services of that name are in the scope. No slice can name a Service
    /// whose name is no value of a label.
    pub fn covers(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(name) || !is_label_value(name),
        }
    }

    /// Returns the selector of the slices that Kubernetes does not make.
    pub fn of_others() -> String {
        let [pods, mirroring] = BY_KUBERNETES;
        format!("{} notin ({pods},{mirroring})", labels::SLICE_MANAGED_BY)
    }
}

const BY_KUBERNETES: [&str; 2] = [labels::SLICE_CONTROLLER, labels::SLICE_MIRRORING_CONTROLLER];

/// Returns the selector of the slices that Kubernetes makes for Services of these names.
pub fn selector_of(names: &ServiceNames) -> String {
    let [pods, mirroring] = BY_KUBERNETES;
    let (service, manager) = (labels::SERVICE_NAME, labels::SLICE_MANAGED_BY);
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let names = match names.is_empty() {
        true => NO_SERVICE.to_owned(),
        false => names.join(","),
    };
    format!("{service} in ({names}),{manager} in ({pods},{mirroring})")
}

/// Collects the names of Services. Returns `None` as soon as they take more than `most` bytes in a
/// URL.
pub fn collect_names<'a>(
    all: impl Iterator<Item = &'a Arc<str>>,
    most: usize,
) -> Option<ServiceNames> {
    let mut names = ServiceNames::new();
    let mut bytes = 0;
    for name in all.filter(|name| is_label_value(name)) {
        if names.insert(name.clone()) {
            bytes += name.len() + COMMA;
        }
        if bytes > most {
            return None;
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Option<ServiceNames> {
        let all: Vec<Arc<str>> = all.iter().map(|name| (*name).into()).collect();
        collect_names(all.iter(), 12)
    }

    #[test]
    fn selectors_name_services_and_the_controllers_of_kubernetes() {
        let managers = "endpointslice-controller.k8s.io,endpointslicemirroring-controller.k8s.io";
        let by = "endpointslice.kubernetes.io/managed-by";
        for (all, selected) in [(&["b", "a"][..], "a,b"), (&[], "mcs.causeway.dev")] {
            let selector = selector_of(&names(all).expect("few names"));
            let of = format!("kubernetes.io/service-name in ({selected}),{by} in ({managers})");
            assert_eq!(selector, of);
        }
        assert_eq!(SliceScope::of_others(), format!("{by} notin ({managers})"));
    }

    #[test]
    fn names_are_bounded_counted_once_and_values_of_a_label() {
        for (all, collected) in [
            (&["a", "b", "a", "c"][..], Some(3)),
            (&["a", "b", "c", "d"], None),
            (&["a", "no/value"], Some(1)),
        ] {
            assert_eq!(names(all).map(|names| names.len()), collected, "{all:?}");
        }
    }

    #[test]
    fn a_scope_covers_its_names_and_names_that_no_slice_has() {
        let scope = SliceScope::Named(Arc::new(names(&["a"]).expect("few names")));
        for (name, covered) in [("a", true), ("b", false), ("no/value", true)] {
            assert_eq!(scope.covers(name), covered, "{name}");
            assert!(SliceScope::All.covers(name));
        }
    }
}
