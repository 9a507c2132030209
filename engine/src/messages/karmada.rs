//! Parts of a service that Karmada's own controllers manage, or have left behind.

use std::fmt;
use std::net::IpAddr;

use causeway::domain::{ClusterName, ServiceKey};

use super::{Diagnosis, adopt, names};
use crate::reasons::Reason;

/// Reports that Karmada's own controllers manage the MultiClusterService, by this Work.
pub(crate) fn managed(key: &ServiceKey, work: &str) -> Diagnosis {
    let message = format!(
        "Karmada's own MultiClusterService controllers manage {key} (Work {work}); causeway begins nothing of it"
    );
    let managed = Diagnosis::new(Reason::ManagedByKarmada, message);
    managed.fix(format!("for causeway to manage it: {}", adopt(key)))
}

/// Reports that Karmada has not brought an endpoint to a consumer.
pub(crate) fn not_dispatched(key: &ServiceKey, consumer: &ClusterName) -> Diagnosis {
    let message = format!(
        "Karmada's own controllers manage {key}, and no EndpointSlice of theirs in {consumer} holds it"
    );
    Diagnosis::new(Reason::NotDispatchedByKarmada, message).fix(adopt(key))
}

/// Reports members with slices of Karmada's controllers that nobody updates any more; `None`
/// without any.
pub(crate) fn left<'a>(
    key: &ServiceKey,
    members: impl Iterator<Item = &'a ClusterName>,
) -> Option<Diagnosis> {
    let mut members = members.peekable();
    members.peek()?;
    let message = format!(
        "EndpointSlices of Karmada's are left in {}, beside causeway's, and nobody keeps them up",
        names(members)
    );
    Some(Diagnosis::new(Reason::LeftByKarmada, message).fix(adopt(key)))
}

/// Reports endpoints that a slice of a consumer offers although their provider no longer has them
/// as ready.
pub(crate) fn stale(
    key: &ServiceKey,
    consumer: &ClusterName,
    provider: &str,
    slice: &str,
    addresses: &[IpAddr],
) -> Diagnosis {
    let addresses = names(addresses);
    let message = format!(
        "{consumer} offers {addresses} of {provider}, which {provider} no longer has as ready (EndpointSlice {slice} of {consumer})"
    );
    Diagnosis::new(Reason::StaleEndpoints, message).fix(adopt(key))
}

/// Reports that Karmada's own controllers import the service, with the controller's `message`.
pub(crate) fn imported(key: &ServiceKey, message: String) -> Diagnosis {
    Diagnosis::new(Reason::ImportedByKarmada, message).fix(delete_import(key))
}

/// Reports that Karmada's own controllers import the service in a member, which has their Service
/// or none.
pub(crate) fn imported_in(
    key: &ServiceKey,
    service: &ServiceKey,
    member: &ClusterName,
    has_service: bool,
) -> Diagnosis {
    let what = match has_service {
        true => format!("Service {service} of {member} is theirs, and so are its endpoints"),
        false => format!("causeway makes nothing of it in {member}, and they have not"),
    };
    imported(
        key,
        format!("Karmada's own controllers import {key}; {what}"),
    )
}

/// Reports that the caller could not read the ServiceImport of the hub by which Karmada may import
/// the service.
pub(crate) fn import_unread(key: &ServiceKey, why: &dyn fmt::Display) -> Diagnosis {
    let (namespace, derived) = (&key.namespace, key.derived());
    let message = format!(
        "Karmada may import {key}: the hub has Service {derived}, and ServiceImport {key} of the \
         hub could not be read: {why}"
    );
    Diagnosis::new(Reason::ImportNotRead, message).fix(format!(
        "look with the right to list ServiceImports in namespace {namespace} of the hub"
    ))
}

fn delete_import(key: &ServiceKey) -> String {
    format!(
        "on the hub: kubectl -n {} delete serviceimport {}",
        key.namespace, key.name
    )
}
