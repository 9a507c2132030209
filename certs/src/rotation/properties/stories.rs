//! Event sequences that once broke a guarantee.

use std::time::Duration;

use super::Event::{Advance, DeleteSecret, Observe, PutBack, Replace, Request, Step, Turn};
use super::Model;
use super::Version::Before;
use super::Which::{Authority, Serving};
use super::{DAY, RotationRequest};

#[test]
fn restored_authority_without_a_leaf_keeps_published_trust() {
    let mut model = Model::new();
    for event in [
        // Replica 0 creates an authority.
        Step(0),
        Step(0),
        Step(0),
        Step(0),
        // Replica 1 stores a second authority, which signs from now on, in the serving Secret.
        Replace(1, Before),
        Turn(1),
        Turn(0),
        Observe(2),
        Advance(Duration::from_secs(10)),
        // Replica 2 issues a leaf of the second authority and serves it.
        Turn(2),
        Turn(2),
        // A user restores the first version of the one Secret and deletes the other.
        PutBack(Authority, 3),
        DeleteSecret(Serving),
    ] {
        model.happens(&event);
    }
    model.settle();
}

#[test]
fn replica_six_minutes_behind_undoes_no_rotation() {
    for request in [RotationRequest::Leaf, RotationRequest::Authority] {
        let mut model = Model::new();
        model.settle();
        model.happens(&Advance(DAY));
        model.set_back(1, Duration::from_secs(6 * 60));
        model.happens(&Request(request));
        model.settle();
        assert_eq!(model.leaf_changes(), 2, "{request:?}");
    }
}
