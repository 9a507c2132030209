//! Dashboards as Grafana reads them: rows of panels, each with its queries.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version of the form, that of Grafana 10; later ones read it.
const SCHEMA: u32 = 39;
const WIDTH: usize = 24;

/// A dashboard.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dashboard {
    /// Also the name of its file.
    pub(crate) name: String,
    title: String,
    description: String,
    variable: Option<Variable>,
    rows: Vec<Row>,
}

/// A variable whose values a query lists.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variable {
    name: String,
    query: String,
}

/// Panels beside each other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    title: String,
    #[serde(default)]
    kind: Kind,
    panels: Vec<Panel>,
}

/// Form in which panels show their series.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// As they are now.
    Stat,
    /// Over time.
    #[default]
    TimeSeries,
}

/// Content of a panel, and what a person learns from it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Panel {
    title: String,
    description: String,
    #[serde(default = "short")]
    unit: String,
    queries: Vec<Query>,
}

/// A query, with the legend of its series.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    expr: String,
    legend: String,
}

impl Kind {
    fn height(self) -> usize {
        match self {
            Self::Stat => 4,
            Self::TimeSeries => 8,
        }
    }
}

impl Dashboard {
    /// Reads all dashboards.
    pub(crate) fn all() -> anyhow::Result<Vec<Self>> {
        serde_saphyr::from_str::<Vec<Self>>(include_str!("dashboards.yaml"))
            .context("cannot read dashboards.yaml")
    }

    /// Returns the dashboard as Grafana imports it.
    pub(crate) fn json(&self) -> Value {
        let mut panels = Vec::new();
        let mut y = 0;
        for row in &self.rows {
            let id = panels.len() + 1;
            panels.push(json!({
                "id": id, "type": "row", "title": row.title, "collapsed": false, "panels": [],
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            }));
            y += 1;
            let width = WIDTH / row.panels.len().max(1);
            for (number, panel) in row.panels.iter().enumerate() {
                let place =
                    json!({"x": number * width, "y": y, "w": width, "h": row.kind.height()});
                panels.push(panel.json(panels.len() + 1, row.kind, &place));
            }
            y += row.kind.height();
        }
        json!({
            "uid": format!("causeway-{}", self.name),
            "title": self.title,
            "description": self.description,
            "tags": ["causeway"],
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "templating": {"list": self.variables()},
            "links": [{
                "type": "dashboards", "tags": ["causeway"], "title": "causeway", "asDropdown": false,
                "keepTime": true, "includeVars": false, "targetBlank": false,
            }],
            "panels": panels,
        })
    }

    fn variables(&self) -> Vec<Value> {
        let source = json!({"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"});
        let listed = self.variable.as_ref().map(|Variable { name, query }| {
            json!({
                "name": name, "type": "query", "query": query, "datasource": datasource(),
                "refresh": 2, "sort": 1, "includeAll": false, "multi": false,
            })
        });
        std::iter::once(source).chain(listed).collect()
    }
}

impl Panel {
    fn json(&self, id: usize, kind: Kind, place: &Value) -> Value {
        let targets = self.queries.iter().zip('A'..);
        let targets = targets.map(|(Query { expr, legend }, id)| {
            json!({
                "refId": id.to_string(), "datasource": datasource(), "expr": expr, "legendFormat": legend,
                "instant": kind == Kind::Stat, "range": kind == Kind::TimeSeries,
            })
        });
        json!({
            "id": id, "type": kind, "title": self.title, "description": self.description,
            "gridPos": place, "datasource": datasource(), "targets": targets.collect::<Vec<_>>(),
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
            "options": self.options(kind),
        })
    }

    fn options(&self, kind: Kind) -> Value {
        match kind {
            Kind::Stat => json!({
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
                "colorMode": "none", "graphMode": "none", "textMode": "auto",
            }),
            Kind::TimeSeries => json!({
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }),
        }
    }
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// Unit of a number of things.
fn short() -> String {
    "short".to_owned()
}
