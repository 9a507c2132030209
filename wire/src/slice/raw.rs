//! EndpointSlices of a watch. The endpoints are decoded only for a caller that stores them,
//! straight from the bytes of the answer into the compact form.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::canonical;
use super::content::{Content, ContentHash};
use super::endpoint::{WireEndpoint, each_endpoint, or_empty};
use super::fields;
use super::parts::{Bearer, Endpoints, Parts};
use super::place::Places;
use super::source::{SliceManager, SourceDraft, SourceSlice};
use super::uid::SourceVersion;
use crate::answer::Object;
use crate::unreadable::Unreadable;

/// Likely minimum bytes of an endpoint in JSON.
const JSON_ENDPOINT: usize = 128;
/// Likely minimum bytes of an endpoint in protobuf.
const PROTOBUF_ENDPOINT: usize = 64;

/// EndpointSlice whose endpoints are not decoded.
#[derive(Debug)]
pub struct RawSlice<'a>(Parts<'a>);

impl<'a> From<&'a EndpointSlice> for RawSlice<'a> {
    fn from(slice: &'a EndpointSlice) -> Self {
        Self(slice.into())
    }
}

impl<'a> RawSlice<'a> {
    /// Decodes an EndpointSlice. Its metadata must be readable. Other content that cannot be read
    /// is an error only once it is needed.
    ///
    /// # Errors
    /// The object is no EndpointSlice.
    pub fn decode(object: Object<'a>) -> Result<Self, Unreadable> {
        let parts = match object {
            Object::Json(text) => serde_json::from_str(text).or_else(|error| {
                let bearer = serde_json::from_str::<Bearer<'_>>(text).map_err(|_| error)?;
                Ok::<_, Unreadable>(Parts::unread(bearer.metadata))
            }),
            Object::Protobuf(message) => fields::slice(message).or_else(|error| {
                let metadata = fields::metadata_of(message).map_err(|_| error)?;
                Ok(Parts::unread(metadata))
            }),
        };
        parts.map(Self)
    }

    /// Returns its namespace; empty if it has none.
    pub fn namespace(&self) -> &str {
        self.0.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns its UID; empty if it has none.
    pub fn uid(&self) -> &str {
        self.0.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns its resourceVersion; `None` if that is no number.
    pub fn resource_version(&self) -> Option<u64> {
        let version = self.0.metadata.resource_version.as_deref();
        version.and_then(|text| text.parse().ok())
    }

    /// Returns its UID and resourceVersion; `None` if one of them is missing.
    pub fn version(&self) -> Option<SourceVersion> {
        Some(SourceVersion {
            uid: self.0.metadata.uid.as_deref()?.into(),
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
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            deletion_timestamp: metadata.deletion_timestamp,
            ..ObjectMeta::default()
        }
    }

    /// Decodes the slice as a source, which `manager` manages. A slice whose content cannot be read
    /// is a source too, of [`AddressType::Unread`](super::AddressType::Unread). Returns `None` if
    /// the slice has no version.
    pub fn source(&self, manager: SliceManager, places: &mut Places) -> Option<SourceSlice> {
        let version = self.version()?;
        let endpoints = self.0.endpoints;
        let mut draft = SourceDraft::new(or_empty(&self.0.address_type), endpoints.likely());
        Some(match endpoints.each(|endpoint| draft.add(endpoint)) {
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
        let mut content = Content::new(values, or_empty(&self.0.address_type));
        match self.0.endpoints.canonical() {
            Some(endpoints) => content.extend(endpoints),
            None => {
                let endpoints = self.0.endpoints;
                endpoints.each(|endpoint| content.add_observed(endpoint))?;
            }
        }
        let owners = self.0.metadata.owner_references.iter();
        let owners = owners.map(|owner| or_empty(&owner.uid));
        Ok(content.hash(&self.0.ports).owned_by(owners))
    }
}

impl<'a> Endpoints<'a> {
    /// Returns the likely number of endpoints.
    fn likely(self) -> usize {
        match self {
            Self::Json(text) => text.len() / JSON_ENDPOINT,
            Self::Protobuf(message) => message.len() / PROTOBUF_ENDPOINT,
            Self::Typed(all) => all.len(),
            Self::Unread => 0,
        }
    }

    /// Returns all endpoints unchanged, if they have the form in which copies are hashed.
    fn canonical(self) -> Option<&'a [u8]> {
        match self {
            Self::Protobuf(message) => canonical::endpoints(message),
            Self::Json(_) | Self::Typed(_) | Self::Unread => None,
        }
    }

    /// Decodes the endpoints one by one.
    fn each(self, mut take: impl FnMut(&WireEndpoint<'a>)) -> Result<(), Unreadable> {
        match self {
            Self::Json(text) => Ok(each_endpoint(text, take)?),
            Self::Protobuf(message) => Ok(fields::each_endpoint(message, take)?),
            Self::Typed(all) => {
                let all = all.iter().map(WireEndpoint::of);
                all.for_each(|endpoint| take(&endpoint));
                Ok(())
            }
            Self::Unread => Err(Unreadable::Content),
        }
    }
}
