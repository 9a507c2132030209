//! The way of requests to a member.
//!
//! This is what `kube::client::ClientBuilder` makes of a configuration, but for two things. A connection reads into a small buffer:
//! hyper's own grows to 400 KiB with a list, and stays as large under the watch that follows, which is a MiB for each member. And
//! nothing is retried, as every caller retries in its own way.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::target::Token;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::{Body, ConfigExt as _};
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use tokio::sync::watch;
use tower::util::BoxService;
use tower::{BoxError, Layer as _, Service, ServiceExt as _};

/// Bytes that a connection reads at one time, and the longest head of an answer: as much as a TLS record holds.
const READ_BUFFER: usize = 16 * 1024;

/// Returns the service that sends requests to the API server of `config`, through its proxy if it
/// has one. Without `tls` it uses neither TLS nor a proxy. Each request bears the token of its moment.
/// Must be called within a tokio runtime.
///
/// # Errors
/// The credentials cannot be used.
pub(super) fn transport(
    config: &Config,
    tls: Option<&Arc<ClientConfig>>,
    token: &watch::Receiver<Token>,
) -> kube::Result<BoxService<Request<Body>, Response<Incoming>, BoxError>> {
    let mut direct = HttpConnector::new();
    direct.enforce_http(false);
    let Some(tls) = tls else {
        return over(direct, config, token);
    };
    let connector = HttpsConnector::from((direct, tls.clone()));
    match &config.proxy_url {
        None => over(connector, config, token),
        Some(proxy) => {
            let mut tunnel = Tunnel::new(proxy.clone(), connector);
            if let Some(credentials) = credentials(proxy) {
                tunnel = tunnel.with_auth(credentials);
            }
            over(HttpsConnector::from((tunnel, tls.clone())), config, token)
        }
    }
}

fn over<C>(
    connector: C,
    config: &Config,
    token: &watch::Receiver<Token>,
) -> kube::Result<BoxService<Request<Body>, Response<Incoming>, BoxError>>
where
    C: Service<Uri, Error: Into<BoxError>> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
{
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client = Client::builder(TokioExecutor::new())
        .http1_read_buf_exact_size(READ_BUFFER)
        .build::<_, Body>(connector)
        .map_err(BoxError::from);
    let client = config.extra_headers_layer()?.layer(client);
    let token = token.clone();
    let client = client.map_request(move |mut request: Request<Body>| {
        let authorization = token.borrow().header();
        request.headers_mut().insert(AUTHORIZATION, authorization);
        request
    });
    Ok(config.base_uri_layer().layer(client).boxed())
}

/// Returns the credentials in a proxy's address, as the proxy requires them (RFC 7617).
fn credentials(proxy: &Uri) -> Option<HeaderValue> {
    let (user, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let user: Vec<u8> = percent_decode_str(user).collect();
    HeaderValue::try_from(format!("Basic {}", STANDARD.encode(user))).ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn proxy_gets_the_address_and_its_credentials() {
        let token = Token::try_from(&b"abc"[..]).unwrap();
        let (_renewals, token) = watch::channel(token);
        for (user, shown) in [
            ("", None),
            ("me:pass@", Some("Basic bWU6cGFzcw==")),
            ("me:p%40ss%3A@", Some("Basic bWU6cEBzczo=")),
        ] {
            let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = proxy.local_addr().unwrap();
            let mut config = Config::new("https://api.example:6443".parse().unwrap());
            config.proxy_url = Some(format!("http://{user}{address}").parse().unwrap());
            let request = Request::get("/version").body(Body::empty()).unwrap();
            let tls = Arc::new(config.rustls_client_config().unwrap());
            let service = transport(&config, Some(&tls), &token).unwrap();
            let asked = tokio::spawn(service.oneshot(request));
            let (connection, _) = proxy.accept().await.unwrap();
            let mut lines = BufReader::new(connection).lines();
            let first = lines.next_line().await.unwrap().unwrap();
            assert_eq!(first, "CONNECT api.example:6443 HTTP/1.1");
            let mut given = None;
            while let Some(line) = lines
                .next_line()
                .await
                .unwrap()
                .filter(|line| !line.is_empty())
            {
                if let Some((name, value)) = line.split_once(": ")
                    && name.eq_ignore_ascii_case("proxy-authorization")
                {
                    given = Some(value.to_owned());
                }
            }
            assert_eq!(given.as_deref(), shown);
            drop(lines);
            assert!(asked.await.unwrap().is_err(), "the proxy hung up");
        }
    }
}
