//! Priority of items in the queue of the planner.

/// Priority of an item, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Normal turn, after a pause: a member was listed for the first time, or has recovered. Other
    /// members are likely to follow soon, and may concern the same thousands of services.
    Settling,
    /// Normal turn: a watch reported a whole list, or the state of a member has changed, which may
    /// concern the item. Such a change may concern many thousands of items.
    Low,
    /// After a moment, together with later changes: a copy of the service was written or observed,
    /// which is mostly the echo of a write.
    Debounced,
    /// Next: the item itself has changed.
    High,
}
