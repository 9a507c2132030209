//! Version of causeway that a hub runs, by the tags of its images.

use kube::ResourceExt as _;

use crate::cluster::api_server::ApiServer;
use crate::cluster::bundle;
use crate::cluster::credentials::CONTROLLER;
use crate::cluster::objects::{self, ObjectError};
use crate::term::exit::CommandError;

/// Hub that runs a newer version than this program.
#[derive(Debug, thiserror::Error)]
#[error(
    "the hub runs causeway v{deployed}, newer than this program (v{own}). Nothing was changed. Use \
     the program of that version; to go back to v{own}, leave the newer CRDs as they are: add \
     --skip-crds"
)]
pub(crate) struct NewerHub {
    deployed: String,
    own: &'static str,
}

impl CommandError for NewerHub {}

/// Returns the version of the hub if it is newer than that of this program. Returns `None` for a
/// hub whose programs run elsewhere: no object on it has their version.
///
/// # Errors
/// [`ObjectError`] if the Deployments cannot be read.
pub(crate) async fn newer(hub: &ApiServer) -> Result<Option<NewerHub>, ObjectError> {
    let own = env!("CARGO_PKG_VERSION");
    for deployment in bundle::deployments()? {
        let stored = objects::get(hub, &deployment).await?;
        let deployed = stored.as_ref().and_then(bundle::deployed_tag);
        if let Some(deployed) = deployed.filter(|deployed| is_newer(deployed, own)) {
            let deployed = deployed.to_owned();
            return Ok(Some(NewerHub { deployed, own }));
        }
    }
    Ok(None)
}

/// Returns the tag of the controller's image. Returns `None` if no Deployment on the hub shows one.
///
/// # Errors
/// [`ObjectError`] if the Deployment cannot be read.
pub(crate) async fn controller_tag(hub: &ApiServer) -> Result<Option<String>, ObjectError> {
    let mut deployments = bundle::deployments()?.into_iter();
    let Some(controller) = deployments.find(|one| one.name_any() == CONTROLLER) else {
        return Ok(None);
    };
    let stored = objects::get(hub, &controller).await?;
    let tag = stored.as_ref().and_then(bundle::deployed_tag);
    Ok(tag.map(ToOwned::to_owned))
}

/// Whether a tag is an older version than the release `first`, whose pre-releases are not older.
/// Returns `None` for a tag that is not a version.
pub(crate) fn is_older(tag: &str, first: &str) -> Option<bool> {
    let ((tag, _), (first, _)) = version(tag).zip(version(first))?;
    Some(tag < first)
}

/// Whether a tag is a newer version than `own`. Tags that are not versions are not newer.
fn is_newer(tag: &str, own: &str) -> bool {
    let versions = version(tag).zip(version(own));
    versions.is_some_and(|(tag, own)| tag > own)
}

/// Parses the numbers of a version, and whether it is a release. Returns `None` for a tag that is
/// not a version.
fn version(tag: &str) -> Option<([u64; 3], bool)> {
    let text = tag.trim_start_matches('v');
    let (numbers, is_release) = match text.split_once('-') {
        Some((numbers, _)) => (numbers, false),
        None => (text, true),
    };
    let mut numbers = numbers.split('.').map(|one| one.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    Some(([next()?, next()?, next()?], is_release))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::exit::PROBLEM;

    #[test]
    fn newer_versions_are_recognized_by_their_tags() {
        for (tag, own, newer) in [
            ("0.3.0", "0.2.0", true),
            ("v0.10.0", "0.9.0", true),
            ("0.2.0", "0.2.0-dev", true),
            ("0.2.0-dev", "0.2.0", false),
            ("0.2.0", "0.2.0", false),
            ("0.1.9", "0.2.0", false),
            ("latest", "0.2.0", false),
        ] {
            assert_eq!(is_newer(tag, own), newer, "{tag} over {own}");
        }
    }

    #[test]
    fn older_versions_are_recognized_by_their_tags() {
        for (tag, older) in [
            ("0.1.9", Some(true)),
            ("v0.1.0", Some(true)),
            ("0.2.0-dev", Some(false)),
            ("0.2.0", Some(false)),
            ("v0.10.0", Some(false)),
            ("latest", None),
        ] {
            assert_eq!(is_older(tag, "0.2.0"), older, "{tag}");
        }
    }

    #[test]
    fn error_names_both_versions_and_the_flag_to_go_on() {
        let deployed = "99.0.0".to_owned();
        let error = NewerHub {
            deployed,
            own: "0.2.0",
        };
        assert_eq!(error.exit_code(), PROBLEM);
        let text = error.to_string();
        for part in ["v99.0.0", "v0.2.0", "--skip-crds"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
