//! What the exports of one service agree on, and what they do not (KEP-1645, "Constraints and Conflict Resolution").
