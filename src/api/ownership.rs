//! Owner of an object in a member, by its metadata.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::{Value, json};

use super::labels;

/// Prefix of the annotation [`labels::OWNER`] on objects of a MultiClusterService.
pub const NATIVE_OWNER: &str = "MultiClusterService/";

/// Prefix of the annotation [`labels::OWNER`] on ServiceExports of a Namespace whose Services are
/// exported.
pub const NAMESPACE_OWNER: &str = "Namespace/";

/// Annotations by which tools other than causeway record that they apply an object, with the name
/// of the tool. [`claimant`] reads them, so causeway copies none of them to its objects.
pub const CLAIM_RECORDS: [(&str, &str); 2] = [
    (labels::LAST_APPLIED, "kubectl apply"),
    (labels::HELM_RELEASE, "Helm"),
];

/// Whether a definition is causeway's. Helm writes itself into [`labels::MANAGED_BY`] of what it
/// installs, so [`labels::NAME`] is one of its marks, too.
pub fn is_own_definition(meta: &ObjectMeta) -> bool {
    [labels::MANAGED_BY, labels::NAME]
        .iter()
        .any(|name| label(meta, name) == Some(labels::MANAGER))
}

/// The exported service that a Service was derived for, where causeway, of whichever hub, derived
/// it: its labels say so, and so does the record of its owner, if it has one. The name of a Service
/// says nothing: people and MultiClusterServices choose theirs.
pub fn derived_for(meta: &ObjectMeta) -> Option<&str> {
    managing_hub(meta)?;
    let of = label(meta, labels::MULTICLUSTER_SERVICE_NAME)?;
    let owner = annotation(meta, labels::OWNER);
    let is_delivered = owner.is_some_and(|owner| owner.starts_with(NATIVE_OWNER));
    (!is_delivered).then_some(of)
}

/// Returns the name of the Service that a Service is the companion of, if the causeway of any hub
/// manages it as such.
pub fn companion_of(meta: &ObjectMeta) -> Option<&str> {
    managing_hub(meta)?;
    annotation(meta, labels::COMPANION_OF)
}

/// The hub whose causeway manages the object: it bears that hub's label, and nobody has applied it
/// since.
pub fn managing_hub(meta: &ObjectMeta) -> Option<&str> {
    let hub = label(meta, labels::HUB)?;
    claimant(meta).is_none().then_some(hub)
}

/// Returns the name of the Cluster that a copy comes from.
pub fn source_member(meta: &ObjectMeta) -> Option<&str> {
    source_member_by(|name| label(meta, name), |name| annotation(meta, name))
}

/// Returns the name of the Cluster that a copy with these labels and annotations comes from. The
/// label has the id of the cluster in its clusterset, which may differ from that name. Every copy
/// has the name in the annotation.
pub fn source_member_by<'a>(
    label: impl Fn(&str) -> Option<&'a str>,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> Option<&'a str> {
    let id = label(labels::SOURCE_CLUSTER)?;
    Some(annotation(labels::PROVISION_CLUSTER).unwrap_or(id))
}

/// Whether Karmada propagated the object into this cluster, and manages it.
pub fn is_karmadas(meta: &ObjectMeta) -> bool {
    label(meta, labels::KARMADA_MANAGED) == Some("true")
}

/// Returns who applied the object, other than causeway: it is foreign from then on, whoever created
/// it.
///
/// To apply is to say what the object is to be from now on, and whoever does will do so again.
/// Server-side apply leaves an entry `Apply` in `metadata.managedFields` (Kubernetes, "Server-Side
/// Apply"), which counts where it owns part of the spec: who applies a label or an annotation alone
/// claims no more than that. On an object without a field in its spec, such as most ServiceExports,
/// every entry `Apply` counts. Client-side apply (kubectl, Argo CD), Helm and Karmada leave their
/// own records. A mere `Update` (kubectl edit, patch, label or annotate; a controller of
/// Kubernetes; another causeway) is no claim.
pub fn claimant(meta: &ObjectMeta) -> Option<&str> {
    let applied = claims(meta).find_map(|entry| entry.manager.as_deref());
    let recorded = || {
        let mut records = CLAIM_RECORDS.into_iter();
        records.find_map(|(record, by)| annotation(meta, record).map(|_| by))
    };
    let propagated = || is_karmadas(meta).then_some("Karmada");
    // Karmada propagates the record of the client that applied its template.
    applied.or_else(propagated).or_else(recorded)
}

/// Whether nobody but causeway, of whichever hub, keeps the object's status up, as far as its
/// managed fields say. Whoever replaces an object takes all entries about its status away, and the
/// status stays.
pub fn has_no_other_status(meta: &ObjectMeta) -> bool {
    let by_another = |entry: &ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref();
        let of_status = entry.subresource.as_deref() == Some("status")
            || fields.is_some_and(|fields| fields.0.get("f:status").is_some());
        of_status && entry.manager.as_deref() != Some(labels::MANAGER)
    };
    let entries = meta.managed_fields.as_deref().unwrap_or_default();
    !entries.is_empty() && !entries.iter().any(by_another)
}

/// Returns the program other than causeway that writes the object's status, by its managed fields;
/// `None` if causeway, of whichever hub, writes it too. What kubectl writes is a person's.
pub fn other_status_writer(meta: &ObjectMeta) -> Option<&str> {
    let entries = meta.managed_fields.iter().flatten();
    let of_status = entries.filter(|entry| entry.subresource.as_deref() == Some("status"));
    let managers: Vec<_> = of_status
        .filter_map(|entry| entry.manager.as_deref())
        .collect();
    let mut others = managers
        .iter()
        .filter(|manager| !manager.starts_with("kubectl"));
    match managers.contains(&labels::MANAGER) {
        true => None,
        false => others.next().copied(),
    }
}

/// Returns the manager other than causeway that wrote part of the object last, by its managed
/// fields; with `subresource`, part of that.
pub fn other_writer<'a>(meta: &'a ObjectMeta, subresource: &str) -> Option<&'a str> {
    let entries = meta.managed_fields.iter().flatten();
    let of_others = entries.filter(|entry| {
        entry.subresource.as_deref().unwrap_or_default() == subresource
            && entry.manager.as_deref() != Some(labels::MANAGER)
    });
    let last = of_others.max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    last.manager.as_deref()
}

fn claims(meta: &ObjectMeta) -> impl Iterator<Item = &ManagedFieldsEntry> {
    let entries = meta.managed_fields.iter().flatten();
    let mut specs = entries.clone().filter_map(owned_spec);
    let has_spec = specs.any(|spec| spec.as_object().is_some_and(|fields| !fields.is_empty()));
    let is_claim = move |entry: &&ManagedFieldsEntry| {
        entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
            && entry.manager.as_deref() != Some(labels::MANAGER)
            && (!has_spec || owned_spec(entry).is_some())
    };
    entries.filter(is_claim)
}

/// Returns the fields of the spec that an entry owns; empty where it owns an empty spec.
fn owned_spec(entry: &ManagedFieldsEntry) -> Option<&Value> {
    entry.fields_v1.as_ref()?.0.get("f:spec")
}

/// Labels and annotations that causeway wrote on an object that is foreign now, and removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Hub whose causeway wrote them; `None` where its label was removed.
    hub: Option<Box<str>>,
    /// Manager that applied the object; `None` where somebody only removed the hub's label.
    pub claimant: Option<Box<str>>,
    labels: Box<[&'static str]>,
    annotations: Box<[&'static str]>,
}

impl Marks {
    /// Reads the marks of a foreign object: another manager applied it, or somebody removed the
    /// hub's label and the owner is still recorded. A mark that the claimant applied stays: the
    /// next apply would restore it.
    pub fn read(meta: &ObjectMeta) -> Option<Self> {
        let hub = label(meta, labels::HUB);
        let claimant = claimant(meta);
        if hub.is_some() && claimant.is_none() {
            return None;
        }
        let applied = Applied::read(meta);
        let marks: Box<[_]> = own_labels(meta)
            .filter(|name| !applied.have("labels", name))
            .collect();
        let all = [
            labels::OWNER,
            labels::EXPORTED_LABELS,
            labels::EXPORTED_ANNOTATIONS,
        ];
        let annotations: Box<[_]> = all
            .into_iter()
            .filter(|name| annotation(meta, name).is_some() && !applied.have("annotations", name))
            .collect();
        let is_marked = match hub {
            Some(_) => marks.contains(&labels::HUB),
            None => annotations.contains(&labels::OWNER),
        };
        is_marked.then(|| Self {
            hub: hub.map(Into::into),
            claimant: claimant.map(Into::into),
            annotations,
            labels: marks,
        })
    }

    /// Whether that hub's causeway removes them. Any does where no hub is named.
    pub fn may_be_of(&self, hub: &str) -> bool {
        self.hub.as_deref().is_none_or(|own| own == hub)
    }

    /// A merge patch that takes them off that version of the object.
    pub fn removal(&self, resource_version: &str) -> Value {
        json!({
            "metadata": {
                "resourceVersion": resource_version,
                "labels": nulls(&self.labels),
                "annotations": nulls(&self.annotations),
            },
        })
    }
}

/// A merge patch that removes the labels that Kubernetes copied from a Service of that hub's
/// causeway to an object that it made for the Service. `None` where the object has no label of that
/// hub.
pub fn copied_label_removal(meta: &ObjectMeta, hub: &str) -> Option<Value> {
    let is_copied = label(meta, labels::HUB) == Some(hub);
    is_copied.then(|| {
        let copied: Vec<_> = own_labels(meta).collect();
        json!({"metadata": {"resourceVersion": meta.resource_version, "labels": nulls(&copied)}})
    })
}

/// The names of the labels that causeway gives a Service, as far as the object has them with
/// causeway's value.
fn own_labels(meta: &ObjectMeta) -> impl Iterator<Item = &'static str> {
    let is_ours = |name: &str| match label(meta, name) {
        Some(by) => name != labels::MANAGED_BY || by == labels::MANAGER,
        None => false,
    };
    [
        labels::HUB,
        labels::MANAGED_BY,
        labels::MULTICLUSTER_SERVICE_NAME,
    ]
    .into_iter()
    .filter(move |name| is_ours(name))
}

fn nulls(names: &[&str]) -> Value {
    let nulls = names.iter().map(|name| ((*name).to_owned(), Value::Null));
    Value::Object(nulls.collect())
}

/// Metadata that the claimants of an object applied.
struct Applied<'a> {
    server_side: Vec<&'a Value>,
    client_side: Value,
}

impl<'a> Applied<'a> {
    fn read(meta: &'a ObjectMeta) -> Self {
        let fields = claims(meta).filter_map(|entry| entry.fields_v1.as_ref());
        let last = annotation(meta, labels::LAST_APPLIED).unwrap_or_default();
        Self {
            server_side: fields.map(|fields| &fields.0["f:metadata"]).collect(),
            // What is no object has no labels.
            client_side: serde_json::from_str(last).unwrap_or_default(),
        }
    }

    /// Whether they applied that label or annotation.
    fn have(&self, group: &str, name: &str) -> bool {
        let owned = |metadata: &&Value| {
            let group = metadata.get(format!("f:{group}"));
            group.is_some_and(|group| group.get(format!("f:{name}")).is_some())
        };
        self.server_side.iter().any(owned)
            || self.client_side["metadata"][group].get(name).is_some()
    }
}

fn label<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(name).map(String::as_str)
}

fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn meta(marks: Value, annotations: Value) -> ObjectMeta {
        let meta = json!({"labels": marks, "annotations": annotations});
        serde_json::from_value(meta).expect("metadata")
    }

    #[test]
    fn a_definition_that_helm_installed_is_causeways_by_its_name() {
        for (labels, own) in [
            (json!({labels::MANAGED_BY: "causeway"}), true),
            (
                json!({labels::MANAGED_BY: "Helm", labels::NAME: "causeway"}),
                true,
            ),
            (
                json!({labels::MANAGED_BY: "Helm", labels::NAME: "karmada"}),
                false,
            ),
            (json!({}), false),
        ] {
            assert_eq!(
                is_own_definition(&meta(labels.clone(), json!({}))),
                own,
                "{labels}"
            );
        }
    }

    #[test]
    fn derived_service_is_known_by_labels_and_owner() {
        let both = || json!({labels::HUB: "h", labels::MULTICLUSTER_SERVICE_NAME: "foo"});
        for (marks, owner, of) in [
            (both(), "ServiceExport/foo", Some("foo")),
            (both(), "ServiceImport/uid", Some("foo")),
            (both(), "MultiClusterService/uid", None),
            (
                json!({labels::MULTICLUSTER_SERVICE_NAME: "foo"}),
                "ServiceExport/foo",
                None,
            ),
            (json!({labels::HUB: "h"}), "ServiceExport/foo", None),
        ] {
            let meta = meta(marks, json!({labels::OWNER: owner}));
            assert_eq!(derived_for(&meta), of, "{meta:?}");
        }
        assert_eq!(derived_for(&meta(both(), Value::Null)), Some("foo"));
        assert_eq!(derived_for(&ObjectMeta::default()), None);
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn managed(entries: Value) -> ObjectMeta {
        let marks = json!({labels::HUB: "h", labels::MANAGED_BY: labels::MANAGER});
        let meta =
            json!({"labels": marks, "annotations": {labels::OWNER: "o"}, "managedFields": entries});
        serde_json::from_value(meta).expect("metadata")
    }

    #[test]
    fn to_apply_part_of_the_spec_is_a_claim_and_to_update_is_none() {
        let spec = || json!({"f:spec": {"f:ports": {}}});
        let labels_alone = json!({"f:metadata": {"f:labels": {"f:team": {}}}});
        let status = json!({"f:status": {}});
        let mut entries: Vec<_> = [
            ("kustomize-controller", "Apply", spec(), true),
            ("kubectl", "Apply", json!({"f:spec": {}}), true),
            ("kubectl", "Apply", labels_alone, false),
            (labels::MANAGER, "Apply", spec(), false),
            ("kubectl-edit", "Update", spec(), false),
            ("kubectl-patch", "Update", spec(), false),
            ("kubectl-label", "Update", json!({"f:metadata": {}}), false),
            ("kube-controller-manager", "Update", status, false),
        ]
        .map(|(by, operation, fields, claims)| (entry(by, operation, fields), claims.then_some(by)))
        .into();
        let mut of_status = entry("cloud", "Apply", spec());
        of_status["subresource"] = json!("status");
        entries.push((of_status, None));
        entries.push((json!({"manager": "x", "operation": "Apply"}), None));
        let ours = entry(labels::MANAGER, "Update", spec());
        for (other, by) in entries {
            let meta = managed(json!([ours, other]));
            assert_eq!(claimant(&meta), by, "{meta:?}");
            assert_eq!(managing_hub(&meta), by.is_none().then_some("h"), "{meta:?}");
            assert_eq!(Marks::read(&meta).is_some(), by.is_some(), "{meta:?}");
        }
    }

    #[test]
    fn apply_to_an_object_without_fields_in_its_spec_is_a_claim() {
        let label = json!({"f:metadata": {"f:labels": {"f:team": {}}}});
        let apply = || entry("flux", "Apply", label.clone());
        let mut of_status = apply();
        of_status["subresource"] = json!("status");
        for (spec, other, by) in [
            (json!({}), apply(), Some("flux")),
            (json!({"f:exportedLabels": {}}), apply(), None),
            (
                json!({}),
                entry("kubectl-label", "Update", label.clone()),
                None,
            ),
            (
                json!({}),
                entry(labels::MANAGER, "Apply", label.clone()),
                None,
            ),
            (json!({}), of_status, None),
        ] {
            let ours = entry(labels::MANAGER, "Update", json!({"f:spec": spec}));
            let meta = managed(json!([ours, other]));
            assert_eq!(claimant(&meta), by, "{meta:?}");
            assert_eq!(managing_hub(&meta), by.is_none().then_some("h"), "{meta:?}");
        }
    }

    #[test]
    fn a_status_is_causeways_where_no_other_manager_has_any_of_it() {
        let of_status = |manager: &str, subresource: Option<&str>| {
            let mut entry = entry(manager, "Update", json!({"f:status": {}}));
            entry["subresource"] = json!(subresource);
            entry
        };
        let of_spec = || entry("kubectl-replace", "Update", json!({"f:spec": {}}));
        for (entries, expected) in [
            (json!([of_status(labels::MANAGER, Some("status"))]), true),
            (json!([of_spec()]), true),
            (
                json!([of_spec(), of_status("other", Some("status"))]),
                false,
            ),
            // A definition without the subresource.
            (json!([of_spec(), of_status("other", None)]), false),
            (json!([]), false),
        ] {
            let meta = managed(entries);
            assert_eq!(has_no_other_status(&meta), expected, "{meta:?}");
        }
    }

    #[test]
    fn other_program_that_writes_a_status_is_named() {
        let of_status = |manager: &str| {
            let mut entry = entry(manager, "Update", json!({"f:status": {}}));
            entry["subresource"] = json!("status");
            entry
        };
        let of_spec = entry("another", "Update", json!({"f:spec": {}}));
        let all =
            |managers: &[&str]| -> Value { managers.iter().map(|name| of_status(name)).collect() };
        for (entries, status_writer) in [
            (json!([]), None),
            (json!([of_spec]), None),
            (all(&["cilium-operator"]), Some("cilium-operator")),
            (all(&["kubectl-edit", "lighthouse"]), Some("lighthouse")),
            (all(&["kubectl"]), None),
            (all(&["cilium-operator", labels::MANAGER]), None),
        ] {
            assert_eq!(other_status_writer(&managed(entries)), status_writer);
        }
    }

    #[test]
    fn last_foreign_writer_ignores_status_writers() {
        let at = |manager: &str, second: u8, subresource: Option<&str>| {
            let mut entry = entry(manager, "Update", json!({"f:spec": {}}));
            entry["time"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
            entry["subresource"] = json!(subresource);
            entry
        };
        let meta = managed(json!([
            at("early", 1, None),
            at("late", 3, None),
            at("middle", 2, None),
            at(labels::MANAGER, 4, None),
            at("of-status", 5, Some("status")),
        ]));
        assert_eq!(other_writer(&meta, ""), Some("late"));
        assert_eq!(other_writer(&meta, "status"), Some("of-status"));
        assert_eq!(other_writer(&ObjectMeta::default(), ""), None);
    }

    #[test]
    fn the_records_of_tools_that_apply_are_claims() {
        let karmada = |value: &str| json!({labels::KARMADA_MANAGED: value});
        let applied = json!({labels::LAST_APPLIED: "{}"});
        let released = json!({labels::HELM_RELEASE: "shop"});
        for (labels, annotations, by) in [
            (json!({}), applied.clone(), Some("kubectl apply")),
            (json!({}), released, Some("Helm")),
            (karmada("true"), json!({}), Some("Karmada")),
            (karmada("true"), applied, Some("Karmada")),
            (karmada("false"), json!({}), None),
            (json!({"team": "a"}), json!({"note": "b"}), None),
        ] {
            let meta = meta(labels, annotations);
            assert_eq!(claimant(&meta), by, "{meta:?}");
        }
    }

    #[test]
    fn owner_without_a_hub_label_is_a_mark_to_remove() {
        for (own, annotations, removed) in [
            (json!({labels::HUB: "h"}), json!({labels::OWNER: "o"}), None),
            (json!({}), json!({}), None),
            (
                json!({labels::MANAGED_BY: labels::MANAGER}),
                json!({}),
                None,
            ),
            (
                json!({labels::MANAGED_BY: labels::MANAGER}),
                json!({labels::OWNER: "o"}),
                Some(json!({labels::MANAGED_BY: null})),
            ),
            (
                json!({labels::KARMADA_MANAGED: "true"}),
                json!({labels::OWNER: "o"}),
                Some(json!({})),
            ),
        ] {
            let marks = Marks::read(&meta(own.clone(), annotations));
            let removal = marks.as_ref().map(|marks| marks.removal("7"));
            let of_labels = removal.as_ref().map(|patch| &patch["metadata"]["labels"]);
            assert_eq!(of_labels, removed.as_ref(), "{own}");
            let of_annotations = removal.map(|patch| patch["metadata"]["annotations"].clone());
            let owner = removed.map(|_| json!({labels::OWNER: null}));
            assert_eq!(of_annotations, owner, "{own}");
            assert!(marks.is_none_or(|marks| marks.may_be_of("h")), "{own}");
        }
    }

    #[test]
    fn copied_labels_are_removed_for_their_hub_alone() {
        let own = json!({labels::HUB: "h", labels::MANAGED_BY: "Helm", labels::NAME: "x"});
        let copied = meta(own, json!({}));
        let removal = copied_label_removal(&copied, "h").expect("a removal");
        assert_eq!(removal["metadata"]["labels"], json!({labels::HUB: null}));
        assert_eq!(copied_label_removal(&copied, "i"), None);
        assert_eq!(copied_label_removal(&ObjectMeta::default(), "h"), None);
    }

    #[test]
    fn only_marks_that_the_claimant_did_not_apply_are_taken_off() {
        let spec_and = |metadata: Value| json!({"f:spec": {}, "f:metadata": metadata});
        let all = managed(json!([entry("flux", "Apply", spec_and(json!({})))]));
        let removal = json!({"metadata": {
            "resourceVersion": "7",
            "labels": {labels::HUB: null, labels::MANAGED_BY: null},
            "annotations": {labels::OWNER: null},
        }});
        let marks = Marks::read(&all).expect("marks");
        assert_eq!(
            (
                marks.removal("7"),
                ["h", "i"].map(|hub| marks.may_be_of(hub)),
                marks.claimant.as_deref()
            ),
            (removal, [true, false], Some("flux"))
        );
        let mut helms = all.clone();
        let own = helms.labels.as_mut().expect("labels");
        own.insert(labels::MANAGED_BY.to_owned(), "Helm".to_owned());
        let removal = Marks::read(&helms).expect("marks").removal("7");
        assert_eq!(removal["metadata"]["labels"], json!({labels::HUB: null}));
        let own_marks = json!({"f:labels": {format!("f:{}", labels::HUB): {}}});
        let applied = managed(json!([entry("flux", "Apply", spec_and(own_marks))]));
        assert_eq!(
            (Marks::read(&applied), managing_hub(&applied)),
            (None, None)
        );
        let text = json!({"metadata": {"labels": {labels::HUB: "h"}}}).to_string();
        let mut applied = managed(json!([]));
        let annotations = applied.annotations.as_mut().expect("annotations");
        annotations.insert(labels::LAST_APPLIED.to_owned(), text);
        assert_eq!(
            (Marks::read(&applied), managing_hub(&applied)),
            (None, None)
        );
    }
}
