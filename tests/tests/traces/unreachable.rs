//! Traces that are off, and traces that nobody takes.

use std::time::Duration;

use causeway_tests::causeway::Running;
use causeway_tests::otlp::Collector;
use causeway_tests::{Environment, Fleet, SOON, Space, eventually, throughout};

/// Causeway on a hub, a provider and a consumer. The programs get these variables.
async fn start(variables: &[(&str, &str)]) -> Environment {
    let fleet = Fleet::builder().members(2).start().await;
    let variables = variables.iter();
    let builder = variables.fold(
        Environment::builder().webhook(),
        |builder, (name, value)| builder.env(name, value),
    );
    builder.start(fleet).await
}

/// Carries some services from member1 to member2.
async fn work(space: &Space<'_>) {
    let names: Vec<_> = (0..10).map(|number| format!("foo{number}")).collect();
    let mut pods = Vec::new();
    for name in &names {
        space.expose(name, ["member1"], ["member2"]).await;
        pods.push(space.pod(name, "member1").await);
    }
    for (name, pod) in names.iter().zip(&pods) {
        space.reaches("member2", name, &[pod.ip()]).await;
    }
}

fn programs(env: &Environment) -> [&Running; 2] {
    [env.webhook(), &env.controller]
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
    let env = start(&off).await;
    let space = env.space("off").await;
    work(&space).await;
    throughout("nobody connects", Duration::from_secs(1), || async {
        collector.connections() == 0
    })
    .await;
    for program in programs(&env) {
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
    let env = start(&silent).await;
    let space = env.space("silent").await;
    work(&space).await;
    for program in programs(&env) {
        eventually("that nobody answers is logged", SOON, || async {
            log(program).contains("traces not sent")
        })
        .await;
    }
    env.installation.asked(env.webhook()).await;
    work(&env.space("again").await).await;
    for program in programs(&env) {
        program.process().terminate();
        let exit = program.process().exited(SOON).await;
        assert!(exit.success(), "{exit:?}: {}", log(program));
        let lines = log(program)
            .matches("traces not sent, spans are dropped")
            .count();
        assert_eq!(lines, 1, "{}", log(program));
    }
}
