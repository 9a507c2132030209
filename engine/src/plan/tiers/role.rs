//! Role of a provider's endpoints in a consumer.

/// Role of a provider's ready endpoints in a consumer. Endpoints that are not ready at their source
/// are used in no role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum EndpointRole {
    /// They are ready.
    #[default]
    Ready,
    /// They are standby endpoints: not ready, serving and terminating. A proxy uses such endpoints
    /// while no other is ready (KEP-1669).
    Standby,
    /// They are not ready, because the consumer's data plane would not use standby endpoints.
    NotReady,
}

impl EndpointRole {
    /// Returns ready, serving and terminating of a copy's endpoint, given those of its source.
    pub(in crate::plan) fn conditions(self, source: [Option<bool>; 3]) -> [Option<bool>; 3] {
        let [ready, _, terminating] = source;
        match (self, ready) {
            (Self::Ready, _) => source,
            (Self::Standby, None | Some(true)) => [Some(false), Some(true), Some(true)],
            // One that terminates and still serves would be used beside the standby endpoints.
            (Self::Standby | Self::NotReady, _) => [Some(false), Some(false), terminating],
        }
    }
}
