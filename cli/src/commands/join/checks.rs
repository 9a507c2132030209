//! Refusals before anything is written.

use causeway::api::Cluster;
use causeway::domain::ClusterName;
use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway::target::is_tunnelled;
use kube::ResourceExt as _;

use super::JoinError;
use crate::args::JoinArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::deployed;
use crate::cluster::identity;
use crate::cluster::objects::ObjectError;
use crate::term::exit::Failure;
use crate::term::output;

/// Checks that the hub runs no newer version than this program, whose rights and definitions would
/// replace newer ones. A version that the user may not read is a note.
///
/// # Errors
/// [`deployed::NewerHub`], unless the user goes back (`--skip-crds`).
pub(super) async fn check_version(hub: &ApiServer, args: &JoinArgs) -> Result<(), Failure> {
    if args.skip_crds {
        return Ok(());
    }
    match deployed::newer(hub).await {
        Ok(None) => Ok(()),
        Ok(Some(newer)) => Err(newer.into()),
        Err(ObjectError::Request(RequestError::NotAllowed { .. })) => {
            Ok(output::progress(format_args!(
                "note: you may not read the Deployments in {DEFAULT_NAMESPACE} of the hub, so \
                 whether it runs a newer version than this program is not checked"
            ))?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Checks that a member of the tunnel stays one: the hub could not dial it.
pub(super) fn check_tunnelled(
    recorded: Option<&Cluster>,
    name: &ClusterName,
    args: &JoinArgs,
) -> Result<(), JoinError> {
    match recorded.is_some_and(is_tunnelled) && !args.pull {
        true => Err(JoinError::Tunnelled(name.clone())),
        false => Ok(()),
    }
}

/// Rejects a proxy URL with user info, because `spec.proxyURL` is not secret.
pub(super) fn check_proxy(url: Option<&str>) -> Result<(), JoinError> {
    let authority = url.and_then(|url| url.split("://").last()?.split('/').next());
    match authority {
        Some(authority) if authority.contains('@') => Err(JoinError::ProxyUser),
        _ => Ok(()),
    }
}

/// Checks that the name belongs to no other cluster, that the cluster has no other name, and that
/// no ClusterProfile owns the Cluster.
pub(super) fn check_identity(
    known: &[Cluster],
    name: &ClusterName,
    uid: &str,
) -> Result<(), JoinError> {
    for cluster in known {
        let member = cluster.name_any();
        let same_name = member == name.as_str();
        if let Some(namespace) = cluster.profile_namespace().filter(|_| same_name) {
            let (name, namespace) = (name.clone(), namespace.to_owned());
            return Err(JoinError::OfProfile { name, namespace });
        }
        let id = cluster.spec.id.as_deref();
        if same_name {
            let checked = identity::check_identity(&member, id, uid);
            checked.map_err(|why| JoinError::AnotherCluster {
                name: name.clone(),
                why,
            })?;
        } else if id == Some(uid) {
            return Err(JoinError::JoinedAs(member));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use causeway::api::ClusterSpec;

    use super::*;

    fn known(name: &str, id: Option<&str>) -> Cluster {
        let spec = ClusterSpec {
            id: id.map(ToOwned::to_owned),
            ..ClusterSpec::default()
        };
        Cluster::new(name, spec)
    }

    #[test]
    fn one_cluster_has_one_name_and_one_name_stands_for_one_cluster() {
        let name = ClusterName::try_from("a").expect("a name");
        let check =
            |known: &[Cluster]| check_identity(known, &name, "uid-a").map_err(|e| e.to_string());
        let others = [known("b", Some("uid-b")), known("c", None)];
        assert_eq!(check(&others), Ok(()));
        assert_eq!(check(&[known("a", Some("uid-a"))]), Ok(()));
        assert_eq!(check(&[known("a", None)]), Ok(()));
        for (cluster, words) in [
            (
                known("b", Some("uid-a")),
                ["named b", "kubectl mcs unjoin b"],
            ),
            (
                known("a", Some("other")),
                ["another cluster", "kubectl mcs unjoin a"],
            ),
        ] {
            let error = check(&[cluster]).expect_err("refused");
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn proxy_with_a_user_is_refused() {
        for url in [
            "http://me:secret@proxy:1",
            "http://me@proxy",
            "me:secret@proxy:1/",
        ] {
            let error = check_proxy(Some(url)).expect_err(url).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        for url in [None, Some("http://proxy:1"), Some("http://proxy/a@b")] {
            assert!(check_proxy(url).is_ok(), "{url:?}");
        }
    }
}
