//! `kubectl mcs version`.

use causeway::api::MultiClusterService;
use kube::Resource as _;

use crate::args::VersionArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::definitions::DEFINE;
use crate::term::exit::{CommandError, PROBLEM};
use crate::term::output::{self, OutputError};

/// Failed read of the versions.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VersionError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl CommandError for VersionError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Request(error) => error.exit_code(),
            _ => PROBLEM,
        }
    }
}

/// Prints the version of this program and of the hub, and whether the hub serves
/// MultiClusterService.
pub(crate) async fn run(hub: &HubArgs, args: &VersionArgs) -> Result<(), VersionError> {
    output::result(format_args!(
        "Client Version: v{}",
        env!("CARGO_PKG_VERSION")
    ))?;
    if args.client {
        return Ok(());
    }
    let hub = ApiServer::hub(hub).await?;
    let info = hub.request(hub.client.apiserver_version()).await?;
    output::result(format_args!(
        "Hub Version: {} at {}",
        info.git_version,
        hub.url()
    ))?;
    let version = MultiClusterService::api_version(&());
    let served = hub
        .serves(&version, &MultiClusterService::plural(&()))
        .await?;
    let served = if served {
        version.into_owned()
    } else {
        format!("not served ({DEFINE})")
    };
    Ok(output::result(format_args!(
        "MultiClusterService: {served}"
    ))?)
}
