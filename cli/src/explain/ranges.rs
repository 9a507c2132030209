//! Why the address of an endpoint is not carried to other clusters (ARCHITECTURE.md, invariant 10).

use std::net::IpAddr;

use causeway::api::{Cluster, labels};
use ipnet::IpNet;
use kube::ResourceExt as _;

use super::report::{Finding, Reason};

/// Why causeway does not carry an address of this provider, if it does not.
pub(super) fn refusal(address: &str, provider: &Cluster, clusters: &[Cluster]) -> Option<Finding> {
    let name = provider.name_any();
    let ip = address.parse::<IpAddr>().ok()?.to_canonical();
    if !is_routable(ip) {
        let message = format!("{ip} of {name} does not lead to another node");
        let finding = Finding::new(Reason::AddressNotRoutable, message);
        return Some(finding.mend(format!(
            "in {name}: give the pods, or the EndpointSlice, addresses that other clusters can reach"
        )));
    }
    let own = declared(provider);
    let host = IpNet::from(ip);
    if !own.is_empty() {
        let outside = !own.iter().any(|range| range.contains(&ip));
        return outside.then(|| {
            let ranges: Vec<_> = own.iter().chain([&host]).map(ToString::to_string).collect();
            let message = format!("{ip} is outside the endpoint-cidrs of {name}");
            Finding::new(Reason::AddressOutsideRanges, message).mend(annotate(&name, &ranges))
        });
    }
    let mut others = clusters.iter().filter(|other| other.name_any() != name);
    let other = others.find(|other| declared(other).iter().any(|range| range.contains(&ip)))?;
    let message = format!(
        "{ip} of {name} is in the endpoint-cidrs of {}, which alone may give it",
        other.name_any()
    );
    let finding = Finding::new(Reason::AddressOutsideRanges, message);
    Some(finding.mend(annotate(&name, &[host.to_string()])))
}

fn annotate(cluster: &str, ranges: &[String]) -> String {
    format!(
        "kubectl annotate cluster {cluster} --overwrite {}={}",
        labels::ENDPOINT_CIDRS,
        ranges.join(",")
    )
}

fn declared(cluster: &Cluster) -> Vec<IpNet> {
    let text = cluster.annotations().get(labels::ENDPOINT_CIDRS);
    let parts = text.into_iter().flat_map(|text| text.split(','));
    parts.filter_map(|part| part.trim().parse().ok()).collect()
}

fn is_routable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            !(v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_unspecified()
                || v4.is_broadcast())
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_multicast()
                || v6.is_unspecified())
        }
    }
}
