//! Addresses of load balancers, in the form in which causeway compares and publishes them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway::domain::{PortId, canonical_name, is_dns_name};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, PortStatus};

/// Values of `ipMode` (core/v1 `LoadBalancerIngress`).
const IP_MODES: [&str; 2] = ["VIP", "Proxy"];

/// Returns the addresses of a load balancer in normal form: IP addresses with their mode, and DNS
/// names, without ports. Entries that have neither are left out.
///
/// A hostile member may report any text. It would fill the store of the hub, and Karmada's webhook
/// refuses each later change of an object whose status has an invalid address. Karmada's definition
/// requires an error of each port, which load balancers set only for a port that they refuse.
pub(crate) fn normal<'a>(
    ingress: impl IntoIterator<Item = &'a LoadBalancerIngress>,
) -> Vec<LoadBalancerIngress> {
    ingress.into_iter().filter_map(normal_entry).collect()
}

fn normal_entry(entry: &LoadBalancerIngress) -> Option<LoadBalancerIngress> {
    let ip = entry.ip.as_ref();
    let ip = ip.filter(|ip| ip.parse::<IpAddr>().is_ok());
    let hostname = entry.hostname.as_deref().map(canonical_name);
    let hostname = hostname.filter(|name| is_dns_name(name));
    let mode = entry.ip_mode.as_ref().filter(|_| ip.is_some());
    let mode = mode.filter(|mode| IP_MODES.contains(&mode.as_str()));
    (ip.is_some() || hostname.is_some()).then(|| LoadBalancerIngress {
        hostname,
        ip: ip.cloned(),
        ip_mode: mode.cloned(),
        ports: None,
    })
}

/// Returns the ports of which a load balancer reports an error on each of its addresses, in order.
pub(crate) fn refused_ports<'a>(
    ingress: impl IntoIterator<Item = &'a LoadBalancerIngress>,
) -> Box<[PortId]> {
    let entries = ingress.into_iter();
    let entries = entries.filter(|entry| normal_entry(entry).is_some());
    let refused = entries.map(refused_on).reduce(|all, one| &all & &one);
    refused.unwrap_or_default().into_iter().collect()
}

fn refused_on(entry: &LoadBalancerIngress) -> BTreeSet<PortId> {
    let ports = entry.ports.iter().flatten();
    let refused = ports.filter(|port| port.error.is_some());
    refused.filter_map(port_id).collect()
}

fn port_id(status: &PortStatus) -> Option<PortId> {
    Some(PortId {
        protocol: status.protocol.parse().ok()?,
        number: u16::try_from(status.port).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(ingress: Value) -> Vec<LoadBalancerIngress> {
        serde_json::from_value(ingress).expect("addresses of a load balancer")
    }

    #[test]
    fn address_of_a_load_balancer_is_an_ip_or_a_dns_name() {
        let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        let too_long = format!("{longest}b");
        let huge = "x".repeat(1024 * 1024);
        let ports = json!([{"port": 80, "protocol": "TCP"}]);
        for (reported, normal_form) in [
            (
                json!({"ip": "192.0.2.1", "ipMode": "VIP", "ports": ports}),
                json!([{"ip": "192.0.2.1", "ipMode": "VIP"}]),
            ),
            (
                json!({"ip": "2001:db8::1", "ipMode": "Proxy", "hostname": "lb.example"}),
                json!([{"ip": "2001:db8::1", "ipMode": "Proxy", "hostname": "lb.example"}]),
            ),
            (
                json!({"ip": "192.0.2.1", "ipMode": huge}),
                json!([{"ip": "192.0.2.1"}]),
            ),
            (
                json!({"hostname": "LB.example.", "ipMode": "VIP"}),
                json!([{"hostname": "lb.example"}]),
            ),
            (json!({"hostname": longest}), json!([{"hostname": longest}])),
            (
                json!({"ip": "192.0.2.256", "ipMode": "VIP", "hostname": "lb"}),
                json!([{"hostname": "lb"}]),
            ),
            (json!({"hostname": too_long}), json!([])),
            (json!({"hostname": "x y"}), json!([])),
            (json!({"hostname": "192.0.2.1"}), json!([])),
            (json!({"hostname": "192.000.002.001"}), json!([])),
            (json!({"hostname": huge}), json!([])),
            (json!({"ip": huge}), json!([])),
            (json!({"ip": "", "hostname": ""}), json!([])),
            (json!({"ipMode": "VIP"}), json!([])),
            (json!({}), json!([])),
        ] {
            let [reported, expected] = [json!([reported]), normal_form].map(read);
            assert_eq!(normal(&reported), expected);
            assert_eq!(normal(&expected), expected);
        }
    }

    #[test]
    fn port_is_refused_by_an_error_on_each_address() {
        let tcp = json!({"port": 80, "protocol": "TCP"});
        let failed = json!({"port": 80, "protocol": "TCP", "error": "Quota"});
        let other = json!({"port": 80, "protocol": "UDP", "error": "Quota"});
        for (first, second, is_refused) in [
            (json!([failed, other]), json!([failed]), true),
            (json!([failed]), json!([tcp]), false),
            (json!([failed]), json!([other]), false),
            (json!([failed]), json!([]), false),
            (json!([]), json!([]), false),
        ] {
            let ingress = read(json!([
                {"ip": "192.0.2.1", "ports": first},
                {"ip": "192.0.2.2", "ports": second},
                {"hostname": "x y"},
            ]));
            let refused = refused_ports(&ingress);
            let refused: Vec<_> = refused.iter().map(ToString::to_string).collect();
            let expected: &[&str] = if is_refused { &["80/TCP"] } else { &[] };
            assert_eq!(refused, expected, "{ingress:?}");
        }
        assert_eq!(refused_ports(&[]).len(), 0);
    }
}
