//! Endpoints from a watch, or from a typed object.

use std::borrow::{Borrow, Cow};

use causeway::api::lists::each_entry;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::bounded;

/// Maximum number of addresses of an endpoint that are copied (discovery.k8s.io/v1). One more is
/// stored, so an endpoint with more equals that of no copy.
pub(super) const ADDRESSES_MAX: usize = 100;
/// Maximum number of zones, and of nodes, in the hints of an endpoint that are stored: four times
/// as many as an API server accepts. Canonical hints have fewer, as they take less than 128 bytes.
pub(super) const HINTS_MAX: usize = 32;

/// Text that is copied only if it contains escapes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Content that is read of an endpoint.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireEndpoint<'a> {
    #[serde(borrow, default)]
    pub(super) addresses: WireAddresses<'a>,
    pub(super) hostname: Option<Text<'a>>,
    pub(super) zone: Option<Text<'a>>,
    pub(super) node_name: Option<Text<'a>>,
    pub(super) conditions: Option<WireConditions>,
    #[serde(borrow)]
    pub(super) hints: Option<WireHints<'a>>,
    pub(super) target_ref: Option<IgnoredAny>,
    pub(super) deprecated_topology: Option<IgnoredAny>,
}

/// Addresses of an endpoint: hardly any has more than one.
#[derive(Debug, Default)]
pub(super) struct WireAddresses<'a> {
    pub(super) first: Option<Text<'a>>,
    pub(super) more: Vec<Text<'a>>,
}

/// Conditions of an endpoint, as observed.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct WireConditions {
    pub(super) ready: Option<bool>,
    pub(super) serving: Option<bool>,
    pub(super) terminating: Option<bool>,
}

/// Hints of an endpoint.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireHints<'a> {
    #[serde(borrow, default, deserialize_with = "bounded::list::<HINTS_MAX, _, _>")]
    pub(super) for_zones: Vec<WireTarget<'a>>,
    #[serde(borrow, default, deserialize_with = "bounded::list::<HINTS_MAX, _, _>")]
    pub(super) for_nodes: Vec<WireTarget<'a>>,
}

/// Zone or node in a hint.
#[derive(Debug, Deserialize)]
pub(super) struct WireTarget<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
}

/// Texts are looked up by their characters.
impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a String> for Text<'a> {
    fn from(text: &'a String) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl<'a> WireEndpoint<'a> {
    pub(super) fn of(endpoint: &'a Endpoint) -> Self {
        let mut addresses = WireAddresses::default();
        let texts = endpoint.addresses.iter().map(Text::from);
        texts.for_each(|text| addresses.push(text));
        let conditions = endpoint.conditions.as_ref();
        Self {
            addresses,
            hostname: endpoint.hostname.as_ref().map(Text::from),
            zone: endpoint.zone.as_ref().map(Text::from),
            node_name: endpoint.node_name.as_ref().map(Text::from),
            conditions: conditions.map(|given| WireConditions {
                ready: given.ready,
                serving: given.serving,
                terminating: given.terminating,
            }),
            hints: endpoint.hints.as_ref().map(WireHints::of),
            target_ref: endpoint.target_ref.as_ref().map(|_| IgnoredAny),
            deprecated_topology: endpoint.deprecated_topology.as_ref().map(|_| IgnoredAny),
        }
    }

    /// Clears it, so that the next endpoint can be read into it.
    pub(super) fn clear(&mut self) {
        let mut more = std::mem::take(&mut self.addresses.more);
        more.clear();
        *self = Self {
            addresses: WireAddresses { first: None, more },
            ..Self::default()
        };
    }

    /// Whether it has content that no copy of causeway has.
    pub(super) fn has_more(&self) -> bool {
        self.target_ref.is_some() || self.deprecated_topology.is_some()
    }
}

impl<'a> WireAddresses<'a> {
    /// Adds the next address, unless there are more than [`ADDRESSES_MAX`] already.
    pub(super) fn push(&mut self, address: Text<'a>) {
        match self.first {
            None => self.first = Some(address),
            Some(_) => bounded::add::<ADDRESSES_MAX, _>(&mut self.more, address),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Text<'_>> {
        self.first.iter().chain(&self.more)
    }
}

impl WireConditions {
    /// Returns ready, serving and terminating.
    pub(super) fn each(self) -> [Option<bool>; 3] {
        [self.ready, self.serving, self.terminating]
    }
}

impl<'a> WireHints<'a> {
    fn of(hints: &'a EndpointHints) -> Self {
        let target = |name: &'a String| WireTarget {
            name: Some(name.into()),
        };
        let zones = hints.for_zones.iter().flatten().take(HINTS_MAX);
        let nodes = hints.for_nodes.iter().flatten().take(HINTS_MAX);
        Self {
            for_zones: zones.map(|zone| target(&zone.name)).collect(),
            for_nodes: nodes.map(|node| target(&node.name)).collect(),
        }
    }

    /// Returns the names of the zones and those of the nodes.
    pub(super) fn names(&self) -> [impl Iterator<Item = &str>; 2] {
        [&self.for_zones, &self.for_nodes].map(|targets| targets.iter().map(WireTarget::name))
    }
}

impl WireTarget<'_> {
    fn name(&self) -> &str {
        or_empty(&self.name)
    }
}

/// Returns the text; empty if it is absent, as in Kubernetes' types.
pub(super) fn or_empty<'a>(text: &'a Option<Text<'_>>) -> &'a str {
    text.as_ref().map_or("", |text| &text.0)
}

impl<'de: 'a, 'a> Deserialize<'de> for WireAddresses<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut addresses = Self::default();
        each_entry(deserializer, |text: Text<'a>| addresses.push(text))?;
        Ok(addresses)
    }
}

/// Reads endpoints one by one.
pub(super) fn each_endpoint<'a>(
    text: &'a str,
    mut take: impl FnMut(&WireEndpoint<'a>),
) -> Result<(), serde_json::Error> {
    let mut text = serde_json::Deserializer::from_str(text);
    each_entry(&mut text, |endpoint: WireEndpoint<'a>| take(&endpoint))
}
