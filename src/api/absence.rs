//! Evidence that an object does not exist.

use kube::core::Status;

/// Returns the name of the object that does not exist according to a Status.
///
/// A proxy may answer 404 to anything. An API server names the object in a Status of reason
/// NotFound; no other 404 is evidence of a deletion.
pub fn absent_object(status: &Status) -> Option<&str> {
    let details = status.details.as_ref()?;
    let is_absence = status.code == 404 && status.reason == "NotFound" && !details.name.is_empty();
    is_absence.then_some(&*details.name)
}
