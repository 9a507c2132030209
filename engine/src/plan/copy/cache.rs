//! What plans made of slices, so that the next plan of the same service does not make it again.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use causeway::domain::{ClusterName, ServiceKey};

use super::name::copy_name;
use super::recipe::{Outcome, Parties, Recipe};
use crate::model::map::HashMap;
use crate::model::slice::{AddressType, Path, SourceSlice, SourceVersion};

/// For each service what its last plan made of the slices, and nothing else: it shrinks with what is planned.
#[derive(Debug, Default)]
pub struct CopyCache {
    last: HashMap<ServiceKey, Box<[(u64, Outcome)]>>,
    keys: RandomState,
}

/// What one plan of a service makes.
#[derive(Debug)]
pub(in crate::plan) struct Outcomes {
    /// What the plan before made, by its key, in the order of the keys.
    last: Box<[(u64, Outcome)]>,
    now: HashMap<u64, Outcome>,
    /// The recipes, by provider, each with its fingerprint.
    recipes: HashMap<ClusterName, Vec<(Arc<Recipe>, u64)>>,
    /// The names of copies, by what they are made of; every consumer has them alike.
    names: HashMap<u64, Arc<str>>,
    keys: RandomState,
}

impl CopyCache {
    /// Whether nothing is kept.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// What the last plan of the service made, for the next one.
    pub(in crate::plan) fn take(&mut self, key: &ServiceKey) -> Outcomes {
        Outcomes {
            last: self.last.remove(key).unwrap_or_default(),
            now: HashMap::default(),
            recipes: HashMap::default(),
            names: HashMap::default(),
            keys: self.keys.clone(),
        }
    }

    /// Keeps what the plan of the service made.
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
    /// The recipe for these parties, and its fingerprint: made once for all consumers that are alike.
    pub(super) fn recipe(&mut self, parties: &Parties<'_>) -> (Arc<Recipe>, u64) {
        let name = parties.provider.name;
        if let Some(known) = self.recipes.get(name)
            && let Some(known) = known.iter().find(|(recipe, _)| recipe.is_for(parties))
        {
            return known.clone();
        }
        let recipe = Arc::new(Recipe::new(parties));
        let made = (recipe.clone(), recipe.fingerprint());
        let of_provider = self.recipes.entry(name.clone()).or_default();
        of_provider.push(made.clone());
        made
    }

    /// The name of a copy: made once for all consumers.
    pub(super) fn name(
        &mut self,
        path: Path,
        provider: &ClusterName,
        slice: &Arc<str>,
        address_type: AddressType,
    ) -> Arc<str> {
        let of = (path, provider, slice, address_type);
        let name = self.names.entry(self.keys.hash_one(of));
        name.or_insert_with(|| copy_name(path, provider, slice, address_type))
            .clone()
    }

    /// What comes of the recipe for that slice: made once for each version of the slice, as long as the recipe stays.
    pub(super) fn of(
        &mut self,
        fingerprint: u64,
        recipe: &Recipe,
        source: &SourceSlice,
    ) -> Outcome {
        let made: (u64, &SourceVersion) = (fingerprint, &source.version);
        let made = self.keys.hash_one(made);
        *self.now.entry(made).or_insert_with(|| {
            let at = self.last.binary_search_by_key(&made, |(made, _)| *made);
            at.map_or_else(|_| recipe.outcome(source), |at| self.last[at].1)
        })
    }
}
