//! The kinds that not every hub serves.

use causeway::api::karmada::Work;
use causeway::api::multicluster::{GROUP, ServiceExport, ServiceImport, Version};
use causeway::api::{ClusterProfile, DNSEndpoint, labels};
use causeway_engine::model::{HubEvent, HubExport, HubImport, Profile, ServiceWork};
use kube::Api;
use kube::core::PartialObjectMeta;

use super::follower::Kind;

/// The Works that may propagate a service: on a hub whose Karmada manages none, no object and no
/// event matches.
pub(super) fn selector() -> String {
    format!(
        "{},{},!{}",
        labels::WORK_SERVICE_NAMESPACE,
        labels::WORK_SERVICE_NAME,
        labels::WORK_COLLECTED_BY
    )
}

/// The Works that may propagate a service, as a kind that the hub may serve.
pub(super) fn works() -> Kind<PartialObjectMeta<Work>, ServiceWork> {
    Kind {
        group: "work.karmada.io",
        versions: &["v1alpha1"],
        plural: "works",
        selector: Some(selector()),
        metadata_only: true,
        api: Box::new(|client, _| Api::all(client)),
        read: Box::new(ServiceWork::read),
        served: Box::new(HubEvent::WorksServed),
        reported: Box::new(HubEvent::Works),
    }
}

/// ServiceExports as a kind that the hub may serve, in either version.
pub(super) fn service_exports() -> Kind<PartialObjectMeta<ServiceExport>, HubExport> {
    Kind {
        group: GROUP,
        versions: &VERSIONS,
        plural: "serviceexports",
        selector: None,
        metadata_only: true,
        api: Box::new(|client, version| Api::all_with(client, &read_version(version))),
        read: Box::new(HubExport::read),
        served: Box::new(HubEvent::ExportsServed),
        reported: Box::new(HubEvent::Exports),
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
        metadata_only: true,
        api: Box::new(|client, version| Api::all_with(client, &read_version(version))),
        read: Box::new(HubImport::read),
        served: Box::new(HubEvent::ImportsServed),
        reported: Box::new(HubEvent::Imports),
    }
}

/// DNSEndpoints that causeway wrote, as a kind that the hub may serve.
pub(super) fn dns_endpoints() -> Kind<DNSEndpoint, DNSEndpoint> {
    Kind {
        group: "externaldns.k8s.io",
        versions: &["v1alpha1"],
        plural: "dnsendpoints",
        selector: Some(format!("{}={}", labels::MANAGED_BY, labels::MANAGER)),
        metadata_only: false,
        api: Box::new(|client, _| Api::all(client)),
        read: Box::new(|object| object),
        served: Box::new(HubEvent::DnsEndpointsServed),
        reported: Box::new(HubEvent::DnsEndpoints),
    }
}

/// ClusterProfiles of a namespace as a kind that the hub may serve. `providers` are the names of
/// the providers that the controller knows.
pub(super) fn cluster_profiles(
    namespace: &str,
    providers: Vec<Box<str>>,
) -> Kind<ClusterProfile, Profile> {
    let [of_api, of_served, of_reported] = [(); 3].map(|()| namespace.to_owned());
    Kind {
        group: "multicluster.x-k8s.io",
        versions: &["v1alpha1"],
        plural: "clusterprofiles",
        selector: None,
        metadata_only: false,
        api: Box::new(move |client, _| Api::namespaced(client, &of_api)),
        read: Box::new(move |profile| Profile::read(&profile, &providers)),
        served: Box::new(move |served| HubEvent::ProfilesServed(of_served.clone(), served)),
        reported: Box::new(move |signal| HubEvent::Profiles(of_reported.clone(), signal)),
    }
}
