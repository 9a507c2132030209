//! Match of the ports of a provider's slices with those that a consumer's Service offers.

use causeway::domain::{PortId, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointPort;

use crate::model::slice::{SliceManager, SlicePort, SourceSlice};

/// Reason why a port that a consumer's Service offers leads to none of a slice's endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MissingPort {
    /// The provider's Service lacks this port.
    NotInProvider(PortId),
    /// The slice lacks this port of the provider's Service.
    NotInSlice(ServicePort),
}

/// Ports of the Service in a provider, and those that the Service in a consumer offers.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortFit<'a> {
    /// All ports of the provider's Service, under its names.
    pub(super) provider: &'a [ServicePort],
    /// The exposed ports of the consumer's Service, under its names.
    pub(super) consumer: &'a [ServicePort],
}

impl<'a> PortFit<'a> {
    /// Whether the slice has any port that the consumer's Service offers. Endpoints without ports
    /// fit a headless Service without ports alone: no proxy sends anything to them. A slice without
    /// ports and endpoints always fits.
    pub(super) fn offers(self, source: &SourceSlice) -> bool {
        match source.ports.is_empty() {
            true => self.consumer.is_empty() || source.is_empty(),
            false => source.ports.iter().any(|port| self.offered(port).is_some()),
        }
    }

    /// Lists the ports that the consumer's Service offers and the slice lacks.
    pub(super) fn gaps(self, source: &'a SourceSlice) -> impl Iterator<Item = MissingPort> {
        let is_placeholder = source.ports.is_empty() && source.is_empty();
        let offered = self.consumer.iter().filter(move |_| !is_placeholder);
        offered.filter_map(move |wanted| {
            let mut known = self.provider.iter().filter(|known| known.id == wanted.id);
            let Some(first) = known.clone().next() else {
                return Some(MissingPort::NotInProvider(wanted.id));
            };
            let is_there = known.any(|known| source.ports.iter().any(|port| is_named(port, known)));
            (!is_there).then(|| MissingPort::NotInSlice(first.clone()))
        })
    }

    /// Whether the provider's controllers have not caught up with a change of its Service's ports:
    /// the slice has a port of a name that the Service lacks, and lacks one that is to be offered.
    pub(super) fn is_behind(self, source: &SourceSlice) -> bool {
        let is_unknown =
            |port: &SlicePort| !self.provider.iter().any(|known| is_named(port, known));
        source.manager == SliceManager::Pods
            && source.ports.iter().any(is_unknown)
            && self.gaps(source).next().is_some()
    }

    /// Lists the ports of a copy: those of the source that the consumer's Service offers, under its
    /// names.
    pub(super) fn ports(self, source: &'a SourceSlice) -> impl Iterator<Item = EndpointPort> {
        source.ports.iter().filter_map(move |port| {
            Some(EndpointPort {
                name: Some(self.offered(port)?.name.to_string()),
                protocol: Some(port.protocol.to_string()),
                port: port.number,
                app_protocol: port.app_protocol.as_deref().map(ToOwned::to_owned),
            })
        })
    }

    /// Returns the port of the consumer's Service that leads to a port of a source. The two match
    /// by protocol and number.
    fn offered(self, port: &SlicePort) -> Option<&'a ServicePort> {
        let mut known = self.provider.iter();
        let id = known.find(|known| is_named(port, known))?.id;
        let mut offered = self.consumer.iter();
        offered.find(|candidate| candidate.id == id)
    }
}

/// Whether the port of a slice is that of its Service, by name and protocol.
fn is_named(port: &SlicePort, of_service: &ServicePort) -> bool {
    *of_service.name == *port.name && of_service.id.protocol == port.protocol
}
