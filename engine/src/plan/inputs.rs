//! Inputs of the plan of one service.

use causeway::domain::ServiceKey;

use super::settings::Settings;
use crate::model::TimePoint;
use crate::observed::Index;

/// Inputs of the plan of one service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a> {
    /// Observed state.
    pub(crate) index: &'a Index,
    /// Settings of the controller.
    pub(crate) settings: &'a Settings,
    /// Service.
    pub(crate) key: &'a ServiceKey,
    /// Time of the plan.
    pub(crate) now: TimePoint,
}
