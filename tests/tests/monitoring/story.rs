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
use crate::stage::{MOVING, Stage};

/// Time at which the fault of each alert began, by the clock of Prometheus.
#[derive(Default)]
struct Begun(BTreeMap<&'static str, f64>);

impl Begun {
    /// A fault begins: nothing that went wrong before has brought its alert about.
    async fn note(&mut self, stage: &Stage, alert: &'static str) {
        let active = stage.prometheus.alerts().await;
        let fires = active
            .iter()
            .any(|one| one.name() == alert && one.is_firing());
        assert!(!fires, "{alert} fires before its fault: {active:?}");
        self.0.insert(alert, stage.prometheus.time().await);
    }
}

/// The first command of an alert's runbook shows all of these.
async fn shows(stage: &Stage, alert: &str, words: &[&str]) {
    let command = first_command(alert);
    // The alert fires much earlier than with the times that people have.
    eventually(
        &format!("the runbook of {alert} shows {words:?}"),
        SOON,
        async || {
            let shown = stage.terminal.run(&command).await;
            let missing = words.iter().any(|word| !shown.contains(word));
            (!missing)
                .then_some(())
                .ok_or(format!("{command}\n{shown}"))
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_alert_fires_by_its_fault_and_its_runbook_shows_why() {
    let programs = match prometheus::prerequisites() {
        Ok(programs) => programs,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    let mut stage = Stage::start(&programs).await;
    let mut services = Vec::new();
    for name in MOVING {
        services.push(stage.expose(name).await);
    }
    stage.expose("lost").await;
    for process in [&stage.controller, &stage.webhook] {
        let (_, text) = process.get("/metrics").await.expect("metrics");
        check(&programs, &["check", "metrics"], &text);
    }
    stage.nothing_is_wrong().await;
    let start = stage.prometheus.time().await;
    let mut begun = Begun::default();
    let lasting = faults_that_last(&mut stage, &mut begun, services).await;
    for query in queries("member4", "20s") {
        let series = stage.prometheus.series(&query.text, start).await;
        assert!(
            series > 0,
            "{}: nothing is shown by {}",
            query.place,
            query.text
        );
    }
    drop(lasting);
    lift(&mut stage).await;
    faults_of_the_leader(&stage, &mut begun).await;
    let flapping = "CausewayLeaderFlapping";
    let lifted: Vec<_> = begun
        .0
        .keys()
        .copied()
        .filter(|alert| *alert != flapping)
        .collect();
    stage.are_resolved(&lifted).await;
    fault_of_the_webhook(&stage, &mut begun).await;

    let all: Vec<_> = rules().into_keys().collect();
    let fired = eventually("each alert has fired", SOON, async || {
        let fired = stage.prometheus.fired(start).await;
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
    stage: &mut Stage,
    begun: &mut Begun,
    services: Vec<Vec<RunningPod>>,
) -> Lasting {
    let alert = "CausewayPropagationSlow";
    begun.note(stage, alert).await;
    let slow_member = stage.slow_member(services);

    let alert = "CausewayCertificateExpiring";
    begun.note(stage, alert).await;
    stage.old_certificate().await;
    stage.is_active(alert).await;

    let alert = "CausewayCertificateRotationFailing";
    begun.note(stage, alert).await;
    stage.broken_certificate();
    stage.is_active(alert).await;

    let alert = "CausewayTunnelCertificateExpiring";
    begun.note(stage, alert).await;
    stage.old_certificate_of_the_tunnel().await;
    stage.is_active(alert).await;

    let alert = "CausewayWebhookSlow";
    begun.note(stage, alert).await;
    let slow_network = stage.slow_network().await;

    let alert = "CausewayServiceNotReady";
    begun.note(stage, alert).await;
    stage.lost_service().await;
    stage.is_active(alert).await;

    let alert = "CausewayProviderUnreached";
    begun.note(stage, alert).await;
    stage.another_network().await;
    stage.is_active(alert).await;

    let alert = "CausewayWebhookErrors";
    begun.note(stage, alert).await;
    let failing_hub = stage.failing_hub();
    stage.is_active(alert).await;

    let alert = "CausewayMemberNotSynced";
    begun.note(stage, alert).await;
    stage.refused_member().await;
    stage.is_active(alert).await;

    let alert = "CausewayMemberUnreachable";
    begun.note(stage, alert).await;
    stage.proxies["member1"].set(Fault::Refused);
    stage.is_active(alert).await;

    let alert = "CausewayPanics";
    begun.note(stage, alert).await;
    stage.panic();
    stage.is_active(alert).await;

    let alert = "CausewayDeletionsSuspended";
    begun.note(stage, alert).await;
    stage.proxies["member2"].set(Fault::Forgetful);
    stage.is_active(alert).await;
    // The second list, which would decide, does not come.
    stage.proxies["member2"].set(Fault::Withholds(&["endpointslices"]));
    stage.fires(alert).await;
    shows(
        stage,
        alert,
        &["cluster member2", "DeletionsSuspended is True"],
    )
    .await;

    for (alert, words) in [
        ("CausewayMemberUnreachable", &["member1", "Unreachable"][..]),
        ("CausewayMemberNotSynced", &["ghost", "Refused", "Secret"]),
        ("CausewayServiceNotReady", &["lost", "ServiceNotFound"]),
        (
            "CausewayProviderUnreached",
            &["apart", "nothing says how to reach member2"],
        ),
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
            "CausewayCertificateRotationFailing",
            &["not reloaded", "holds no PEM certificate"],
        ),
        (
            "CausewayPropagationSlow",
            &["write slow", "cluster=\"member4\""],
        ),
    ] {
        stage.fires(alert).await;
        shows(stage, alert, words).await;
    }
    (slow_member, slow_network, failing_hub)
}

/// Ends what lasts.
async fn lift(stage: &mut Stage) {
    for proxy in stage.proxies.values() {
        proxy.set(Fault::None);
    }
    stage.panicking = None;
    stage.tunnel = None;
    let tls = stage.webhook.tls();
    let day = Duration::from_secs(24 * 60 * 60);
    let credentials = stage.installation.certificate(day);
    stage.installation.write_certificate(tls, &credentials);
    let hub = stage.hub();
    let space = stage.space();
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
async fn faults_of_the_leader(stage: &Stage, begun: &mut Begun) {
    let alert = "CausewayQueueStuck";
    begun.note(stage, alert).await;
    stage.blocked_log().await;
    stage.fires(alert).await;
    shows(
        stage,
        alert,
        &[
            "causeway_controller_queue_oldest_seconds",
            "process_cpu_seconds_total",
        ],
    )
    .await;
    stage.log.unblock();

    let alert = "CausewayNoLeader";
    begun.note(stage, alert).await;
    let controller = stage.controller.process();
    controller.terminate();
    stage.fires(alert).await;
    shows(stage, alert, &["controller", "is not running"]).await;
    controller.exited(SOON).await;
    controller.restart().await;

    let alert = "CausewayLeaderFlapping";
    begun.note(stage, alert).await;
    stage.restarting_controller(alert).await;
    stage.fires(alert).await;
    shows(
        stage,
        alert,
        &["shutting down", "lease acquired", "lease released"],
    )
    .await;
}

/// Causes the fault of the webhook alone.
async fn fault_of_the_webhook(stage: &Stage, begun: &mut Begun) {
    let alert = "CausewayWebhookDown";
    begun.note(stage, alert).await;
    stage.webhook.process().kill().await;
    stage.fires(alert).await;
    shows(
        stage,
        alert,
        &["failed calling webhook", "connection refused"],
    )
    .await;
}
