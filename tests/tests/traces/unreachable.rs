//! Traces that are off, and traces that nobody takes.

use std::time::Duration;

use causeway_tests::causeway::Running;
use causeway_tests::eventually::throughout;
use causeway_tests::otlp::Collector;
use causeway_tests::{
    Fleet, Installation, SOON, Space, eventually, multi_cluster_service, service,
};

/// Causeway on a hub and a provider and a consumer.
struct Stage {
    installation: Installation,
    webhook: Running,
    controller: Running,
    fleet: Fleet,
}

impl Stage {
    /// Webhook and controller get these variables.
    async fn start(variables: &[(&str, &str)]) -> Self {
        let fleet = Fleet::builder().members(2).start().await;
        let installation = Installation::new(&fleet).await;
        let (mut webhook, mut controller) = (installation.webhook(), installation.controller());
        for (name, value) in variables {
            webhook = webhook.env(name, value);
            controller = controller.env(name, value);
        }
        let (webhook, controller) = (webhook.start().await, controller.start().await);
        installation.register(&webhook).await;
        for member in fleet.members() {
            installation.join(member).await;
        }
        Self {
            installation,
            webhook,
            controller,
            fleet,
        }
    }

    /// Carries some services from member1 to member2.
    async fn work(&self, space: &Space<'_>) {
        let names: Vec<_> = (0..10).map(|number| format!("foo{number}")).collect();
        for name in &names {
            service(name)
                .port("http", 80)
                .create(self.fleet.hub(), space)
                .await;
            multi_cluster_service(name)
                .providers(["member1"])
                .consumers(["member2"])
                .create(space)
                .await;
            space
                .backends(name)
                .count(1)
                .create(self.fleet.member("member1"))
                .await;
        }
        for name in &names {
            eventually("the consumer reaches the pod", SOON, || async {
                let consumer = self.fleet.member("member2");
                space.ready_addresses(consumer, name).await.len() == 1
            })
            .await;
        }
    }

    fn programs(&self) -> [&Running; 2] {
        [&self.webhook, &self.controller]
    }
}

fn log(program: &Running) -> String {
    std::fs::read_to_string(program.process().log()).expect("the log")
}

#[tokio::test]
async fn nothing_is_sent_when_traces_are_off() {
    let collector = Collector::start().await;
    let off = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("OTEL_SDK_DISABLED", "true"),
    ];
    let stage = Stage::start(&off).await;
    let space = stage.fleet.space("off").await;
    stage.work(&space).await;
    throughout("nobody connects", Duration::from_secs(1), || async {
        collector.connections() == 0
    })
    .await;
    for program in stage.programs() {
        let metrics = program.openmetrics().await;
        assert!(!metrics.contains("trace_id"), "{metrics}");
        assert!(!log(program).contains("traces"), "{}", log(program));
    }
}

#[tokio::test]
async fn silent_collector_costs_a_log_line_and_no_time() {
    let collector = Collector::silent().await;
    let silent = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        // What does not fit is dropped, and nobody waits for room.
        ("OTEL_BSP_MAX_QUEUE_SIZE", "2"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"),
    ];
    let stage = Stage::start(&silent).await;
    let space = stage.fleet.space("silent").await;
    stage.work(&space).await;
    for program in stage.programs() {
        eventually("that nobody answers is logged", SOON, || async {
            log(program).contains("traces not sent")
        })
        .await;
    }
    stage.installation.asked(&stage.webhook).await;
    stage.work(&stage.fleet.space("again").await).await;
    for program in stage.programs() {
        program.process().terminate();
        let exit = program.process().exited(SOON).await;
        assert!(exit.success(), "{exit:?}: {}", log(program));
        let lines = log(program)
            .matches("traces not sent, spans are dropped")
            .count();
        assert_eq!(lines, 1, "{}", log(program));
    }
}
