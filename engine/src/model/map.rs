//! Hash tables of the engine. Most keys that a plan looks up are names of a few dozen bytes, which
//! [`foldhash`] hashes several times faster than the standard library's default. Each process has
//! seeds of its own, so nobody outside can choose names that collide.

use std::collections;

use foldhash::fast::RandomState;

/// Hash map.
pub(crate) type HashMap<K, V> = collections::HashMap<K, V, RandomState>;
/// Hash set.
pub(crate) type HashSet<T> = collections::HashSet<T, RandomState>;
