//! Sentences about slices and endpoints that are not copied.

use std::fmt;

use causeway::domain::ClusterName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::plan::copies::{NotCopied, Refused, Skipped, SliceOfProvider};
use crate::plan::providers::{Disagreement, MOST_ENDPOINTS, MOST_SLICES, Unfit};

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
            Self::Address(refusal) => refusal.fmt(out),
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
            Self::Redundant(_) => {
                out.write_str("slices that Kubernetes keeps hold the same endpoints")
            }
        }
    }
}

impl Refused {
    /// Returns `2 endpoints of member1 (10.0.0.1 is ...)`.
    pub(crate) fn of(&self, provider: &ClusterName) -> String {
        let counted = |count, noun| match count {
            0 => None,
            1 => Some(format!("1 {noun}")),
            many => Some(format!("{many} {noun}s")),
        };
        let counts = [
            counted(self.endpoints, "endpoint"),
            counted(self.slices, "EndpointSlice"),
        ];
        let counts: Vec<_> = counts.into_iter().flatten().collect();
        let example = self.example.as_ref().map(ToString::to_string);
        let example = example.unwrap_or_default();
        format!("{} of {provider} ({example})", counts.join(" and "))
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
