//! Parts of an EndpointSlice that are decoded before its role is known.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::endpoint::Text;

/// Slice of which the endpoints are not decoded.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Parts<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
    #[serde(borrow)]
    pub(super) address_type: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) endpoints: Endpoints<'a>,
    pub(super) ports: Option<Cow<'a, [EndpointPort]>>,
}

/// Part of a slice that must be readable for the slice to count as present. A source of which
/// nothing else can be read retains its copies.
#[derive(Deserialize)]
pub(super) struct Bearer<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
}

/// Metadata of a slice.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) deletion_timestamp: Option<Time>,
    #[serde(borrow)]
    pub(super) labels: Option<BTreeMap<Text<'a>, Text<'a>>>,
    #[serde(borrow)]
    pub(super) annotations: Option<BTreeMap<Text<'a>, Text<'a>>>,
    #[serde(borrow)]
    pub(super) owner_references: Option<Vec<Owner<'a>>>,
}

/// Owner of a slice.
#[derive(Debug, Deserialize)]
pub(super) struct Owner<'a> {
    #[serde(borrow)]
    pub(super) uid: Option<Text<'a>>,
}

/// Endpoints that are not decoded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Endpoints<'a> {
    /// List in JSON, or `null`.
    Json(&'a str),
    /// Message of the slice.
    Protobuf(&'a [u8]),
    /// Endpoints of a typed object.
    Typed(&'a [Endpoint]),
    /// Endpoints of a slice of which only the metadata can be read.
    Unread,
}

impl Default for Endpoints<'_> {
    fn default() -> Self {
        Self::Typed(&[])
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Endpoints<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?;
        Ok(Self::Json(text.get()))
    }
}

impl<'a> Parts<'a> {
    /// Returns a slice of which only the metadata can be read.
    pub(super) fn unread(metadata: Metadata<'a>) -> Self {
        Self {
            metadata,
            endpoints: Endpoints::Unread,
            ..Self::default()
        }
    }
}

impl<'a> From<&'a EndpointSlice> for Parts<'a> {
    fn from(slice: &'a EndpointSlice) -> Self {
        let meta = &slice.metadata;
        let texts = |all: &'a Option<BTreeMap<String, String>>| {
            let all = all.as_ref()?.iter();
            Some(
                all.map(|(name, value)| (name.into(), value.into()))
                    .collect(),
            )
        };
        let owners = meta.owner_references.as_ref();
        let owner = |uid: &'a String| Owner {
            uid: Some(uid.into()),
        };
        Self {
            metadata: Metadata {
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                uid: meta.uid.clone(),
                resource_version: meta.resource_version.clone(),
                deletion_timestamp: meta.deletion_timestamp.clone(),
                labels: texts(&meta.labels),
                annotations: texts(&meta.annotations),
                owner_references: owners
                    .map(|all| all.iter().map(|reference| owner(&reference.uid)).collect()),
            },
            address_type: Some((&slice.address_type).into()),
            endpoints: Endpoints::Typed(&slice.endpoints),
            ports: slice.ports.as_deref().map(Cow::Borrowed),
        }
    }
}
