//! Annotations of a service that causeway does not follow. A mistake in them is no reason to
//! withdraw endpoints: causeway reports it and plans without them.

use causeway::api::labels;
use causeway::domain::{Failover, FieldErrors, Unreachable};

use crate::observed::service::{ServiceKind, ServiceView};

/// Describes the annotations that are not followed: unreadable ones, and those that a headless
/// Service cannot have.
pub(super) fn not_followed(
    failover: &Failover,
    misread: &FieldErrors,
    service: Option<&ServiceView>,
) -> Option<String> {
    let is_headless = service.is_some_and(|one| one.shape.kind == ServiceKind::Headless);
    let needs = [
        (labels::PREFER, failover.preference.is_some()),
        (
            labels::UNREACHABLE,
            failover.unreachable == Some(Unreachable::Standby),
        ),
    ];
    let needs = needs.into_iter().filter(|(_, needs)| *needs && is_headless);
    let of_headless = needs.map(|(annotation, _)| {
        format!(
            "{annotation}, for the Service is headless and no proxy chooses among its endpoints"
        )
    });
    let unreachable = Failover::path(labels::UNREACHABLE);
    let is_early = failover.unreachable == Some(Unreachable::EARLIEST)
        && misread
            .shown()
            .iter()
            .any(|error| error.path == unreachable);
    let misread = (!misread.is_empty()).then(|| misread.to_string());
    let minimum = is_early.then(|| format!("{} is used instead", Unreachable::EARLIEST));
    let all: Vec<_> = misread
        .into_iter()
        .chain(minimum)
        .chain(of_headless)
        .collect();
    (!all.is_empty()).then(|| all.join("; "))
}
