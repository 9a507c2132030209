//! causeway-agent that reports in a member which clusters answer there.

use kube::api::DynamicObject;

use super::agent::AgentImage;
use super::ownership::{self, of_hub};
use crate::cluster::api_server::ApiServer;
use crate::cluster::objects::{self, ObjectError};
use crate::term::exit::Failure;

/// Deployment of the agent.
pub(crate) const DEPLOYMENT: &str = "causeway-paths";
const MANIFEST: &str = include_str!("../../../../../manifests/member/paths.yaml");

/// Returns the objects of the agent for the hub with the given UID, in order of creation. Without
/// an image it has that of the manifest, from the given registry.
pub(crate) fn objects(
    hub_uid: &str,
    image: &AgentImage,
) -> Result<Vec<DynamicObject>, ObjectError> {
    let mut objects = objects::parse(MANIFEST)?;
    for object in &mut objects {
        if objects::is_a(object, "Deployment") {
            image.place(object);
        }
    }
    let of_hub = |object| of_hub(object, hub_uid);
    Ok(objects.into_iter().map(of_hub).collect())
}

/// Checks that the member has no such agent of another hub or owner.
///
/// # Errors
/// [`MemberError::ForeignAgent`].
pub(crate) async fn check(member: &ApiServer, hub_uid: &str) -> Result<(), Failure> {
    let objects = objects::parse(MANIFEST)?;
    ownership::check(member, hub_uid, &objects, "docs/paths.md").await
}

/// Returns the objects that `join` created for the hub with the given UID, in order of deletion.
pub(crate) async fn owned(
    member: &ApiServer,
    hub_uid: &str,
) -> Result<Vec<DynamicObject>, Failure> {
    let mut objects = objects::parse(MANIFEST)?;
    objects.reverse();
    ownership::owned(member, hub_uid, objects).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_is_that_of_the_manifest_with_image_and_hub() {
        let image = AgentImage::Given("a/b:1".to_owned());
        let made = objects("uid", &image).expect("objects");
        let manifest = objects::parse(MANIFEST).expect("objects");
        assert_eq!(made.len(), manifest.len());
        for (made, manifest) in made.iter().zip(&manifest) {
            assert!(ownership::is_of_hub(made, "uid") && !ownership::is_of_hub(made, "other"));
            assert_eq!(made.metadata.name, manifest.metadata.name);
        }
        let deployment = made.iter().find(|one| objects::is_a(one, "Deployment"));
        let containers = "/spec/template/spec/containers";
        let containers = deployment.and_then(|one| one.data.pointer(containers));
        let container = &containers.expect("containers")[0];
        assert_eq!(container["image"], "a/b:1");
        assert_eq!(container["args"][0], "--report-paths");
    }
}
