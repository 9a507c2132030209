//! Output of `check`, `status` and `explain` in a bug report.

use std::collections::BTreeSet;

use causeway::domain::ServiceKey;
use k8s_openapi::jiff::Timestamp;

use super::Request;
use super::archive::Archive;
use crate::cluster::api_server::RequestError;
use crate::cluster::lease::{self, Controller};
use crate::commands::overview::Overview;
use crate::observe::installation;
use crate::observe::once;
use crate::observe::verification::{self, Verification};
use crate::term::screen::Screen;
use crate::views::check::{self, diagnose};
use crate::views::explain::{Answer, explained_with};
use crate::views::status::report::Report;
use crate::views::status::text;

/// Maximum number of explanations. A cause that many services share appears in the first ones.
const EXPLAINED: usize = 20;

/// Adds the output of `check` and `status`, and of `explain` for services that are not ready.
pub(super) async fn gather(request: &Request<'_>, archive: &mut Archive) {
    check(request, archive).await;
    let Some(report) = status(request, archive).await else {
        return;
    };
    let unready = unready(&report);
    for key in unready.iter().take(EXPLAINED) {
        explain(request, archive, key).await;
    }
    if unready.len() > EXPLAINED {
        let more = unready.len() - EXPLAINED;
        archive.missing(
            "explain",
            format!("{EXPLAINED} services are explained, {more} that are not ready either are not"),
        );
    }
}

async fn check(request: &Request<'_>, archive: &mut Archive) {
    let lease = &request.args.controller.lease;
    let allow_insecure = request.args.insecure.allow_insecure_members;
    match installation::read(&request.hub, lease, allow_insecure).await {
        Ok(installation) => {
            let report = check::Report::new(diagnose(&installation));
            archive.text("check.txt", &report.render());
        }
        Err(error) => archive.missing("check", error),
    }
}

async fn status(request: &Request<'_>, archive: &mut Archive) -> Option<Report> {
    let overview = Overview {
        hub: request.hub.clone(),
        all_namespaces: request.namespace.is_none(),
        name: None,
        allow_insecure: request.args.insecure.allow_insecure_members,
    };
    let report = match overview.look().await {
        Ok(snapshot) => overview.report(&snapshot),
        Err(error) => {
            archive.missing("status", error);
            return None;
        }
    };
    let text = text::overview(&report, Timestamp::now(), Screen::PLAIN);
    archive.text("status.txt", &text);
    match serde_json::to_string_pretty(&report) {
        Ok(json) => archive.text("status.json", &json),
        Err(error) => archive.missing("status.json", error),
    }
    Some(report)
}

/// Returns the services that are not ready.
fn unready(report: &Report) -> BTreeSet<ServiceKey> {
    let services = report.services.iter().filter(|one| !one.ready);
    let services = services.map(|one| ServiceKey::new(&*one.namespace, &*one.name));
    let exports = report.exports.iter().filter(|one| !one.ready);
    let exports = exports.map(|one| ServiceKey::new(&*one.namespace, &*one.name));
    services.chain(exports).collect()
}

async fn explain(request: &Request<'_>, archive: &mut Archive, key: &ServiceKey) {
    let verified = Verification::read(&request.hub, key).await;
    if let Err(why) = &verified {
        archive.missing(format!("last result of verify of {key}"), why);
    }
    match explanation(request, key, &verified).await {
        Ok(text) => archive.text(format!("explain/{}/{}.txt", key.namespace, key.name), &text),
        Err(error) => archive.missing(format!("explain of {key}"), error),
    }
}

/// Returns the text of `explain`, with the last result of `verify`.
async fn explanation(
    request: &Request<'_>,
    key: &ServiceKey,
    verified: &verification::Read,
) -> Result<String, RequestError> {
    let allow_insecure = request.args.insecure.allow_insecure_members;
    let snapshot = once::read(&request.hub, key, allow_insecure).await?;
    let controller = Controller::read(&request.hub, &request.args.controller.lease).await?;
    let now = lease::now(&request.hub).await;
    let explanation = explained_with(&snapshot, &controller, now);
    Ok(Answer::new(&explanation, verified).render(true))
}
