//! EndpointSlices of a watch. The endpoints are decoded only for a caller that stores them,
//! straight from the bytes of the message into the compact form.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::canonical;
use super::content::{Content, ContentHash};
use super::fields;
use super::parts::Parts;
use super::place::Places;
use super::source::{SliceManager, SourceDraft, SourceSlice};
use super::uid::SourceVersion;
use crate::unreadable::Unreadable;

/// Likely minimum bytes of an endpoint.
const ENDPOINT_BYTES: usize = 64;

/// EndpointSlice whose endpoints are not decoded.
#[derive(Debug, Default)]
pub struct RawSlice<'a>(Parts<'a>);

impl<'a> RawSlice<'a> {
    /// Decodes the [message](super::message) of an EndpointSlice. Its metadata must be readable.
    /// Other content that cannot be read is an error only once it is needed.
    ///
    /// # Errors
    /// The message is no EndpointSlice.
    pub fn decode(message: &'a [u8]) -> Result<Self, Unreadable> {
        let parts = fields::slice(message).or_else(|error| {
            // A source of which nothing else can be read retains its copies.
            let metadata = fields::metadata_of(message).map_err(|_| error)?;
            Ok::<_, Unreadable>(Parts {
                metadata,
                ..Parts::default()
            })
        });
        parts.map(Self)
    }

    /// Returns its namespace; empty if it has none.
    pub fn namespace(&self) -> &str {
        self.0.metadata.namespace.unwrap_or_default()
    }

    /// Returns its UID; empty if it has none.
    pub fn uid(&self) -> &str {
        self.0.metadata.uid.unwrap_or_default()
    }

    /// Returns its resourceVersion; `None` if that is no number.
    pub fn resource_version(&self) -> Option<u64> {
        let version = self.0.metadata.resource_version;
        version.and_then(|text| text.parse().ok())
    }

    /// Returns its UID and resourceVersion; `None` if one of them is missing.
    pub fn version(&self) -> Option<SourceVersion> {
        Some(SourceVersion {
            uid: self.0.metadata.uid?.into(),
            resource_version: self.resource_version()?,
        })
    }

    /// Returns the value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.0.metadata.labels.get(name)
    }

    /// Returns the value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.0.metadata.annotations.get(name)
    }

    /// Returns namespace, name, UID, resourceVersion and time of deletion; nothing else.
    pub fn into_meta(self) -> ObjectMeta {
        let metadata = self.0.metadata;
        ObjectMeta {
            namespace: metadata.namespace.map(Into::into),
            name: metadata.name.map(Into::into),
            uid: metadata.uid.map(Into::into),
            resource_version: metadata.resource_version.map(Into::into),
            deletion_timestamp: metadata.deletion_timestamp,
            ..ObjectMeta::default()
        }
    }

    /// Decodes the slice as a source, which `manager` manages. A slice whose content cannot be read
    /// is a source too, of [`AddressType::Unread`](super::AddressType::Unread). Returns `None` if
    /// the slice has no version.
    pub fn source(&self, manager: SliceManager, places: &mut Places) -> Option<SourceSlice> {
        let version = self.version()?;
        let Some(message) = self.0.message else {
            return Some(SourceSlice::unread(version, manager));
        };
        let mut draft = SourceDraft::new(self.0.address_type, message.len() / ENDPOINT_BYTES);
        let read = fields::each_endpoint(message, |endpoint| draft.add(endpoint));
        Some(match read {
            Ok(()) => draft.finish(version, manager, &self.0.ports, places),
            Err(_) => SourceSlice::unread(version, manager),
        })
    }

    /// Hashes the slice as a copy: its endpoints, ports and owners, and the values of the labels
    /// and annotations that causeway decides ([`ContentHash::of_copy`]).
    ///
    /// # Errors
    /// The endpoints cannot be read.
    pub fn content_hash<'v>(
        &self,
        values: impl Iterator<Item = Option<&'v str>>,
    ) -> Result<ContentHash, Unreadable> {
        let message = self.0.message.ok_or(Unreadable::Content)?;
        let mut content = Content::new(values, self.0.address_type);
        match canonical::endpoints(message) {
            Some(endpoints) => content.extend(endpoints),
            None => fields::each_endpoint(message, |endpoint| content.add_observed(endpoint))?,
        }
        let owners = self.0.metadata.owners.iter().copied();
        Ok(content.hash(&self.0.ports).owned_by(owners))
    }
}
