//! How soon an item is planned.

/// How soon an item is planned; the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// In its turn, and in a while: a member was listed for the first time, or stands as it should again. Where one does, others are
    /// about to follow, which may concern the same thousands of services.
    Settling,
    /// In its turn: a whole list was reported, or how a member stands has changed, which may concern it. There may be many thousands.
    Low,
    /// In a moment, together with what follows: a copy of it was written or seen, which is mostly the echo of a write.
    Debounced,
    /// Next: something happened to it.
    High,
}
