//! The dashboards: the whole, one member, admission.
//!
//! A counter whose series begins when something first happens is shown as 0 before.

use serde_json::Value;

use super::panels::{Dashboard, Kind, Panel, Row};

/// Each dashboard: its name, and what Grafana imports.
pub(crate) fn dashboards() -> [(&'static str, Value); 3] {
    [overview(), member(), admission()].map(|dashboard| (dashboard.name, dashboard.json()))
}

fn panel<const N: usize>(
    title: &'static str,
    unit: &'static str,
    description: &'static str,
    queries: [(&'static str, &'static str); N],
) -> Panel {
    Panel {
        title,
        description,
        unit,
        queries: queries.into(),
    }
}

fn overview() -> Dashboard {
    Dashboard {
        name: "overview",
        title: "causeway: overview",
        description: "Whether causeway is at work, how fast changes arrive, and what is not as it should be",
        variable: None,
        rows: vec![state_now(), endpoints(), controller(), held()],
    }
}

fn state_now() -> Row {
    Row {
        title: "Now",
        kind: Kind::Stat,
        panels: vec![
            panel(
                "Members",
                "short",
                "How many members are in each state",
                [(
                    "sum by (state) (max by (cluster, state) (causeway_controller_member_state))",
                    "{{state}}",
                )],
            ),
            panel(
                "Not Ready",
                "short",
                "MultiClusterServices that are not Ready, by reason",
                [(
                    "sum by (reason) (causeway_controller_services_not_ready)",
                    "{{reason}}",
                )],
            ),
            panel(
                "Leaders",
                "short",
                "Controllers that write: one",
                [("sum(causeway_controller_leader)", "leaders")],
            ),
            panel(
                "Webhooks",
                "short",
                "Webhooks that are ready to serve",
                [("sum(causeway_webhook_ready)", "ready")],
            ),
            panel(
                "Panics",
                "short",
                "Panics of all processes since they started: none",
                [("sum(causeway_panics_total) or vector(0)", "panics")],
            ),
        ],
    }
}

fn endpoints() -> Row {
    Row {
        title: "Endpoints",
        kind: Kind::TimeSeries,
        panels: vec![
            panel(
                "Propagation",
                "s",
                "From a source's event to the last consumer's acknowledged write",
                [
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(causeway_controller_propagation_seconds_bucket[$__rate_interval])))",
                        "median",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(causeway_controller_propagation_seconds_bucket[$__rate_interval])))",
                        "99 %",
                    ),
                ],
            ),
            panel(
                "Writes",
                "reqps",
                "Writes into the hub and all members, by their result",
                [(
                    "sum by (result) (rate(causeway_controller_writes_total[$__rate_interval]))",
                    "{{result}}",
                )],
            ),
            panel(
                "Slowest members",
                "s",
                "How long 99 of 100 writes take, in the five slowest clusters",
                [(
                    "topk(5, histogram_quantile(0.99, sum by (cluster, le) (rate(causeway_controller_write_duration_seconds_bucket[$__rate_interval]))))",
                    "{{cluster}}",
                )],
            ),
        ],
    }
}

fn controller() -> Row {
    Row {
        title: "Controller",
        kind: Kind::TimeSeries,
        panels: vec![
            panel(
                "Waiting services",
                "short",
                "Services that wait to be planned",
                [(
                    "max by (pod, instance) (causeway_controller_queue_keys)",
                    "{{pod}} {{instance}}",
                )],
            ),
            panel(
                "Longest wait",
                "s",
                "How long the first of them has waited",
                [(
                    "max by (pod, instance) (causeway_controller_queue_oldest_seconds)",
                    "{{pod}} {{instance}}",
                )],
            ),
            panel(
                "Leadership",
                "short",
                "Which process writes",
                [(
                    "max by (pod, instance) (causeway_controller_leader)",
                    "{{pod}} {{instance}}",
                )],
            ),
            panel(
                "Takeovers",
                "short",
                "How often the Lease changed hands, by its own count",
                [("max(causeway_controller_lease_transitions)", "takeovers")],
            ),
            panel(
                "Watches of the hub",
                "short",
                "1 for a resource whose watch is connected",
                [(
                    "min by (resource) (causeway_controller_hub_watch_up)",
                    "{{resource}}",
                )],
            ),
        ],
    }
}

fn held() -> Row {
    Row {
        title: "Held back",
        kind: Kind::TimeSeries,
        panels: vec![
            panel(
                "Suspended deletions",
                "short",
                "Objects that lists lack and the deletion guard keeps",
                [(
                    "max by (cluster) (causeway_controller_deletions_suspended) or vector(0)",
                    "{{cluster}}",
                )],
            ),
            panel(
                "Failed writes",
                "reqps",
                "Writes that failed and are retried",
                [(
                    "sum(rate(causeway_controller_retries_total[$__rate_interval]))",
                    "retries",
                )],
            ),
            panel(
                "Write conflicts",
                "reqps",
                "Objects left alone for a while, because somebody changes them back",
                [(
                    "sum by (cluster) (rate(causeway_controller_write_conflicts_total[$__rate_interval])) or vector(0)",
                    "{{cluster}}",
                )],
            ),
            panel(
                "Unreadable objects",
                "reqps",
                "Objects that could not be read and were passed over",
                [(
                    "sum(rate(causeway_controller_unreadable_objects_total[$__rate_interval]))",
                    "unreadable",
                )],
            ),
        ],
    }
}

fn member() -> Dashboard {
    Dashboard {
        name: "member",
        title: "causeway: one member",
        description: "How a member stands, and what is written into it",
        variable: Some((
            "cluster",
            "label_values(causeway_controller_member_state, cluster)",
        )),
        rows: vec![member_now(), writes_of_member(), services_of_member()],
    }
}

fn member_now() -> Row {
    Row {
        title: "Now",
        kind: Kind::Stat,
        panels: vec![
            panel(
                "State",
                "short",
                "1 for the state that the member is in",
                [(
                    "max by (state) (causeway_controller_member_state{cluster=\"$cluster\"})",
                    "{{state}}",
                )],
            ),
            panel(
                "Network",
                "short",
                "Network of the member, and the way by which other networks reach it",
                [(
                    "max by (network, reach) (causeway_controller_cluster_info{cluster=\"$cluster\"})",
                    "{{network}} {{reach}}",
                )],
            ),
            panel(
                "Last event",
                "s",
                "How long ago the member's last event was received",
                [(
                    "time() - max(causeway_controller_member_last_event_timestamp_seconds{cluster=\"$cluster\"})",
                    "ago",
                )],
            ),
            panel(
                "Suspended deletions",
                "short",
                "Objects that its lists lack and the deletion guard keeps",
                [(
                    "max(causeway_controller_deletions_suspended{cluster=\"$cluster\"}) or vector(0)",
                    "suspended",
                )],
            ),
        ],
    }
}

fn services_of_member() -> Row {
    Row {
        title: "Services",
        kind: Kind::TimeSeries,
        panels: vec![
            panel(
                "Tiers",
                "short",
                "Services by the farthest tier that the member uses",
                [(
                    "sum by (tier) (causeway_controller_consumer_tier{cluster=\"$cluster\"}) or vector(0)",
                    "{{tier}}",
                )],
            ),
            panel(
                "Not reached",
                "short",
                "Services that consumers of other networks do not get from the member, by reason",
                [(
                    "sum by (reason) (causeway_controller_services_unreached{cluster=\"$cluster\"}) or vector(0)",
                    "{{reason}}",
                )],
            ),
            panel(
                "States",
                "short",
                "1 for the state that the member is in, over time",
                [(
                    "max by (state) (causeway_controller_member_state{cluster=\"$cluster\"})",
                    "{{state}}",
                )],
            ),
        ],
    }
}

fn writes_of_member() -> Row {
    Row {
        title: "Writes",
        kind: Kind::TimeSeries,
        panels: vec![
            panel(
                "By kind",
                "reqps",
                "Writes into the member, by kind of object",
                [(
                    "sum by (kind, verb) (rate(causeway_controller_writes_total{cluster=\"$cluster\"}[$__rate_interval]))",
                    "{{verb}} {{kind}}",
                )],
            ),
            panel(
                "By result",
                "reqps",
                "The same, by how they were answered",
                [(
                    "sum by (result) (rate(causeway_controller_writes_total{cluster=\"$cluster\"}[$__rate_interval]))",
                    "{{result}}",
                )],
            ),
            panel(
                "Duration",
                "s",
                "How long writes take to be answered",
                [
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(causeway_controller_write_duration_seconds_bucket{cluster=\"$cluster\"}[$__rate_interval])))",
                        "median",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(causeway_controller_write_duration_seconds_bucket{cluster=\"$cluster\"}[$__rate_interval])))",
                        "99 %",
                    ),
                ],
            ),
            panel(
                "Write conflicts",
                "reqps",
                "Objects left alone for a while, because somebody changes them back",
                [(
                    "sum(rate(causeway_controller_write_conflicts_total{cluster=\"$cluster\"}[$__rate_interval])) or vector(0)",
                    "conflicts",
                )],
            ),
        ],
    }
}

fn admission() -> Dashboard {
    Dashboard {
        name: "admission",
        title: "causeway: admission",
        description: "What the webhook decides, how fast, and its certificate",
        variable: None,
        rows: vec![requests(), connections(), certificate()],
    }
}

fn requests() -> Row {
    Row {
        title: "Requests",
        kind: Kind::TimeSeries,
        panels: vec![
            panel(
                "Decisions",
                "reqps",
                "Admission requests by webhook and decision; error is a 5xx",
                [(
                    "sum by (webhook, decision) (rate(causeway_webhook_request_duration_seconds_count[$__rate_interval]))",
                    "{{webhook}} {{decision}}",
                )],
            ),
            panel(
                "Duration",
                "s",
                "How long 99 of 100 requests take, from head to answer",
                [(
                    "histogram_quantile(0.99, sum by (webhook, le) (rate(causeway_webhook_request_duration_seconds_bucket[$__rate_interval])))",
                    "{{webhook}}",
                )],
            ),
            panel(
                "In flight",
                "short",
                "Requests that are being answered",
                [("sum(causeway_webhook_requests_in_flight)", "in flight")],
            ),
            panel(
                "Rejected",
                "reqps",
                "Requests rejected before they were validated",
                [(
                    "sum by (reason) (rate(causeway_webhook_requests_rejected_total[$__rate_interval])) or vector(0)",
                    "{{reason}}",
                )],
            ),
        ],
    }
}

fn connections() -> Row {
    Row {
        title: "Connections",
        kind: Kind::TimeSeries,
        panels: vec![
            panel(
                "Open",
                "short",
                "Open connections, by replica",
                [(
                    "sum by (pod, instance) (causeway_webhook_connections)",
                    "{{pod}} {{instance}}",
                )],
            ),
            panel(
                "Rejected",
                "reqps",
                "Connections rejected or closed by the webhook",
                [(
                    "sum by (reason) (rate(causeway_webhook_connections_rejected_total[$__rate_interval])) or vector(0)",
                    "{{reason}}",
                )],
            ),
            panel(
                "Ready",
                "short",
                "Replicas that are ready to serve",
                [(
                    "sum by (pod, instance) (causeway_webhook_ready)",
                    "{{pod}} {{instance}}",
                )],
            ),
        ],
    }
}

fn certificate() -> Row {
    Row {
        title: "Certificate",
        kind: Kind::TimeSeries,
        panels: vec![
            panel(
                "Life left",
                "percentunit",
                "How much of the life of the serving certificate is left; it is renewed at a third",
                [(
                    "min((causeway_certificate_expiry_timestamp_seconds - time()) / (causeway_certificate_expiry_timestamp_seconds - causeway_certificate_not_before_timestamp_seconds))",
                    "left",
                )],
            ),
            panel(
                "Expires in",
                "s",
                "When the serving certificate expires",
                [(
                    "min(causeway_certificate_expiry_timestamp_seconds) - time()",
                    "in",
                )],
            ),
            panel(
                "Rotations",
                "short",
                "New serving certificates in use, failed attempts, and repairs",
                [
                    ("sum(causeway_certificate_rotations_total)", "rotations"),
                    (
                        "sum(causeway_certificate_rotation_failures_total)",
                        "failures",
                    ),
                    (
                        "sum(causeway_certificate_repairs_total) or vector(0)",
                        "repairs",
                    ),
                ],
            ),
        ],
    }
}
