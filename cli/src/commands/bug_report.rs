//! `kubectl mcs bug-report`: collects diagnostic data without secrets in one archive.
//!
//! Each failed read is listed in the archive and in the final message, and never stops the command.
//! All content passes one [`Redactor`] on its way into the archive.

mod analysis;
mod archive;
mod hub;
mod listing;
mod members;
mod processes;
mod redact;
mod summary;

use std::path::PathBuf;

use causeway::domain::protected::DEFAULT_NAMESPACE;
use k8s_openapi::jiff::Timestamp;

use self::archive::Archive;
use crate::args::BugReportArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::ApiServer;
use crate::commands::bug_report::redact::Redactor;
use crate::observe::kubeconfigs;
use crate::term::exit::{CommandError, ExitState, Failure};
use crate::term::output::{self, OutputError};

/// Failure to create a bug report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BugReportError {
    #[error("a pattern of secrets makes no sense: {0}")]
    Pattern(regex::Error),
    #[error("{} cannot be written: {source}", file.display())]
    File {
        file: PathBuf,
        source: std::io::Error,
    },
}

impl CommandError for BugReportError {}

/// Hub, namespaces and arguments of a bug report.
struct Request<'a> {
    hub: ApiServer,
    /// Namespace of the reported services. `None` selects all namespaces.
    namespace: Option<String>,
    /// Namespace of causeway's processes.
    own_namespace: String,
    args: &'a BugReportArgs,
}

async fn gather(request: &Request<'_>, archive: &mut Archive) -> Result<(), OutputError> {
    output::progress("gathering: versions and objects of the hub")?;
    if !hub::versions(request, archive).await {
        return Ok(());
    }
    // The redactor has to know every secret before the first file is added.
    let secrets = hub::know_secrets(request, archive).await;
    let found = hub::gather(request, archive).await;
    archive.objects("hub/objects/secrets-without-data.yaml", secrets);
    output::progress("gathering: logs and metrics of webhook and controller")?;
    processes::gather(request, archive).await;
    output::progress(format_args!("gathering: {} members", found.clusters.len()))?;
    members::gather(request, &found, archive).await;
    output::progress("gathering: check, status, and explain of what is not ready")?;
    analysis::gather(request, archive).await;
    Ok(())
}

/// Writes the archive and prints its parts, the redactions and the failed reads. Returns
/// [`ExitState::Unknown`] after any failed read.
pub(crate) async fn run(hub: &HubArgs, args: &BugReportArgs) -> Result<ExitState, Failure> {
    let request = Request {
        namespace: hub.namespace.clone(),
        hub: kubeconfigs::hub(hub, &args.members).await?,
        own_namespace: match &args.controller.lease.0 {
            Some((namespace, _)) => namespace.clone(),
            None => DEFAULT_NAMESPACE.to_owned(),
        },
        args,
    };
    let now = Timestamp::now();
    let title = format!("causeway-bug-report-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    let mut archive = Archive::new(Redactor::new().map_err(BugReportError::Pattern)?);
    archive.know_credentials(&request.hub.config);
    gather(&request, &mut archive).await?;
    let file = args.output_file.clone();
    let file = file.unwrap_or_else(|| PathBuf::from(format!("{title}.tar.gz")));
    summary::add(&mut archive, now);
    let size = archive.write(&file, &title, now).map_err(|source| {
        let file = file.clone();
        BugReportError::File { file, source }
    })?;
    output::result(summary::closing(&archive, &file, size).trim_end())?;
    Ok(ExitState::new(true, archive.all_missing().is_empty()))
}
