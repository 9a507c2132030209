//! The CustomResourceDefinitions that causeway installs, generated from the API types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSON, JSONSchemaProps,
    JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt as _;

use super::labels;
use super::{Cluster, MultiClusterService, multicluster};

/// Annotations by which Argo CD and Flux retain a definition that is no longer in git. Its deletion
/// would delete all objects of its kind.
const KEPT: [(&str, &str); 2] = [
    ("argocd.argoproj.io/sync-options", "Prune=false"),
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
];

/// The definitions for a hub: MultiClusterService and, for hubs without Karmada, Cluster.
pub fn hub() -> Vec<CustomResourceDefinition> {
    vec![multi_cluster_service(), cluster()]
}

/// The definitions for a member: ServiceExport and ServiceImport, v1beta1 stored and v1alpha1
/// served.
pub fn member() -> Vec<CustomResourceDefinition> {
    let export = with_optional_spec(multicluster::ServiceExportDefinition::crd());
    let import = with_import_rules(with_optional_spec(
        multicluster::ServiceImportDefinition::crd(),
    ));
    [export, import]
        .map(|crd| finished(in_both_versions(crd)))
        .to_vec()
}

/// The versions of the API have one shape.
fn in_both_versions(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let older: Vec<_> = crd
        .spec
        .versions
        .iter()
        .map(|version| CustomResourceDefinitionVersion {
            name: multicluster::Version::V1alpha1.to_string(),
            storage: false,
            ..version.clone()
        })
        .collect();
    crd.spec.versions.extend(older);
    crd
}

fn multi_cluster_service() -> CustomResourceDefinition {
    let mut crd = MultiClusterService::crd();
    for_each_schema(&mut crd, |schema| {
        let Some(spec) = property(schema, "spec") else {
            return;
        };
        spec.required = Some(vec!["types".to_owned()]);
        if let Some(types) = property(spec, "types") {
            types.min_items = Some(1);
            if let Some(JSONSchemaPropsOrArray::Schema(item)) = &mut types.items {
                item.enum_ = one_of(["CrossCluster", "LoadBalancer"]);
            }
        }
    });
    finished(crd)
}

fn cluster() -> CustomResourceDefinition {
    let mut crd = Cluster::crd();
    for_each_schema(&mut crd, |schema| {
        for part in ["spec", "status"] {
            if let Some(part) = property(schema, part) {
                part.x_kubernetes_preserve_unknown_fields = Some(true);
            }
        }
    });
    finished(crd)
}

/// An object may say nothing beside its name.
fn with_optional_spec(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for_each_schema(&mut crd, |schema| schema.required = None);
    crd
}

fn with_import_rules(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for_each_schema(&mut crd, |schema| {
        if let Some(type_) = property(schema, "spec").and_then(|spec| property(spec, "type")) {
            type_.enum_ = one_of(["ClusterSetIP", "Headless"]);
        }
        let Some(status) = property(schema, "status") else {
            return;
        };
        if let Some(objects) = property(status, "endpointSliceObjects") {
            objects.enum_ = one_of(["Present", "Absent"]);
        }
        keyed_by(property(status, "clusters"), "cluster");
    });
    crd
}

/// Applies what all definitions share: neither nulls nor defaults where Go's types have none, no
/// line breaks within paragraphs, conditions keyed by type, causeway's labels, no pruning.
fn finished(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let own = [labels::NAME, labels::MANAGED_BY];
    let own = own.map(|name| (name.to_owned(), labels::MANAGER.to_owned()));
    crd.metadata.labels.get_or_insert_default().extend(own);
    let kept = KEPT.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let annotations = crd.metadata.annotations.get_or_insert_default();
    annotations.extend(kept);
    for_each_schema(&mut crd, |schema| {
        as_go_types_are(schema);
        let status = property(schema, "status");
        keyed_by(
            status.and_then(|status| property(status, "conditions")),
            "type",
        );
    });
    crd
}

/// Declares that the entries of a list, if there is one, are identified by a field.
fn keyed_by(list: Option<&mut JSONSchemaProps>, key: &str) {
    if let Some(list) = list {
        list.x_kubernetes_list_type = Some("map".to_owned());
        list.x_kubernetes_list_map_keys = Some(vec![key.to_owned()]);
    }
}

fn one_of<const N: usize>(values: [&str; N]) -> Option<Vec<JSON>> {
    Some(values.map(|value| JSON(value.into())).to_vec())
}

fn for_each_schema(
    crd: &mut CustomResourceDefinition,
    mut change: impl FnMut(&mut JSONSchemaProps),
) {
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut();
        if let Some(schema) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            change(schema);
        }
    }
}

fn property<'a>(schema: &'a mut JSONSchemaProps, name: &str) -> Option<&'a mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

fn as_go_types_are(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.default = None;
    if let Some(description) = &mut schema.description {
        *description = one_line_each(description);
    }
    for (_, property) in schema.properties.iter_mut().flatten() {
        as_go_types_are(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &mut schema.items {
        as_go_types_are(item);
    }
}

/// Joins the lines of each paragraph, unless it is a list.
fn one_line_each(text: &str) -> String {
    let joined = text.split("\n\n").map(|paragraph| {
        let is_list = paragraph.lines().any(|line| line.starts_with(['-', ' ']));
        match is_list {
            true => paragraph.to_owned(),
            false => paragraph.replace('\n', " "),
        }
    });
    joined.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn multicluster_crds_serve_both_versions_and_store_v1beta1() {
        for crd in member() {
            let versions: Vec<_> = crd
                .spec
                .versions
                .iter()
                .map(|v| (v.name.as_str(), v.served, v.storage))
                .collect();
            assert_eq!(
                versions,
                [("v1beta1", true, true), ("v1alpha1", true, false)],
                "{}",
                crd.spec.names.kind
            );
        }
    }

    #[test]
    fn definitions_are_not_pruned() {
        for crd in hub().into_iter().chain(member()) {
            let annotations = crd.metadata.annotations.unwrap_or_default();
            for (name, value) in KEPT {
                assert_eq!(annotations[name], value, "{}", crd.spec.names.kind);
            }
        }
    }

    #[test]
    fn no_field_accepts_null_or_has_a_default() {
        for crd in hub().into_iter().chain(member()) {
            let text = serde_json::to_string(&crd).expect("a definition serialises");
            for word in ["\"nullable\"", "\"default\""] {
                assert!(!text.contains(word), "{}: {word}", crd.spec.names.kind);
            }
        }
    }

    /// An API server prints only the first result of a path. It prints a list as JSON.
    #[test]
    fn no_column_shows_only_the_first_of_a_list() {
        for crd in hub().into_iter().chain(member()) {
            let versions = crd.spec.versions.iter();
            let columns = versions.flat_map(|version| &version.additional_printer_columns);
            for column in columns.flatten() {
                assert!(!column.json_path.contains("[*]"), "{}", column.json_path);
            }
        }
    }

    /// `kubectl explain` shows them to people.
    #[test]
    fn descriptions_bear_no_marks_of_the_source_code() {
        for crd in hub().into_iter().chain(member()) {
            let text = serde_json::to_string(&crd).expect("a definition serialises");
            for mark in ["`", "::", "decode", "Auto-generated"] {
                assert!(!text.contains(mark), "{}: {mark}", crd.spec.names.kind);
            }
        }
    }

    #[test]
    fn types_are_required_and_known() {
        let text = serde_json::to_value(multi_cluster_service()).expect("a definition serialises");
        let spec = &text["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(spec["required"], json!(["types"]));
        assert_eq!(spec["properties"]["types"]["minItems"], json!(1));
        assert_eq!(
            spec["properties"]["types"]["items"]["enum"],
            json!(["CrossCluster", "LoadBalancer"])
        );
    }
}
