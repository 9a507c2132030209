//! Region and zones of a member, from flags, from the labels of its Nodes, or from its Cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use causeway::api::Cluster;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;

use crate::cluster::api_server::{ApiServer, RequestError, allowed};

/// Topology labels of Nodes (Kubernetes, "Well-Known Labels, Annotations and Taints").
const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Region and zones, each possibly unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Location {
    pub region: Option<String>,
    pub zones: Vec<String>,
}

/// Location of a member with its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Located {
    pub location: Location,
    /// Part of the location that comes from Nodes.
    pub by_nodes: Location,
    /// Reasons that a part is unknown, one line each.
    pub notes: Vec<String>,
}

/// Labels of a Node.
type Labels = BTreeMap<String, String>;

impl Location {
    /// Creates a location. Duplicate zones are removed.
    pub(crate) fn new(region: Option<String>, zones: Vec<String>) -> Self {
        let mut seen = BTreeSet::new();
        let zones = zones.into_iter().filter(|zone| seen.insert(zone.clone()));
        Self {
            region,
            zones: zones.collect(),
        }
    }

    /// Returns the location in `spec.region` and `spec.zones` of a Cluster.
    pub(crate) fn recorded(cluster: &Cluster) -> Self {
        let spec = &cluster.spec;
        Self::new(spec.region.clone(), spec.zones.clone())
    }

    /// Fills missing parts from `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            region: self.region.or(other.region),
            zones: match self.zones.is_empty() {
                true => other.zones,
                false => self.zones,
            },
        }
    }

    /// Whether region and zones are unknown.
    pub(crate) fn is_empty(&self) -> bool {
        self.region.is_none() && self.zones.is_empty()
    }

    fn is_complete(&self) -> bool {
        self.region.is_some() && !self.zones.is_empty()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let region = self.region.iter().map(|region| format!("region {region}"));
        let word = match self.zones.as_slice() {
            [_] => "zone",
            _ => "zones",
        };
        let zones = (!self.zones.is_empty()).then(|| format!("{word} {}", self.zones.join(", ")));
        let parts: Vec<_> = region.chain(zones).collect();
        out.write_str(&parts.join(", "))
    }
}

impl Located {
    /// Finds the location of a member. Flags take precedence over the labels of the member's Nodes,
    /// and Nodes over the recorded Cluster.
    pub(crate) async fn find(
        member: &ApiServer,
        given: Location,
        recorded: Location,
    ) -> Result<Self, RequestError> {
        if given.is_complete() {
            return Ok(Self {
                location: given,
                ..Self::default()
            });
        }
        let nodes: Api<Node> = member.all();
        let all = ListParams::default();
        let nodes = allowed(member.found(nodes.list_metadata(&all)).await)?;
        let labels = nodes.map(|nodes| {
            let nodes = nodes.into_iter().flat_map(|list| list.items);
            nodes
                .map(|node| node.metadata.labels.unwrap_or_default())
                .collect::<Vec<_>>()
        });
        Ok(Self::new(given, recorded, labels.as_deref()))
    }

    /// Combines the sources. `nodes` is `None` if the user may not list Nodes.
    fn new(given: Location, recorded: Location, nodes: Option<&[Labels]>) -> Self {
        let Some(nodes) = nodes else {
            let location = given.or(recorded);
            let note = "the region and zones of the member are not known, because you may not list its Nodes; give --region and --zone";
            let notes = (!location.is_complete()).then(|| note.to_owned());
            return Self {
                location,
                by_nodes: Location::default(),
                notes: notes.into_iter().collect(),
            };
        };
        let mut notes = Vec::new();
        let mut by_nodes = Location::default();
        if given.region.is_none() {
            match region(nodes) {
                Ok(region) => by_nodes.region = region,
                Err(note) if recorded.region.is_none() => notes.push(note),
                Err(_) => {}
            }
        }
        if given.zones.is_empty() {
            match zones(nodes) {
                Ok(zones) => by_nodes.zones = zones,
                Err(note) if recorded.zones.is_empty() => notes.push(note),
                Err(_) => {}
            }
        }
        Self {
            location: given.or(by_nodes.clone()).or(recorded),
            by_nodes,
            notes,
        }
    }
}

/// Returns the region that all Nodes have, or `None` if no Node has one.
fn region(nodes: &[Labels]) -> Result<Option<String>, String> {
    let regions = values(nodes, REGION, "--region")?;
    if regions.len() > 1 {
        let regions: Vec<_> = regions.into_iter().collect();
        return Err(format!(
            "the region is not set: the nodes of the member name several ({}); give --region",
            regions.join(", ")
        ));
    }
    Ok(regions.first().map(|region| (*region).to_owned()))
}

/// Returns the zones of all Nodes. The list is empty if no Node has one.
fn zones(nodes: &[Labels]) -> Result<Vec<String>, String> {
    let zones = values(nodes, ZONE, "--zone")?;
    Ok(zones.into_iter().map(ToOwned::to_owned).collect())
}

/// Returns the values of a label that either all Nodes have or none.
fn values<'a>(nodes: &'a [Labels], label: &str, flag: &str) -> Result<BTreeSet<&'a str>, String> {
    let values = nodes.iter().map(|labels| labels.get(label));
    let values = values.map(|value| value.filter(|value| !value.is_empty()));
    let lacking = values.clone().filter(Option::is_none).count();
    let named: BTreeSet<_> = values.flatten().map(String::as_str).collect();
    if lacking > 0 && !named.is_empty() {
        let what = flag.trim_start_matches('-');
        return Err(format!(
            "the {what} is not set: {lacking} of {} nodes of the member have no label {label}; give {flag}",
            nodes.len()
        ));
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a location written as `region/zone zone`.
    fn location(text: &str) -> Location {
        let (region, zones) = text.split_once('/').expect("region/zones");
        let region = Some(region.to_owned()).filter(|region| !region.is_empty());
        let zones = zones.split_whitespace().map(ToOwned::to_owned);
        Location::new(region, zones.collect())
    }

    /// Parses Nodes written as `region/zone`. A dash means that the label is missing.
    fn nodes(text: &str) -> Vec<Labels> {
        let nodes = text.split_whitespace().map(|node| {
            let (region, zone) = node.split_once('/').expect("region/zone");
            let labels = [(REGION, region), (ZONE, zone)].into_iter();
            let labels = labels.filter(|(_, value)| *value != "-");
            labels.map(|(name, value)| (name.to_owned(), value.to_owned()))
        });
        nodes.map(Iterator::collect).collect()
    }

    #[test]
    fn flags_count_before_nodes_and_nodes_before_what_the_cluster_has() {
        for (given, of_nodes, recorded, expected, by_nodes) in [
            ("/", "", "/", "/", "/"),
            ("/", "-/- -/-", "/", "/", "/"),
            ("/", "-/-", "x/y", "x/y", "/"),
            ("/", "eu/b eu/a eu/b", "x/y", "eu/a b", "eu/a b"),
            ("us/", "eu/a", "x/y", "us/a", "/a"),
            ("/c d", "eu/a", "/", "eu/c d", "eu/"),
            ("us/", "-/-", "x/y", "us/y", "/"),
            // If Nodes disagree, the recorded value remains.
            ("/", "eu/a us/-", "x/y", "x/y", "/"),
        ] {
            let (given, recorded) = (location(given), location(recorded));
            let located = Located::new(given, recorded, Some(&nodes(of_nodes)));
            assert_eq!(located.location, location(expected), "{of_nodes}");
            assert_eq!(located.by_nodes, location(by_nodes), "{of_nodes}");
            assert_eq!(located.notes, Vec::<String>::new(), "{of_nodes}");
        }
    }

    #[test]
    fn nodes_that_disagree_are_reported_with_the_flag_that_helps() {
        for (of_nodes, expected, notes) in [
            (
                "us/a eu/b",
                location("/a b"),
                vec![
                    "the region is not set: the nodes of the member name several (eu, us); give --region",
                ],
            ),
            (
                "eu/a -/b eu/-",
                location("/"),
                vec![
                    "the region is not set: 1 of 3 nodes of the member have no label topology.kubernetes.io/region; give --region",
                    "the zone is not set: 1 of 3 nodes of the member have no label topology.kubernetes.io/zone; give --zone",
                ],
            ),
        ] {
            let located = Located::new(location("/"), location("/"), Some(&nodes(of_nodes)));
            assert_eq!(located.location, expected);
            assert_eq!(located.notes, notes);
        }
    }

    #[test]
    fn nodes_that_nobody_may_list_leave_what_is_given_and_what_the_cluster_has() {
        let located = Located::new(location("us/"), location("x/y"), None);
        assert_eq!(located.location, location("us/y"));
        assert_eq!(located.notes, Vec::<String>::new());
        let located = Located::new(location("us/"), location("/"), None);
        assert_eq!(located.location, location("us/"));
        assert_eq!(
            located.notes,
            [
                "the region and zones of the member are not known, because you may not list its Nodes; give --region and --zone"
            ]
        );
    }

    #[test]
    fn location_is_written_with_its_zones() {
        assert_eq!(location("eu/a b").to_string(), "region eu, zones a, b");
        assert_eq!(location("/a a").to_string(), "zone a");
    }
}
