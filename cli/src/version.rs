//! `kubectl mcs version`.

use causeway::api::MultiClusterService;
use kube::Resource as _;

use crate::args::{HubArgs, VersionArgs};
use crate::ask::{ApiServer, AskError};
use crate::hub::DEFINE;
use crate::say;
use crate::say::OutputError;

/// The versions could not be told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VersionError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Shows the version of this program, then that of the hub and whether it serves MultiClusterService.
pub(crate) async fn run(hub: &HubArgs, args: &VersionArgs) -> Result<(), VersionError> {
    say::result(format_args!(
        "Client Version: v{}",
        env!("CARGO_PKG_VERSION")
    ))?;
    if args.client {
        return Ok(());
    }
    let hub = ApiServer::hub(hub).await?;
    let info = hub.ask(hub.client.apiserver_version()).await?;
    say::result(format_args!(
        "Hub Version: {} at {}",
        info.git_version,
        hub.url()
    ))?;
    let version = MultiClusterService::api_version(&());
    let served = match hub.ask(hub.client.list_api_group_resources(&version)).await {
        Ok(list) => list
            .resources
            .iter()
            .any(|resource| resource.name == MultiClusterService::plural(&())),
        Err(AskError::NotFound { .. }) => false,
        Err(error) => return Err(error.into()),
    };
    let served = if served {
        version.into_owned()
    } else {
        format!("not served ({DEFINE})")
    };
    Ok(say::result(format_args!("MultiClusterService: {served}"))?)
}
