//! The dashboards, and the queries of their panels.

use std::collections::BTreeSet;

use causeway_tests::repository;
use serde_json::Value;

use crate::rules::rules;

const DASHBOARDS: [&str; 3] = ["overview", "member", "admission"];

fn read(name: &str) -> Value {
    let file = repository().join(format!("manifests/monitoring/dashboards/{name}.json"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// A query of a panel, and where it is.
pub(crate) struct Query {
    pub(crate) place: String,
    pub(crate) text: String,
}

/// Every query of every panel, for that cluster and over so much time.
pub(crate) fn queries(cluster: &str, interval: &str) -> Vec<Query> {
    let mut queries = Vec::new();
    for name in DASHBOARDS {
        let dashboard = read(name);
        for panel in dashboard["panels"].as_array().expect("panels") {
            let title = panel["title"].as_str().expect("a title");
            for target in panel["targets"].as_array().into_iter().flatten() {
                let text = target["expr"].as_str().expect("a query");
                let text = text.replace("$cluster", cluster);
                queries.push(Query {
                    place: format!("{name}: {title}"),
                    text: text.replace("$__rate_interval", interval),
                });
            }
        }
    }
    queries
}

#[test]
fn panels_stand_beside_each_other_and_say_what_they_show() {
    for name in DASHBOARDS {
        let dashboard = read(name);
        let mut taken = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for panel in dashboard["panels"].as_array().expect("panels") {
            let title = panel["title"].as_str().expect("a title");
            assert!(ids.insert(panel["id"].as_u64()), "{name}: {title}");
            let side = |key: &str| panel["gridPos"][key].as_u64().expect("a number");
            assert!(side("x") + side("w") <= 24, "{name}: {title}");
            for x in side("x")..side("x") + side("w") {
                for y in side("y")..side("y") + side("h") {
                    assert!(taken.insert((x, y)), "{name}: {title} lies over another");
                }
            }
            if panel["type"] != "row" {
                let description = panel["description"].as_str().unwrap_or_default();
                assert!(!description.is_empty(), "{name}: {title}");
            }
        }
    }
    assert!(queries("member1", "5m").len() > 30);
}

/// The metrics that docs/reference.md names are those that there are: a test of the documents holds
/// that.
#[test]
fn every_metric_of_a_rule_or_a_panel_is_one_that_there_is() {
    let page = std::fs::read_to_string(repository().join("docs/reference.md")).expect("a page");
    let rules = rules().into_iter().map(|(place, rule)| Query {
        place,
        text: rule["expr"].as_str().expect("a query").to_owned(),
    });
    for query in queries("member1", "5m").into_iter().chain(rules) {
        let words = query
            .text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("causeway_")) {
            let metric = word.trim_end_matches("_bucket").trim_end_matches("_count");
            let is_there = ["`", "{"]
                .iter()
                .any(|end| page.contains(&format!("`{metric}{end}")));
            assert!(is_there, "{}: {metric} is not there", query.place);
        }
    }
}
