//! Versions in which a member serves the kinds of the Multi-Cluster Services API.

use causeway::api::multicluster::Version;
use causeway_engine::evidence::discovery::DebouncedDiscovery;

use crate::lookup::Resources;

/// Plural of ServiceExport.
const SERVICE_EXPORTS: &str = "serviceexports";
/// Plural of ServiceImport.
const SERVICE_IMPORTS: &str = "serviceimports";

/// The version in which each kind is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) exports: Option<Version>,
    pub(super) imports: Option<Version>,
}

impl Versions {
    /// Before anything is known, either kind may be served.
    const ASSUMED: Self = Self {
        exports: Some(Version::V1alpha1),
        imports: Some(Version::V1alpha1),
    };

    /// Returns a debounced discovery: all that was made from a kind is withdrawn once the kind is
    /// no longer served.
    pub(super) fn debounced() -> DebouncedDiscovery<Self> {
        DebouncedDiscovery::new(Self::ASSUMED, Self::lack)
    }

    /// Notes what the API server has in a version; a kind that was found in an earlier one stays
    /// there.
    pub(super) fn note(&mut self, version: Version, resources: &Resources) {
        if resources.has(SERVICE_EXPORTS) {
            self.exports.get_or_insert(version);
        }
        if resources.has(SERVICE_IMPORTS) {
            self.imports.get_or_insert(version);
        }
    }

    /// Returns the plurals of the kinds that were not found.
    pub(super) fn missing(self) -> Vec<&'static str> {
        let kinds = [
            (self.exports, SERVICE_EXPORTS),
            (self.imports, SERVICE_IMPORTS),
        ];
        let missing = kinds.into_iter().filter(|(version, _)| version.is_none());
        missing.map(|(_, plural)| plural).collect()
    }

    /// Whether a version that was served is not.
    fn lack(&self, before: &Self) -> bool {
        let lacks = |now: Option<Version>, before: Option<Version>| {
            before.is_some_and(|before| now.is_none_or(|now| now > before))
        };
        lacks(self.exports, before.exports) || lacks(self.imports, before.imports)
    }
}

#[cfg(test)]
mod tests {
    use causeway::api::multicluster::Version::{V1alpha1, V1beta1};

    use super::*;

    const BOTH: &str = include_str!("answers/resources-both.json");
    const EXPORTS: &str = include_str!("answers/resources-exports.json");

    fn versions(
        exports: impl Into<Option<Version>>,
        imports: impl Into<Option<Version>>,
    ) -> Versions {
        Versions {
            exports: exports.into(),
            imports: imports.into(),
        }
    }

    #[test]
    fn each_kind_is_taken_in_the_first_version_that_has_it() {
        for (answers, found) in [
            (vec![], versions(None, None)),
            (vec![(V1beta1, BOTH)], versions(V1beta1, V1beta1)),
            (vec![(V1alpha1, BOTH)], versions(V1alpha1, V1alpha1)),
            (vec![(V1alpha1, EXPORTS)], versions(V1alpha1, None)),
            (
                vec![(V1beta1, EXPORTS), (V1alpha1, BOTH)],
                versions(V1beta1, V1alpha1),
            ),
        ] {
            let mut versions = Versions::default();
            for (version, answer) in answers {
                versions.note(version, &serde_json::from_str(answer).unwrap());
            }
            assert_eq!(versions, found);
        }
    }

    #[test]
    fn served_counts_at_once_and_absent_after_two_looks() {
        let (beta, alpha) = (versions(V1beta1, V1beta1), versions(V1alpha1, V1alpha1));
        let (exports, none) = (versions(V1beta1, None), Versions::default());
        for (observed, counts) in [
            // At first.
            (vec![beta], vec![true]),
            (vec![alpha, beta], vec![true, true]),
            (vec![none, none, none], vec![false, true, true]),
            (vec![none, beta], vec![false, true]),
            (vec![exports, exports], vec![false, true]),
            // Later.
            (vec![beta, none, none, beta], vec![true, false, true, true]),
            (vec![beta, none, beta, none], vec![true, false, true, false]),
            (vec![beta, exports, exports], vec![true, false, true]),
            (vec![beta, alpha, alpha], vec![true, false, true]),
            (
                vec![beta, exports, none, none],
                vec![true, false, false, true],
            ),
        ] {
            let mut discovery = Versions::debounced();
            let taken = observed.iter().map(|one| discovery.observe(*one));
            let taken: Vec<_> = taken.collect();
            let expected = observed.iter().zip(counts);
            let expected: Vec<_> = expected.map(|(one, yes)| yes.then_some(*one)).collect();
            assert_eq!(taken, expected, "{observed:?}");
        }
    }

    #[test]
    fn two_looks_with_a_failure_between_them_are_not_two_in_a_row() {
        let mut discovery = Versions::debounced();
        let (all, none) = (versions(V1beta1, V1beta1), Versions::default());
        assert_eq!(discovery.observe(all), Some(all));
        assert_eq!(discovery.observe(none), None);
        discovery.observe_failure();
        assert_eq!(discovery.observe(none), None);
        assert_eq!(discovery.observe(none), Some(none));
    }
}
