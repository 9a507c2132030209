//! Exact allocation of data that is held for long.

/// Returns the elements in memory of exactly their size. Shrinking does not suffice: allocators
/// leave a block that is still half full as it is.
pub(crate) fn fitted<T>(all: Vec<T>) -> Vec<T> {
    if all.capacity() == all.len() {
        return all;
    }
    let mut fitted = Vec::with_capacity(all.len());
    fitted.extend(all);
    fitted
}
