//! EndpointSlices of a provider that are not copied.

use std::net::IpAddr;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey};

use crate::messages::Diagnosis;
use crate::model::slice::SourceSlice;
use crate::plan::copies::Skipped;
use crate::plan::providers::{Disagreement, Unfit};
use crate::reasons::Reason;

/// EndpointSlice of a provider, by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice<'a> {
    /// Service that the slice belongs to.
    pub(crate) key: &'a ServiceKey,
    /// Provider.
    pub(crate) provider: &'a ClusterName,
    /// Name of the slice.
    pub(crate) name: &'a str,
}

impl Slice<'_> {
    /// Reports that nothing of the slice is copied.
    pub(crate) fn skipped(&self, why: &Skipped) -> Diagnosis {
        let reason = match why {
            Skipped::Unfit(Unfit::AddressType) => Reason::AddressTypeNotSupported,
            Skipped::Unfit(Unfit::Unreadable) => Reason::SliceInvalid,
            Skipped::Unfit(Unfit::TooManyEndpoints) => Reason::TooManyEndpoints,
            Skipped::TooManySlices => Reason::TooManySlices,
            Skipped::Behind | Skipped::NoPort(_) => Reason::PortNotInSlice,
            Skipped::Unfit(Unfit::Redundant(_)) => Reason::Progressing,
        };
        let Self { provider, name, .. } = self;
        let message = format!("EndpointSlice {name} of {provider} is not copied: {why}");
        Diagnosis::new(reason, message)
    }

    /// Reports endpoints without an address of the slice's type.
    pub(crate) fn without_address(&self, source: &SourceSlice) -> Diagnosis {
        let message = format!(
            "{} endpoints of EndpointSlice {} of {} have no {} address",
            source.odd,
            self.name,
            self.provider,
            source.address_type.as_str()
        );
        Diagnosis::new(Reason::SliceInvalid, message)
    }

    /// Reports that the slice and those that Kubernetes maintains differ on the readiness of
    /// endpoints.
    pub(crate) fn writers_disagree(&self, disagreement: &Disagreement) -> Diagnosis {
        let message = disagreement.sentence(self.provider, self.name);
        let message = format!("{message}, and the latter decide");
        Diagnosis::new(Reason::WritersDisagree, message).fix(self.stop_writer())
    }

    /// Reports that the slice and the slice `kept`, which Kubernetes maintains, differ on the
    /// readiness of one endpoint.
    pub(crate) fn differs_on(&self, address: IpAddr, is_ready: bool, kept: &str) -> Diagnosis {
        let (as_own, as_kept) = match is_ready {
            true => ("ready", "not ready"),
            false => ("not ready", "ready"),
        };
        let Self { provider, name, .. } = self;
        let message = format!(
            "EndpointSlice {name} of {provider} has {address} as {as_own}, and EndpointSlice {kept}, which Kubernetes keeps and which \
             decides, as {as_kept}"
        );
        Diagnosis::new(Reason::WritersDisagree, message).fix(self.stop_writer())
    }

    fn stop_writer(&self) -> String {
        format!(
            "in {}, stop one of the writers and delete what it wrote: kubectl -n {} get endpointslices -l {}={} \
             --show-managed-fields -o yaml names them",
            self.provider,
            self.key.namespace,
            labels::SERVICE_NAME,
            self.key.name
        )
    }
}
