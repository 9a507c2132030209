//! Cache of the results of copying slices, for the next plan of the same service.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use causeway::domain::{ClusterName, ServiceKey};

use super::name::copy_name;
use super::template::{CopyInputs, CopyTemplate, Outcome};
use crate::model::map::HashMap;
use crate::model::slice::{AddressType, Exposure, SourceSlice, SourceVersion};

/// Results of the last plan of each service, and nothing else: the cache shrinks with the plans.
#[derive(Debug, Default)]
pub struct CopyCache {
    last: HashMap<ServiceKey, Box<[(u64, Outcome)]>>,
    keys: RandomState,
}

/// Results that one plan of a service makes.
#[derive(Debug)]
pub(in crate::plan) struct Outcomes {
    /// Results of the last plan with their keys, sorted by key.
    last: Box<[(u64, Outcome)]>,
    now: HashMap<u64, Outcome>,
    /// Recipes by provider, each with its fingerprint.
    recipes: HashMap<ClusterName, Vec<(Arc<CopyTemplate>, u64)>>,
    /// Names of copies, by a hash of their source. They are the same for every consumer.
    names: HashMap<u64, Arc<str>>,
    keys: RandomState,
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
            recipes: HashMap::default(),
            names: HashMap::default(),
            keys: self.keys.clone(),
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
    /// Returns the template for these inputs and its fingerprint. Equal consumers share one template.
    pub(super) fn template(&mut self, inputs: &CopyInputs<'_>) -> (Arc<CopyTemplate>, u64) {
        let name = inputs.provider.name;
        if let Some(known) = self.recipes.get(name)
            && let Some(known) = known.iter().find(|(template, _)| template.is_for(inputs))
        {
            return known.clone();
        }
        let template = Arc::new(CopyTemplate::new(inputs));
        let made = (template.clone(), template.fingerprint());
        let of_provider = self.recipes.entry(name.clone()).or_default();
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
        let of = (exposure, provider, slice, address_type);
        let name = self.names.entry(self.keys.hash_one(of));
        name.or_insert_with(|| copy_name(exposure, provider, slice, address_type))
            .clone()
    }

    /// Returns the outcome of a template for a slice. It is computed once for each version of the
    /// slice, as long as the template stays.
    pub(super) fn of(
        &mut self,
        fingerprint: u64,
        template: &CopyTemplate,
        source: &SourceSlice,
    ) -> Outcome {
        let made: (u64, &SourceVersion) = (fingerprint, &source.version);
        let made = self.keys.hash_one(made);
        *self.now.entry(made).or_insert_with(|| {
            let at = self.last.binary_search_by_key(&made, |(made, _)| *made);
            at.map_or_else(|_| template.outcome(source), |at| self.last[at].1)
        })
    }
}
