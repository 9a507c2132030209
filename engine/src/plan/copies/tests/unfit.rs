//! Slices that cannot be copied as a whole.

use super::*;

const COPIED: &str =
    "True Ready: shop/foo can be reached from 1 cluster, backed by 1 cluster; not copied: ";

fn names() -> Object {
    let names = json!({"addressType": "FQDN", "endpoints": [{"addresses": ["foo.example"]}]});
    slice("foo-names", "foo").port("http", 8080).with(names)
}

#[test]
fn slices_of_names_and_endpoints_without_an_address_are_reported() {
    let odd = json!({"addresses": ["foo.example"]});
    let sources = [abc().endpoint("10.1.0.5").endpoint_with(odd), names()];
    let env = provided(foo(), sources);
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    let why = "an endpoint without an IPv4 address";
    assert_eq!(
        env.says("foo", "Ready"),
        format!("{COPIED}some endpoints and 1 EndpointSlice of member1 ({why})")
    );
}

#[test]
fn exports_tell_what_no_cluster_is_given() {
    let mut env = env();
    env.member("member1").member("member2").on("member1", foo());
    let source = abc().endpoint("10.1.0.5").endpoint("127.0.0.1");
    env.on("member1", source).on("member1", names());
    env.on("member1", export("foo")).settle().settle();
    let said = env.members["member1"].get(Kind::Export, "shop", "foo");
    let conditions = said.expect("the export")["status"]["conditions"].to_string();
    let expected = "the service is exported to the clusterset; not copied: \
                    some endpoints and 1 EndpointSlice of member1 (";
    assert!(conditions.contains(expected), "{conditions}");
    env.assert_at_rest();
    let two = abc()
        .endpoint("10.1.0.5")
        .endpoint("127.0.0.2")
        .endpoint("127.0.0.3");
    env.on("member1", two).settle();
    assert_eq!(env.log(), [""; 0]);
}

#[test]
fn a_slice_that_can_no_longer_be_read_keeps_its_copies_and_is_reported() {
    let mut env = provided(foo(), [abc().endpoint("10.1.0.5")]);
    env.garble("member1", "foo-abc").settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    let said = env.says("foo", "Ready");
    let why = "1 EndpointSlice of member1 (it cannot be read; copies made of it before stay)";
    assert_eq!(said, format!("{COPIED}{why}"));
    env.on("member1", abc().endpoint("10.1.0.6")).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.6"]);
}

#[test]
fn a_slice_of_more_endpoints_than_the_api_allows_keeps_its_copies() {
    let mut env = provided(foo(), [abc().endpoint("10.1.0.5")]);
    let endpoint =
        |number: usize| json!({"addresses": [format!("10.2.{}.{}", number / 250, number % 250)]});
    for (endpoints, copied) in [(1001, 1), (1000, 1000), (1001, 1000)] {
        let all: Vec<_> = (0..endpoints).map(endpoint).collect();
        env.on("member1", abc().with(json!({"endpoints": all})))
            .settle();
        assert_eq!(env.addresses("member2", "foo").len(), copied, "{endpoints}");
        let reported = env
            .says("foo", "Ready")
            .contains("it has more than 1000 endpoints");
        assert_eq!(reported, endpoints > 1000, "{endpoints}");
    }
}

#[test]
fn more_slices_than_a_service_may_have_change_nothing() {
    let mut env = provided(foo(), [abc().endpoint("10.1.0.5")]);
    let one = |number| {
        slice(&format!("foo-{number}"), "foo")
            .port("http", 8080)
            .endpoint("10.1.1.1")
    };
    for number in 0..MOST_SLICES {
        env.on("member1", one(number));
    }
    env.on("member1", abc().endpoint("10.1.0.6")).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    assert_eq!(
        env.says("foo", "Ready"),
        format!(
            "{COPIED}1001 EndpointSlices of member1 (no more than 1000 of a service are copied)"
        )
    );
    env.off("member1", Kind::Slice, "foo-0").settle();
    env.pass(Duration::from_secs(5));
    assert_eq!(env.copies("member2", "foo").len(), MOST_SLICES);
}

#[test]
fn slice_without_ports_is_copied_for_a_service_without_ports() {
    let lacking = slice("foo-abc", "foo").endpoint("10.1.0.5");
    for (case, service, expected) in [
        ("ports", service("foo").port("http", 80), 0),
        (
            "headless, ports",
            service("foo").port("http", 80).headless(),
            0,
        ),
        ("headless", service("foo").headless(), 1),
    ] {
        let mut env = env();
        env.member("member1").member("member2");
        env.on_hub(service).on("member1", lacking.clone());
        env.on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]))
            .settle();
        assert_eq!(env.copies("member2", "foo").len(), expected, "{case}");
    }
}
