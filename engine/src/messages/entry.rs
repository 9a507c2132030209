//! Sentences about providers that clusters of other networks do not reach.

use causeway::api::labels;
use causeway::domain::{ClusterName, Reach, ServiceKey};

use crate::model::FailureKind;
use crate::plan::entry::{EntryUnknown, NoEntry, Why};

impl NoEntry {
    /// Returns why nothing reaches the provider.
    pub(crate) fn sentence(&self, key: &ServiceKey, provider: &ClusterName) -> String {
        match self {
            Self::NotDeclared => format!("nothing says how to reach {provider}"),
            Self::HeadlessConsumer => {
                format!(
                    "{key} is a headless Service in the consumer, and {provider} is entered by other ports"
                )
            }
            Self::Refused(why, _) => match why {
                Why::ExternalName => {
                    format!(
                        "Service {key} of {provider} is of type ExternalName, and has no endpoints"
                    )
                }
                Why::PortsRefused => format!(
                    "the load balancer of Service {key} of {provider} reports an error of each port"
                ),
                Why::Headless => {
                    format!("Service {key} is headless, and its names lead to pods alone")
                }
                Why::NoSelector => {
                    format!("Service {key} of {provider} has no selector and no entry of its own")
                }
                Why::AddressOfCopies => format!(
                    "the virtual address of Service {key} of {provider} leads to other clusters too, for {provider} consumes the service, and the Service has no selector"
                ),
                Why::NoLoadBalancer => {
                    format!("Service {key} of {provider} is not of type LoadBalancer")
                }
                Why::NoNode => {
                    format!("the EndpointSlices of Service {key} of {provider} name no node")
                }
                Why::NotSelected => format!(
                    "the selector of Service {key} of {provider} finds none of its endpoints"
                ),
                Why::NoAddress => format!(
                    "no node of {provider} has an address of the declared kind and a family of Service {key}"
                ),
                Why::HoldsCopies => format!(
                    "the load balancer of Service {key} of {provider} leads to other clusters too, for {provider} consumes the service"
                ),
            },
            Self::Unknown(unknown) => match unknown {
                EntryUnknown::Service => format!("Service {key} of {provider} is unknown"),
                EntryUnknown::Companion => format!(
                    "Service {} of {provider}, the entry to {key}, is not there yet",
                    key.companion()
                ),
                EntryUnknown::Nodes(None) => {
                    format!("the nodes of {provider} have not been read yet")
                }
                EntryUnknown::Nodes(Some(failure)) => {
                    format!("the nodes of {provider} cannot be read ({failure})")
                }
                EntryUnknown::Node(name) => {
                    format!("node {name} of {provider}, which has ready endpoints, is unknown")
                }
                EntryUnknown::NodePort(port) => {
                    format!("port {port} of {provider} has no node port yet")
                }
                EntryUnknown::Hostname(host) => format!(
                    "the hostname {host} of the load balancer of Service {key} of {provider} has no address"
                ),
                EntryUnknown::Ports => format!(
                    "the EndpointSlices of Service {key} of {provider} have not caught up with its ports"
                ),
                EntryUnknown::LoadBalancer => {
                    format!("the load balancer of Service {key} of {provider} has no address yet")
                }
            },
        }
    }

    /// Returns what a person can do about it.
    pub(crate) fn remedy(&self, key: &ServiceKey, provider: &ClusterName) -> String {
        let ServiceKey { namespace, name } = key;
        let in_provider =
            |command: &str| format!("in {provider}: kubectl -n {namespace} {command}");
        let local = format!(
            "patch service {name} -p '{{\"spec\":{{\"type\":\"NodePort\",\"externalTrafficPolicy\":\"Local\"}}}}'"
        );
        let of_headless = || {
            format!(
                "give Service {key} a virtual address, or {provider} the network of its consumers"
            )
        };
        match self {
            Self::NotDeclared => format!(
                "kubectl annotate cluster {provider} {}={}",
                labels::REACH,
                Reach::VALUES[0]
            ),
            Self::HeadlessConsumer => of_headless(),
            Self::Refused(why, _) => match why {
                Why::ExternalName => in_provider(&format!(
                    "patch service {name} -p '{{\"spec\":{{\"type\":\"ClusterIP\",\"externalName\":null}}}}'"
                )),
                Why::PortsRefused => in_provider(&format!("describe service {name}")),
                Why::Headless => of_headless(),
                Why::NoSelector | Why::NotSelected => in_provider(&local),
                Why::AddressOfCopies => format!(
                    "kubectl -n {namespace} annotate multiclusterservice {name} {}={}, and {}",
                    labels::REACH,
                    Reach::VALUES[0],
                    in_provider(&local)
                ),
                Why::NoNode => in_provider(&format!(
                    "patch service {name} -p '{{\"spec\":{{\"type\":\"NodePort\",\"externalTrafficPolicy\":\"Cluster\"}}}}'"
                )),
                Why::NoAddress => format!("in {provider}: kubectl get nodes -o wide"),
                Why::NoLoadBalancer => in_provider(&format!(
                    "patch service {name} -p '{{\"spec\":{{\"type\":\"LoadBalancer\"}}}}'"
                )),
                Why::HoldsCopies => in_provider(&format!(
                    "patch service {name} -p '{{\"spec\":{{\"externalTrafficPolicy\":\"Local\"}}}}'"
                )),
            },
            Self::Unknown(unknown) => match unknown {
                EntryUnknown::Nodes(Some(failure)) if failure.kind == FailureKind::Forbidden => {
                    format!(
                        "kubectl mcs join {provider} --member-kubeconfig FILE --reach {}, or in \
                         {provider}: kubectl apply -f manifests/member/networks.yaml",
                        Reach::VALUES[0]
                    )
                }
                EntryUnknown::Nodes(_) => format!("kubectl describe cluster {provider}"),
                EntryUnknown::Node(_) => format!("in {provider}: kubectl get nodes"),
                EntryUnknown::Companion | EntryUnknown::NodePort(_) => {
                    in_provider("get services,events")
                }
                EntryUnknown::Hostname(host) => {
                    format!("beside the controller: getent ahosts {host}")
                }
                EntryUnknown::Ports => in_provider(&format!(
                    "get endpointslices -l kubernetes.io/service-name={name}"
                )),
                EntryUnknown::Service | EntryUnknown::LoadBalancer => {
                    in_provider(&format!("describe service {name}"))
                }
            },
        }
    }
}
