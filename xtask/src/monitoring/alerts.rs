//! The alerts. docs/troubleshooting.md has the runbook of each, and why it waits as long as it
//! does.
//!
//! Series of replicas are joined, so that an alert fires once, and goes on when a pod is replaced.
//! Each expression names the labels that it keeps: a scrape adds labels of its own, such as `pod`,
//! `node` and `pod_template_hash`, and they differ between replicas. The namespace of the pods is
//! kept: Alertmanager may route by it.
//! One Prometheus sees one hub: nothing tells the series of two apart where a process is gone.

use std::time::Duration;

use super::{MINUTE, Times};

/// Urgency of an alert.
#[derive(Clone, Copy, Debug)]
pub(super) enum Severity {
    /// Somebody is refused something, or nobody keeps things as they should be.
    Critical,
    /// Traffic goes on, and somebody should look.
    Warning,
}

impl Severity {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

/// An alert.
pub(super) struct Alert {
    pub(super) name: &'static str,
    pub(super) expr: String,
    /// For how long that has to hold.
    pub(super) hold: Duration,
    pub(super) severity: Severity,
    pub(super) summary: &'static str,
    /// As Prometheus fills it in.
    pub(super) description: &'static str,
}

/// All alerts, in these times.
pub(super) fn alerts(times: Times) -> Vec<Alert> {
    let parts = [
        members(),
        propagation(times),
        leadership(times),
        admission(times),
        certificates(times),
        services(),
        vec![panics()],
    ];
    parts.into_iter().flatten().collect()
}

fn members() -> Vec<Alert> {
    let state = |which: &str| {
        format!(
            "max by (namespace, cluster, state) (causeway_controller_member_state{{state{which}}}) == 1"
        )
    };
    vec![
        Alert {
            name: "CausewayMemberUnreachable",
            expr: state("=\"unreachable\""),
            hold: 5 * MINUTE,
            severity: Severity::Warning,
            summary: "A member does not answer",
            description: "The API server of member {{ $labels.cluster }} cannot be reached. What the member has and what it gave to \
                          others stays as it was.",
        },
        Alert {
            name: "CausewayMemberNotSynced",
            expr: state("=~\"syncing|refused\""),
            hold: 5 * MINUTE,
            severity: Severity::Warning,
            summary: "A member is not used as it should be",
            description: "Member {{ $labels.cluster }} is {{ $labels.state }}: the controller does not know all that it holds.",
        },
        Alert {
            name: "CausewayDeletionsSuspended",
            expr: "max by (namespace, cluster) (causeway_controller_deletions_suspended) > 0"
                .to_owned(),
            hold: 10 * MINUTE,
            severity: Severity::Warning,
            summary: "Deletions are suspended",
            description: "{{ $value }} objects of {{ $labels.cluster }} disappeared from its lists, and are kept until a list confirms \
                          that.",
        },
    ]
}

fn propagation(times: Times) -> Vec<Alert> {
    let window = times.range(5 * MINUTE);
    let waits = times.seconds(MINUTE);
    vec![
        Alert {
            name: "CausewayPropagationSlow",
            expr: format!(
                "histogram_quantile(0.99, sum by (namespace, le) (rate(causeway_controller_propagation_seconds_bucket[{window}]))) > 5"
            ),
            hold: 10 * MINUTE,
            severity: Severity::Warning,
            summary: "Changes of endpoints arrive late",
            description: "One change in a hundred reaches the last of its consumers after more than {{ $value | humanizeDuration }}.",
        },
        Alert {
            name: "CausewayQueueStuck",
            expr: format!(
                "max by (namespace) (causeway_controller_queue_oldest_seconds) > {waits}"
            ),
            hold: MINUTE,
            severity: Severity::Warning,
            summary: "The controller falls behind",
            description: "A service has waited for {{ $value | humanizeDuration }} to be planned.",
        },
        Alert {
            name: "CausewayHubWatchDown",
            expr: "min by (namespace, resource) (causeway_controller_hub_watch_up) == 0".to_owned(),
            hold: 5 * MINUTE,
            severity: Severity::Critical,
            summary: "A watch of the hub fails",
            description: "A replica of the controller does not see changes of {{ $labels.resource }} on the hub. If it leads, they have no effect in members.",
        },
    ]
}

fn leadership(times: Times) -> Vec<Alert> {
    let window = times.range(10 * MINUTE);
    vec![
        Alert {
            name: "CausewayNoLeader",
            expr: "sum by (namespace) (causeway_controller_leader) == 0 or absent(causeway_controller_leader)"
                .to_owned(),
            hold: MINUTE,
            severity: Severity::Critical,
            summary: "No controller leads",
            description: "No causeway-controller holds the Lease: what changes in one cluster is not brought to the others.",
        },
        Alert {
            name: "CausewayLeaderFlapping",
            expr: format!("changes((max by (namespace) (causeway_controller_lease_transitions))[{window}:]) > 3"),
            hold: Duration::ZERO,
            severity: Severity::Warning,
            summary: "The leader changes again and again",
            description: "The Lease of causeway-controller changed hands {{ $value }} times in 10 minutes.",
        },
    ]
}

fn admission(times: Times) -> Vec<Alert> {
    let window = times.range(5 * MINUTE);
    vec![
        Alert {
            name: "CausewayWebhookErrors",
            expr: format!(
                "sum by (namespace, decision) \
                 (increase(causeway_webhook_request_duration_seconds_count{{decision=\"error\"}}[{window}])) > 0"
            ),
            hold: 10 * MINUTE,
            severity: Severity::Critical,
            summary: "The webhook answers with errors",
            description: "{{ $value | humanize }} requests in 5 minutes got no decision, so that failurePolicy decided.",
        },
        Alert {
            name: "CausewayWebhookSlow",
            expr: format!(
                "histogram_quantile(0.99, sum by (namespace, webhook, le) \
                 (rate(causeway_webhook_request_duration_seconds_bucket{{decision!=\"rejected\"}}[{window}]))) > 2.5"
            ),
            hold: 10 * MINUTE,
            severity: Severity::Warning,
            summary: "The webhook is slow",
            description: "One request in a hundred to {{ $labels.webhook }} takes {{ $value | humanizeDuration }}, more than half of \
                          timeoutSeconds.",
        },
        Alert {
            name: "CausewayWebhookDown",
            expr:
                "sum by (namespace) (causeway_webhook_ready) < 1 or absent(causeway_webhook_ready)"
                    .to_owned(),
            hold: MINUTE,
            severity: Severity::Critical,
            summary: "No webhook is ready",
            description: "No causeway-webhook is ready: no MultiClusterService can be created or changed.",
        },
    ]
}

fn certificates(times: Times) -> Vec<Alert> {
    let window = times.range(5 * MINUTE);
    vec![
        Alert {
            name: "CausewayCertificateExpiring",
            expr: "min by (namespace) ((causeway_certificate_expiry_timestamp_seconds - time()) / \
                   (causeway_certificate_expiry_timestamp_seconds - causeway_certificate_not_before_timestamp_seconds) \
                   and causeway_certificate_expiry_timestamp_seconds > 0) < 1 / 3"
                .to_owned(),
            hold: 60 * MINUTE,
            severity: Severity::Warning,
            summary: "The webhook's certificate is not renewed",
            description: "{{ $value | humanizePercentage }} of the life of the webhook's serving certificate are left. It should have \
                          been renewed.",
        },
        Alert {
            name: "CausewayCertificateRotationFailing",
            expr: format!(
                "sum by (namespace) (increase(causeway_certificate_rotation_failures_total[{window}])) > 0"
            ),
            hold: 15 * MINUTE,
            severity: Severity::Warning,
            summary: "The webhook's certificate cannot be renewed or loaded",
            description: "The webhook failed {{ $value | humanize }} times in 5 minutes to renew or to load its certificate. The last \
                          valid one stays in use.",
        },
        Alert {
            name: "CausewayTunnelCertificateExpiring",
            expr: "min by (namespace) (causeway_tunnel_certificate_expiry_timestamp_seconds) - time() < 14 * 86400 or \
                   min by (namespace) (causeway_tunnel_front_certificate_expiry_timestamp_seconds > 0) - time() < 14 * 86400"
                .to_owned(),
            hold: 60 * MINUTE,
            severity: Severity::Warning,
            summary: "A certificate of causeway-tunnel is not renewed",
            description: "The certificate for agents, or that for clients with passwords, expires in {{ $value | humanizeDuration }}. \
                          After that none of them connects.",
        },
        Alert {
            name: "CausewayControllerCertificateExpiring",
            expr: "min by (namespace) (causeway_controller_tunnel_certificate_expiry_timestamp_seconds) - time() < 30 * 86400"
                .to_owned(),
            hold: 60 * MINUTE,
            severity: Severity::Warning,
            summary: "The controller's certificate for agents is not renewed",
            description: "The certificate of --tunnel-tls-dir expires in {{ $value | humanizeDuration }}. After that members whose \
                          agents give their tokens become unreachable.",
        },
        Alert {
            name: "CausewayAgentCertificateExpiring",
            expr: "min by (namespace) (causeway_tunnel_agent_certificate_expiry_timestamp_seconds) - time() < 30 * 86400 or \
                   min by (namespace) (causeway_tunnel_enrolled_agent_certificate_expiry_timestamp_seconds) - time() < 2 * 86400"
                .to_owned(),
            hold: 60 * MINUTE,
            severity: Severity::Warning,
            summary: "The certificate of an agent is not renewed",
            description: "The certificate of a connected agent expires in {{ $value | humanizeDuration }}. After that its member is \
                          unreachable.",
        },
    ]
}

fn services() -> Vec<Alert> {
    vec![
        Alert {
            name: "CausewayServiceNotReady",
            expr: "sum by (namespace, reason) (causeway_controller_services_not_ready{reason!=\"ManagedByKarmada\"}) > 0"
                .to_owned(),
            hold: 10 * MINUTE,
            severity: Severity::Warning,
            summary: "MultiClusterServices are not Ready",
            description: "{{ $value }} MultiClusterServices are not Ready: {{ $labels.reason }}.",
        },
        Alert {
            name: "CausewayProviderUnreached",
            expr: "sum by (namespace, cluster, reason) (causeway_controller_services_unreached) > 0"
                .to_owned(),
            hold: 15 * MINUTE,
            severity: Severity::Warning,
            summary: "Other networks do not reach a provider",
            description: "Consumers of other networks do not get {{ $value }} services from {{ $labels.cluster }}: \
                          {{ $labels.reason }}.",
        },
    ]
}

fn panics() -> Alert {
    Alert {
        name: "CausewayPanics",
        expr: "sum by (namespace, task) (causeway_panics_total) > 0".to_owned(),
        hold: Duration::ZERO,
        severity: Severity::Warning,
        summary: "A program has a bug",
        description: "Task {{ $labels.task }} panicked {{ $value }} times.",
    }
}
