//! Wording, likely cause and remedy of each outcome. Pure.

use causeway::api::labels;

use super::named;
use super::probe::{OTHER_PROGRAM, Outcome, Path};

/// Likely cause of a failed path, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Diagnosis {
    pub cause: String,
    pub remedy: String,
}

/// Describes an outcome in a few words.
pub(super) fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Works => "works".to_owned(),
        Outcome::WorksThroughNat { seen } => format!("works, seen from {seen}"),
        Outcome::Refused => "refused".to_owned(),
        Outcome::NoRoute => "no route".to_owned(),
        Outcome::TimedOut => "timed out".to_owned(),
        Outcome::NoAnswer => "no answer, unknown".to_owned(),
        Outcome::Intercepted => "accepted by a proxy, unknown".to_owned(),
        Outcome::Reset => "reset".to_owned(),
        Outcome::NameNotFound => "name not found".to_owned(),
        Outcome::NameserverFailed { error } => format!("nameserver failed: {error}"),
        Outcome::WrongAddress { found } => format!("wrong address {}", named(found.iter())),
        Outcome::WrongCluster { answered } => format!("answered by {answered}"),
        Outcome::LargePacketsLost => "large packets are lost".to_owned(),
        Outcome::Failed { error } => format!("failed: {error}"),
    }
}

/// Facts beyond the path itself, from the same consumer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    /// Whether this run's pod in the same provider answers.
    pub network_works: bool,
    /// Whether a path to an endpoint fails.
    pub endpoints_fail: bool,
    /// Whether the endpoint is an entry to a provider of another network.
    pub is_entry: bool,
}

/// Returns the likely cause of an outcome and its remedy, or `None` if the path works. `from` is
/// the connecting cluster.
pub(super) fn diagnose(
    from: &str,
    path: &Path,
    outcome: &Outcome,
    evidence: Evidence,
) -> Option<Diagnosis> {
    let (cause, remedy) = match (path, outcome) {
        (_, Outcome::Works | Outcome::WorksThroughNat { .. }) => return None,
        (_, Outcome::NoAnswer) => (
            "a server of UDP may ignore the datagram, or packets are dropped".to_owned(),
            format!("try it from a pod of {from} with a client of its protocol"),
        ),
        (_, Outcome::Intercepted) => (
            "a proxy, such as that of a service mesh, accepts every connection of the pod"
                .to_owned(),
            format!(
                "run the pods outside of the mesh (--probe-namespace), or try it from a pod of \
                 {from} with a client of its protocol"
            ),
        ),
        (Path::Name { name, .. }, outcome) => of_name(from, name, outcome),
        (Path::ClusterIp(_), outcome) => of_cluster_ip(outcome, evidence.endpoints_fail),
        (
            Path::Endpoint { at, .. },
            outcome @ (Outcome::Refused | Outcome::NoRoute | Outcome::TimedOut),
        ) if evidence.is_entry => of_entry(from, at.port, outcome),
        (Path::Endpoint { provider, at }, Outcome::Refused) => (
            format!(
                "the pod in {provider} is reached, and nothing listens on its port {}",
                at.port
            ),
            "compare targetPort of the Service with the port on which the container listens"
                .to_owned(),
        ),
        (Path::Endpoint { provider, .. }, Outcome::TimedOut) if evidence.network_works => (
            format!("other pods of {provider} answer {from}, and packets to this one are dropped"),
            format!(
                "look for a NetworkPolicy in {provider} that selects the pod, and at the pod itself"
            ),
        ),
        (Path::Endpoint { provider, .. } | Path::Server { provider, .. }, outcome) => {
            of_pod(from, provider, outcome)
        }
    };
    Some(Diagnosis { cause, remedy })
}

fn of_pod(from: &str, provider: &str, outcome: &Outcome) -> (String, String) {
    let (cause, remedy) = match outcome {
        Outcome::NoRoute => (
            format!("{from} has no route to the pods of {provider}"),
            format!(
                "route the pod networks to each other, or declare {provider} as of another \
                 network: {}",
                declare(provider)
            ),
        ),
        Outcome::Refused => (
            format!("the node or a firewall in front of {provider} refuses the connection"),
            format!("look for a NetworkPolicy or a firewall that rejects pods of {from}"),
        ),
        Outcome::Reset => (
            format!("the connection to {provider} is made and then cut"),
            "look for a proxy, a mesh or a firewall that ends connections on the way".to_owned(),
        ),
        Outcome::WrongCluster { answered } if answered == OTHER_PROGRAM => (
            format!("another program than this run's pod in {provider} answers at its address"),
            "look for a proxy on the way, and for pod networks that overlap".to_owned(),
        ),
        Outcome::WrongCluster { answered } => (
            format!("pods of {answered} have addresses of {provider}: pod networks overlap"),
            format!(
                "give the clusters separate pod ranges, or declare {provider} as of another \
                 network: {}",
                declare(provider)
            ),
        ),
        Outcome::LargePacketsLost => (
            format!(
                "the way to {provider} carries smaller packets than the pods send, and their senders do not learn it"
            ),
            "lower the MTU of the CNI to that of the way, or let ICMP \"fragmentation needed\" through (ICMPv6 \"packet too big\")"
                .to_owned(),
        ),
        _ => (
            format!("packets between pods of {from} and {provider} are dropped, in one direction or both"),
            format!(
                "look for a NetworkPolicy in {provider}, a firewall between the clusters, and a missing route back to the pods of {from}"
            ),
        ),
    };
    (cause, remedy)
}

/// Returns the command that declares the network of a member. `join` does so for its own alone, and
/// not for members of Karmada or of ClusterProfiles.
fn declare(member: &str) -> String {
    format!(
        "kubectl annotate cluster {member} {}=NAME (docs/networks.md)",
        labels::NETWORK
    )
}

/// Explains a failed entry to a provider of another network: a node port, a load balancer or a
/// virtual address.
fn of_entry(from: &str, port: u16, outcome: &Outcome) -> (String, String) {
    let cause = match outcome {
        Outcome::Refused => {
            "the entry of the other network is reached and leads to no pod, or a firewall rejects \
             the connection"
                .to_owned()
        }
        Outcome::NoRoute => format!("{from} has no route to the entry of the other network"),
        _ => "packets to the entry of the other network or back are dropped".to_owned(),
    };
    let remedy = format!(
        "let {from} through to port {port} of the node or load balancer; kubectl mcs explain shows \
         the entries (docs/networks.md)"
    );
    (cause, remedy)
}

fn of_cluster_ip(outcome: &Outcome, endpoints_fail: bool) -> (String, String) {
    let (cause, remedy) = match outcome {
        Outcome::Refused if endpoints_fail => (
            "kube-proxy leads to an endpoint that refuses, or knows none for this port",
            "mend the endpoints that do not work first",
        ),
        Outcome::Refused => (
            "kube-proxy knows no endpoint for this port",
            "kubectl mcs explain shows which endpoints there should be",
        ),
        Outcome::NoRoute => (
            "the node has no rules and no route for the address",
            "check that kube-proxy, or what replaces it, runs on the node",
        ),
        _ => (
            "kube-proxy leads to an endpoint that does not answer, or the node has no rules for the address",
            "mend the endpoints that do not work first; then check kube-proxy on the node",
        ),
    };
    (cause.to_owned(), remedy.to_owned())
}

fn of_name(from: &str, name: &str, outcome: &Outcome) -> (String, String) {
    let is_of_clusterset = name.ends_with(".clusterset.local");
    match outcome {
        Outcome::NameNotFound | Outcome::NameserverFailed { .. } if is_of_clusterset => (
            format!(
                "the DNS of {from} does not serve clusterset.local, or has not seen the ServiceImport"
            ),
            format!(
                "kubectl mcs dns {from} --member-kubeconfig FILE shows what is missing \
                 (docs/clusterset.md#dns)"
            ),
        ),
        Outcome::NameNotFound => (
            format!("the DNS of {from} has not seen the Service"),
            "check CoreDNS and its right to watch Services and EndpointSlices".to_owned(),
        ),
        Outcome::WrongAddress { .. } => (
            "another Service, a rewrite or a forward answers for the name".to_owned(),
            format!("look up {} in a pod, and read the Corefile of {from}", name),
        ),
        _ => (
            format!("pods of {from} get no answer from the nameserver"),
            "check that CoreDNS runs, and that no NetworkPolicy drops port 53".to_owned(),
        ),
    }
}
