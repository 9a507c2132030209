//! The kinds that not every hub serves.

use causeway::api::labels;
use causeway::api::multicluster::{GROUP, ServiceExport, ServiceImport, Version};
use causeway_engine::model::{HubEvent, HubExport, HubImport, ServiceWork, Work};
use kube::Api;
use kube::core::PartialObjectMeta;

use super::follower::Kind;

/// The Works that may propagate a service: on a hub whose Karmada manages none, no object and no event matches.
pub(super) fn selector() -> String {
    format!(
        "{},{},!{}",
        labels::WORK_SERVICE_NAMESPACE,
        labels::WORK_SERVICE_NAME,
        labels::WORK_COLLECTED_BY
    )
}

/// The Works that may propagate a service, as a kind that the hub may serve.
pub(super) fn works() -> Kind<Work, ServiceWork> {
    Kind {
        group: "work.karmada.io",
        versions: &["v1alpha1"],
        plural: "works",
        selector: Some(selector()),
        api: |client, _| Api::all(client),
        read: ServiceWork::read,
        served: HubEvent::WorksServed,
        reported: HubEvent::Works,
    }
}

/// ServiceExports as a kind that the hub may serve, in either version.
pub(super) fn service_exports() -> Kind<PartialObjectMeta<ServiceExport>, HubExport> {
    Kind {
        group: GROUP,
        versions: &VERSIONS,
        plural: "serviceexports",
        selector: None,
        api: |client, version| Api::all_with(client, &read_version(version)),
        read: HubExport::read,
        served: HubEvent::ExportsServed,
        reported: HubEvent::Exports,
    }
}

/// The versions of ServiceExport and ServiceImport, the preferred first.
const VERSIONS: [&str; 2] = [Version::ALL[0].as_str(), Version::ALL[1].as_str()];

/// The version that is written so.
fn read_version(text: &str) -> Version {
    let mut all = Version::ALL.into_iter();
    all.find(|version| version.as_str() == text)
        .unwrap_or_default()
}

/// ServiceImports as a kind that the hub may serve, in either version.
pub(super) fn service_imports() -> Kind<PartialObjectMeta<ServiceImport>, HubImport> {
    Kind {
        group: GROUP,
        versions: &VERSIONS,
        plural: "serviceimports",
        selector: None,
        api: |client, version| Api::all_with(client, &read_version(version)),
        read: HubImport::read,
        served: HubEvent::ImportsServed,
        reported: HubEvent::Imports,
    }
}
