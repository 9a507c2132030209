//! ServiceExports and ServiceImports, in clusters that serve them.

use std::collections::BTreeMap;

use causeway::api::multicluster::{
    CLUSTER_SET_IP, HEADLESS, ServiceExport, ServiceExportSpec, ServiceImport, ServiceImportSpec,
    ServicePort, Version,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;

use crate::causeway::manifest;
use crate::control_plane::ControlPlane;
use crate::{Cluster, Space};

const OLDER_DEFINITIONS: &str = include_str!("clusterset/older-definitions.yaml");
const CLUSTER_PROPERTIES: &str = include_str!("clusterset/cluster-properties.yaml");

impl ControlPlane {
    /// Installs the project's own definitions of ServiceExport and ServiceImport, and waits until
    /// they are served.
    pub async fn serve_clusterset(&self) {
        let definitions = manifest("crds/member");
        self.kubectl(["apply", "-f", &definitions]).await.ok();
        let established = ["wait", "--for=condition=Established", "--timeout=60s", "-f"];
        self.kubectl(established.into_iter().chain([definitions.as_str()]))
            .await
            .ok();
    }

    /// Installs the definitions that Karmada has: v1alpha1 alone, with the fields that the API had
    /// first.
    pub async fn serve_older_clusterset(&self) {
        self.apply(OLDER_DEFINITIONS).await.ok();
    }

    /// Installs the definition of ClusterProperty, and waits until it is served.
    pub async fn serve_cluster_properties(&self) {
        self.apply(CLUSTER_PROPERTIES).await.ok();
        let definition = "crd/clusterproperties.about.k8s.io";
        let established = "--for=condition=Established";
        self.kubectl(["wait", established, "--timeout=60s", definition])
            .await
            .ok();
    }

    /// Gives the cluster an id in its clusterset.
    pub async fn set_cluster_id(&self, id: &str) {
        let property = format!(
            "apiVersion: about.k8s.io/v1beta1\nkind: ClusterProperty\n\
             metadata: {{name: cluster.clusterset.k8s.io}}\nspec: {{value: {id}}}\n"
        );
        self.apply(&property).await.ok();
    }

    /// Removes the definitions of ServiceExport and ServiceImport, and with them all objects of
    /// these kinds.
    pub async fn forget_clusterset(&self) {
        let definitions = manifest("crds/member");
        self.kubectl(["delete", "-f", &definitions]).await.ok();
    }
}

impl Space<'_> {
    /// The ServiceExports of this namespace in a cluster, as v1beta1.
    pub fn exports(&self, cluster: &Cluster) -> Api<ServiceExport> {
        Api::namespaced_with(cluster.client(), self.name(), &Version::V1beta1)
    }

    /// The ServiceImports of this namespace in a cluster, as v1beta1.
    pub fn imports(&self, cluster: &Cluster) -> Api<ServiceImport> {
        Api::namespaced_with(cluster.client(), self.name(), &Version::V1beta1)
    }
}

/// An export of the Service of that name.
pub fn service_export(name: &str) -> ServiceExportFixture {
    ServiceExportFixture(ServiceExport::new(
        Version::V1beta1,
        named(name),
        ServiceExportSpec::default(),
    ))
}

/// See [`service_export`].
#[derive(Clone, Debug)]
pub struct ServiceExportFixture(ServiceExport);

impl ServiceExportFixture {
    /// Exports this label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        let labels = &mut self.0.spec.exported_labels;
        labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Annotates the ServiceExport itself.
    #[must_use]
    pub fn own_annotation(mut self, key: &str, value: &str) -> Self {
        let annotations = self.0.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Exports this annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        let annotations = &mut self.0.spec.exported_annotations;
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Bears this label itself, which is not exported.
    #[must_use]
    pub fn own_label(mut self, key: &str, value: &str) -> Self {
        let labels: &mut BTreeMap<_, _> = self.0.metadata.labels.get_or_insert_default();
        labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Makes it in a cluster.
    pub async fn create(self, cluster: &Cluster, space: &Space<'_>) -> ServiceExport {
        let api = space.exports(cluster);
        let made = api.create(&PostParams::default(), &self.0).await;
        made.unwrap_or_else(|e| panic!("cannot make a ServiceExport in {}: {e}", cluster.name()))
    }
}

/// An import of type ClusterSetIP that a person makes.
pub fn service_import(name: &str) -> ServiceImportFixture {
    let spec = ServiceImportSpec {
        type_: CLUSTER_SET_IP.to_owned(),
        ..ServiceImportSpec::default()
    };
    ServiceImportFixture(ServiceImport::new(Version::V1beta1, named(name), spec))
}

/// See [`service_import`].
#[derive(Clone, Debug)]
pub struct ServiceImportFixture(ServiceImport);

impl ServiceImportFixture {
    /// Adds a TCP port.
    #[must_use]
    pub fn port(mut self, name: &str, number: u16) -> Self {
        self.0.spec.ports.push(ServicePort {
            name: Some(name.to_owned()),
            protocol: Some("TCP".to_owned()),
            app_protocol: None,
            port: number.into(),
        });
        self
    }

    /// Has no addresses.
    #[must_use]
    pub fn headless(mut self) -> Self {
        self.0.spec.type_ = HEADLESS.to_owned();
        self
    }

    /// Makes it in a cluster.
    pub async fn create(self, cluster: &Cluster, space: &Space<'_>) -> ServiceImport {
        let api = space.imports(cluster);
        let made = api.create(&PostParams::default(), &self.0).await;
        made.unwrap_or_else(|e| panic!("cannot make a ServiceImport in {}: {e}", cluster.name()))
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}
