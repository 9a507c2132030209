//! ServiceExports and ServiceImports on the hub itself, of which only the metadata is read.

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::domain::ServiceKey;
use kube::core::PartialObjectMeta;

use super::object::key_of;

/// ServiceExport on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubExport {
    /// Its namespace and name; `None` if one is missing, which no API server sends.
    pub(crate) key: Option<ServiceKey>,
    pub(crate) uid: Box<str>,
}

/// ServiceImport on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubImport(pub(crate) Option<ServiceKey>);

impl HubExport {
    /// Reads the metadata of a ServiceExport.
    pub fn read(export: PartialObjectMeta<ServiceExport>) -> Self {
        Self {
            key: key_of(&export.metadata),
            uid: export.metadata.uid.unwrap_or_default().into(),
        }
    }
}

impl HubImport {
    /// Reads the metadata of a ServiceImport.
    pub fn read(import: PartialObjectMeta<ServiceImport>) -> Self {
        Self(key_of(&import.metadata))
    }
}
