//! Annotations and fields of a service that causeway does not follow. A mistake in them is no
//! reason to withdraw endpoints: causeway reports it and plans without them.

use causeway::api::labels;
use causeway::domain::{Failover, FieldErrors, Unreachable};

use crate::observed::service::{ServiceKind, ServiceView};

/// Annotations of a service that are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotFollowed<'a> {
    /// Unreadable annotations and fields.
    pub misread: &'a FieldErrors,
    /// Whether the earliest time of [`labels::UNREACHABLE`] is used instead of an earlier one.
    pub uses_earliest: bool,
    /// Annotations that a headless Service cannot have.
    pub of_headless: Vec<&'static str>,
}

/// Returns the annotations that are not followed; `None` if all are.
pub(crate) fn not_followed<'a>(
    failover: &Failover,
    misread: &'a FieldErrors,
    service: Option<&ServiceView>,
) -> Option<NotFollowed<'a>> {
    let is_headless = service.is_some_and(|one| one.shape.kind == ServiceKind::Headless);
    let standby = failover.unreachable == Some(Unreachable::Standby);
    let needs = [
        (labels::PREFER, failover.preference.is_some()),
        (labels::UNREACHABLE, standby),
        (labels::SHARE, failover.share.is_some()),
    ];
    let of_headless = needs.into_iter().filter(|(_, needs)| *needs && is_headless);
    let of_headless: Vec<_> = of_headless.map(|(annotation, _)| annotation).collect();
    let unreachable = Failover::path(labels::UNREACHABLE);
    let mut shown = misread.shown().iter();
    let uses_earliest = failover.unreachable == Some(Unreachable::EARLIEST)
        && shown.any(|error| error.path.ends_with(&unreachable));
    (!misread.is_empty() || !of_headless.is_empty()).then_some(NotFollowed {
        misread,
        uses_earliest,
        of_headless,
    })
}
