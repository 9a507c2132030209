//! On whose behalf copies are made, from whom, and for whom.

use std::sync::Arc;

use causeway::domain::{ClusterName, Ranges, ServiceKey, ServicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::index::member::Member;
use crate::model::slice::Path;
use crate::plan::release::Release;

/// On whose behalf copies are made.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The hub, by the UID of its kube-system namespace.
    pub hub: &'a str,
    /// The owner, `<kind>/<uid>`.
    pub owner: &'a str,
    /// The service.
    pub key: &'a ServiceKey,
    /// Which way the copies serve.
    pub path: Path,
    /// The name of the Service that they belong to.
    pub service: &'a str,
    /// Whether they bear the label by which clusterset tools find the endpoints of a service.
    pub multicluster: bool,
    /// The import that they belong to.
    pub import: Option<&'a OwnerReference>,
}

/// A consumer, as far as its copies are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Consumer<'a> {
    /// Its name.
    pub name: &'a ClusterName,
    /// The exposed ports of its Service, under its own names: kube-proxy joins Service and slice by name.
    pub ports: &'a [ServicePort],
    /// The traffic preference of its Service.
    pub traffic_distribution: Option<&'a str>,
    /// Its release of Kubernetes.
    pub release: Release,
}

/// A provider, as far as copies of its slices are concerned.
#[derive(Clone, Debug)]
pub struct Provider<'a> {
    /// Its name.
    pub name: &'a ClusterName,
    /// What is known of it; `None` where it is not known what it provides.
    pub member: Option<&'a Member>,
    /// The ports of its Service.
    pub ports: Vec<ServicePort>,
    /// Which of its addresses are copied.
    pub ranges: Arc<Ranges>,
}
