//! Sentences about slices and endpoints that are not copied.

use std::fmt;

use causeway::api::labels;
use causeway::domain::{AddressRefusal, ClusterName, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Diagnosis;
use crate::model::slice::SourceSlice;
use crate::plan::copies::{NotCopied, Refused, Skipped, SliceOfProvider};
use crate::plan::providers::{Disagreement, MOST_ENDPOINTS, MOST_SLICES, Unfit};
use crate::reasons::Reason;

impl fmt::Display for Skipped {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(unfit) => unfit.fmt(out),
            Self::TooManySlices => NotCopied::TooManySlices.fmt(out),
            Self::Behind => out.write_str("its ports are not those of its Service yet"),
            Self::NoPort(_) => out.write_str("none of its ports is exposed"),
        }
    }
}

impl fmt::Display for NotCopied {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(AddressRefusal::NotRoutable(_)) => {
                out.write_str("an address does not lead to another node")
            }
            Self::Address(AddressRefusal::Outside(_)) => {
                out.write_str("an address is outside the cluster's endpoint-cidrs")
            }
            Self::Address(AddressRefusal::OfAnother(_, other)) => {
                write!(out, "an address is in the endpoint-cidrs of {other}")
            }
            Self::NoAddress(family) => {
                write!(out, "an endpoint without an {} address", family.as_str())
            }
            Self::Unfit(unfit) => unfit.fmt(out),
            Self::TooManySlices => {
                write!(out, "no more than {MOST_SLICES} of a service are copied")
            }
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressType => out.write_str("its addressType is neither IPv4 nor IPv6"),
            Self::Unreadable => out.write_str("it cannot be read; copies made of it before stay"),
            Self::TooManyEndpoints => write!(
                out,
                "it has more than {MOST_ENDPOINTS} endpoints; copies made of it before stay"
            ),
            Self::Redundant { .. } => {
                out.write_str("slices that Kubernetes keeps hold the same endpoints")
            }
        }
    }
}

impl Refused {
    /// Returns `some endpoints and 2 EndpointSlices of member1 (an address is ...)`. Names neither
    /// the number of endpoints nor an address: the status would change with each endpoint.
    pub(crate) fn of(&self, provider: &ClusterName) -> String {
        let endpoints = (self.endpoints > 0).then(|| "some endpoints".to_owned());
        let slices = match self.slices {
            0 => None,
            1 => Some("1 EndpointSlice".to_owned()),
            many => Some(format!("{many} EndpointSlices")),
        };
        let what: Vec<_> = endpoints.into_iter().chain(slices).collect();
        let example = self.example.as_ref().map(ToString::to_string);
        let example = example.unwrap_or_default();
        format!("{} of {provider} ({example})", what.join(" and "))
    }
}

impl Disagreement {
    /// Returns a sentence that names both slices.
    pub(crate) fn sentence(&self, provider: &ClusterName, slice: &str) -> String {
        format!(
            "in {provider} EndpointSlice {slice} and those that Kubernetes keeps ({}) disagree on which endpoints are ready",
            self.kept
        )
    }

    /// Whether the stored condition reports the disagreement. The condition is the one record of it
    /// that outlives the process.
    pub(crate) fn is_reported(
        &self,
        (provider, slice): SliceOfProvider<'_>,
        stored: Option<&Condition>,
    ) -> bool {
        stored.is_some_and(|ready| ready.message.contains(&self.sentence(provider, slice)))
    }
}

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
            Skipped::Unfit(Unfit::Redundant { .. }) => Reason::Progressing,
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
        Diagnosis::new(Reason::WritersDisagree, message).fix(format!(
            "in {}, stop one of the writers and delete what it wrote: kubectl -n {} get endpointslices -l {}={} \
             --show-managed-fields -o yaml; it names them",
            self.provider,
            self.key.namespace,
            labels::SERVICE_NAME,
            self.key.name
        ))
    }
}
