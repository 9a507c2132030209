//! Write of the DNSEndpoint of a service.

use causeway::domain::ServiceKey;

use crate::model::{ObjectId, Write};
use crate::observed::Index;
use crate::observed::hub::DnsKnowledge;
use crate::plan::Desired;
use crate::plan::dns::NamePlan;

/// Returns the write of the DNSEndpoint of a service. A foreign one stays as it is.
pub(crate) fn name_write(desired: &Desired, index: &Index, key: &ServiceKey) -> Option<Write> {
    let mcs = index.multi_cluster_service(key)?;
    let DnsKnowledge::Known(known) = index.dns_endpoint(key) else {
        return None;
    };
    let is_fixed = known.is_some_and(|known| known.deleting || known.owner.is_none());
    let object = ObjectId::DnsEndpoint(key.clone());
    let write = match (&desired.name, known) {
        _ if is_fixed => return None,
        (plan, Some(known)) if plan.is_withdrawn() => {
            Write::delete(object, &known.uid, &known.resource_version)
        }
        (NamePlan::Wanted(name), _) if name.records.is_empty() => return None,
        (NamePlan::Wanted(name), None) => {
            Write::create(object, &name.object(key, &mcs.uid, index.hub_uid()))
        }
        (NamePlan::Wanted(name), Some(known)) if !name.is_met_by(known, &mcs.uid) => {
            Write::patch(object, name.patch(known, key, &mcs.uid))
        }
        _ => return None,
    };
    Some(write)
}
