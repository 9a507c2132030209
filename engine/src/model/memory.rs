//! What is kept for long is to take no more memory than it needs.

/// The same in memory of its own size. To shrink it is not enough: allocators leave a block that is still half full as it is.
pub(crate) fn fitted<T>(all: Vec<T>) -> Vec<T> {
    if all.capacity() == all.len() {
        return all;
    }
    let mut fitted = Vec::with_capacity(all.len());
    fitted.extend(all);
    fitted
}
