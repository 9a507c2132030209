//! Evidence in answers of API servers. A proxy may answer 404 to anything.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroupList;

/// Whether an API server that lists these groups serves none of these versions of a group. An empty
/// list is no evidence.
pub fn is_unserved(listed: &APIGroupList, group: &str, versions: &[&str]) -> bool {
    let of_group = listed.groups.iter().filter(|one| one.name == group);
    let mut served = of_group.flat_map(|one| &one.versions);
    !listed.groups.is_empty() && !served.any(|one| versions.contains(&&*one.version))
}
