//! Exit codes of the errors of all commands.

use causeway::domain::ClusterName;

use crate::cluster::access::Side;
use crate::cluster::api_server::RequestError;
use crate::cluster::objects::ObjectError;
use crate::cluster::tunnel::TunnelError;
use crate::commands::diff::DiffError;
use crate::commands::install::InstallError;
use crate::commands::join::JoinError;
use crate::commands::membership::hub::HubError;
use crate::commands::status::StatusError;
use crate::commands::top::TopError;
use crate::commands::verify::VerifyError;
use crate::term::confirm::ConfirmError;
use crate::term::exit::{CommandError, ExitState, Failure, PROBLEM, UNKNOWN, USAGE};

fn unreachable() -> RequestError {
    RequestError::Unreachable {
        side: Side::Hub,
        address: "https://a".to_owned(),
        why: "refused".to_owned(),
    }
}

fn refused() -> RequestError {
    RequestError::Refused {
        side: Side::Hub,
        message: "no".to_owned(),
    }
}

fn kubeconfig() -> RequestError {
    RequestError::Kubeconfig {
        side: Side::Hub,
        why: "no such file".to_owned(),
    }
}

#[test]
fn one_cause_has_one_exit_code_in_every_command() {
    for (cause, code) in [
        (unreachable as fn() -> RequestError, UNKNOWN),
        (refused, PROBLEM),
        (kubeconfig, USAGE),
    ] {
        let ends = [
            Failure::from(cause()),
            ObjectError::from(cause()).into(),
            HubError::from(cause()).into(),
            TunnelError::from(cause()).into(),
            TunnelError::from(ObjectError::from(cause())).into(),
        ];
        for end in ends {
            assert_eq!(end.exit_code(), code, "{end:?}");
        }
    }
}

#[test]
fn diff_reports_failures_by_more_than_1() {
    for (cause, code) in [
        (unreachable as fn() -> RequestError, UNKNOWN),
        (refused, UNKNOWN),
        (kubeconfig, USAGE),
    ] {
        assert_eq!(DiffError::from(cause()).exit_code(), code);
    }
}

#[test]
fn unknown_state_is_never_success() {
    assert_eq!(ExitState::new(true, true).code(), 0);
    assert_eq!(ExitState::new(false, true).code(), PROBLEM);
    assert_eq!(
        ExitState::new(false, false).code(),
        PROBLEM,
        "a problem was found"
    );
    assert_eq!(ExitState::new(true, false).code(), UNKNOWN);
    let not_found = |unread: &str| StatusError::Absent {
        name: "foo".to_owned(),
        place: String::new(),
        unread: unread.to_owned(),
    };
    assert_eq!(not_found("").exit_code(), PROBLEM);
    assert_eq!(not_found(", not read: a").exit_code(), UNKNOWN);
    let not_known = StatusError::NotKnown {
        seconds: 1,
        what: String::new(),
    };
    assert_eq!(not_known.exit_code(), UNKNOWN);
    assert_eq!(TopError::Nothing(String::new()).exit_code(), UNKNOWN);
    let no_service = |unread: &str| VerifyError::NotFound {
        what: "service shop/foo".to_owned(),
        unread: unread.to_owned(),
    };
    assert_eq!(no_service("").exit_code(), PROBLEM);
    assert_eq!(no_service("; not read: a").exit_code(), UNKNOWN);
}

#[test]
fn problems_and_wrong_usage_have_different_exit_codes() {
    let not_served = RequestError::NotServed {
        kind: "Cluster",
        url: "https://a".to_owned(),
    };
    assert_eq!(not_served.exit_code(), PROBLEM);
    assert_eq!(JoinError::JoinedAs("a".to_owned()).exit_code(), PROBLEM);
    let stopped = JoinError::NoController {
        name: ClusterName::try_from("a").expect("a name"),
        why: "nobody holds the Lease".to_owned(),
    };
    assert_eq!(stopped.exit_code(), PROBLEM);
    let text = stopped.to_string();
    assert!(
        text.contains("applied; the controller is not running"),
        "{text}"
    );
    assert_eq!(JoinError::ProxyUser.exit_code(), USAGE);
    assert_eq!(InstallError::NoCertManager.exit_code(), PROBLEM);
    assert_eq!(ConfirmError::Declined("removed").exit_code(), PROBLEM);
    assert_eq!(ConfirmError::NotConfirmed("removed").exit_code(), USAGE);
}
