use super::*;

#[derive(Debug, thiserror::Error)]
#[error("client error (Connect)")]
struct Wrapped(#[source] io::Error);

fn service(cause: io::Error) -> kube::Error {
    kube::Error::Service(Box::new(Wrapped(cause)))
}

#[test]
fn the_cause_of_a_broken_connection_is_found_however_deep_it_is() {
    use FailureKind::{Network, Refused, Timeout, Tls};
    use io::ErrorKind;
    use rustls::CertificateError as Certificate;
    let io = |kind: ErrorKind| service(kind.into());
    let inner = io::Error::from(ErrorKind::ConnectionRefused);
    let tls = |why| {
        let error = rustls::Error::InvalidCertificate(why);
        service(io::Error::new(ErrorKind::InvalidData, error))
    };
    let untrusted = "certificate not trusted";
    let expired = "its certificate has expired";
    let misnamed = "its certificate is for another name";
    let cases = [
        (
            io(ErrorKind::ConnectionRefused),
            Refused,
            "connection refused",
        ),
        (io(ErrorKind::TimedOut), Timeout, "no answer in time"),
        (
            io(ErrorKind::HostUnreachable),
            Network,
            "no route to its address",
        ),
        (
            io(ErrorKind::ConnectionReset),
            Network,
            "the connection was lost",
        ),
        (
            service(io::Error::other(inner)),
            Refused,
            "connection refused",
        ),
        (tls(Certificate::UnknownIssuer), Tls, untrusted),
        (tls(Certificate::Expired), Tls, expired),
        (tls(Certificate::NotValidForName), Tls, misnamed),
    ];
    for (error, kind, text) in cases {
        let failure = classify(&error);
        assert_eq!((failure.kind, failure.to_string().as_str()), (kind, text));
        assert!(failure.is_connection());
    }
}

#[tokio::test]
async fn request_on_a_connection_that_was_just_closed_is_a_lost_connection() {
    use http_body_util::Empty;
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;

    let (stream, _server) = tokio::io::duplex(1024);
    let handshake = http1::handshake::<_, Empty<&[u8]>>(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.expect("a connection");
    drop(connection);
    let answer = sender.send_request(http::Request::default()).await;
    let failure = classify(&answer.expect_err("no answer"));
    assert_eq!(failure.kind, FailureKind::Network, "{failure}");
}

#[test]
fn refusals_by_replicas_of_the_tunnel_that_differ_in_details_are_one_failure() {
    let refused = |status, detail: &str| {
        let reason = format!("its agent refuses: {detail}");
        classify(&service(io::Error::other(ProxyError::Tunnel {
            status,
            reason,
        })))
    };
    let [one, other] = ["since 02:00, last from 203.0.113.7", "not since its start"];
    let status = http::StatusCode::SERVICE_UNAVAILABLE;
    let failure = refused(status, one);
    assert!(failure.is_connection() && failure.to_string().ends_with(one));
    assert_eq!(failure, refused(status, other));
    let of_agent = [one, other].map(|detail| refused(http::StatusCode::BAD_GATEWAY, detail));
    assert_ne!(of_agent[0], of_agent[1]);
}
