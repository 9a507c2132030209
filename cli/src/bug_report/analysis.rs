//! Output of `check`, `status` and `explain` in a bug report.

use causeway::domain::ServiceKey;
use k8s_openapi::jiff::Timestamp;

use super::Request;
use super::archive::Archive;
use crate::args::{
    Awaited, CheckArgs, Color, ColorArgs, ExplainArgs, InsecureArgs, LeaseArgs, OutputArgs,
    StatusArgs, WaitArgs,
};
use crate::screen::Screen;
use crate::status::report::Report;
use crate::{check, explain, status};

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

fn lease(request: &Request<'_>) -> LeaseArgs {
    LeaseArgs {
        lease: request.args.controller.lease.clone(),
    }
}

fn insecure(request: &Request<'_>) -> InsecureArgs {
    request.args.insecure
}

const TEXT: OutputArgs = OutputArgs { format: None };

async fn check(request: &Request<'_>, archive: &mut Archive) {
    let args = CheckArgs {
        controller: lease(request),
        output: TEXT,
    };
    match check::examine(&request.hub, &args).await {
        Ok(report) => archive.text("check.txt", &report.render()),
        Err(error) => archive.missing("check", error),
    }
}

async fn status(request: &Request<'_>, archive: &mut Archive) -> Option<Report> {
    let args = StatusArgs {
        name: None,
        all_namespaces: request.namespace.is_none(),
        watch: false,
        waiting: WaitArgs {
            wait: false,
            timeout: std::time::Duration::ZERO,
        },
        awaited: Awaited::Ready,
        insecure: insecure(request),
        color: ColorArgs {
            color: Color::Never,
        },
        output: TEXT,
    };
    match status::read(request.hub.clone(), &args).await {
        Ok(report) => {
            let text = status::text::overview(&report, Timestamp::now(), Screen::PLAIN);
            archive.text("status.txt", &text);
            match serde_json::to_string_pretty(&report) {
                Ok(json) => archive.text("status.json", &json),
                Err(error) => archive.missing("status.json", error),
            }
            Some(report)
        }
        Err(error) => {
            archive.missing("status", error);
            None
        }
    }
}

/// Returns the services that are not ready, without duplicates.
fn unready(report: &Report) -> Vec<ServiceKey> {
    let services = report.services.iter().filter(|one| !one.ready);
    let services = services.map(|one| (one.namespace.as_str(), one.name.as_str()));
    let exports = report.exports.iter().filter(|one| !one.ready);
    let exports = exports.map(|one| (one.namespace.as_str(), one.name.as_str()));
    let mut all: Vec<_> = services.chain(exports).collect();
    all.sort_unstable();
    all.dedup();
    let keys = all.into_iter();
    keys.map(|(namespace, name)| ServiceKey::new(namespace, name))
        .collect()
}

async fn explain(request: &Request<'_>, archive: &mut Archive, key: &ServiceKey) {
    let args = ExplainArgs {
        name: key.name.to_string(),
        endpoints: true,
        controller: lease(request),
        insecure: insecure(request),
        output: TEXT,
    };
    match explain::examine(&request.hub, key, &args).await {
        Ok(explanation) => {
            let text = explain::text::render(&explanation, true);
            archive.text(format!("explain/{}/{}.txt", key.namespace, key.name), &text);
        }
        Err(error) => archive.missing(format!("explain of {key}"), error),
    }
}
