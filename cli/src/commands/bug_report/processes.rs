//! Logs, metrics and readiness of webhooks and controllers.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;
use kube::api::LogParams;

use super::Request;
use super::archive::Archive;
use crate::cluster::admin_endpoint::{self, AdminEndpoint};

/// Maximum size of a log in bytes (8 MiB).
const LOG_BYTES: i64 = 8 << 20;

/// Gathers the logs of each container, including the previous run, and metrics and readiness of
/// each process.
pub(super) async fn gather(request: &Request<'_>, archive: &mut Archive) {
    let namespace = &request.own_namespace;
    let pods = match admin_endpoint::pods(&request.hub, namespace).await {
        Ok(pods) => pods,
        Err(error) => {
            archive.missing(format!("pods of causeway in namespace {namespace}"), error);
            Vec::new()
        }
    };
    for pod in &pods {
        logs(request, archive, pod).await;
        metrics(request, archive, &AdminEndpoint::of(pod)).await;
    }
    for url in &request.args.admin.urls {
        metrics(request, archive, &AdminEndpoint::Url(url.clone())).await;
    }
    if pods.is_empty() {
        let why = format!(
            "there is no pod of causeway in namespace {namespace} that you may see: add the logs by hand, and give --admin-url for metrics"
        );
        archive.missing("logs of webhook and controller", why);
    }
    let images = pods.iter().flat_map(images);
    let images: String = images.collect();
    archive.text("hub/images.txt", &images);
}

/// Returns a line for each container of a pod, with its image and restarts.
fn images(pod: &Pod) -> Vec<String> {
    let statuses = pod.status.iter();
    let statuses = statuses.flat_map(|status| status.container_statuses.iter().flatten());
    let lines = statuses.map(|one| {
        let (name, restarts) = (pod.name_any(), one.restart_count);
        format!(
            "{name} {}: {} {} restarts={restarts}\n",
            one.name, one.image, one.image_id
        )
    });
    lines.collect()
}

async fn logs(request: &Request<'_>, archive: &mut Archive, pod: &Pod) {
    let name = pod.name_any();
    let api = request.hub.within::<Pod>(&request.own_namespace);
    let statuses = pod.status.as_ref();
    let statuses = statuses.and_then(|status| status.container_statuses.as_deref());
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    for container in containers {
        let status = statuses.unwrap_or_default().iter();
        let status = status.clone().find(|one| one.name == container.name);
        for previous in [false, true] {
            if previous && !status.is_some_and(ran_before) {
                continue;
            }
            let parameters = LogParams {
                container: Some(container.name.clone()),
                previous,
                tail_lines: Some(request.args.tail.into()),
                limit_bytes: Some(LOG_BYTES),
                timestamps: true,
                ..LogParams::default()
            };
            let which = if previous { "previous.log" } else { "log" };
            let path = format!("hub/logs/{name}/{}.{which}", container.name);
            match request.hub.request(api.logs(&name, &parameters)).await {
                Ok(text) => archive.text(path, &text),
                Err(error) => archive.missing(path, error),
            }
        }
    }
}

/// Whether a container had a previous run.
fn ran_before(status: &ContainerStatus) -> bool {
    let last = status.last_state.as_ref();
    status.restart_count > 0 || last.is_some_and(|last| last.terminated.is_some())
}

async fn metrics(request: &Request<'_>, archive: &mut Archive, endpoint: &AdminEndpoint) {
    let name = endpoint.name();
    for path in ["/metrics", "/readyz"] {
        let file = format!("hub/admin/{name}{path}.txt");
        match endpoint.get(&request.hub, path).await {
            Ok(text) => archive.text(file, &text),
            Err(error) => archive.missing(format!("{path} of {name}"), error),
        }
    }
}
