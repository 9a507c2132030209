//! Dashboards as Grafana reads them: rows of panels, each with its queries.

use serde_json::{Value, json};

/// The version of the form, that of Grafana 10; later ones read it.
const SCHEMA: u32 = 39;
const WIDTH: usize = 24;

/// A dashboard.
pub(super) struct Dashboard {
    /// Also the name of its file.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    /// A variable whose values a query lists: its name, and the query.
    pub(super) variable: Option<(&'static str, &'static str)>,
    pub(super) rows: Vec<Row>,
}

/// Panels beside each other.
pub(super) struct Row {
    pub(super) title: &'static str,
    pub(super) kind: Kind,
    pub(super) panels: Vec<Panel>,
}

/// Form in which panels show their series.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// As they are now.
    Stat,
    /// Over time.
    TimeSeries,
}

/// Content of a panel, and what a person learns from it.
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    /// As Grafana names it: s, reqps, percentunit, short.
    pub(super) unit: &'static str,
    /// Each with the legend of its series.
    pub(super) queries: Vec<(&'static str, &'static str)>,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::TimeSeries => "timeseries",
        }
    }

    fn height(self) -> usize {
        match self {
            Self::Stat => 4,
            Self::TimeSeries => 8,
        }
    }
}

impl Dashboard {
    /// The dashboard as Grafana imports it.
    pub(super) fn json(&self) -> Value {
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
        let listed = self.variable.map(|(name, query)| {
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
        let targets = targets.map(|((query, legend), id)| {
            json!({
                "refId": id.to_string(), "datasource": datasource(), "expr": query, "legendFormat": legend,
                "instant": kind == Kind::Stat, "range": kind == Kind::TimeSeries,
            })
        });
        json!({
            "id": id, "type": kind.name(), "title": self.title, "description": self.description,
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
