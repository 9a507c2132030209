//! Services between Karmada and causeway, for tests.

use causeway::api::labels;

use crate::cluster::karmada::tests::work;
use crate::observe::connect::ConnectError;
use crate::observe::fixtures::healthy;
use crate::observe::service::Snapshot;

/// Returns shop/foo as causeway serves it, with Karmada's Works and both finalizers.
pub(crate) fn shared() -> Snapshot {
    let mut snapshot = healthy();
    let works = [("a", "own"), ("a", "collected"), ("b", "dispatched")];
    snapshot.works = Some(works.map(|(member, role)| work(member, role)).into());
    let mcs = snapshot.mcs.as_mut().expect("it");
    mcs.metadata.resource_version = Some("3".to_owned());
    let finalizers = [
        "karmada.io/multiclusterservice-controller",
        labels::FINALIZER,
    ];
    mcs.metadata.finalizers = Some(finalizers.map(str::to_owned).into());
    snapshot
}

/// Marks a member as unreadable.
pub(crate) fn make_unread(snapshot: &mut Snapshot, member: &str) {
    let why = ConnectError::Failed("no answer".to_owned());
    snapshot.members.insert(member.to_owned(), Err(why));
}
