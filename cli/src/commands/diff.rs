//! `kubectl mcs diff -f FILE`: shows the changes in each cluster if a MultiClusterService were
//! applied.
//!
//! A dry run on the hub's API server, as in `kubectl diff`, returns the object that the hub would
//! store, admission included. The controller's engine computes the writes to the members from lists
//! that are read with the user's own rights.

mod admission;
mod file;

use causeway_engine::plan::Settings;
use causeway_engine::preview::preview;
use kube::ResourceExt as _;

use crate::args::DiffArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::observe::kubeconfigs;
use crate::observe::once;
use crate::observe::service;
use crate::term::exit::{CommandError, ExitState, UNKNOWN, USAGE};
use crate::term::output::{self, OutputError};
use crate::views::diff::{Report, render};

use self::file::FileError;

/// Failed comparison.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiffError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{file}: {name} would be refused: {message}")]
    Refused {
        file: String,
        name: String,
        message: String,
    },
    #[error("the request cannot be made: {0}")]
    Http(#[from] http::Error),
    #[error("the MultiClusterService cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Exit codes of `kubectl diff`: 1 for differences, and greater than 1 for failures.
impl CommandError for DiffError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::File(_) | Self::Refused { .. } => USAGE,
            Self::Request(error) if error.exit_code() == USAGE => USAGE,
            _ => UNKNOWN,
        }
    }
}

/// Prints the changes. Returns [`ExitState::Problem`] if applying the files changes a cluster, as
/// in `kubectl diff`. A cluster that cannot be compared makes the result unknown.
pub(crate) async fn run(hub: &HubArgs, args: &DiffArgs) -> Result<ExitState, DiffError> {
    let namespace = hub.namespace.clone();
    let hub = kubeconfigs::hub(hub, &args.members).await?;
    let wanted = file::read(
        &args.filename,
        namespace.as_deref(),
        &hub.config.default_namespace,
    )?;
    let mut reports = Vec::new();
    for object in &wanted.multi_cluster_services {
        let service = wanted.services.get(&object.key);
        reports.push(compare(&hub, args, object, service).await?);
    }
    output::report(&reports, args.output.format, || {
        reports.iter().map(render).collect()
    })?;
    Ok(match reports.iter().any(Report::is_incomplete) {
        true => ExitState::Unknown,
        false => ExitState::new(!reports.iter().any(Report::has_changes), true),
    })
}

async fn compare(
    hub: &ApiServer,
    args: &DiffArgs,
    wanted: &file::Wanted,
    service: Option<&file::Wanted>,
) -> Result<Report, DiffError> {
    let key = &wanted.key;
    let service = match service {
        Some(service) => Some(admission::service(hub, service).await?),
        None => None,
    };
    let admitted = admission::dry_run(hub, wanted, service.as_ref()).await?;
    let object = admitted.object.clone();
    let snapshot =
        once::read_with_object(hub, key, object, args.insecure.allow_insecure_members).await?;
    if snapshot.works.is_none() {
        output::progress(
            "note: whether Karmada's own controllers manage it is not known, because you may not list Works on the hub",
        )?;
    }
    let (mut lists, members) = snapshot.lists();
    lists.uid = hub.uid().await?;
    let settings = Settings::reported(&lists, &members, key);
    if let Some(service) = service {
        lists.services.retain(|one| one.name_any() != *key.name);
        lists.services.push(service);
    }
    let after = preview(
        lists.clone(),
        members.clone(),
        &settings,
        key,
        service::now(),
    );
    Ok(Report::new(key, admitted, (&lists, &members), &after)?)
}
