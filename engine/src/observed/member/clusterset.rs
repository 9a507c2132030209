//! Part of a member in the clusterset: its ServiceExports and ServiceImports, and the versions of
//! the API that it serves.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::multicluster::Version;
use causeway::domain::{Reach, ServiceKey};
use serde_json::Value;

use super::objects::Objects;
use crate::evidence::MemberEvidence;
use crate::evidence::list::ListEvidence;
use crate::model::map::{HashMap, HashSet};
use crate::model::served::{Served, ServedImports};
use crate::model::{Failure, FailureKind, TimePoint};
use crate::observed::clusterset::{ExportView, ImportView};
use crate::observed::quota::ByAge;

/// Part of a member in the clusterset.
#[derive(Debug, Default)]
pub(super) struct Clusterset {
    pub(super) served: Option<Served>,
    /// Discovery that lacks a kind, reported while the member was not synced.
    pub(super) deferred: Option<Served>,
    /// Last failure of discovery. It counts only until discovery first succeeds.
    pub(super) not_discovered: Option<Failure>,
    pub(super) exports: Objects<ExportView>,
    pub(super) by_age: ByAge,
    /// Exports that name ports of nodes as the way to their endpoints.
    pub(super) by_node_ports: HashSet<ServiceKey>,
    pub(super) imports: Objects<ImportView>,
    /// Programs other than causeway that write the statuses of exports and imports, with the kind
    /// of the object.
    status_writers: BTreeMap<ServiceKey, (&'static str, Box<str>)>,
    /// Times since which exports lack their Service.
    pub(super) lost_services: HashMap<ServiceKey, TimePoint>,
    /// Persistent rejections of derived Services by the API server.
    pub(super) refusals: HashMap<ServiceKey, DerivedRefusal>,
}

/// Persistent rejection of a derived Service by an API server: causeway does not request the same
/// again while the process lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DerivedRefusal {
    /// The cluster does not have these address families.
    Families(Vec<Box<str>>),
    /// Other objects now have these addresses, which the Service had before.
    Addresses(Vec<Box<str>>),
}

impl DerivedRefusal {
    /// Returns the reason for which a derived Service was rejected, if it concerns its addresses
    /// and is persistent.
    pub(crate) fn read(failure: &Failure, service: &Value) -> Option<Self> {
        let requested = |field: &str| -> Vec<Box<str>> {
            let texts = service["spec"][field].as_array().into_iter().flatten();
            texts.filter_map(Value::as_str).map(Into::into).collect()
        };
        let text = failure.to_string();
        match failure.kind {
            FailureKind::Invalid if text.contains("not configured on this cluster") => {
                Some(Self::Families(requested("ipFamilies")))
            }
            FailureKind::Invalid | FailureKind::AddressTaken if text.contains("lusterIP") => {
                Some(Self::Addresses(requested("clusterIPs")))
            }
            _ => None,
        }
    }
}

/// Another controller of the Multi-Cluster Services API in a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherController {
    /// Program that writes the status of the object.
    pub(crate) program: Box<str>,
    /// Kind of the object.
    pub(crate) kind: &'static str,
    /// Namespace and name of the object.
    pub(crate) object: ServiceKey,
    /// Whether it keeps statuses in several namespaces: the whole member is left to it.
    pub(crate) is_everywhere: bool,
}

impl OtherController {
    /// Whether the services of a namespace are left to it.
    pub(super) fn decides_in(&self, namespace: &str) -> bool {
        self.is_everywhere || *self.object.namespace == *namespace
    }
}

/// Participation of a member in the clusterset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Not known yet.
    Unknown,
    /// Its exports and imports are known, and watched in these versions.
    Part {
        /// Version in which exports are served, if they are.
        exports: Option<Version>,
        /// Version in which imports are served, if they are.
        imports: Option<ServedImports>,
    },
    /// It serves the API, or may serve it, and causeway cannot list its objects.
    Failing(Failure),
}

impl Clusterset {
    pub(super) fn membership(&self, evidence: &MemberEvidence) -> Membership {
        let Some(served) = &self.served else {
            return match &self.not_discovered {
                Some(failure) => Membership::Failing(failure.clone()),
                None => Membership::Unknown,
            };
        };
        let lists = [
            (served.exports.is_some(), &evidence.exports),
            (served.imports.is_some(), &evidence.imports),
        ];
        let used = lists.iter().filter(|(used, _)| *used);
        for (_, list) in used {
            if let Some(failure) = &list.failure {
                return Membership::Failing(failure.clone());
            }
            if !list.is_listed() {
                return Membership::Unknown;
            }
        }
        Membership::Part {
            exports: served.exports,
            imports: served.imports,
        }
    }

    /// Whether the member serves ServiceExports; `None` while that is unknown.
    pub(super) fn serves_exports(&self) -> Option<bool> {
        self.served.as_ref().map(|served| served.exports.is_some())
    }

    /// Notes which of these exports exist.
    pub(super) fn note_exports(&mut self, changed: &HashSet<ServiceKey>) {
        for key in changed {
            let export = self.exports.view(key);
            self.by_age.note(key, export);
            let reach = export.and_then(|export| export.reach.as_ref()?.way());
            match reach.is_some_and(Reach::is_by_node_ports) {
                true => self.by_node_ports.insert(key.clone()),
                false => self.by_node_ports.remove(key),
            };
        }
    }

    /// Notes the namespaces from which the hub lets the member export, `None` for all.
    pub(super) fn note_export_namespaces(&mut self, namespaces: Option<&BTreeSet<Box<str>>>) {
        if self.by_age.permit(namespaces) {
            for (key, _) in self.exports.iter() {
                self.by_age.note(key, self.exports.view(key));
            }
        }
    }

    /// Notes which programs other than causeway write the statuses of these exports and imports.
    pub(super) fn note_status_writers(&mut self, changed: &HashSet<ServiceKey>) {
        for key in changed {
            let of_export = self.exports.view(key);
            let of_export = of_export.and_then(|one| one.status_writer.clone());
            let of_import = || {
                let import = self.imports.view(key)?;
                Some(("ServiceImport", import.status_writer.clone()?))
            };
            let of_export = of_export.map(|program| ("ServiceExport", program));
            match of_export.or_else(of_import) {
                Some(writer) => self.status_writers.insert(key.clone(), writer),
                None => self.status_writers.remove(key),
            };
        }
    }

    /// Returns another controller of the Multi-Cluster Services API, by the first object whose
    /// status it writes. Whoever may write a ServiceExport may forge its managed fields, so the
    /// objects of one namespace decide for that namespace alone.
    pub(super) fn other_controller(&self) -> Option<OtherController> {
        let (object, &(kind, ref program)) = self.status_writers.first_key_value()?;
        let (last, _) = self.status_writers.last_key_value()?;
        Some(OtherController {
            program: program.clone(),
            kind,
            object: object.clone(),
            is_everywhere: object.namespace != last.namespace,
        })
    }

    /// Applies what discovery reports. A kind that is not served has no objects, so a report that
    /// lacks one waits until the member is synced; a newer report replaces it.
    pub(super) fn note_served(
        &mut self,
        served: Served,
        is_synced: bool,
        evidence: &mut MemberEvidence,
        changed: &mut HashSet<ServiceKey>,
    ) {
        let is_complete = served.exports.is_some() && served.imports.is_some();
        if !is_synced && !is_complete && self.served.as_ref() != Some(&served) {
            self.deferred = Some(served);
            return;
        }
        self.deferred = None;
        let before = self.served.replace(served.clone());
        if served.exports.is_none() {
            self.exports.clear(changed);
            evidence.exports = ListEvidence::default();
        }
        if served.imports.is_none() {
            self.imports.clear(changed);
            evidence.imports = ListEvidence::default();
        }
        if before.as_ref() != Some(&served) {
            changed.extend(self.exports.iter().map(|(key, _)| key.clone()));
            changed.extend(self.imports.iter().map(|(key, _)| key.clone()));
        }
    }

    /// Notes which exports have lost their Service, or have it again.
    pub(super) fn note_services(
        &mut self,
        changed: &HashSet<ServiceKey>,
        has: impl Fn(&ServiceKey) -> bool,
        now: TimePoint,
    ) {
        for key in changed {
            if self.exports.view(key).is_none() || has(key) {
                self.lost_services.remove(key);
            } else {
                self.lost_services.entry(key.clone()).or_insert(now);
            }
        }
    }
}
