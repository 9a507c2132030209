//! Proxy variables of the environment, read like Go (`golang.org/x/net/http/httpproxy`).

use std::net::IpAddr;

use http::Uri;
use ipnet::IpNet;

use super::AccessError;

/// Returns the proxy for a URL from HTTPS_PROXY, HTTP_PROXY and NO_PROXY.
pub(super) fn of_environment(
    url: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, AccessError> {
    let variable = |name: &str| {
        let value = variable(name).filter(|value| !value.is_empty());
        value.or_else(|| variable(&name.to_lowercase()))
    };
    let name = match url.scheme_str() {
        Some("http") => "HTTP_PROXY",
        _ => "HTTPS_PROXY",
    };
    let Some(proxy) = variable(name).filter(|proxy| !proxy.is_empty()) else {
        return Ok(None);
    };
    if is_exempt(url, &variable("NO_PROXY").unwrap_or_default()) {
        return Ok(None);
    }
    let proxy = match proxy.contains("://") {
        true => proxy,
        false => format!("http://{proxy}"),
    };
    // The value may contain a password.
    let proxy = proxy.parse().map_err(|_| AccessError::Proxy(name))?;
    Ok(Some(proxy))
}

/// Whether NO_PROXY exempts a URL. Loopback addresses are always exempt.
fn is_exempt(url: &Uri, no_proxy: &str) -> bool {
    let host = url.host().unwrap_or_default().to_lowercase();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let default_port = if url.scheme_str() == Some("http") {
        80
    } else {
        443
    };
    let port = url.port_u16().unwrap_or(default_port).to_string();
    let ip: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return true;
    }
    no_proxy
        .to_lowercase()
        .split(',')
        .map(str::trim)
        .any(|entry| {
            if entry == "*" {
                return true;
            }
            if let Ok(network) = entry.parse::<IpNet>() {
                return ip.is_some_and(|ip| network.contains(&ip));
            }
            let bare = |text: &str| {
                text.trim_start_matches('[')
                    .trim_end_matches(']')
                    .to_owned()
            };
            let (name, of_port) = match entry.rsplit_once(':') {
                Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
                    (bare(name), Some(port))
                }
                _ => (bare(entry), None),
            };
            if name.is_empty() || of_port.is_some_and(|of_port| of_port != port) {
                return false;
            }
            if let Ok(of_entry) = name.parse::<IpAddr>() {
                return ip == Some(of_entry);
            }
            let name = name.strip_prefix('*').unwrap_or(&name);
            let is_below =
                |name: &str| host.strip_suffix(name).is_some_and(|rest| !rest.is_empty());
            match name.starts_with('.') {
                true => is_below(name),
                false => host == name || is_below(&format!(".{name}")),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_exempts_hosts_as_go_does() {
        for (url, no_proxy, exempt) in [
            ("https://localhost:6443", "", true),
            ("https://127.0.0.1:6443", "", true),
            ("https://[::1]:6443", "", true),
            ("https://a.example", "", false),
            ("https://a.example", "*", true),
            ("https://a.example", "example", true),
            ("https://a.example", "b, a.example", true),
            ("https://a.example", ".example", true),
            ("https://a.example", "*.example", true),
            ("https://example", ".example", false),
            ("https://another", "other", false),
            ("https://a.example:6443", "a.example:6443", true),
            ("https://a.example", "a.example:6443", false),
            ("https://10.0.0.2", "10.0.0.0/8", true),
            ("https://10.0.0.2", "10.0.0.2", true),
            ("https://10.0.0.2", "10.0.0.3", false),
            ("https://[fd00::1]:6443", "fd00::1", true),
        ] {
            let url: Uri = url.parse().expect("a URL");
            assert_eq!(is_exempt(&url, no_proxy), exempt, "{url} {no_proxy}");
        }
    }
}
