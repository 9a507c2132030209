use super::*;
use kube::core::response::StatusDetails;

fn status(code: u16, reason: &str, message: &str, name: &str) -> kube::Error {
    let details = StatusDetails {
        name: name.to_owned(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    };
    let status = Status::failure(message, reason)
        .with_code(code)
        .with_details(details);
    kube::Error::Api(status.boxed())
}

#[test]
fn what_an_api_server_answers_is_told_apart() {
    use FailureKind::*;
    let webhook = r#"Internal error occurred: failed calling webhook "v.example.org": dial tcp 10.0.0.1:443: refused"#;
    let cases = [
        (
            status(401, "Unauthorized", "Unauthorized", ""),
            Unauthorized,
            "unauthorized",
            true,
        ),
        (
            status(403, "Forbidden", "services is forbidden", ""),
            Forbidden,
            "forbidden: services is forbidden",
            false,
        ),
        (
            status(404, "NotFound", "services \"foo\" not found", "foo"),
            NotFound,
            "services \"foo\" not found",
            false,
        ),
        (
            status(
                404,
                "NotFound",
                "the server could not find the requested resource",
                "",
            ),
            NotServed,
            "the API server does not serve the resource",
            false,
        ),
        (
            status(409, "Conflict", "modified", "foo"),
            Conflict,
            "modified",
            false,
        ),
        (
            status(409, "AlreadyExists", "already exists", "foo"),
            AlreadyExists,
            "already exists",
            false,
        ),
        (
            status(410, "Expired", "too old: 5 (9)", ""),
            Expired,
            "the resourceVersion is no longer kept",
            false,
        ),
        (
            status(422, "Invalid", "spec.ports: Required", "foo"),
            Invalid,
            "spec.ports: Required",
            false,
        ),
        (
            status(
                422,
                "Invalid",
                "failed to allocate IP 10.0.0.9: provided IP is already allocated",
                "foo",
            ),
            AddressTaken,
            "failed to allocate IP 10.0.0.9: provided IP is already allocated",
            false,
        ),
        (
            status(429, "TooManyRequests", "slow down", ""),
            TooMany,
            "too many requests",
            false,
        ),
        (
            status(503, "ServiceUnavailable", "x", ""),
            Server,
            "the API server answers 503",
            true,
        ),
        (
            status(504, "Timeout", "x", ""),
            Timeout,
            "the API server got no answer in time",
            true,
        ),
        (
            status(500, "InternalError", webhook, ""),
            Other,
            "its admission webhook v.example.org fails",
            false,
        ),
    ];
    for (error, kind, text, whole) in cases {
        let failure = Failure::from(error);
        assert_eq!(
            (
                failure.kind,
                failure.to_string().as_str(),
                failure.is_connection()
            ),
            (kind, text, whole)
        );
    }
}

#[derive(Debug, thiserror::Error)]
#[error("client error (Connect)")]
struct Wrapped(#[source] io::Error);

fn service(cause: io::Error) -> kube::Error {
    kube::Error::Service(Box::new(Wrapped(cause)))
}

#[test]
fn the_cause_of_a_broken_connection_is_found_however_deep_it_is() {
    use rustls::{CertificateError, Error as Tls};
    let tls = |error: Tls| service(io::Error::new(io::ErrorKind::InvalidData, error));
    let cases = [
        (
            service(io::ErrorKind::ConnectionRefused.into()),
            FailureKind::Refused,
            "connection refused",
        ),
        (
            service(io::ErrorKind::TimedOut.into()),
            FailureKind::Timeout,
            "no answer in time",
        ),
        (
            service(io::ErrorKind::HostUnreachable.into()),
            FailureKind::Network,
            "no route to its address",
        ),
        (
            service(io::ErrorKind::ConnectionReset.into()),
            FailureKind::Network,
            "the connection was lost",
        ),
        (
            service(io::Error::other(io::Error::from(
                io::ErrorKind::ConnectionRefused,
            ))),
            FailureKind::Refused,
            "connection refused",
        ),
        (
            tls(Tls::InvalidCertificate(CertificateError::UnknownIssuer)),
            FailureKind::Tls,
            "certificate not trusted",
        ),
        (
            tls(Tls::InvalidCertificate(CertificateError::Expired)),
            FailureKind::Tls,
            "its certificate has expired",
        ),
        (
            tls(Tls::InvalidCertificate(CertificateError::NotValidForName)),
            FailureKind::Tls,
            "its certificate is for another name",
        ),
    ];
    for (error, kind, text) in cases {
        let failure = Failure::from(error);
        assert_eq!((failure.kind, failure.to_string().as_str()), (kind, text));
        assert!(failure.is_connection());
    }
}

#[test]
fn pauses_double_up_to_the_last_one_and_begin_again() {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
    for whole in [
        200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000,
    ] {
        let whole = Duration::from_millis(whole);
        let pause = backoff.pause();
        assert!(
            pause >= whole / 2 && pause <= whole,
            "{pause:?} of {whole:?}"
        );
    }
    backoff.reset();
    assert!(backoff.pause() <= Duration::from_millis(200));
}
