//! Text output of `diff`: unified diffs by cluster, and the endpoints that clients gain and lose.

use super::report::{Address, ClusterReport, Report};

/// Renders a report. Lines outside of diffs begin with `#`, which tools that color diffs accept.
pub(crate) fn render(report: &Report) -> String {
    let name = format!("{}/{}", report.namespace, report.name);
    let mut text = String::new();
    for warning in &report.warnings {
        text.push_str(&format!("# Warning: {warning}\n"));
    }
    if let Some(why) = &report.unknown {
        text.push_str(&format!("# not known in full: {why}\n"));
    }
    if let Some(object) = &report.object {
        text.push_str(&object.diff);
    }
    for one in &report.unpublished {
        text.push_str(&format!("# hub: {}\n", one.message));
        if let Some(remedy) = &one.remedy {
            text.push_str(&format!("#   -> {remedy}\n"));
        }
    }
    if let Some(object) = &report.dns_endpoint {
        text.push_str(&object.diff);
    }
    for cluster in &report.clusters {
        text.push_str(&of_cluster(&name, cluster));
    }
    text
}

fn of_cluster(name: &str, report: &ClusterReport) -> String {
    let cluster = &report.cluster;
    if let Some(why) = &report.unread {
        return format!("# {cluster}: not compared: {why}\n");
    }
    let mut text = String::new();
    for (verb, addresses) in [("gain", &report.gained), ("lose", &report.lost)] {
        if !addresses.is_empty() {
            let all = list(addresses);
            text.push_str(&format!("# {cluster}: clients of {name} {verb} {all}\n"));
        }
    }
    for one in &report.unreached {
        let provider = &one.provider;
        let (message, remedy) = (&one.message, &one.remedy);
        let lead = match one.pending {
            true => format!("endpoints of {provider} are not known yet"),
            false => format!("no endpoints of {provider}"),
        };
        text.push_str(&format!(
            "# {cluster}: {lead}: {message}\n#   -> {remedy}\n"
        ));
    }
    if report.endpoints_unknown {
        text.push_str(&format!(
            "# {cluster}: provides, and has no Service {name} yet: its endpoints come with the Service, and are not shown here\n"
        ));
    }
    for object in &report.objects {
        text.push_str(&object.diff);
    }
    text
}

fn list(addresses: &[Address]) -> String {
    let all = addresses
        .iter()
        .map(|one| format!("{} ({})", one.address, one.cluster));
    all.collect::<Vec<_>>().join(", ")
}
