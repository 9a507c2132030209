//! Cache of the results of copying slices, for the next plan of the same service.

use std::sync::Arc;

use causeway::domain::{ClusterName, ServiceKey};

use super::name::copy_name;
use super::template::{CopyInputs, CopyTemplate, Outcome};
use crate::digest::{Digest, Digester};
use crate::model::map::HashMap;
use crate::model::slice::{AddressType, Exposure, SourceSlice};

/// Results of the last plan of each service, and nothing else: the cache shrinks with the plans.
#[derive(Debug, Default)]
pub struct CopyCache {
    last: HashMap<ServiceKey, Box<[(Digest, Outcome)]>>,
    digester: Digester,
}

/// Results that one plan of a service makes.
///
/// A result is known by the digest of its template and of the source's version. A collision would
/// leave a copy as it is although it should change, until its source changes; see [`Digest`] for
/// the probability.
#[derive(Debug)]
pub(in crate::plan) struct Outcomes {
    /// Results of the last plan with their keys, sorted by key.
    last: Box<[(Digest, Outcome)]>,
    now: HashMap<Digest, Outcome>,
    /// Templates by provider, each with the digest of its inputs.
    templates: HashMap<ClusterName, Vec<(Arc<CopyTemplate>, Digest)>>,
    /// Names of copies, by their source. They are the same for every consumer.
    names: HashMap<(Exposure, ClusterName, Arc<str>, AddressType), Arc<str>>,
    digester: Digester,
}

impl CopyCache {
    /// Whether the cache is empty.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Takes the results of the last plan of a service out of the cache, for its next plan.
    pub(in crate::plan) fn take(&mut self, key: &ServiceKey) -> Outcomes {
        Outcomes {
            last: self.last.remove(key).unwrap_or_default(),
            now: HashMap::default(),
            templates: HashMap::default(),
            names: HashMap::default(),
            digester: self.digester.clone(),
        }
    }

    /// Stores the results of a plan of a service.
    pub(in crate::plan) fn keep(&mut self, key: &ServiceKey, outcomes: Outcomes) {
        if outcomes.now.is_empty() {
            return;
        }
        let mut made: Box<[_]> = outcomes.now.into_iter().collect();
        made.sort_unstable_by_key(|(made, _)| *made);
        self.last.insert(key.clone(), made);
    }
}

impl Outcomes {
    /// Returns the template for these inputs and its digest. Equal consumers share one template.
    pub(super) fn template(&mut self, inputs: &CopyInputs<'_>) -> (Arc<CopyTemplate>, Digest) {
        let name = inputs.provider.name;
        if let Some(known) = self.templates.get(name)
            && let Some(known) = known.iter().find(|(template, _)| template.is_for(inputs))
        {
            return known.clone();
        }
        let template = Arc::new(CopyTemplate::new(inputs));
        let digest = self.digester.digest(&*template);
        let made = (template, digest);
        let of_provider = self.templates.entry(name.clone()).or_default();
        of_provider.push(made.clone());
        made
    }

    /// Returns the name of a copy, made once for all consumers.
    pub(super) fn name(
        &mut self,
        exposure: Exposure,
        provider: &ClusterName,
        slice: &Arc<str>,
        address_type: AddressType,
    ) -> Arc<str> {
        let of = (exposure, provider.clone(), slice.clone(), address_type);
        let name = self.names.entry(of);
        name.or_insert_with(|| copy_name(exposure, provider, slice, address_type))
            .clone()
    }

    /// Returns the outcome of a template for a slice. It is computed once for each version of the
    /// slice, as long as the template stays.
    pub(super) fn of(
        &mut self,
        digest: Digest,
        template: &CopyTemplate,
        source: &SourceSlice,
    ) -> Outcome {
        // The slices of an entry follow from one version, and differ in their address type.
        let of_slice = (digest, &source.version, source.address_type);
        let made = self.digester.digest(&of_slice);
        *self.now.entry(made).or_insert_with(|| {
            let at = self.last.binary_search_by_key(&made, |(made, _)| *made);
            at.map_or_else(|_| template.outcome(source), |at| self.last[at].1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_outcome_takes_32_bytes() {
        assert_eq!(size_of::<(Digest, Outcome)>(), 32);
    }
}
