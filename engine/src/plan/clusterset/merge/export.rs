//! Export among those that are merged.

use causeway::api::multicluster::{ClusterSelector, ServiceExportSpec};
use causeway::domain::{self, ClusterName, Consumers, Failover};

use super::exported::Exported;
use super::shape::ImportShape;
use crate::observed::clusterset::recorded_size;
use crate::observed::service::{PortShape, ServiceKind, ServiceView};
use crate::plan::clusterset::precedence::Precedence;

/// Valid export of a service. A cluster has at most one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constituent<'a> {
    /// Exporting cluster.
    pub cluster: &'a ClusterName,
    /// Position among the exports.
    pub(crate) precedence: Precedence,
    /// Spec of the ServiceExport.
    pub spec: &'a ServiceExportSpec,
    /// Failover that its annotations request.
    pub failover: &'a Failover,
    /// Clusters that import the service.
    pub consumers: &'a Consumers,
    /// Exported Service.
    pub service: &'a ServiceView,
}

/// Export, with those of its labels and annotations that can be exported.
pub(super) struct Export<'a> {
    pub(super) export: Constituent<'a>,
    pub(super) exported: Exported,
}

impl<'a> Export<'a> {
    pub(super) fn new(export: Constituent<'a>) -> Self {
        let recorded = recorded_size(export.failover, export.consumers);
        Self {
            export,
            exported: Exported::read(export.spec, recorded),
        }
    }

    pub(super) fn service(&self) -> &'a ServiceView {
        self.export.service
    }

    pub(super) fn is_headless(&self) -> bool {
        self.service().shape.kind == ServiceKind::Headless
    }

    pub(super) fn ports(&self) -> impl Iterator<Item = PortShape> + use<'a> {
        let ports = self.service().shape.ports.iter();
        ports.map(|one| ImportShape::port(one.port.clone(), one.app_protocol.clone()))
    }

    /// Returns the failover that applies. The preference of a headless Service is ignored, because
    /// no proxy chooses its endpoints.
    pub(super) fn failover(&self) -> Failover {
        let mut failover = self.export.failover.clone();
        failover.preference = failover.preference.filter(|_| !self.is_headless());
        failover.share = failover.share.filter(|_| !self.is_headless());
        failover
    }

    /// Returns the selectors that apply: none of a headless Service, and none that break a rule.
    pub(super) fn cluster_selectors(&self) -> &'a [ClusterSelector] {
        match self.is_headless() {
            true => &[],
            false => domain::ClusterSelector::copied(&self.export.spec.cluster_selectors),
        }
    }

    pub(super) fn shape(&self, ports: Vec<PortShape>) -> ImportShape {
        ImportShape {
            labels: self.exported.labels.clone(),
            annotations: self.exported.annotations.clone(),
            failover: self.failover(),
            cluster_selectors: self.cluster_selectors().to_vec(),
            consumers: self.export.consumers.clone(),
            ..ImportShape::of(self.service(), ports)
        }
    }
}
