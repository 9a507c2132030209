//! Endpoints of a slice's message.

/// Maximum number of addresses of an endpoint that are copied (discovery.k8s.io/v1). One more is
/// stored, so an endpoint with more equals that of no copy.
pub(super) const ADDRESSES_MAX: usize = 100;
/// Maximum number of zones, and of nodes, in the hints of an endpoint that are stored: four times
/// as many as an API server accepts. Canonical hints have fewer, as they take less than 128 bytes.
pub(super) const HINTS_MAX: usize = 32;

/// Content that is read of an endpoint.
#[derive(Debug, Default)]
pub(super) struct WireEndpoint<'a> {
    pub(super) addresses: WireAddresses<'a>,
    pub(super) hostname: Option<&'a str>,
    pub(super) zone: Option<&'a str>,
    pub(super) node_name: Option<&'a str>,
    /// Ready, serving and terminating, as observed.
    pub(super) conditions: [Option<bool>; 3],
    /// Names of the zones and of the nodes in its hints.
    pub(super) hints: Option<[Vec<&'a str>; 2]>,
    /// Whether it has content that no copy of causeway has.
    pub(super) has_more: bool,
}

/// Addresses of an endpoint: hardly any has more than one.
#[derive(Debug, Default)]
pub(super) struct WireAddresses<'a> {
    pub(super) first: Option<&'a str>,
    pub(super) more: Vec<&'a str>,
}

impl WireEndpoint<'_> {
    /// Clears it, so that the next endpoint can be read into it.
    pub(super) fn clear(&mut self) {
        let mut more = std::mem::take(&mut self.addresses.more);
        more.clear();
        *self = Self {
            addresses: WireAddresses { first: None, more },
            ..Self::default()
        };
    }
}

impl<'a> WireAddresses<'a> {
    /// Adds the next address, unless there are more than [`ADDRESSES_MAX`] already.
    pub(super) fn push(&mut self, address: &'a str) {
        match self.first {
            None => self.first = Some(address),
            Some(_) => add(&mut self.more, ADDRESSES_MAX, address),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.first.iter().chain(&self.more).copied()
    }
}

/// Adds an element to a list of a slice, unless that has `most` already: the smallest elements take
/// up to forty times their bytes in memory.
pub(super) fn add<T>(all: &mut Vec<T>, most: usize, element: T) {
    if all.len() < most {
        all.push(element);
    }
}
