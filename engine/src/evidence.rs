//! When an absence is taken for a deletion.

/// How many objects may go missing from one list to the next without a question, and how large a share of all.
const FEW: usize = 10;
const SHARE: usize = 5;

/// Whether so many of what was there are missing that they are not believed to be gone at once.
pub fn is_much(missing: usize, known: usize) -> bool {
    missing > FEW.max(known / SHARE)
}
