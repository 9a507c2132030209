use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::api::{Cluster, ClusterSpec, labels};
use crate::domain::ClusterName;
use crate::target::{ProxyError, TunnelFront};

/// Sends one request to `api.example:6443` through the proxy, and returns why there is no answer.
async fn ask(proxy: &str, headers: &[(&str, &str)]) -> BoxError {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let spec = ClusterSpec {
        api_endpoint: Some("https://api.example:6443".to_owned()),
        proxy_url: Some(proxy.to_owned()),
        proxy_header: headers.collect(),
        ..ClusterSpec::default()
    };
    let cluster = Cluster::new("member1", spec);
    let (target, token) = Target::read(&cluster, &secret("member1"), false).unwrap();
    request(&target, token).await
}

/// Returns a Secret of that name with a token.
fn secret(name: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([("token".to_owned(), ByteString(b"abc".to_vec()))].into()),
        ..Secret::default()
    }
}

/// Sends one request to a target, and returns why there is no answer.
async fn request(target: &Target, token: Token) -> BoxError {
    let (_renewals, token) = watch::channel(token);
    let transport = Transport::new(target, target.config()).unwrap();
    let request = Request::get("/version").body(Body::empty()).unwrap();
    transport
        .requests(&token)
        .unwrap()
        .oneshot(request)
        .await
        .unwrap_err()
}

/// Returns a member that is reached through causeway-tunnel.
fn edge1() -> Cluster {
    let spec = ClusterSpec {
        api_endpoint: Some("https://10.96.0.1".to_owned()),
        proxy_url: Some("http://127.0.0.1:1".to_owned()),
        ..ClusterSpec::default()
    };
    let mut cluster = Cluster::new("edge1", spec);
    let annotations = cluster.annotations_mut();
    annotations.insert(labels::TUNNEL.to_owned(), "true".to_owned());
    cluster
}

/// The proxy's error in the chain of causes, if there is one.
fn proxy_error(error: &BoxError) -> Option<&ProxyError> {
    let mut causes = std::iter::successors(Some(&**error as &dyn std::error::Error), |error| {
        error.source()
    });
    causes.find_map(|cause| cause.downcast_ref::<ProxyError>())
}

/// The message of the proxy's error in the chain of causes.
fn of_proxy(error: &BoxError) -> String {
    proxy_error(error)
        .unwrap_or_else(|| panic!("{error:?} is none of a proxy"))
        .to_string()
}

/// Accepts one connection, and gives the head of its CONNECT.
async fn connect(listener: &TcpListener) -> (BufReader<TcpStream>, Vec<String>) {
    let (connection, _) = listener.accept().await.unwrap();
    let mut reader = BufReader::new(connection);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await.unwrap();
        match line.trim_end() {
            "" => return (reader, head),
            line => head.push(line.to_lowercase()),
        }
    }
}

#[tokio::test]
async fn proxy_gets_the_address_its_credentials_and_its_headers() {
    const NAME: &str = "proxy-authorization: ";
    for (user, headers, expected) in [
        ("", &[][..], vec![]),
        (
            "me:pass@",
            &[],
            vec!["proxy-authorization: basic bwu6cgfzcw=="],
        ),
        (
            "me:p%40ss%3A@",
            &[],
            vec!["proxy-authorization: basic bwu6cebzczo="],
        ),
        (
            "me:pass@",
            &[("Proxy-Authorization", "Bearer x"), ("X-Ways", "a, b")],
            vec!["proxy-authorization: bearer x", "x-ways: a", "x-ways: b"],
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{user}{}", listener.local_addr().unwrap());
        let (head, error) =
            tokio::join!(async { connect(&listener).await.1 }, ask(&proxy, headers));
        assert_eq!(head[0], "connect api.example:6443 http/1.1");
        assert!(
            head.contains(&"host: api.example:6443".to_owned()),
            "{head:?}"
        );
        let given = head
            .iter()
            .filter(|line| line.starts_with(NAME) || line.starts_with("x-"));
        assert_eq!(given.collect::<Vec<_>>(), expected);
        assert!(of_proxy(&error).contains("cannot be used"), "it hung up");
    }
}

#[tokio::test]
async fn refusal_names_the_proxy_its_status_and_the_remedy() {
    for (status, remedy) in [
        (407, "Proxy-Authorization in spec.proxyHeader"),
        (403, "allow CONNECT to that host and port"),
        (502, "it does not reach the member"),
        (500, "no agent for that host is connected"),
        (405, "it has to name a proxy that serves CONNECT"),
        (418, "look into its log"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let refuse = async {
            let (mut connection, _) = connect(&listener).await;
            let answer = format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n");
            connection.write_all(answer.as_bytes()).await.unwrap();
        };
        let proxy = format!("http://me:hunter2@{address}");
        let ((), error) = tokio::join!(refuse, ask(&proxy, &[]));
        let message = of_proxy(&error);
        let start = format!("its proxy http://{address} answered {status}");
        assert!(message.starts_with(&start), "{message}");
        assert!(
            message.contains("to CONNECT api.example:6443: "),
            "{message}"
        );
        assert!(message.contains(remedy), "{message}");
    }
}

#[tokio::test]
async fn tunnel_gets_the_member_as_user_and_its_reason_is_the_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = format!("http://{}", listener.local_addr().unwrap());
    let (cluster, secret) = (edge1(), secret("edge1"));
    let error = Target::read(&cluster, &secret, false).unwrap_err();
    assert!(error.to_string().contains("--tunnel-front"), "{error}");
    let refuse = async {
        let (mut connection, head) = connect(&listener).await;
        let answer = "HTTP/1.1 502 No\r\nx-causeway-reason: its agent sleeps\r\n\r\n";
        connection.write_all(answer.as_bytes()).await.unwrap();
        head
    };
    let read = Target::read_beside(&cluster, &secret, front.parse().ok().as_ref(), false);
    let (target, token) = read.unwrap();
    let (head, error) = tokio::join!(refuse, request(&target, token));
    assert_eq!(head[0], "connect 10.96.0.1:443 http/1.1");
    // edge1 without a password.
    let user = "proxy-authorization: basic zwrnzte6".to_owned();
    assert!(head.contains(&user), "{head:?}");
    assert_eq!(of_proxy(&error), "its agent sleeps");
}

#[tokio::test]
async fn replica_without_the_agent_is_followed_by_two_others() {
    let edge1 = edge1();
    let name = ClusterName::try_from("edge1").unwrap();
    for (refusals, is_reached) in [(0, true), (2, true), (3, false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let front = format!("http://{}", listener.local_addr().unwrap());
        let front: TunnelFront = front.parse().unwrap();
        let answer = async || {
            let refused = "HTTP/1.1 503 No\r\nx-causeway-reason: not here\r\n\r\n";
            let accepted = "HTTP/1.1 200 OK\r\n\r\n";
            let refused = std::iter::repeat_n(refused, refusals);
            for answer in refused.chain(is_reached.then_some(accepted)) {
                let (mut connection, _) = connect(&listener).await;
                connection.write_all(answer.as_bytes()).await.unwrap();
            }
        };
        let read = Target::read_beside(&edge1, &secret("edge1"), Some(&front), false);
        let (target, token) = read.unwrap();
        let ((), error) = tokio::join!(answer(), request(&target, token));
        let refusal = proxy_error(&error).map(ToString::to_string);
        let expected = (!is_reached).then(|| "not here".to_owned());
        assert_eq!(refusal, expected, "{refusals}");
        let member = Uri::from_static("10.96.0.1:443");
        let ((), stream) = tokio::join!(answer(), front.connect(&name, member));
        let refusal = stream.err().map(|error| error.to_string());
        assert_eq!(refusal, expected, "{refusals}");
    }
}

#[tokio::test]
async fn answer_without_end_is_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let flood = async {
        let (mut connection, _) = connect(&listener).await;
        let start = connection.write_all(b"HTTP/1.1 200 OK\r\n").await;
        start.unwrap();
        let mut sent = 0;
        // The connection ends once the bound is reached.
        while sent < 16 * 1024 * 1024 && connection.write_all(&[b'a'; 1024]).await.is_ok() {
            sent += 1024;
        }
        sent
    };
    let (sent, error) = tokio::join!(flood, ask(&proxy, &[]));
    assert!(sent < 16 * 1024 * 1024, "all {sent} bytes were read");
    assert!(of_proxy(&error).contains(&proxy));
}

#[tokio::test]
async fn socks_proxy_gets_the_name_and_names_its_refusal() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let refuse = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        // RFC 1928: one method, user and password (RFC 1929).
        let mut greeting = [0; 3];
        connection.read_exact(&mut greeting).await.unwrap();
        assert_eq!(greeting, [5, 1, 2]);
        connection.write_all(&[5, 2]).await.unwrap();
        let mut user = [0; 11];
        connection.read_exact(&mut user).await.unwrap();
        assert_eq!(&user, b"\x01\x02me\x06p@ss:x");
        connection.write_all(&[1, 0]).await.unwrap();
        let mut request = [0; 18];
        connection.read_exact(&mut request).await.unwrap();
        assert_eq!(&request, b"\x05\x01\x00\x03\x0bapi.example\x19\x2b");
        // Not allowed by its rules.
        connection
            .write_all(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0])
            .await
            .unwrap();
    };
    let proxy = format!("socks5://me:p%40ss%3Ax@{address}");
    let ((), error) = tokio::join!(refuse, ask(&proxy, &[]));
    let message = of_proxy(&error);
    let start = format!("its proxy socks5://{address} made no connection to api.example:6443: ");
    assert!(message.starts_with(&start), "{message}");
}
