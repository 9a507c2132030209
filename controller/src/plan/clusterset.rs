//! What the clusters of the clusterset should hold for an exported service (KEP-1645).

pub mod merge;
