//! A Prometheus that scrapes real processes while one thing after the other goes wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_tests::fixtures::RunningPod;
use causeway_tests::{Fault, SOON, eventually, prometheus};

use crate::dashboards::queries;
use crate::faults::Activity;
use crate::rules::{check, rules};
use crate::runbooks::first_command;
use crate::slow_link::SlowLink;
use crate::watched::{MOVING, Watched};

/// Time at which the fault of each alert began, by the clock of Prometheus.
#[derive(Default)]
struct Begun(BTreeMap<&'static str, f64>);

impl Begun {
    /// A fault begins: nothing that went wrong before has brought its alert about.
    async fn note(&mut self, watched: &Watched, alert: &'static str) {
        let active = watched.prometheus.alerts().await;
        let fires = active
            .iter()
            .any(|one| one.name() == alert && one.is_firing());
        assert!(!fires, "{alert} fires before its fault: {active:?}");
        self.0.insert(alert, watched.prometheus.time().await);
    }
}

/// The first command of an alert's runbook shows all of these.
async fn shows(watched: &Watched, alert: &str, words: &[&str]) {
    let command = first_command(alert);
    // The alert fires much earlier than with the times that people have.
    eventually(
        &format!("the runbook of {alert} shows {words:?}"),
        SOON,
        async || {
            let shown = watched.terminal.run(&command).await;
            let missing = words.iter().any(|word| !shown.contains(word));
            (!missing)
                .then_some(())
                .ok_or(format!("{command}\n{shown}"))
        },
    )
    .await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test(flavor = "multi_thread")]
async fn each_alert_fires_by_its_fault_and_its_runbook_shows_why() {
    let programs = match prometheus::prerequisites() {
        Ok(programs) => programs,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    let mut watched = Watched::start(&programs).await;
    let mut services = Vec::new();
    for name in MOVING {
        services.push(watched.expose(name).await);
    }
    watched.expose("lost").await;
    for process in [&watched.controller, watched.webhook()] {
        let (_, text) = process.get("/metrics").await.expect("metrics");
        check(&programs, &["check", "metrics"], &text);
    }
    watched.nothing_is_wrong().await;
    let start = watched.prometheus.time().await;
    let mut begun = Begun::default();
    let lasting = faults_that_last(&mut watched, &mut begun, services).await;
    for query in queries("member4", "20s") {
        let series = watched.prometheus.series(&query.text, start).await;
        assert!(
            series > 0,
            "{}: nothing is shown by {}",
            query.place,
            query.text
        );
    }
    drop(lasting);
    lift(&mut watched).await;
    faults_of_the_leader(&watched, &mut begun).await;
    let flapping = "CausewayLeaderFlapping";
    let lifted: Vec<_> = begun
        .0
        .keys()
        .copied()
        .filter(|alert| *alert != flapping)
        .collect();
    watched.are_resolved(&lifted).await;
    fault_of_the_webhook(&watched, &mut begun).await;

    let all: Vec<_> = rules().into_keys().collect();
    let fired = eventually("each alert has fired", SOON, async || {
        let fired = watched.prometheus.fired(start).await;
        let is_all = fired.keys().eq(&all);
        is_all.then_some(fired.clone()).ok_or(format!("{fired:?}"))
    })
    .await;
    for (alert, first) in fired {
        let after = first - begun.0[alert.as_str()];
        println!("{alert} fired {after:.0} s after its fault began");
        assert!(after >= 0.0, "{alert} fired before its fault began");
    }
}

/// Faults that last until they are dropped.
type Lasting = (Vec<Activity>, (SlowLink, Activity), Activity);

/// Begins the concurrent faults, one after the other.
async fn faults_that_last(
    watched: &mut Watched,
    begun: &mut Begun,
    services: Vec<Vec<RunningPod>>,
) -> Lasting {
    let alert = "CausewayPropagationSlow";
    begun.note(watched, alert).await;
    let slow_member = watched.slow_member(services);

    let alert = "CausewayCertificateExpiring";
    begun.note(watched, alert).await;
    watched.old_certificate().await;
    watched.is_active(alert).await;

    let alert = "CausewayCertificateRotationFailing";
    begun.note(watched, alert).await;
    watched.broken_certificate();
    watched.is_active(alert).await;

    let alert = "CausewayTunnelCertificateExpiring";
    begun.note(watched, alert).await;
    watched.old_certificate_of_the_tunnel().await;
    watched.is_active(alert).await;

    let alert = "CausewayControllerCertificateExpiring";
    begun.note(watched, alert).await;
    watched.old_certificate_for_agents().await;
    watched.is_active(alert).await;

    let alert = "CausewayAgentCertificateExpiring";
    begun.note(watched, alert).await;
    watched.old_certificate_of_an_agent();
    watched.is_active(alert).await;

    let alert = "CausewayWebhookSlow";
    begun.note(watched, alert).await;
    let slow_network = watched.slow_network().await;

    let alert = "CausewayServiceNotReady";
    begun.note(watched, alert).await;
    watched.lost_service().await;
    watched.is_active(alert).await;

    let alert = "CausewayProviderUnreached";
    begun.note(watched, alert).await;
    watched.another_network().await;
    watched.is_active(alert).await;
    // The fault of member2 below hides what Ready tells of it.
    shows(
        watched,
        alert,
        &["apart", "nothing says how to reach member2"],
    )
    .await;

    let alert = "CausewayWebhookErrors";
    begun.note(watched, alert).await;
    let failing_hub = watched.failing_hub();
    watched.is_active(alert).await;

    let alert = "CausewayMemberNotSynced";
    begun.note(watched, alert).await;
    watched.refused_member().await;
    watched.is_active(alert).await;

    let alert = "CausewayMemberUnreachable";
    begun.note(watched, alert).await;
    watched.set("member1", Fault::Refused);
    watched.is_active(alert).await;

    let alert = "CausewayPanics";
    begun.note(watched, alert).await;
    watched.panic();
    watched.is_active(alert).await;

    let alert = "CausewayDeletionsSuspended";
    begun.note(watched, alert).await;
    watched.set("member2", Fault::Forgetful);
    watched.is_active(alert).await;
    // The second list, which would decide, does not come.
    watched.set("member2", Fault::Withholds(&["endpointslices"]));
    watched.fires(alert).await;
    shows(
        watched,
        alert,
        &["cluster member2", "DeletionsSuspended is True"],
    )
    .await;

    watched.fires("CausewayProviderUnreached").await;
    for (alert, words) in [
        ("CausewayMemberUnreachable", &["member1", "Unreachable"][..]),
        ("CausewayMemberNotSynced", &["ghost", "Refused", "Secret"]),
        ("CausewayServiceNotReady", &["lost", "ServiceNotFound"]),
        (
            "CausewayPanics",
            &["request", "an assumption does not hold"],
        ),
        (
            "CausewayWebhookErrors",
            &["request not decided", "request to the hub"],
        ),
        ("CausewayWebhookSlow", &["request slow", "body_seconds"]),
        (
            "CausewayCertificateExpiring",
            &["notAfter", "causeway test CA"],
        ),
        (
            "CausewayTunnelCertificateExpiring",
            &["notAfter", "causeway test CA"],
        ),
        (
            "CausewayControllerCertificateExpiring",
            &["notAfter", "causeway test CA"],
        ),
        (
            "CausewayAgentCertificateExpiring",
            &["edge", "the certificate of its agent ends at"],
        ),
        (
            "CausewayCertificateRotationFailing",
            &["not reloaded", "holds no PEM certificate"],
        ),
        (
            "CausewayPropagationSlow",
            &["write slow", "cluster=\"member4\""],
        ),
    ] {
        watched.fires(alert).await;
        shows(watched, alert, words).await;
    }
    (slow_member, slow_network, failing_hub)
}

/// Ends what lasts.
async fn lift(watched: &mut Watched) {
    for cluster in watched.fleet.clusters() {
        watched.set(cluster.name(), Fault::None);
    }
    watched.panicking = None;
    watched.agent = None;
    watched.tunnel = None;
    let of_controller = watched.directory().join("controller");
    std::fs::remove_dir_all(of_controller).expect("a certificate of the controller");
    let tls = watched.webhook().tls();
    let day = Duration::from_secs(24 * 60 * 60);
    let credentials = watched.installation.certificate(day);
    watched.installation.write_certificate(tls, &credentials);
    let hub = watched.hub();
    let space = watched.space();
    for name in ["lost", "apart"] {
        hub.kubectl(["delete", "mcs", name, "-n", space.name(), "--wait=false"])
            .await
            .ok();
    }
    hub.kubectl(["delete", "cluster", "ghost", "--wait=false"])
        .await
        .ok();
    hub.kubectl(["delete", "validatingwebhookconfiguration", "slow-link"])
        .await
        .ok();
}

/// Causes the faults of the controller alone.
async fn faults_of_the_leader(watched: &Watched, begun: &mut Begun) {
    let alert = "CausewayQueueStuck";
    begun.note(watched, alert).await;
    watched.blocked_log().await;
    watched.fires(alert).await;
    shows(
        watched,
        alert,
        &[
            "causeway_controller_queue_oldest_seconds",
            "process_cpu_seconds_total",
        ],
    )
    .await;
    watched.log.unblock();

    let alert = "CausewayNoLeader";
    begun.note(watched, alert).await;
    let controller = watched.controller.process();
    controller.terminate();
    watched.fires(alert).await;
    shows(watched, alert, &["controller", "is not running"]).await;
    controller.exited(SOON).await;

    let alert = "CausewayHubWatchDown";
    begun.note(watched, alert).await;
    watched.lost_right().await;
    controller.restart().await;
    watched.fires(alert).await;
    shows(
        watched,
        alert,
        &["hub watch failed", "secrets/causeway-members", "forbidden"],
    )
    .await;
    watched.restored_right().await;

    let alert = "CausewayLeaderFlapping";
    begun.note(watched, alert).await;
    watched.restarting_controller(alert).await;
    watched.fires(alert).await;
    shows(
        watched,
        alert,
        &["shutting down", "lease acquired", "lease released"],
    )
    .await;
}

/// Causes the fault of the webhook alone.
async fn fault_of_the_webhook(watched: &Watched, begun: &mut Begun) {
    let alert = "CausewayWebhookDown";
    begun.note(watched, alert).await;
    watched.webhook().process().kill().await;
    watched.fires(alert).await;
    shows(
        watched,
        alert,
        &["failed calling webhook", "connection refused"],
    )
    .await;
}
