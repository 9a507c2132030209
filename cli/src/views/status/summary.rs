//! Summaries of a report in one line.

use super::report::Report;
use crate::term::screen::printable;

/// Returns a suffix that lists unread parts, any of which may hold the named service.
pub(crate) fn unread(report: &Report) -> String {
    let members = report.unread.iter();
    let members = members.map(|member| format!("{} ({})", member.name, member.message));
    let unknown = report.unknown.iter().cloned();
    match members
        .chain(unknown)
        .collect::<Vec<_>>()
        .join(", ")
        .as_str()
    {
        "" => String::new(),
        members => format!(", not read: {members}"),
    }
}

/// Returns the problems in one line.
pub(crate) fn problems(report: &Report) -> String {
    let services = report
        .services
        .iter()
        .filter(|service| !service.ready)
        .map(|service| {
            format!(
                "{}/{}: {} ({})",
                service.namespace, service.name, service.reason, service.message
            )
        });
    let members = report
        .members
        .iter()
        .flatten()
        .filter(|member| !member.is_healthy())
        .map(|member| {
            let problem = member.problem().unwrap_or_default();
            format!("member {}: {} ({problem})", member.name, member.state)
        });
    let exported = report.exports.iter();
    let exports = exported.filter(|service| !service.ready).map(|service| {
        format!(
            "export of {}/{}: {} ({})",
            service.namespace, service.name, service.reason, service.message
        )
    });
    let misplaced = report.misplaced.iter().map(|one| one.message.clone());
    let unread = report.unread.iter();
    let unread = unread.map(|one| format!("member {} is not read: {}", one.name, one.message));
    members
        .chain(services)
        .chain(exports)
        .chain(misplaced)
        .chain(unread)
        .chain(report.unknown.iter().cloned())
        .map(|problem| printable(&problem).into_owned())
        .collect::<Vec<_>>()
        .join("; ")
}
