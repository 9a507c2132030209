//! Objects of a member that `join` of one hub creates, and that no other hub changes.

use causeway::api::labels;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::MemberError;
use crate::cluster::api_server::ApiServer;
use crate::cluster::objects;
use crate::term::exit::Failure;
use crate::term::output;

/// Marks an object as one of the hub with the given UID.
pub(super) fn of_hub(mut object: DynamicObject, hub_uid: &str) -> DynamicObject {
    let labels = object.metadata.labels.get_or_insert_default();
    labels.insert(labels::HUB.to_owned(), hub_uid.to_owned());
    object
}

pub(super) fn is_of_hub(stored: &impl ResourceExt, hub_uid: &str) -> bool {
    let hub = stored.labels().get(labels::HUB);
    hub.is_some_and(|hub| hub == hub_uid)
}

/// Checks that the member has none of the objects, or that they are of this hub.
///
/// # Errors
/// [`MemberError::ForeignAgent`], which refers to the document `page`.
pub(super) async fn check(
    member: &ApiServer,
    hub_uid: &str,
    objects: &[DynamicObject],
    page: &'static str,
) -> Result<(), Failure> {
    for object in objects {
        let stored = objects::get(member, object).await?;
        if stored.is_some_and(|stored| !is_of_hub(&stored, hub_uid)) {
            let object = objects::title(object);
            return Err(MemberError::ForeignAgent { object, page }.into());
        }
    }
    Ok(())
}

/// Returns those of the objects that `join` created for the hub with the given UID, in their order.
/// Prints a note for each other one that is there.
pub(super) async fn owned(
    member: &ApiServer,
    hub_uid: &str,
    objects: Vec<DynamicObject>,
) -> Result<Vec<DynamicObject>, Failure> {
    let mut owned = Vec::new();
    for object in objects {
        match objects::get(member, &object).await? {
            Some(stored) if is_of_hub(&stored, hub_uid) => owned.push(object),
            Some(_) => output::result(format_args!(
                "member: {} kept, kubectl mcs of this hub has not created it",
                objects::title(&object)
            ))?,
            None => {}
        }
    }
    Ok(owned)
}
