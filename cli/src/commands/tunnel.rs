//! `kubectl mcs tunnel`: shows which members are connected to causeway-tunnel, and adds and removes
//! those of Karmada.

mod add;
mod change;
mod remove;

use std::collections::BTreeSet;

use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway::target::is_tunnelled;
use futures::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use crate::args::{TunnelArgs, TunnelChange};
use crate::cluster::access::HubArgs;
use crate::cluster::admin_endpoint::{self, AdminEndpoint};
use crate::cluster::api_server::{ApiServer, RequestError, allowed};
use crate::observe::once;
use crate::term::exit::{CommandError, ExitState, Failure, PROBLEM, UNKNOWN};
use crate::term::output;
use crate::term::screen::Screen;
use crate::views::tunnel::replica::{self, Shown};
use crate::views::tunnel::report::Report;
use crate::views::tunnel::text;

/// Maximum number of replicas that are read concurrently.
const AT_ONCE: usize = 8;

/// Failed reading of the tunnel.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TunnelCommandError {
    #[error(
        "you may not list pods in namespace {DEFAULT_NAMESPACE} of the hub ({0}), which shows the replicas of causeway-tunnel; give \
         --admin-url http://HOST:8081 with their --admin-bind"
    )]
    Pods(String),
    #[error(
        "the hub has no pod of causeway-tunnel in namespace {DEFAULT_NAMESPACE}; run kubectl mcs install --tunnel HOST[:PORT] or, if it \
         runs elsewhere, give --admin-url http://HOST:8081 with its --admin-bind"
    )]
    NoTunnel,
}

impl CommandError for TunnelCommandError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Pods(_) => UNKNOWN,
            _ => PROBLEM,
        }
    }
}

/// Runs a command below `tunnel`, or prints the connected agents.
pub(crate) async fn run(hub: &HubArgs, args: &TunnelArgs) -> Result<ExitState, Failure> {
    match &args.change {
        None => show(hub, args).await,
        Some(TunnelChange::Add(args)) => Ok(add::run(hub, args).await?),
        Some(TunnelChange::Remove(args)) => {
            remove::run(hub, args).await?;
            Ok(ExitState::Good)
        }
    }
}

/// Prints the connected agents. Returns [`ExitState::Unknown`] if a part could not be read.
async fn show(hub: &HubArgs, args: &TunnelArgs) -> Result<ExitState, Failure> {
    let hub = ApiServer::hub(hub).await?;
    let endpoints = endpoints(&hub, args).await?;
    let mut notes = Vec::new();
    let clusters = allowed(once::clusters(&hub).await)?;
    if clusters.is_none() {
        let note = "you may not list Clusters on the hub, so members that have not connected \
                    since the start of causeway-tunnel are missing";
        notes.push(note.to_owned());
    }
    let clusters = clusters.map(|clusters| -> BTreeSet<_> {
        let tunnelled = clusters.into_iter().flatten().filter(is_tunnelled);
        tunnelled.map(|cluster| cluster.name_any()).collect()
    });
    let answers = endpoints.iter().map(|endpoint| read(&hub, endpoint));
    let answers: Vec<_> = futures::stream::iter(answers)
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut read = Vec::new();
    for (endpoint, answer) in endpoints.iter().zip(answers) {
        let answer = answer.map_err(|why| {
            notes.push(format!("{} is not read: {why}", endpoint.name()));
        });
        read.push(answer.ok());
    }
    let report = Report::new(&read, clusters.as_ref(), notes);
    let screen = Screen::stdout(args.color.color);
    output::report_on(screen, &report, args.output.format, || {
        text::render(&report, Timestamp::now(), screen)
    })?;
    Ok(report.exit_state())
}

async fn read(hub: &ApiServer, endpoint: &AdminEndpoint) -> Result<Vec<Shown>, String> {
    let answer = endpoint.get(hub, "/tunnels").await;
    let answer = answer.map_err(|why| why.to_string())?;
    replica::parse(&answer).map_err(|why| why.to_string())
}

/// Returns the given admin addresses, or those of the pods on the hub.
async fn endpoints(hub: &ApiServer, args: &TunnelArgs) -> Result<Vec<AdminEndpoint>, Failure> {
    let of_tunnel = (DEFAULT_NAMESPACE, "tunnel");
    match admin_endpoint::of_component(hub, &args.admin.urls, of_tunnel).await {
        Err(RequestError::NotAllowed { message, .. }) => {
            Err(TunnelCommandError::Pods(message).into())
        }
        Ok(endpoints) if endpoints.is_empty() => Err(TunnelCommandError::NoTunnel.into()),
        endpoints => Ok(endpoints?),
    }
}
