//! `kubectl mcs diff -f FILE`: shows the changes in each cluster if a MultiClusterService were
//! applied.
//!
//! A dry run on the hub's API server, as in `kubectl diff`, returns the object that the hub would
//! store, admission included. The controller's engine computes the writes to the members from lists
//! that are read with the user's own rights.

mod admission;
mod file;
mod report;
mod text;

use causeway_engine::plan::Settings;
use causeway_engine::preview::preview;
use kube::ResourceExt as _;

use crate::api_server::{ApiServer, RequestError};
use crate::args::{DiffArgs, HubArgs};
use crate::exit::{CommandError, ExitState, UNKNOWN, USAGE};
use crate::observe::once::{self, GatherError};
use crate::observe::service;
use crate::output::{self, OutputError};

use self::file::FileError;
use self::report::Report;

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
    #[error(transparent)]
    Gather(#[from] GatherError),
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
            Self::Request(error) | Self::Gather(GatherError::Request(error))
                if error.exit_code() == USAGE =>
            {
                USAGE
            }
            _ => UNKNOWN,
        }
    }
}

/// Prints the changes. Returns [`ExitState::Problem`] if applying the files changes a cluster, as
/// in `kubectl diff`. A cluster that cannot be compared makes the result unknown.
pub(crate) async fn run(hub: &HubArgs, args: &DiffArgs) -> Result<ExitState, DiffError> {
    let namespace = hub.namespace.clone();
    let hub = ApiServer::hub(hub).await?;
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
    output::report(&reports, args.output, || {
        reports.iter().map(text::render).collect()
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
    let snapshot = once::read_with_object(hub, key, object, args.allow_insecure_members).await?;
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
    let after = preview(lists, members.clone(), &settings, key, service::now());
    Report::new(&wanted.key, admitted, &members, &after)
}

#[cfg(test)]
mod tests {
    use causeway::api::MultiClusterService;
    use serde_json::json;

    use super::admission::Admitted;
    use super::*;
    use crate::golden;
    use crate::observe::service::Snapshot;
    use crate::status::fixtures::{cross, service};

    /// Compares the current state with the state after this object is applied.
    fn applied(snapshot: &Snapshot, object: MultiClusterService) -> (String, Report) {
        let stored = snapshot.mcs.clone();
        let snapshot = Snapshot {
            mcs: Some(object.clone()),
            ..snapshot.clone()
        };
        let (lists, members) = snapshot.lists();
        let settings = Settings::reported(&lists, &members, &snapshot.key);
        let now = service::now();
        let after = preview(lists, members.clone(), &settings, &snapshot.key, now);
        let warnings = vec!["it is deprecated".to_owned()];
        let admitted = Admitted {
            stored,
            object,
            warnings,
        };
        let report = Report::new(&snapshot.key, admitted, &members, &after).expect("a report");
        let unread = report.is_incomplete();
        (
            text::render(&report) + &format!("incomplete: {unread}"),
            report,
        )
    }

    #[test]
    fn golden_outputs_of_diff_are_kept() {
        golden::check_states("diff", |snapshot| {
            // Compares the text output for a stored object. Compares the JSON output for the
            // opposite direction and for objects that are not stored.
            let stored = snapshot.mcs.clone();
            let stored = stored.map(|stored| applied(snapshot, stored).0);
            let turned = service("foo", cross(&["b"], &["a"]), json!([]));
            golden::both(&stored.unwrap_or_default(), &applied(snapshot, turned).1)
        });
    }
}
