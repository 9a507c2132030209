//! Names of copies.

use std::sync::Arc;

use causeway::domain::{ClusterName, short_hash};

use crate::model::slice::{AddressType, Exposure};

const NAME_MAX: usize = 253;
const HASH_HEX: usize = 8;

/// Returns the name of a copy. It depends on the source of the copy alone, not on other objects.
///
/// The name contains the provider and the name of the source, so its 32 bits of a hash decide only
/// between sources whose names agree in their first 180 characters, and between texts that a hyphen
/// divides in two ways. The author of such names would need 2^32 attempts, and would reach other
/// sources of the same namespace alone.
pub(crate) fn copy_name(
    exposure: Exposure,
    provider: &ClusterName,
    slice: &str,
    address_type: AddressType,
) -> Arc<str> {
    let (prefix, exposure) = match exposure {
        Exposure::Native => ("", "native"),
        Exposure::Clusterset => ("imported-", "clusterset"),
    };
    let hash = short_hash([exposure, provider.as_str(), slice, address_type.as_str()]);
    let room = NAME_MAX - HASH_HEX - 2 - provider.as_str().len() - prefix.len();
    let cut = slice
        .get(..slice.len().min(room))
        .unwrap_or_default()
        .trim_end_matches(['-', '.']);
    format!("{prefix}{provider}-{cut}-{hash}").into()
}

/// Returns the names of the copies of an entry, one for each address family: its slices are named
/// after the Service.
pub(crate) fn entry_names(
    exposure: Exposure,
    provider: &ClusterName,
    service: &str,
) -> [Arc<str>; 2] {
    let families = [AddressType::Ipv4, AddressType::Ipv6];
    families.map(|family| copy_name(exposure, provider, service, family))
}
