use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::deprecated::{ClusterField, disagreements};
use super::exposure_type::ExposureType;
use super::field::{FieldError, FieldErrors, quoted};
use super::name::{ClusterName, dns1123_label};
use super::port::{ExposedPort, ExposedPorts};
use crate::api::{self, MultiClusterServiceSpec};

const TYPES: &[&str] = &["CrossCluster", "LoadBalancer"];

/// Clusters by name, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterSelection {
    /// Every member.
    All,
    /// Those named; never empty.
    Named(BTreeSet<ClusterName>),
}

impl ClusterSelection {
    /// Whether that cluster is selected.
    pub fn includes(&self, name: &ClusterName) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(name),
        }
    }

    /// The clusters that are selected by name.
    pub fn named(&self) -> impl Iterator<Item = &ClusterName> {
        match self {
            Self::All => None,
            Self::Named(names) => Some(names),
        }
        .into_iter()
        .flatten()
    }
}

/// The desired state of a MultiClusterService: deprecated fields resolved, repetitions merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiClusterService {
    /// Type of exposure.
    pub exposure: ExposureType,
    /// Exposed ports.
    pub ports: ExposedPorts,
    /// Clusters whose pods back the service.
    pub providers: ClusterSelection,
    /// Clusters whose clients may reach it.
    pub consumers: ClusterSelection,
}

impl TryFrom<&api::MultiClusterService> for MultiClusterService {
    type Error = FieldErrors;

    fn try_from(object: &api::MultiClusterService) -> Result<Self, FieldErrors> {
        Self::try_from(&object.spec)
    }
}

impl TryFrom<&MultiClusterServiceSpec> for MultiClusterService {
    type Error = FieldErrors;

    /// Reads a spec, with all that is wrong in it at once.
    fn try_from(spec: &MultiClusterServiceSpec) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        Self::read(spec, &mut |error| errors.push(error)).ok_or(errors)
    }
}

impl MultiClusterService {
    /// Reads a spec; `None` where anything is wrong in it, and every error goes to `report`.
    pub fn read(
        spec: &MultiClusterServiceSpec,
        report: &mut dyn FnMut(FieldError),
    ) -> Option<Self> {
        let mut is_right = true;
        let mut report = |error| {
            is_right = false;
            report(error);
        };
        let exposure = exposure(spec, &mut report);
        let ports = ports(spec, &mut report);
        let providers = clusters(spec, ClusterField::Providers, &mut report);
        let consumers = clusters(spec, ClusterField::Consumers, &mut report);
        disagreements(spec).for_each(report);
        exposure.filter(|_| is_right).map(|exposure| Self {
            exposure,
            ports,
            providers,
            consumers,
        })
    }

    /// Whether its consumers are entry clusters: their load balancers lead to all its providers.
    pub fn has_entry_clusters(&self) -> bool {
        self.exposure == ExposureType::LoadBalancer && self.consumers != ClusterSelection::All
    }

    /// Whether its consumers get the endpoints of its providers.
    pub fn dispatches_endpoints(&self) -> bool {
        self.exposure == ExposureType::CrossCluster || self.has_entry_clusters()
    }
}

/// Whether the consumers of a spec are entry clusters
/// ([`MultiClusterService::has_entry_clusters`]).
pub fn has_entry_clusters(spec: &MultiClusterServiceSpec) -> bool {
    let consumers = ClusterField::Consumers.effective(spec);
    ExposureType::of(spec) == Some(ExposureType::LoadBalancer) && !consumers.names(spec).is_empty()
}

/// Returns the cluster that is the only provider and the only consumer of a CrossCluster service:
/// no endpoints cross clusters.
pub fn only_cluster(spec: &MultiClusterServiceSpec) -> Option<&str> {
    if ExposureType::of(spec) != Some(ExposureType::CrossCluster) {
        return None;
    }
    let roles = [ClusterField::Providers, ClusterField::Consumers];
    let [providers, consumers] = roles.map(|role| role.effective(spec).names(spec));
    let only = *providers.first()?;
    let is_only = |names: &[&str]| !names.is_empty() && names.iter().all(|name| *name == only);
    (is_only(&providers) && is_only(&consumers)).then_some(only)
}

fn exposure(
    spec: &MultiClusterServiceSpec,
    report: &mut dyn FnMut(FieldError),
) -> Option<ExposureType> {
    let mut known = None;
    let mut distinct = BTreeSet::new();
    for (index, type_) in spec.types.iter().enumerate() {
        distinct.insert(type_.as_str());
        match ExposureType::named(type_) {
            Some(type_) => known = Some(type_),
            None => report(FieldError::not_supported(
                format!("spec.types[{index}]"),
                type_.as_str(),
                TYPES,
            )),
        }
    }
    if spec.types.is_empty() {
        report(FieldError::required(
            "spec.types",
            "name one type: CrossCluster or LoadBalancer",
        ));
    }
    if distinct.len() > 1 {
        let detail =
            "at most one type; make a MultiClusterService either CrossCluster or LoadBalancer";
        report(FieldError::invalid(
            "spec.types",
            spec.types.clone(),
            detail,
        ));
    }
    known
}

fn ports(spec: &MultiClusterServiceSpec, report: &mut dyn FnMut(FieldError)) -> ExposedPorts {
    let mut entries: Vec<ExposedPort> = Vec::new();
    let mut earlier = Earlier::default();
    for (index, port) in spec.ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = port.name.as_deref().filter(|name| !name.is_empty());
        if let Some(error) = name.and_then(|name| dns1123_label(name).err()) {
            report(FieldError::invalid(
                format!("{path}.name"),
                name,
                error.to_string(),
            ));
        }
        let Some(number) = u16::try_from(port.port).ok().filter(|number| *number > 0) else {
            report(FieldError::invalid(
                format!("{path}.port"),
                port.port,
                "must be between 1 and 65535, inclusive",
            ));
            continue;
        };
        if let Some(error) = earlier.repetition(name, number, &path) {
            report(error);
        }
        entries.push(ExposedPort {
            name: name.map(Into::into),
            number,
        });
    }
    if entries.is_empty() {
        ExposedPorts::All
    } else {
        ExposedPorts::Listed(entries)
    }
}

/// The entries that come before one, by what it may repeat.
#[derive(Default)]
struct Earlier<'a> {
    names: HashSet<&'a str>,
    numbers: HashMap<u16, Numbered<'a>>,
}

/// The earlier entries of one number.
struct Numbered<'a> {
    first: Option<&'a str>,
    has_nameless: bool,
}

impl<'a> Earlier<'a> {
    /// An entry that repeats an earlier one: the same name, or a number that an entry without a
    /// name already covers.
    fn repetition(&mut self, name: Option<&'a str>, number: u16, path: &str) -> Option<FieldError> {
        let is_new_name = name.is_none_or(|name| self.names.insert(name));
        let numbered = self.numbers.entry(number);
        let is_new_number = matches!(numbered, Entry::Vacant(_));
        let others = numbered.or_insert(Numbered {
            first: name,
            has_nameless: false,
        });
        let covered_by = match name {
            None => Some(others.first),
            Some(_) => others.has_nameless.then_some(None),
        };
        others.has_nameless |= name.is_none();
        if let (Some(name), false) = (name, is_new_name) {
            return Some(FieldError::duplicate(
                format!("{path}.name"),
                name,
                "port names are unique",
            ));
        }
        let other = described(covered_by.filter(|_| !is_new_number)?, number);
        let detail =
            format!("means the same Service port as the entry \"{other}\"; remove one of them");
        Some(FieldError::duplicate(path, described(name, number), detail))
    }
}

fn described(name: Option<&str>, number: u16) -> String {
    match name {
        Some(name) => format!("{} {number}", quoted(name)),
        None => number.to_string(),
    }
}

/// Remedy for an entry without a name.
const BLANK: &str =
    "name the cluster, or remove the entry; without any entry all clusters are selected";

fn clusters(
    spec: &MultiClusterServiceSpec,
    field: ClusterField,
    report: &mut dyn FnMut(FieldError),
) -> ClusterSelection {
    let mut named = BTreeSet::new();
    let effective = field.effective(spec);
    for field in field.with_deprecated() {
        for (index, name) in field.names(spec).into_iter().enumerate() {
            match ClusterName::try_from(name) {
                Ok(name) if field == effective => {
                    named.insert(name);
                }
                Ok(_) => {}
                Err(error) => {
                    let detail = match name.is_empty() {
                        true => BLANK.to_owned(),
                        false => error.to_string(),
                    };
                    report(FieldError::invalid(field.entry_path(index), name, detail));
                }
            }
        }
    }
    if named.is_empty() {
        ClusterSelection::All
    } else {
        ClusterSelection::Named(named)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(spec: serde_json::Value) -> Result<MultiClusterService, String> {
        let spec: MultiClusterServiceSpec = serde_json::from_value(spec).expect("the spec decodes");
        MultiClusterService::try_from(&spec).map_err(|errors| errors.to_string())
    }

    fn named(names: &[&str]) -> ClusterSelection {
        ClusterSelection::Named(
            names
                .iter()
                .map(|name| ClusterName::try_from(*name).expect("a name"))
                .collect(),
        )
    }

    #[test]
    fn empty_lists_mean_everything() {
        let mcs = parse(json!({"types": ["CrossCluster"]})).expect("it is valid");
        assert_eq!(mcs.ports, ExposedPorts::All);
        assert_eq!(
            (mcs.providers, mcs.consumers),
            (ClusterSelection::All, ClusterSelection::All)
        );
    }

    #[test]
    fn deprecated_fields_are_read_as_their_successors() {
        let cases = [
            (
                json!({"range": {"clusterNames": ["a", "b"]}}),
                ClusterSelection::All,
                named(&["a", "b"]),
            ),
            (
                json!({"serviceProvisionClusters": ["a"]}),
                named(&["a"]),
                ClusterSelection::All,
            ),
            (
                json!({"serviceConsumptionClusters": ["b"]}),
                ClusterSelection::All,
                named(&["b"]),
            ),
            (
                json!({"consumerClusters": [{"name": "b"}], "range": {"clusterNames": ["b", "b"]}}),
                ClusterSelection::All,
                named(&["b"]),
            ),
            (
                json!({"range": {}, "serviceProvisionClusters": []}),
                ClusterSelection::All,
                ClusterSelection::All,
            ),
        ];
        for (mut spec, providers, consumers) in cases {
            spec["types"] = json!(["CrossCluster"]);
            let mcs = parse(spec.clone()).expect("it is valid");
            assert_eq!(
                (mcs.providers, mcs.consumers),
                (providers, consumers),
                "{spec}"
            );
        }
    }

    #[test]
    fn range_has_no_effect_on_type_load_balancer() {
        let cases = [
            (
                json!({"range": {"clusterNames": ["clusterB"]}}),
                ClusterSelection::All,
            ),
            (
                json!({"range": {"clusterNames": ["b"]}, "consumerClusters": [{"name": "a"}]}),
                named(&["a"]),
            ),
            (
                json!({"range": {"clusterNames": ["b"]}, "serviceConsumptionClusters": ["a"]}),
                named(&["a"]),
            ),
        ];
        for (mut spec, consumers) in cases {
            spec["types"] = json!(["LoadBalancer"]);
            let mcs = parse(spec.clone()).expect("it is valid");
            assert_eq!(mcs.consumers, consumers, "{spec}");
            let has_entries = consumers != ClusterSelection::All;
            assert_eq!(mcs.has_entry_clusters(), has_entries, "{spec}");
            let decoded = serde_json::from_value(spec.clone()).expect("the spec decodes");
            assert_eq!(has_entry_clusters(&decoded), has_entries, "{spec}");
        }
    }

    #[test]
    fn repeated_types_and_clusters_are_one() {
        let mcs = parse(json!({
            "types": ["CrossCluster", "CrossCluster"],
            "providerClusters": [{"name": "a"}, {"name": "a"}],
        }))
        .expect("it is valid");
        assert_eq!(mcs.providers, named(&["a"]));
    }

    #[test]
    fn errors_hold_path_value_and_remedy() {
        let cases = [
            (
                json!({}),
                "spec.types: Required value: name one type: CrossCluster or LoadBalancer",
            ),
            (
                json!({"types": ["Cross"]}),
                r#"spec.types[0]: Unsupported value: "Cross": supported values: "CrossCluster", "LoadBalancer""#,
            ),
            (
                json!({"types": ["CrossCluster", "LoadBalancer"]}),
                r#"spec.types: Invalid value: ["CrossCluster","LoadBalancer"]: at most one type; make a MultiClusterService either CrossCluster or LoadBalancer"#,
            ),
            (
                json!({"types": ["CrossCluster"], "ports": [{"port": 0}]}),
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ),
            (
                json!({"types": ["CrossCluster"], "ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}),
                r#"spec.ports[1].name: Duplicate value: "a": port names are unique"#,
            ),
            (
                json!({"types": ["CrossCluster"], "ports": [{"port": 1}, {"name": "a", "port": 1}]}),
                r#"spec.ports[1]: Duplicate value: "a 1": means the same Service port as the entry "1"; remove one of them"#,
            ),
            (
                json!({"types": ["CrossCluster"], "consumerClusters": [{"name": "a"}], "range": {"clusterNames": ["b"]}}),
                r#"spec.range.clusterNames: Invalid value: ["b"]: deprecated, and disagrees with spec.consumerClusters ["a"]; remove spec.range.clusterNames and list the clusters in spec.consumerClusters"#,
            ),
        ];
        for (spec, message) in cases {
            assert_eq!(
                parse(spec.clone()).expect_err("it is wrong"),
                message,
                "{spec}"
            );
        }
    }

    #[test]
    fn two_deprecated_fields_that_disagree_are_refused() {
        let message = parse(json!({
            "types": ["CrossCluster"], "range": {"clusterNames": ["a"]}, "serviceConsumptionClusters": ["b"],
        }))
        .expect_err("they disagree");
        assert!(
            message.starts_with("spec.serviceConsumptionClusters: Invalid value"),
            "{message}"
        );
    }

    #[test]
    fn two_protocols_of_one_number_are_two_ports() {
        let mcs = parse(json!({
            "types": ["CrossCluster"], "ports": [{"name": "dns", "port": 53}, {"name": "dns-tcp", "port": 53}],
        }))
        .expect("they are two ports");
        assert!(matches!(mcs.ports, ExposedPorts::Listed(entries) if entries.len() == 2));
    }

    #[test]
    fn a_cluster_name_in_capitals_is_refused_with_its_entry() {
        let message = parse(json!({"types": ["CrossCluster"], "providerClusters": [{"name": "a"}, {"name": "clusterB"}]}))
            .expect_err("capitals");
        assert!(
            message.starts_with(r#"spec.providerClusters[1].name: Invalid value: "clusterB": "#),
            "{message}"
        );
    }
}
