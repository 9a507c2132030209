//! Check of the user's rights on the objects that the page shows.

use std::fmt::Debug;

use causeway::api::{Cluster, MultiClusterService};
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::term::exit::{CommandError, Failure, UNKNOWN};

/// Missing right that would leave the page empty.
#[derive(Debug, thiserror::Error)]
#[error(
    "you may not list {kind} on the hub ({message}); ask for the rights to list and watch \
     MultiClusterServices, Services and Clusters there (docs/ui.md){hint}"
)]
pub(crate) struct RightsError {
    kind: &'static str,
    message: String,
    hint: &'static str,
}

impl CommandError for RightsError {
    fn exit_code(&self) -> u8 {
        UNKNOWN
    }
}

const ONE_NAMESPACE: &str = ", or show one namespace in which you have them: -n NAMESPACE";

/// Checks that the user may list the required objects on the hub.
///
/// # Errors
/// [`RightsError`] names the missing right, [`RequestError::NotServed`] the missing CRD, each with
/// its remedy.
pub(super) async fn check(hub: &ApiServer, namespace: Option<&str>) -> Result<(), Failure> {
    let hint = match namespace {
        Some(_) => "",
        None => ONE_NAMESPACE,
    };
    tokio::try_join!(
        lists::<MultiClusterService>(hub, hub.api(namespace), "MultiClusterServices", hint),
        lists::<Service>(hub, hub.api(namespace), "Services", hint),
        lists::<Cluster>(hub, hub.all(), "Clusters", ""),
    )?;
    Ok(())
}

async fn lists<K>(
    hub: &ApiServer,
    api: Api<K>,
    kind: &'static str,
    hint: &'static str,
) -> Result<(), Failure>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let one = ListParams::default().limit(1);
    match hub.list_metadata(api, &one).await {
        Ok(_) => Ok(()),
        Err(RequestError::NotFound { .. }) => Err(hub.not_served(kind).into()),
        Err(RequestError::NotAllowed { message, .. }) => Err(RightsError {
            kind,
            message,
            hint,
        }
        .into()),
        Err(error) => Err(error.into()),
    }
}
