//! `kubectl mcs top`: shows the members and services that cause most of causeway's work, and the
//! latency of changes.
//!
//! The command watches the members for the duration of the measurement to count changes of
//! services. No metric names services, because their number is unbounded. The other values come
//! from the metrics of the leading controller. `docs/decisions/0029` contains the reasons.

mod scrape;
mod watches;

use std::collections::BTreeSet;

use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::ServiceKey;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::ListParams;

use self::scrape::Controller;
use crate::args::TopArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::observe::kubeconfigs;
use crate::observe::once;
use crate::observe::scope::Scope;
use crate::observe::service::key_of;
use crate::term::exit::{CommandError, ExitState, Failure, UNKNOWN};
use crate::term::output;
use crate::term::screen::Screen;
use crate::views::top::report::Report;
use crate::views::top::text;

/// Failed measurement.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TopError {
    #[error("nothing can be measured: {0}")]
    Nothing(String),
}

impl CommandError for TopError {
    fn exit_code(&self) -> u8 {
        UNKNOWN
    }
}

/// Measures and prints the result. Returns [`ExitState::Unknown`] if a part could not be measured.
pub(crate) async fn run(hub: &HubArgs, args: &TopArgs) -> Result<ExitState, Failure> {
    let hub = kubeconfigs::hub(hub, &args.members).await?;
    let clusters = once::served_clusters(&hub).await?;
    let insecure = args.insecure.allow_insecure_members;
    let mut notes = Vec::new();
    let ((known, unlisted), uid, controller) = tokio::join!(
        known(&hub, &clusters, insecure),
        hub.uid(),
        Controller::find(&hub, args)
    );
    notes.extend(unlisted.map(|why| format!("MultiClusterServices are not listed: {why}")));
    let controller = controller
        .map_err(|error| notes.push(error.to_string()))
        .ok();
    let watches = match &uid {
        Ok(_) => watches::start(&hub, &clusters, insecure, args.interval).await,
        Err(error) => {
            notes.push(format!(
                "what is written into members is not known: {error}"
            ));
            watches::Watches::default()
        }
    };
    notes.extend(watches.notes());
    if watches.is_empty() && controller.is_none() {
        return Err(TopError::Nothing(notes.join("; ")).into());
    }
    let begun = std::time::Instant::now();
    let (activity, broken) = watches
        .observe(&uid.unwrap_or_default(), args.interval)
        .await;
    let seconds = begun.elapsed().as_secs_f64();
    notes.extend(broken);
    let rates = match controller {
        Some(controller) => {
            let rates = controller.rates(&hub, Timestamp::now()).await;
            rates.map_err(|error| notes.push(error.to_string())).ok()
        }
        None => None,
    };
    let namespace = (!args.all_namespaces).then_some(hub.config.default_namespace.as_str());
    let names: Vec<_> = clusters.iter().map(Cluster::name_any).collect();
    let mut report = Report::new(&names, &activity, rates, seconds);
    report.add_networks(&clusters);
    report.keep(&known, namespace);
    report.sort(args.sort_by);
    report.notes = notes;
    let screen = Screen::stdout(args.color.color);
    output::report_on(screen, &report, args.output.format, || {
        text::render(&report, screen)
    })?;
    Ok(ExitState::new(true, report.notes.is_empty()))
}

/// Returns the services that have a MultiClusterService or a ServiceExport, and the error of
/// listing MultiClusterServices. [`watches::Watches::notes`] names the members that could not be
/// read.
async fn known(
    hub: &ApiServer,
    clusters: &[Cluster],
    insecure: bool,
) -> (BTreeSet<ServiceKey>, Option<RequestError>) {
    let services = hub.all::<MultiClusterService>();
    let all = ListParams::default();
    let scope = Scope {
        allow_insecure: insecure,
        ..Scope::default()
    };
    let (services, readings) = tokio::join!(
        hub.found(services.list_metadata(&all)),
        once::clusterset(hub, clusters, &scope)
    );
    let (services, why) = match services {
        Ok(list) => (list.map(|list| list.items).unwrap_or_default(), None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let held = readings.values().flatten();
    let exports = held.flat_map(|held| &held.exports).map(key_of);
    (services.iter().map(key_of).chain(exports).collect(), why)
}
