//! `kubectl mcs version`.

use causeway::api::MultiClusterService;
use kube::Resource as _;

use crate::args::VersionArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, DEFINE};
use crate::term::exit::Failure;
use crate::term::output;

/// Prints the version of this program and of the hub, and whether the hub serves
/// MultiClusterService.
pub(crate) async fn run(hub: &HubArgs, args: &VersionArgs) -> Result<(), Failure> {
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
    let served = match hub.serves_kind::<MultiClusterService>().await? {
        true => MultiClusterService::api_version(&()).into_owned(),
        false => format!("not served ({DEFINE})"),
    };
    Ok(output::result(format_args!(
        "MultiClusterService: {served}"
    ))?)
}
