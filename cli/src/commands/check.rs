//! `kubectl mcs check`: checks that causeway is installed correctly and running.

use crate::args::CheckArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::RequestError;
use crate::observe::installation;
use crate::observe::kubeconfigs;
use crate::term::exit::{CommandError, ExitState, PROBLEM};
use crate::term::output::{self, OutputError};
use crate::views::check::{Report, diagnose};

/// Failed check of an installation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl CommandError for CheckError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Request(error) => error.exit_code(),
            _ => PROBLEM,
        }
    }
}

/// Checks an installation and prints the report. Returns the exit state of its checks.
pub(crate) async fn run(hub: &HubArgs, args: &CheckArgs) -> Result<ExitState, CheckError> {
    let hub = kubeconfigs::hub(hub, &args.members).await?;
    let installation = installation::read(&hub, &args.controller.lease).await?;
    let report = Report::new(diagnose(&installation));
    output::report(&report, args.output.format, || report.render())?;
    Ok(report.exit_state())
}
