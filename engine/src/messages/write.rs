//! Sentences about writes that fail or that another writer reverts.

use std::fmt;

use causeway::api::labels;

use crate::model::ObjectId;
use crate::problem::{ObjectConflict, WriteProblem};

/// Writes the text that follows the name of the member in a message.
impl fmt::Display for WriteProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamespaceTerminating(namespace) => {
                write!(out, "namespace {namespace} is being deleted there")
            }
            Self::NamespaceNotCreated { namespace, failure } => write!(
                out,
                "has no namespace {namespace}, and it cannot be made ({failure}); make it, or \
                 join the cluster with --allow-namespace-creation"
            ),
            Self::ObjectNotWritten {
                kind,
                name,
                failure,
            } => write!(out, "{kind} {name} cannot be written ({failure})"),
            Self::SlicesNotWritten { count, failure } => {
                let noun = match count {
                    1 => "EndpointSlice",
                    _ => "EndpointSlices",
                };
                write!(out, "{count} {noun} cannot be written ({failure})")
            }
            Self::SlicesOfAnotherHub(count) => write!(
                out,
                "holds {count} EndpointSlices of the same names from another hub"
            ),
            Self::ForeignSlice {
                namespace,
                name,
                more,
            } => {
                write!(out, "has an EndpointSlice {name} that is not causeway's")?;
                if *more > 0 {
                    write!(out, " and {more} more")?;
                }
                write!(
                    out,
                    ", in the way of a copy; kubectl -n {namespace} delete endpointslice {name}"
                )
            }
            Self::Conflict(conflict) => write!(out, "has a write conflict: {conflict}"),
        }
    }
}

/// Writes a sentence with the remedy.
impl fmt::Display for ObjectConflict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manager = self.manager.as_deref();
        write!(
            out,
            "{} is changed by {} as often as causeway puts it back, so causeway leaves it as it \
             is for a while; stop one of the two",
            self.object,
            manager.unwrap_or("a manager that is not known")
        )?;
        match &self.object {
            ObjectId::Service(key) => write!(
                out,
                ", or leave the Service to the other: kubectl -n {} label service {} {}-",
                key.namespace,
                key.name,
                labels::HUB
            ),
            _ => Ok(()),
        }
    }
}
