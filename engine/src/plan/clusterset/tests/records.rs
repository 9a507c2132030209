//! Records of imports: while an exporter is unknown, the objects that a member holds are the record
//! of its desired import, and no record for any other member.

use super::*;

/// Returns the specs of a member's import and derived Service, which must not change.
fn held(env: &Environment, member: &str) -> [Value; 2] {
    [Kind::Import, Kind::Service].map(|kind| {
        let name = match kind {
            Kind::Import => "foo",
            _ => "derived-foo",
        };
        get(env, member, kind, name).expect("it is there")["spec"].clone()
    })
}

/// Returns `foo` in member1, which alone exports it, and two members that import it.
fn imported_by(set_up: impl Fn(&str, &mut Environment)) -> Environment {
    let mut env = env();
    for member in ["member1", "member2", "member3"] {
        env.silent_member(member);
        set_up(member, &mut env);
        env.introduce(member).list(member);
    }
    let exported = foo().with(json!({"spec": {
        "ipFamilyPolicy": "PreferDualStack", "trafficDistribution": "PreferSameZone", "internalTrafficPolicy": "Local",
    }}));
    env.on("member1", exported)
        .on("member1", source("foo-abc", "10.1.0.5"))
        .on("member1", export("foo"))
        .settle();
    env
}

/// Restarts the controller while the exporter is unreachable.
fn unconfirmed(env: &mut Environment) -> &mut Environment {
    env.lose("member1").restart().forget_writes().settle()
}

#[test]
fn a_cluster_of_one_family_takes_no_address_from_those_of_two() {
    let mut env = imported_by(|member, env| {
        if member != "member2" {
            env.server(member).families = vec!["IPv4", "IPv6"];
        }
    });
    let families = &derived(&env, "member3")["spec"]["ipFamilies"];
    assert_eq!(*families, json!(["IPv4", "IPv6"]));
    unconfirmed(&mut env).pass(GRACE + GRACE);
    assert_eq!(env.log(), Vec::<String>::new(), "{:#?}", env.written);
}

#[test]
fn definitions_without_the_newer_fields_lose_no_preference_and_no_hints() {
    let mut env = imported_by(|member, env| {
        env.server(member).served.imports = Some(ServedImports {
            version: Version::V1alpha1,
            fields: ImportFields::default(),
        });
    });
    let preference = &derived(&env, "member3")["spec"]["trafficDistribution"];
    assert_eq!(*preference, "PreferSameZone");
    unconfirmed(&mut env).pass(GRACE + GRACE);
    assert_eq!(env.log(), Vec::<String>::new(), "{:#?}", env.written);
}

#[test]
fn a_member_that_forges_its_import_dictates_nothing_to_others() {
    let mut env = imported_by(|_, _| {});
    let before = held(&env, "member3");
    env.lose("member1").restart();
    env.on("member2", forged()).settle();
    assert_eq!(held(&env, "member3"), before);
    let service = &derived(&env, "member2")["spec"];
    assert_ne!(service["clusterIP"], "None", "what is in use stays");
    let ports: Vec<_> = imported(&env, "member2")["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| port["port"].clone())
        .collect();
    assert_eq!(ports, [9, 80], "nothing shrinks");
    env.introduce("member1").list("member1").settle();
    assert_eq!(held(&env, "member2")[0]["ports"], before[0]["ports"]);
    assert_eq!(held(&env, "member3"), before);
    env.assert_at_rest();
}

#[test]
fn an_import_that_somebody_deleted_is_recreated_from_the_members_own_service() {
    let mut env = imported_by(|member, env| {
        if member == "member3" {
            env.server(member).families = vec!["IPv4", "IPv6"];
        }
    });
    let before = held(&env, "member3");
    unconfirmed(&mut env)
        .off("member3", Kind::Import, "foo")
        .settle();
    assert_eq!(held(&env, "member3"), before);
}

#[test]
fn what_is_left_where_both_are_gone_is_kept_until_the_exporter_is_known() {
    let mut env = imported_by(|_, _| {});
    unconfirmed(&mut env);
    env.off("member3", Kind::Import, "foo")
        .off("member3", Kind::Service, "derived-foo")
        .settle();
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    assert!(get(&env, "member3", Kind::Import, "foo").is_none());
    env.introduce("member1").list("member1").settle();
    assert!(get(&env, "member3", Kind::Import, "foo").is_some());
    env.assert_at_rest();
}

#[test]
fn a_foreign_import_keeps_what_it_has_while_the_exporter_is_unknown() {
    let mut env = imported_by(|_, _| {});
    let taken = json!({"metadata": {"labels": {labels::HUB: "another-hub"}}});
    env.amend("member3", Kind::Import, "foo", taken).settle();
    let before = held(&env, "member3");
    unconfirmed(&mut env).pass(GRACE + GRACE);
    assert_eq!(held(&env, "member3"), before);
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn a_process_that_ends_while_it_takes_an_import_out_leaves_nothing_that_is_made_whole_again() {
    for arrived in 0..=u8::MAX {
        let mut env = imported_by(|_, _| {});
        env.lose("member3")
            .off("member1", Kind::Export, "foo")
            .crash(arrived)
            .pass(GRACE + GRACE);
        for member in ["member1", "member2"] {
            for (kind, name) in [(Kind::Import, "foo"), (Kind::Service, "derived-foo")] {
                let left = get(&env, member, kind, name);
                assert_eq!(left, None, "{member} after the writes {arrived:#b}");
            }
        }
    }
}
