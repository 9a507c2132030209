//! Reasons why a slice of a provider, or a port of it, is not copied.

use std::sync::Arc;

use causeway::domain::ServicePort;

use super::template::CopyTemplate;
use crate::model::slice::SourceSlice;
use crate::plan::port_fit::MissingPort;
use crate::plan::providers::Unfit;

/// Reason why nothing of a slice is copied to a consumer.
#[derive(Clone, Debug)]
pub(crate) enum Skipped {
    /// It is copied to no consumer.
    Unfit(Unfit),
    /// Its provider has more slices of the service than are copied.
    TooManySlices,
    /// Its controllers have not caught up with a change of the Service's ports: an existing copy
    /// stays.
    Behind,
    /// None of its ports is exposed.
    NoPort(MissingPorts),
}

/// Ports that a consumer's Service offers and a slice lacks. They are computed on request.
#[derive(Clone, Debug)]
pub(crate) struct MissingPorts {
    pub(super) template: Arc<CopyTemplate>,
    pub(super) source: Arc<SourceSlice>,
}

impl MissingPorts {
    /// Returns one gap for each port that is missing.
    pub(crate) fn list(&self) -> Vec<MissingPort> {
        self.template.fit().gaps(&self.source).collect()
    }

    /// Returns the ports of the provider's Service.
    pub(crate) fn provider_ports(&self) -> &[ServicePort] {
        self.template.fit().provider
    }
}
