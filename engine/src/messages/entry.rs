//! Sentences about providers that clusters of other networks do not reach.

use causeway::api::labels;
use causeway::domain::{ClusterName, Reach, ServiceKey};

use super::{in_cluster, join, patch_service};
use crate::model::FailureKind;
use crate::plan::entry::{EntryUnknown, NoEntry, Why};

impl NoEntry {
    /// Returns why nothing reaches the provider, and what a person can do about it.
    pub(crate) fn words(&self, key: &ServiceKey, provider: &ClusterName) -> (String, String) {
        match self {
            Self::NotDeclared => (
                format!("nothing says how to reach {provider}"),
                format!("kubectl annotate cluster {provider} {}", reach()),
            ),
            Self::HeadlessConsumer => (
                format!(
                    "{key} is a headless Service in the consumer, and {provider} is entered by other ports"
                ),
                of_headless(key, provider),
            ),
            Self::Refused(why, _) => why.words(key, provider),
            Self::Unknown(unknown) => unknown.words(key, provider),
        }
    }
}

impl Why {
    fn words(self, key: &ServiceKey, provider: &ClusterName) -> (String, String) {
        (self.cause(key, provider), self.remedy(key, provider))
    }

    fn cause(self, key: &ServiceKey, provider: &ClusterName) -> String {
        let service = format!("Service {key} of {provider}");
        match self {
            Self::ExternalName => {
                format!("{service} is of type ExternalName, and has no endpoints")
            }
            Self::PortsRefused => {
                format!("the load balancer of {service} reports an error of each port")
            }
            Self::Terminating => {
                format!("{service} is terminating, and its load balancer is being removed")
            }
            Self::Headless => {
                format!("Service {key} is headless, and its names lead to pods alone")
            }
            Self::NoSelector => format!("{service} has no selector and no entry of its own"),
            Self::AddressOfCopies => format!(
                "the virtual address of {service} leads to other clusters too, for {provider} consumes the service, and the Service has no selector"
            ),
            Self::NoLoadBalancer => format!("{service} is not of type LoadBalancer"),
            Self::NoNode => format!("the EndpointSlices of {service} name no node"),
            Self::NotSelected => {
                format!("the selector of {service} finds none of its endpoints")
            }
            Self::NoAddress => format!(
                "no node of {provider} has an address of the declared kind and a family of Service {key}"
            ),
            Self::HoldsCopies => format!(
                "the load balancer of {service} leads to other clusters too, for {provider} consumes the service"
            ),
        }
    }

    fn remedy(self, key: &ServiceKey, provider: &ClusterName) -> String {
        let ServiceKey { namespace, name } = key;
        let patch = |spec: &str| patch_service(provider, key, spec);
        let local = r#""type":"NodePort","externalTrafficPolicy":"Local""#;
        match self {
            Self::ExternalName => patch(r#""type":"ClusterIP","externalName":null"#),
            Self::PortsRefused | Self::Terminating => {
                in_cluster(provider, key, format_args!("describe service {name}"))
            }
            Self::Headless => of_headless(key, provider),
            Self::NoSelector | Self::NotSelected => patch(local),
            Self::AddressOfCopies => format!(
                "kubectl -n {namespace} annotate multiclusterservice {name} {}, and {}",
                reach(),
                patch(local)
            ),
            Self::NoLoadBalancer => patch(r#""type":"LoadBalancer""#),
            Self::NoNode => patch(r#""type":"NodePort","externalTrafficPolicy":"Cluster""#),
            Self::NoAddress => format!("in {provider}: kubectl get nodes -o wide"),
            Self::HoldsCopies => patch(r#""externalTrafficPolicy":"Local""#),
        }
    }
}

impl EntryUnknown {
    fn words(&self, key: &ServiceKey, provider: &ClusterName) -> (String, String) {
        let name = &key.name;
        let service = format!("Service {key} of {provider}");
        let describe = || in_cluster(provider, key, format_args!("describe service {name}"));
        let get_events = || in_cluster(provider, key, "get services,events");
        match self {
            Self::Way { text, of_service } => (
                unknown_way(provider, text, of_service.then_some(key)),
                format!("write {}", Reach::VALUES.join(", ")),
            ),
            Self::Service => (format!("{service} is unknown"), describe()),
            Self::Companion => (
                format!(
                    "Service {} of {provider}, the entry to {key}, is not there yet",
                    key.companion()
                ),
                get_events(),
            ),
            Self::Nodes(None) => (
                format!("the nodes of {provider} have not been read yet"),
                format!("kubectl describe cluster {provider}"),
            ),
            Self::Nodes(Some(failure)) => (
                format!("the nodes of {provider} cannot be read ({failure})"),
                match failure.kind {
                    FailureKind::Forbidden => format!(
                        "{} --reach {}, or in {provider}: kubectl apply -f \
                         manifests/member/networks.yaml",
                        join(provider),
                        Reach::VALUES[0]
                    ),
                    _ => format!("kubectl describe cluster {provider}"),
                },
            ),
            Self::Node(node) => (
                format!("node {node} of {provider}, which has ready endpoints, is unknown"),
                format!("in {provider}: kubectl get nodes"),
            ),
            Self::NodePort(port) => (
                format!("port {port} of {provider} has no node port yet"),
                get_events(),
            ),
            Self::Hostname(host) => (
                format!("the hostname {host} of the load balancer of {service} has no address"),
                format!("beside the controller: getent ahosts {host}"),
            ),
            Self::Ports => (
                format!("the EndpointSlices of {service} have not caught up with its ports"),
                in_cluster(
                    provider,
                    key,
                    format_args!("get endpointslices -l {}={name}", labels::SERVICE_NAME),
                ),
            ),
            Self::LoadBalancer => (
                format!("the load balancer of {service} has no address yet"),
                describe(),
            ),
        }
    }
}

/// Reports the text of an annotation that names no way: of a service, or else of the Cluster.
fn unknown_way(provider: &ClusterName, text: &str, service: Option<&ServiceKey>) -> String {
    let object = match service {
        Some(key) => format!("the MultiClusterService, ServiceExport or Namespace of {key}"),
        None => format!("Cluster {provider}"),
    };
    format!(
        "the way to {provider} is unknown: annotation {} of {object} has the unknown value \
         {text:?}",
        labels::REACH
    )
}

/// Returns the annotation that declares the preferred way into a cluster.
fn reach() -> String {
    format!("{}={}", labels::REACH, Reach::VALUES[0])
}

fn of_headless(key: &ServiceKey, provider: &ClusterName) -> String {
    format!("give Service {key} a virtual address, or {provider} the network of its consumers")
}
