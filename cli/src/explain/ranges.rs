//! Why the address of an endpoint is not carried to other clusters (ARCHITECTURE.md, invariant 10).

use std::net::IpAddr;

use causeway::api::{Cluster, labels};
use causeway::domain::{AddressRefusal, ClusterName, Declared, Ranges};
use kube::ResourceExt as _;

use super::report::{Finding, Reason};

/// Why causeway does not carry an address of this provider, if it does not.
pub(super) fn refusal(address: &str, provider: &Cluster, clusters: &[Cluster]) -> Option<Finding> {
    let name = provider.name_any();
    let others = clusters.iter().filter(|other| other.name_any() != name);
    let others = others.filter_map(|other| {
        let name = ClusterName::try_from(&*other.name_any()).ok()?;
        Some((name, declared(other)))
    });
    let others: Vec<_> = others.collect();
    let own = declared(provider);
    let others = others.iter().map(|(name, ranges)| (name, ranges));
    let refusal = Ranges::new(&own, others).refusal(address.parse().ok()?)?;
    Some(match refusal {
        AddressRefusal::NotRoutable(ip) => {
            let message = format!("{ip} of {name} does not lead to another node");
            let finding = Finding::new(Reason::AddressNotRoutable, message);
            finding.mend(format!(
                "in {name}: give the pods, or the EndpointSlice, addresses that other clusters can reach"
            ))
        }
        AddressRefusal::Outside(ip) => {
            let message = format!("{ip} is outside the endpoint-cidrs of {name}");
            let ranges = own.ranges.iter().map(ToString::to_string);
            let ranges: Vec<_> = ranges.chain([host(ip)]).collect();
            Finding::new(Reason::AddressOutsideRanges, message).mend(annotate(&name, &ranges))
        }
        AddressRefusal::OfAnother(ip, other) => {
            let message = format!(
                "{ip} of {name} is in the endpoint-cidrs of {other}, which alone may give it"
            );
            let finding = Finding::new(Reason::AddressOutsideRanges, message);
            finding.mend(annotate(&name, &[host(ip)]))
        }
    })
}

/// The range of that address alone.
fn host(address: IpAddr) -> String {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    format!("{address}/{bits}")
}

fn annotate(cluster: &str, ranges: &[String]) -> String {
    format!(
        "kubectl annotate cluster {cluster} --overwrite {}={}",
        labels::ENDPOINT_CIDRS,
        ranges.join(",")
    )
}

fn declared(cluster: &Cluster) -> Declared {
    let text = cluster.annotations().get(labels::ENDPOINT_CIDRS);
    text.map(|text| Declared::read(text)).unwrap_or_default()
}
