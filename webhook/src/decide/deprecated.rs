//! M2: the deprecated cluster lists become their successors.

use causeway::api::{ClusterSelector, MultiClusterServiceSpec};
use causeway::domain::{ClusterField, ClusterName, same_clusters};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use serde_json::json;

/// Conversion of one deprecated field, which is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conversion {
    field: ClusterField,
    kind: ConversionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConversionKind {
    /// It was empty, and so was its successor.
    Dropped,
    /// It was empty, and its successor names clusters.
    Ineffective,
    /// Its successor names the same clusters.
    Redundant,
    /// Its successor has taken its clusters over, and was empty before.
    Converted,
    /// Its successor has taken its clusters over, and named others before.
    Replaced,
}

/// Converts a spec in place, given the one that is stored, and says what was done. A spec that is as stored
/// stays so; a field that disagrees with others in a way that no rule decides, or names what is no cluster name, stays too.
pub(super) fn convert(
    spec: &mut MultiClusterServiceSpec,
    stored: Option<&MultiClusterServiceSpec>,
) -> Vec<Conversion> {
    let untouched = ClusterField::DEPRECATED
        .into_iter()
        .all(|field| !is_present(field, spec));
    if untouched || stored.is_some_and(|stored| stored == spec) {
        return Vec::new();
    }
    let mut conversions = Vec::new();
    for successor in [ClusterField::Consumers, ClusterField::Providers] {
        convert_into(successor, spec, stored, &mut conversions);
    }
    conversions
}

fn convert_into(
    successor: ClusterField,
    spec: &mut MultiClusterServiceSpec,
    stored: Option<&MultiClusterServiceSpec>,
    conversions: &mut Vec<Conversion>,
) {
    let (filled, empty): (Vec<_>, Vec<_>) = ClusterField::DEPRECATED
        .into_iter()
        .filter(|field| field.successor() == successor && is_present(*field, spec))
        .partition(|field| !field.names(spec).is_empty());
    let drop = |kind| move |field| Conversion { field, kind };
    let without_clusters = match successor.names(spec).is_empty() {
        true => ConversionKind::Dropped,
        false => ConversionKind::Ineffective,
    };
    conversions.extend(empty.iter().copied().map(drop(without_clusters)));
    if let Some(kind) = conversion_kind(successor, &filled, spec, stored) {
        if kind != ConversionKind::Redundant {
            let names = filled[0].names(spec).into_iter().map(str::to_owned);
            let clusters = names.map(|name| ClusterSelector { name }).collect();
            *list_mut(successor, spec) = clusters;
        }
        conversions.extend(filled.iter().copied().map(drop(kind)));
        filled.into_iter().for_each(|field| clear(field, spec));
    }
    empty.into_iter().for_each(|field| clear(field, spec));
}

/// Returns the treatment of the filled deprecated fields of one successor; `None` without any, or
/// if the mutation must not decide.
fn conversion_kind(
    successor: ClusterField,
    filled: &[ClusterField],
    spec: &MultiClusterServiceSpec,
    stored: Option<&MultiClusterServiceSpec>,
) -> Option<ConversionKind> {
    let (first, others) = filled.split_first()?;
    let names = first.names(spec);
    if others
        .iter()
        .any(|other| !same_clusters(&names, &other.names(spec)))
    {
        return None;
    }
    let current = successor.names(spec);
    if same_clusters(&current, &names) {
        return Some(ConversionKind::Redundant);
    }
    // What is refused is refused where it stands.
    if names.iter().any(|name| ClusterName::check(name).is_err()) {
        return None;
    }
    if current.is_empty() {
        return Some(ConversionKind::Converted);
    }
    let stored = stored?;
    let successor_is_as_stored = same_clusters(&current, &successor.names(stored));
    let deprecated_is_newer = filled
        .iter()
        .any(|field| !same_clusters(&names, &field.names(stored)));
    (successor_is_as_stored && deprecated_is_newer).then_some(ConversionKind::Replaced)
}

/// The operations that do to the object what [`convert`] did to its spec.
pub(super) fn patch(
    spec: &MultiClusterServiceSpec,
    conversions: &[Conversion],
    operations: &mut Vec<PatchOperation>,
) {
    for successor in [ClusterField::Consumers, ClusterField::Providers] {
        let taken_over = conversions.iter().any(|conversion| {
            conversion.field.successor() == successor
                && matches!(
                    conversion.kind,
                    ConversionKind::Converted | ConversionKind::Replaced
                )
        });
        if taken_over {
            operations.push(PatchOperation::Add(AddOperation {
                path: pointer(successor),
                value: json!(list(successor, spec)),
            }));
        }
    }
    operations.extend(conversions.iter().map(|conversion| {
        PatchOperation::Remove(RemoveOperation {
            path: pointer(conversion.field),
        })
    }));
}

/// Warning about a conversion. An empty field without a filled successor needs none.
pub(super) fn warning(conversion: &Conversion) -> Option<String> {
    let (old, new) = (conversion.field.path(), conversion.field.successor().path());
    let done = match conversion.kind {
        ConversionKind::Dropped => return None,
        ConversionKind::Ineffective => {
            return Some(format!(
                "{old} is deprecated and empty, which changes nothing: {new} still names clusters; \
                 edit {new} instead"
            ));
        }
        ConversionKind::Redundant => format!("was removed, for {new} names the same clusters"),
        ConversionKind::Converted => format!("was converted to {new}"),
        ConversionKind::Replaced => format!("has, being newer, replaced {new}, whoever set that"),
    };
    Some(format!(
        "{old} is deprecated and {done}; write {new} instead: when {old} goes from the manifest, {new} stays as it is"
    ))
}

fn is_present(field: ClusterField, spec: &MultiClusterServiceSpec) -> bool {
    match field {
        ClusterField::Providers | ClusterField::Consumers => true,
        ClusterField::Range => spec.range.is_some(),
        ClusterField::ServiceProvision => spec.service_provision_clusters.is_some(),
        ClusterField::ServiceConsumption => spec.service_consumption_clusters.is_some(),
    }
}

fn clear(field: ClusterField, spec: &mut MultiClusterServiceSpec) {
    match field {
        ClusterField::Providers => spec.provider_clusters.clear(),
        ClusterField::Consumers => spec.consumer_clusters.clear(),
        ClusterField::Range => spec.range = None,
        ClusterField::ServiceProvision => spec.service_provision_clusters = None,
        ClusterField::ServiceConsumption => spec.service_consumption_clusters = None,
    }
}

fn list(successor: ClusterField, spec: &MultiClusterServiceSpec) -> &[ClusterSelector] {
    match successor.successor() {
        ClusterField::Providers => &spec.provider_clusters,
        _ => &spec.consumer_clusters,
    }
}

fn list_mut(
    successor: ClusterField,
    spec: &mut MultiClusterServiceSpec,
) -> &mut Vec<ClusterSelector> {
    match successor.successor() {
        ClusterField::Providers => &mut spec.provider_clusters,
        _ => &mut spec.consumer_clusters,
    }
}

fn pointer(field: ClusterField) -> PointerBuf {
    let path = match field {
        ClusterField::Range => "spec.range",
        other => other.path(),
    };
    PointerBuf::from_tokens(path.split('.'))
}
