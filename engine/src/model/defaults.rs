//! Annotations of Namespaces that are the defaults of the objects in them.

use std::collections::BTreeMap;

use causeway::domain::{Failover, FieldErrors};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Annotations of an object, or the defaults of its Namespace for them, by name.
pub(crate) type Annotations = BTreeMap<String, String>;

/// Returns the annotations of these names.
pub(crate) fn named(annotations: &Annotations, names: &[&str]) -> Annotations {
    let all = names.iter();
    let found = all.filter_map(|name| annotations.get_key_value(*name));
    found
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Defaults of a Namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) annotations: &'a Annotations,
}

/// Annotations of an object, with the defaults of its Namespace for those that it lacks.
pub(crate) struct Effective<'a> {
    /// Metadata with these annotations alone.
    pub(crate) meta: ObjectMeta,
    own: Option<&'a Annotations>,
    defaults: Option<Defaults<'a>>,
}

impl<'a> Effective<'a> {
    pub(crate) fn new(own: Option<&'a Annotations>, defaults: Option<Defaults<'a>>) -> Self {
        let mut annotations = Annotations::new();
        let both = defaults.map(|defaults| defaults.annotations);
        for all in both.into_iter().chain(own) {
            annotations.extend(
                all.iter()
                    .map(|(name, value)| (name.clone(), value.clone())),
            );
        }
        let meta = ObjectMeta {
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        };
        Self {
            meta,
            own,
            defaults,
        }
    }

    /// Lists the annotations whose values are defaults of the Namespace.
    pub(crate) fn defaulted(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let own = self.own;
        let defaults = self.defaults.map(|defaults| defaults.annotations);
        let lacks = move |name: &str| own.is_none_or(|own| !own.contains_key(name));
        let all = defaults.into_iter().flatten();
        all.filter(move |(name, _)| lacks(name))
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Names the Namespace as the place of errors in its defaults.
    pub(crate) fn place(&self, errors: &mut FieldErrors) {
        let Some(Defaults { namespace, .. }) = self.defaults else {
            return;
        };
        let paths: Vec<_> = self
            .defaulted()
            .map(|(name, _)| Failover::path(name))
            .collect();
        errors.place(|path| {
            let is_default = paths
                .iter()
                .any(|default| path.starts_with(default.as_str()));
            is_default.then(|| format!("Namespace {namespace}: {path}"))
        });
    }
}
