//! While an exporter is unknown, what a member holds is the record of what it is to hold, and no record of any other's.

use super::*;
use crate::fixtures::HUB_UID;

/// What of an import and its derived Service must stay, of a member.
fn held(world: &World, member: &str) -> [Value; 2] {
    [Kind::Import, Kind::Service].map(|kind| {
        let name = match kind {
            Kind::Import => "foo",
            _ => "derived-foo",
        };
        get(world, member, kind, name).expect("it is there")["spec"].clone()
    })
}

/// `foo` in member1, which alone exports it, and two members that import it.
fn imported_by(set_up: impl Fn(&str, &mut World)) -> World {
    let mut world = world();
    for member in ["member1", "member2", "member3"] {
        world.silent_member(member);
        set_up(member, &mut world);
        world.introduce(member).list(member);
    }
    let exported = foo().with(json!({"spec": {
        "ipFamilyPolicy": "PreferDualStack", "trafficDistribution": "PreferSameZone", "internalTrafficPolicy": "Local",
    }}));
    world
        .on("member1", exported)
        .on("member1", source("foo-abc", "10.1.0.5"))
        .on("member1", export("foo"))
        .settle();
    world
}

/// Another process takes over while the exporter is out of reach.
fn in_doubt(world: &mut World) -> &mut World {
    world.lose("member1").restart().forget_writes().settle()
}

#[test]
fn a_cluster_of_one_family_takes_no_address_from_those_of_two() {
    let mut world = imported_by(|member, world| {
        if member != "member2" {
            world.server(member).families = vec!["IPv4", "IPv6"];
        }
    });
    let families = &derived(&world, "member3")["spec"]["ipFamilies"];
    assert_eq!(*families, json!(["IPv4", "IPv6"]));
    in_doubt(&mut world).pass(GRACE + GRACE);
    assert_eq!(world.log(), Vec::<String>::new(), "{:#?}", world.written);
}

#[test]
fn definitions_without_the_newer_fields_lose_no_preference_and_no_hints() {
    let mut world = imported_by(|member, world| {
        world.server(member).served.imports = Some(ServedImports {
            version: Version::V1alpha1,
            fields: ImportFields::FIRST,
        });
    });
    let preference = &derived(&world, "member3")["spec"]["trafficDistribution"];
    assert_eq!(*preference, "PreferSameZone");
    in_doubt(&mut world).pass(GRACE + GRACE);
    assert_eq!(world.log(), Vec::<String>::new(), "{:#?}", world.written);
}

/// An import that a member wrote as if causeway had.
pub(super) fn forged() -> Object {
    let clusters = ["member1", "member2", "member3"].map(|name| json!({"cluster": name}));
    import("foo").port("forged", 9).with(json!({
        "metadata": {
            "labels": {labels::HUB: HUB_UID, labels::MANAGED_BY: labels::MANAGER},
            "annotations": {labels::OWNER: "ServiceExport/foo"},
        },
        "spec": {
            "type": "Headless", "sessionAffinity": "ClientIP", "ipFamilies": ["IPv4"],
            "internalTrafficPolicy": "Cluster", "trafficDistribution": "PreferSameNode",
        },
        "status": {"clusters": clusters},
    }))
}

#[test]
fn a_member_that_forges_its_import_dictates_nothing_to_others() {
    let mut world = imported_by(|_, _| {});
    let before = held(&world, "member3");
    world.lose("member1").restart();
    world.on("member2", forged()).settle();
    assert_eq!(held(&world, "member3"), before);
    let service = &derived(&world, "member2")["spec"];
    assert_ne!(service["clusterIP"], "None", "what is in use stays");
    let ports: Vec<_> = imported(&world, "member2")["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| port["port"].clone())
        .collect();
    assert_eq!(ports, [9, 80], "nothing shrinks");
    world.introduce("member1").list("member1").settle();
    assert_eq!(held(&world, "member2")[0]["ports"], before[0]["ports"]);
    assert_eq!(held(&world, "member3"), before);
    world.assert_at_rest();
}

#[test]
fn an_import_that_somebody_deleted_is_made_anew_from_the_members_own_service() {
    let mut world = imported_by(|member, world| {
        if member == "member3" {
            world.server(member).families = vec!["IPv4", "IPv6"];
        }
    });
    let before = held(&world, "member3");
    in_doubt(&mut world)
        .off("member3", Kind::Import, "foo")
        .settle();
    assert_eq!(held(&world, "member3"), before);
}

#[test]
fn what_is_left_where_both_are_gone_is_kept_until_the_exporter_is_known() {
    let mut world = imported_by(|_, _| {});
    in_doubt(&mut world);
    world
        .off("member3", Kind::Import, "foo")
        .off("member3", Kind::Service, "derived-foo")
        .settle();
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    assert!(get(&world, "member3", Kind::Import, "foo").is_none());
    world.introduce("member1").list("member1").settle();
    assert!(get(&world, "member3", Kind::Import, "foo").is_some());
    world.assert_at_rest();
}

#[test]
fn a_foreign_import_keeps_what_it_has_while_the_exporter_is_unknown() {
    let mut world = imported_by(|_, _| {});
    let taken = json!({"metadata": {"labels": {labels::HUB: "another-hub"}}});
    let value = imported(&world, "member3").clone();
    let import = Object {
        kind: Kind::Import,
        value,
    };
    world.on("member3", import.with(taken)).settle();
    let before = held(&world, "member3");
    in_doubt(&mut world).pass(GRACE + GRACE);
    assert_eq!(held(&world, "member3"), before);
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn a_process_that_ends_while_it_takes_an_import_out_leaves_nothing_that_is_made_whole_again() {
    for arrived in 0..=u8::MAX {
        let mut world = imported_by(|_, _| {});
        world
            .lose("member3")
            .off("member1", Kind::Export, "foo")
            .crash(arrived)
            .pass(GRACE + GRACE);
        for member in ["member1", "member2"] {
            for (kind, name) in [(Kind::Import, "foo"), (Kind::Service, "derived-foo")] {
                let left = get(&world, member, kind, name);
                assert_eq!(left, None, "{member} after the writes {arrived:#b}");
            }
        }
    }
}
