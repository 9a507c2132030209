//! What the annotations of an object ask for, and what is wrong in them.

use causeway::domain::{Failover, FieldErrors};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What can be read of the annotations, and what is passed over.
pub(super) fn failover(meta: &ObjectMeta) -> (Failover, FieldErrors) {
    let mut misread = FieldErrors::default();
    let annotations = meta.annotations.as_ref();
    let annotation = |name: &str| annotations?.get(name).map(String::as_str);
    let failover = Failover::read(annotation, &mut |error| misread.push(error));
    (failover, misread)
}
