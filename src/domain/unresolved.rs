//! Message for a clusterset name that DNS does not answer as causeway would have it.

use super::ServiceKey;

/// Returns why the clusterset's name of a service does not lead to it in a cluster with a foreign
/// ServiceImport, and the command that repairs it: DNS answers with the addresses in the import's
/// spec, which its owner writes (KEP-1645, "DNS").
pub fn unresolved(
    key: &ServiceKey,
    has: &[String],
    derived: &ServiceKey,
    addresses: &[&str],
) -> Option<(String, String)> {
    let leads = |address: &String| addresses.contains(&address.as_str());
    if addresses.is_empty() || (!has.is_empty() && has.iter().all(leads)) {
        return None;
    }
    let has = match has {
        [] => "no addresses".to_owned(),
        has => has.join(", "),
    };
    let why = format!(
        "has a ServiceImport {key} of its own with {has} in spec.ips, so {}.{}.svc.clusterset.local does not lead to Service {derived}, \
         which has {}",
        key.name,
        key.namespace,
        addresses.join(", ")
    );
    let ips: Vec<_> = addresses
        .iter()
        .map(|address| format!("\"{address}\""))
        .collect();
    let remedy = format!(
        "kubectl -n {} patch serviceimport {} --type=merge -p '{{\"spec\":{{\"ips\":[{}]}}}}'; or delete that ServiceImport, and \
         causeway makes one",
        key.namespace,
        key.name,
        ips.join(",")
    );
    Some((why, remedy))
}
