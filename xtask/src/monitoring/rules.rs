//! The alerts as a file of rules that Prometheus reads.

use serde::Serialize;

use super::Times;
use super::alerts::{Alert, alerts};

/// The page of the runbooks, without its extension.
const RUNBOOKS: &str = "https://causeway.dev/causeway/blob/main/docs/troubleshooting";

#[derive(Serialize)]
struct Rules {
    groups: [Group; 1],
}

#[derive(Serialize)]
struct Group {
    name: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
struct Rule {
    alert: &'static str,
    expr: String,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    hold: Option<String>,
    labels: Labels,
    annotations: Annotations,
}

#[derive(Serialize)]
struct Labels {
    severity: &'static str,
}

#[derive(Serialize)]
struct Annotations {
    summary: &'static str,
    description: &'static str,
    runbook_url: String,
}

impl Rule {
    fn new(alert: Alert, times: Times) -> Self {
        let anchor = alert.name.to_lowercase();
        Self {
            alert: alert.name,
            expr: alert.expr,
            hold: times.hold(alert.hold),
            labels: Labels {
                severity: alert.severity.as_str(),
            },
            annotations: Annotations {
                summary: alert.summary,
                description: alert.description,
                runbook_url: format!("{RUNBOOKS}.md#{anchor}"),
            },
        }
    }
}

/// The rules, in these times, to be written as YAML.
pub(crate) fn rules(times: Times) -> impl Serialize {
    let rules = alerts(times).into_iter();
    Rules {
        groups: [Group {
            name: "causeway",
            rules: rules.map(|alert| Rule::new(alert, times)).collect(),
        }],
    }
}
