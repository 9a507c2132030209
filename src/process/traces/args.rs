//! Destination of spans: a flag, and the variables of the [OpenTelemetry
//! specification].
//!
//! [OpenTelemetry specification]: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/

use clap::Args;
use http::Uri;

use crate::process::args::Checks;

/// Values of OTEL_TRACES_SAMPLER.
const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

/// The flags of the traces.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Traces")]
pub struct TraceArgs {
    /// OTLP endpoint over HTTP that receives traces, such as http://collector:4318. Without it and
    /// OTEL_EXPORTER_OTLP_ENDPOINT no traces are sent
    #[arg(long, env = "CAUSEWAY_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
}

/// Treatment of spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceConfig {
    /// Destination; `None` if they are not sent.
    pub(super) endpoint: Option<Uri>,
    /// The authorities of the collector's certificate, as a file of PEM; those of the system if
    /// there is none.
    pub(super) certificate: Option<String>,
    /// Whether those who call say which traces are sampled.
    pub(super) callers_decide: bool,
}

impl TraceArgs {
    /// Checks the flags, and the variables `OTEL_*`.
    pub fn check(&self, checks: &mut Checks) -> Option<TraceConfig> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        check(self.otlp_endpoint.as_deref(), variable, checks)
    }
}

/// Reads the flag, or else the variables. A value that has no effect is an error, because missing
/// traces are noticed late.
fn check(
    flag: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
    checks: &mut Checks,
) -> Option<TraceConfig> {
    let is = |name: &str, value: &str| {
        variable(name).is_some_and(|text| text.eq_ignore_ascii_case(value))
    };
    if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return Some(TraceConfig::default());
    }
    let signal = |name: &str| {
        let of = |signal: &str| {
            let name = format!("OTEL_EXPORTER_OTLP_{signal}{name}");
            variable(&name).map(|value| (name, value))
        };
        of("TRACES_").or_else(|| of(""))
    };
    let base = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let (source, text) = match flag {
        Some(flag) => ("--otlp-endpoint".to_owned(), of_traces(flag)),
        None => match signal("ENDPOINT") {
            Some((name, value)) if name == base => (name, of_traces(&value)),
            Some(whole) => whole,
            None => return Some(TraceConfig::default()),
        },
    };
    let endpoint = url(&source, &text, checks);
    check_choices(&variable, signal("PROTOCOL"), signal("COMPRESSION"), checks);
    Some(TraceConfig {
        endpoint: Some(endpoint?),
        certificate: signal("CERTIFICATE").map(|(_, file)| file),
        callers_decide: variable("OTEL_TRACES_SAMPLER")
            .is_none_or(|sampler| sampler.starts_with("parentbased_")),
    })
}

fn of_traces(base: &str) -> String {
    format!("{}/v1/traces", base.trim_end_matches('/'))
}

fn url(source: &str, text: &str, checks: &mut Checks) -> Option<Uri> {
    // Log lines name the endpoint.
    if text.contains(['@', '?']) {
        let why = "what authenticates goes into OTEL_EXPORTER_OTLP_HEADERS";
        checks.wrong(source, "has a user, a password or a query", why);
        return None;
    }
    let url: Uri = checks.parse(source, text)?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    if !is_http || url.host().is_none() {
        let why = "must be a URL of http or https, such as http://collector:4318";
        checks.wrong(source, format_args!("{text:?}"), why);
        return None;
    }
    Some(url)
}

fn check_choices(
    variable: &impl Fn(&str) -> Option<String>,
    protocol: Option<(String, String)>,
    compression: Option<(String, String)>,
    checks: &mut Checks,
) {
    let named = |name: &str| variable(name).map(|value| (name.to_owned(), value));
    let choices: [(_, &[&str]); 4] = [
        (named("OTEL_TRACES_EXPORTER"), &["otlp"]),
        (protocol, &["http/protobuf"]),
        (compression, &[]),
        (named("OTEL_TRACES_SAMPLER"), &SAMPLERS),
    ];
    for (given, choices) in choices {
        let Some((name, value)) = given else { continue };
        match choices {
            [] => checks.wrong(&name, format_args!("{value:?}"), "spans are not compressed"),
            _ if choices.contains(&value.as_str()) => {}
            _ => {
                let why = format!("must be {}", choices.join(" or "));
                checks.wrong(&name, format_args!("{value:?}"), why);
            }
        }
    }
    let ratio = "OTEL_TRACES_SAMPLER_ARG";
    if let Some(text) = variable(ratio)
        && !text
            .parse()
            .is_ok_and(|part: f64| (0.0..=1.0).contains(&part))
    {
        let why = "must be a part between 0 and 1, such as 0.01";
        checks.wrong(ratio, format_args!("{text:?}"), why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(flag: Option<&str>, given: &[(&str, &str)]) -> Result<Option<String>, String> {
        let mut checks = Checks::default();
        let variable = |name: &str| {
            let found = given.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let config = check(flag, variable, &mut checks);
        let config = checks
            .finish(|| config)
            .map_err(|errors| errors.to_string())?;
        Ok(config.endpoint.map(|endpoint| endpoint.to_string()))
    }

    #[test]
    fn flag_precedes_variables_for_the_otlp_endpoint() {
        let flag = Some("http://flag:4318/");
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://base");
        let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://whole/here");
        let off = ("OTEL_SDK_DISABLED", "TRUE");
        let none = ("OTEL_TRACES_EXPORTER", "none");
        for (flag, given, endpoint) in [
            (None, &[][..], None),
            (flag, &[base, whole], Some("http://flag:4318/v1/traces")),
            (None, &[base, whole], Some("http://whole/here")),
            (None, &[base], Some("https://base/v1/traces")),
            (flag, &[off], None),
            (None, &[base, none], None),
        ] {
            let expected = Ok(endpoint.map(str::to_owned));
            assert_eq!(checked(flag, given), expected, "{given:?}");
        }
    }

    #[test]
    fn callers_decide_unless_a_sampler_does_not_ask_them() {
        for (sampler, callers_decide) in [
            (None, true),
            (Some("parentbased_always_on"), true),
            (Some("parentbased_traceidratio"), true),
            (Some("traceidratio"), false),
            (Some("always_on"), false),
        ] {
            let variable = |name: &str| match name {
                "OTEL_TRACES_SAMPLER" => sampler.map(str::to_owned),
                _ => None,
            };
            let mut checks = Checks::default();
            let config = check(Some("http://collector:4318"), variable, &mut checks);
            let config = config.expect("nothing is wrong");
            assert_eq!(config.callers_decide, callers_decide, "{sampler:?}");
        }
    }

    #[test]
    fn a_password_or_a_key_in_the_url_is_refused_and_not_repeated() {
        for url in [
            "https://me:s3cret@collector:4318",
            "me:s3cret@collector",
            "https://collector/?key=s3cret",
        ] {
            let errors = checked(Some(url), &[]).expect_err("it has a password");
            assert!(errors.contains("OTEL_EXPORTER_OTLP_HEADERS"), "{errors}");
            assert!(!errors.contains("s3cret"), "{errors}");
        }
    }

    #[test]
    fn what_is_not_done_is_refused_all_at_once() {
        let given = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_TRACES_SAMPLER_ARG", "1 %"),
        ];
        let errors = checked(None, &given).expect_err("all is wrong");
        for (name, value) in given {
            assert!(
                errors.contains(&format!("{name} \"{value}")),
                "{name}: {errors}"
            );
        }
        // Where nothing is sent nobody looks at how it would be.
        assert_eq!(checked(None, &given[1..]), Ok(None));
    }
}
