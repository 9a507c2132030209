//! `kubectl mcs check`: checks that causeway is installed correctly and running.

use crate::args::CheckArgs;
use crate::cluster::access::HubArgs;
use crate::observe::installation;
use crate::observe::kubeconfigs;
use crate::term::exit::{ExitState, Failure};
use crate::term::output;
use crate::views::check::{Report, diagnose};

/// Checks an installation and prints the report. Returns the exit state of its checks.
pub(crate) async fn run(hub: &HubArgs, args: &CheckArgs) -> Result<ExitState, Failure> {
    let hub = kubeconfigs::hub(hub, &args.members).await?;
    let allow_insecure = args.insecure.allow_insecure_members;
    let lease = &args.controller.lease;
    let installation = installation::read(&hub, lease, allow_insecure).await?;
    let report = Report::new(diagnose(&installation));
    output::report(&report, args.output.format, || report.render())?;
    Ok(report.exit_state())
}
