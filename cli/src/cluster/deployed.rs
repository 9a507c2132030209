//! Version of causeway that a hub runs, by the tags of its images.

use crate::cluster::api_server::ApiServer;
use crate::cluster::bundle;
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

/// Whether a tag is a newer version than `own`. Tags that are not versions are not newer.
fn is_newer(tag: &str, own: &str) -> bool {
    let version = |text: &str| {
        let (numbers, rest) = match text.split_once('-') {
            Some((numbers, _)) => (numbers, false),
            None => (text, true),
        };
        let mut numbers = numbers.split('.').map(|one| one.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        Some((next()?, next()?, next()?, rest))
    };
    match (version(tag.trim_start_matches('v')), version(own)) {
        (Some(tag), Some(own)) => tag > own,
        _ => false,
    }
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
