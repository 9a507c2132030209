//! Preference of a consumer among providers, and treatment of unreachable providers, read from the
//! annotations of a MultiClusterService or a ServiceExport.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::duration::{MalformedDuration, format_duration, parse_duration};
use super::field::{FieldError, FieldErrors};
use super::name::ClusterName;
use super::selector::{ClusterSelector, SELECTORS_MAX};
use super::share::Share;
use crate::api::{labels, multicluster};

/// Some of the providers of a service, as one consumer sees them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// The consumer itself.
    Local,
    /// The clusters that share a zone with the consumer.
    Zone,
    /// The clusters of the consumer's region.
    Region,
    /// The cluster of this name.
    Cluster(ClusterName),
    /// The clusters whose properties are such.
    Property(ClusterSelector),
    /// Everybody else.
    Any,
}

/// The tiers of a service, nearest first. A provider is in the first tier that takes it; one that
/// none takes is never used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Preference {
    tiers: Box<[Tier]>,
    min_ready: Option<Percentage>,
}

/// From 1 to 100 of a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Percentage(u8);

/// Treatment of the endpoints of an unreachable provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unreachable {
    /// They stay as they are.
    #[default]
    Keep,
    /// They become standby endpoints: used where no other is ready.
    Standby,
    /// They are withdrawn after so long, [`Unreachable::WITHDRAW_AFTER_MIN`] or more.
    WithdrawAfter(Duration),
}

/// Reason why an answer to unreachable providers cannot be followed as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedAnswer {
    /// None of the answers.
    #[error("must be keep, standby or withdraw-after=DURATION, with a DURATION such as 10m")]
    Unknown,
    /// `withdraw-after=` without a duration.
    #[error(transparent)]
    Duration(#[from] MalformedDuration),
    /// A withdrawal before [`Unreachable::WITHDRAW_AFTER_MIN`].
    #[error(
        "must be at least {}s: an API server that restarts is unreachable for a while, and its pods \
         serve on", Unreachable::WITHDRAW_AFTER_MIN.as_secs()
    )]
    TooShort,
}

/// Values of a service's annotations, as far as they can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Failover {
    /// [`labels::PREFER`] and [`labels::MIN_READY`]: without a preference all providers are alike.
    pub preference: Option<Preference>,
    /// [`labels::UNREACHABLE`]: without it the controller's flags decide.
    pub unreachable: Option<Unreachable>,
    /// [`labels::SHARE`]: without it all ready endpoints get equal traffic.
    pub share: Option<Share>,
}

/// Maximum number of tiers of a preference.
const TIERS_MAX: usize = 1024;

const LOCAL: &str = "local";
const ZONE: &str = "zone";
const REGION: &str = "region";
const CLUSTER: &str = "cluster/";
const ANY: &str = "any";
/// Values of [`labels::PREFER`].
const TIERS: &[&str] = &[
    LOCAL,
    ZONE,
    REGION,
    "cluster/NAME",
    "same(KEY)",
    "property(KEY)=VALUE",
    ANY,
];
/// Karmada's word for [`Tier::Local`], then [`Tier::Any`].
const LOCAL_FIRST: &str = "LocalFirst";
/// Karmada's word for no preference.
const REMOTE_AND_LOCAL: &str = "RemoteAndLocal";

const KEEP: &str = "keep";
const STANDBY: &str = "standby";
const WITHDRAW_AFTER: &str = "withdraw-after=";
/// Values of [`labels::UNREACHABLE`].
const ANSWERS: &[&str] = &[KEEP, STANDBY, "withdraw-after=DURATION"];

impl Failover {
    /// Reads the annotations of an object. Returns what can be read, and the errors.
    pub fn of(meta: &ObjectMeta) -> (Self, FieldErrors) {
        let mut errors = FieldErrors::default();
        let annotations = meta.annotations.as_ref();
        let annotation = |name: &str| annotations?.get(name).map(String::as_str);
        let read = Self::read(annotation, &mut |error| errors.push(error));
        (read, errors)
    }

    /// Reads the annotations and the selectors of an export. Selectors take precedence over the
    /// tiers of an annotation, and after them any cluster is used (KEP-5939). Returns what can be
    /// read, and the errors.
    pub fn of_export(
        meta: &ObjectMeta,
        selectors: &[multicluster::ClusterSelector],
    ) -> (Self, FieldErrors) {
        let (mut read, mut errors) = Self::of(meta);
        read.drop_long(&mut errors);
        match ClusterSelector::read_all(selectors) {
            Ok(selectors) if selectors.is_empty() => {}
            Ok(selectors) => {
                let annotations = meta.annotations.as_ref();
                let min_ready = annotations.and_then(|all| all.get(labels::MIN_READY));
                read.preference = Some(Preference {
                    tiers: tiers_of(selectors),
                    min_ready: min_ready.and_then(|text| Percentage::read(text)),
                });
            }
            Err(found) => found.into_iter().for_each(|error| errors.push(error)),
        }
        (read, errors)
    }

    /// Ignores and reports a preference that is too long for the annotations of an import. No other
    /// valid value is.
    fn drop_long(&mut self, errors: &mut FieldErrors) {
        let text = self.preference.as_ref().map(ToString::to_string);
        let path = Self::path(labels::PREFER);
        if let Some(error) = FieldError::of_recorded(&path, &text.unwrap_or_default()) {
            self.preference = None;
            errors.push(error);
        }
    }

    /// Reads the annotations of a service. Errors go to `report`, and their values are ignored,
    /// except a withdrawal that is too early, which becomes [`Unreachable::EARLIEST`].
    pub fn read<'a>(
        annotation: impl Fn(&str) -> Option<&'a str>,
        report: &mut dyn FnMut(FieldError),
    ) -> Self {
        let min_ready = annotation(labels::MIN_READY).and_then(|text| {
            let read = Percentage::read(text);
            if read.is_none() {
                let detail = "a percentage from 1% to 100%, such as 50%";
                report(FieldError::invalid(
                    Self::path(labels::MIN_READY),
                    text,
                    detail,
                ));
            }
            read
        });
        let tiers = annotation(labels::PREFER).and_then(|text| tiers(text, report));
        let unreachable = annotation(labels::UNREACHABLE).and_then(|text| {
            let path = Self::path(labels::UNREACHABLE);
            let error = match Unreachable::read(text) {
                Ok(answer) => return Some(answer),
                Err(error) => error,
            };
            report(match error {
                MalformedAnswer::Unknown => FieldError::not_supported(path, text, ANSWERS),
                _ => FieldError::invalid(path, text, error.to_string()),
            });
            (error == MalformedAnswer::TooShort).then_some(Unreachable::EARLIEST)
        });
        Self {
            preference: tiers.map(|tiers| Preference { tiers, min_ready }),
            unreachable,
            share: annotation(labels::SHARE)
                .and_then(|text| Share::read(text, &Self::path(labels::SHARE), report)),
        }
    }

    /// The annotations that say the same, name and value.
    pub fn annotations(&self) -> impl Iterator<Item = (&'static str, String)> {
        let preference = self.preference.as_ref();
        let min_ready = preference.and_then(|preference| preference.min_ready);
        let all = [
            (labels::PREFER, preference.map(ToString::to_string)),
            (labels::MIN_READY, min_ready.map(|least| least.to_string())),
            (
                labels::UNREACHABLE,
                self.unreachable.map(|answer| answer.to_string()),
            ),
            (labels::SHARE, self.share.as_ref().map(ToString::to_string)),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }

    /// The names of all annotations that it is read from.
    pub const ANNOTATIONS: [&str; 4] = [
        labels::PREFER,
        labels::MIN_READY,
        labels::UNREACHABLE,
        labels::SHARE,
    ];

    /// Returns the path of an annotation, as Kubernetes writes it.
    pub fn path(annotation: &str) -> String {
        format!("metadata.annotations[{annotation}]")
    }
}

impl Preference {
    /// The tiers, nearest first; never empty.
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// Whether a tier with so many ready endpoints of so many carries alone: it has a ready one,
    /// and at least the percentage that is asked for.
    pub fn carries(&self, ready: usize, total: usize) -> bool {
        let least = self.min_ready.map_or(0, |Percentage(least)| least.into());
        ready > 0 && ready.saturating_mul(100) >= total.saturating_mul(least)
    }

    /// Returns the share of a tier that must be ready, if one is requested.
    pub fn min_ready(&self) -> Option<Percentage> {
        self.min_ready
    }
}

impl Percentage {
    fn read(text: &str) -> Option<Self> {
        let digits = text.trim().strip_suffix('%')?;
        if digits.starts_with('+') {
            return None;
        }
        let number = digits.parse().ok()?;
        (1..=100).contains(&number).then_some(Self(number))
    }
}

impl Unreachable {
    /// Minimum time out of reach before endpoints are withdrawn: longer than an API server takes to
    /// restart.
    pub const WITHDRAW_AFTER_MIN: Duration = Duration::from_secs(60);

    /// Earliest withdrawal.
    pub const EARLIEST: Self = Self::WithdrawAfter(Self::WITHDRAW_AFTER_MIN);

    /// Reads `keep`, `standby` or `withdraw-after=10m`.
    ///
    /// # Errors
    /// [`MalformedAnswer`] for everything else, also for a withdrawal that is too early.
    pub fn read(text: &str) -> Result<Self, MalformedAnswer> {
        let after = match text.trim() {
            KEEP => return Ok(Self::Keep),
            STANDBY => return Ok(Self::Standby),
            other => other.strip_prefix(WITHDRAW_AFTER),
        };
        let after = parse_duration(after.ok_or(MalformedAnswer::Unknown)?)?;
        match after >= Self::WITHDRAW_AFTER_MIN {
            true => Ok(Self::WithdrawAfter(after)),
            false => Err(MalformedAnswer::TooShort),
        }
    }
}

/// The tiers of a preference; `None` for one that says nothing, and for one that is wrong.
fn tiers(text: &str, report: &mut dyn FnMut(FieldError)) -> Option<Box<[Tier]>> {
    match text.trim() {
        REMOTE_AND_LOCAL => return None,
        LOCAL_FIRST => return Some([Tier::Local, Tier::Any].into()),
        _ => {}
    }
    let path = Failover::path(labels::PREFER);
    if text.split(',').nth(TIERS_MAX).is_some() {
        report(FieldError::too_many(path, TIERS_MAX));
        return None;
    }
    let mut tiers = Vec::new();
    let mut seen = HashSet::new();
    let mut is_right = true;
    for word in text.split(',').map(str::trim) {
        let error = match Tier::read(word) {
            Err(error) => error.unwrap_or_else(|| FieldError::not_supported(&path, word, TIERS)),
            Ok(tier) if !seen.insert(tier.clone()) => {
                FieldError::duplicate(&path, word, "name each tier once")
            }
            Ok(_) if tiers.last() == Some(&Tier::Any) => {
                let detail = "nothing comes after any, which takes everybody else; move it before";
                FieldError::invalid(&path, word, detail)
            }
            Ok(tier) => {
                tiers.push(tier);
                continue;
            }
        };
        is_right = false;
        report(error);
    }
    let is_property = |tier: &&Tier| matches!(tier, Tier::Property(_));
    if tiers.iter().filter(is_property).count() > SELECTORS_MAX {
        let detail = format!("must have at most {SELECTORS_MAX} tiers of properties");
        report(FieldError::invalid(&path, text, detail));
        return None;
    }
    is_right.then(|| tiers.into())
}

/// Returns the tiers of selectors: one for each, and one for all other clusters.
fn tiers_of(selectors: Vec<ClusterSelector>) -> Box<[Tier]> {
    let mut tiers: Vec<Tier> = Vec::new();
    for tier in selectors.into_iter().map(Tier::Property) {
        if !tiers.contains(&tier) {
            tiers.push(tier);
        }
    }
    tiers.push(Tier::Any);
    tiers.into()
}

impl Tier {
    /// Returns the kind of the tier, as metrics name it: no text of a user.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Local => LOCAL,
            Self::Zone => ZONE,
            Self::Region => REGION,
            Self::Cluster(_) => "cluster",
            Self::Property(_) => "property",
            Self::Any => ANY,
        }
    }

    /// Reads one word of a preference; an error of `None` for a word that is none.
    fn read(word: &str) -> Result<Self, Option<FieldError>> {
        match word {
            LOCAL => Ok(Self::Local),
            ZONE => Ok(Self::Zone),
            REGION => Ok(Self::Region),
            ANY => Ok(Self::Any),
            other => {
                let invalid = |why: String| {
                    Some(FieldError::invalid(
                        Failover::path(labels::PREFER),
                        other,
                        why,
                    ))
                };
                if let Some(read) = ClusterSelector::read_word(other) {
                    return read.map(Self::Property).map_err(invalid);
                }
                let name = other.strip_prefix(CLUSTER).ok_or(None)?;
                let name = ClusterName::try_from(name);
                name.map(Self::Cluster)
                    .map_err(|error| invalid(error.to_string()))
            }
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => out.write_str(LOCAL),
            Self::Zone => out.write_str(ZONE),
            Self::Region => out.write_str(REGION),
            Self::Cluster(name) => write!(out, "{CLUSTER}{name}"),
            Self::Property(selector) => selector.fmt(out),
            Self::Any => out.write_str(ANY),
        }
    }
}

impl fmt::Display for Preference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.tiers.iter().map(ToString::to_string).collect();
        out.write_str(&words.join(", "))
    }
}

impl fmt::Display for Percentage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}%", self.0)
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => out.write_str(KEEP),
            Self::Standby => out.write_str(STANDBY),
            Self::WithdrawAfter(after) => {
                write!(out, "{WITHDRAW_AFTER}{}", format_duration(*after))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> Result<Failover, Vec<String>> {
        let mut errors = Vec::new();
        let find = |name: &str| {
            let mut all = annotations.iter();
            all.find_map(|(known, value)| (*known == name).then_some(*value))
        };
        let read = Failover::read(find, &mut |error| errors.push(error.to_string()));
        if errors.is_empty() {
            Ok(read)
        } else {
            Err(errors)
        }
    }

    #[test]
    fn a_preference_is_read_nearest_first_and_written_as_it_is_read() {
        for (text, normal) in [
            ("local, region, any", "local, region, any"),
            (" zone,cluster/member-2 ", "zone, cluster/member-2"),
            ("any", "any"),
            ("LocalFirst", "local, any"),
        ] {
            let failover = read(&[(labels::PREFER, text)]).expect("it is right");
            let written: Vec<_> = failover.annotations().collect();
            assert_eq!(written, [(labels::PREFER, normal.to_owned())], "{text}");
            let again = read(&[(labels::PREFER, normal)]).expect("it is right");
            assert_eq!(again, failover);
        }
        let none = read(&[(labels::PREFER, "RemoteAndLocal")]);
        assert_eq!(none, Ok(Failover::default()));
        assert_eq!(read(&[]), Ok(Failover::default()));
    }

    #[test]
    fn preference_that_no_import_can_record_is_ignored() {
        let read = |bytes: usize| {
            let text = format!("property(a)={}", "x".repeat(bytes));
            let meta = ObjectMeta {
                annotations: Some([(labels::PREFER.to_owned(), text)].into()),
                ..ObjectMeta::default()
            };
            Failover::of_export(&meta, &[])
        };
        let (failover, errors) = read(64 * 1024);
        assert_eq!(failover, Failover::default());
        let errors = errors.to_string();
        let expected = "must have at most 65536 bytes, because each import records it";
        assert!(errors.contains(expected) && errors.len() < 1024, "{errors}");
        let (failover, errors) = read(60 * 1024);
        assert!(
            failover.preference.is_some() && errors.is_empty(),
            "{errors}"
        );
    }

    #[test]
    fn preference_has_at_most_16_tiers_of_properties() {
        let words = |count: usize| -> Vec<String> {
            let properties = (0..count).map(|number| format!("property(a)=v{number}"));
            properties.chain(["any".to_owned()]).collect()
        };
        let read_words = |count: usize| read(&[(labels::PREFER, words(count).join(", ").as_str())]);
        assert!(read_words(SELECTORS_MAX).is_ok());
        let errors = read_words(SELECTORS_MAX + 1).expect_err("one too many");
        let expected = "must have at most 16 tiers of properties";
        assert!(
            errors.len() == 1 && errors[0].ends_with(expected),
            "{errors:?}"
        );
    }

    #[test]
    fn longest_share_fits_into_an_import() {
        let entry = |number: usize| format!("cluster/{:x<43}-{number:04}=0%", "c");
        let entries: Vec<_> = (0..1023).map(entry).collect();
        let share = entries.join(", ") + ", rest";
        let read = read(&[(labels::SHARE, share.as_str())]).expect("the largest number of entries");
        assert_eq!(
            read.share.map(|share| share.to_string()),
            Some(share.clone())
        );
        assert!(share.len() <= crate::api::bounds::RECORDED_TEXT);
    }

    #[test]
    fn refused_annotation_names_value_and_remedy() {
        let path = |name: &str| format!("metadata.annotations[mcs.causeway.dev/{name}]: ");
        for (name, value, expected) in [
            (
                labels::PREFER,
                "near",
                path("prefer")
                    + r#"Unsupported value: "near": supported values: "local", "zone", "region", "cluster/NAME", "same(KEY)", "property(KEY)=VALUE", "any""#,
            ),
            (
                labels::PREFER,
                "local, local",
                path("prefer") + r#"Duplicate value: "local": name each tier once"#,
            ),
            (
                labels::PREFER,
                "any, local",
                path("prefer")
                    + r#"Invalid value: "local": nothing comes after any, which takes everybody else; move it before"#,
            ),
            (
                labels::MIN_READY,
                "101%",
                path("min-ready")
                    + r#"Invalid value: "101%": a percentage from 1% to 100%, such as 50%"#,
            ),
            (
                labels::UNREACHABLE,
                "drop",
                path("unreachable")
                    + r#"Unsupported value: "drop": supported values: "keep", "standby", "withdraw-after=DURATION""#,
            ),
        ] {
            assert_eq!(read(&[(name, value)]), Err(vec![expected]), "{value}");
        }
        let error = read(&[(labels::UNREACHABLE, "withdraw-after=PT10M")]).expect_err("ISO 8601");
        let expected = path("unreachable")
            + "Invalid value: \"withdraw-after=PT10M\": write a duration as whole hours, minutes and \
               seconds, such as 90s, 10m or 1h30m";
        assert_eq!(error, [expected]);
        for (name, value) in [
            (labels::PREFER, ""),
            (labels::PREFER, "cluster/"),
            (labels::PREFER, "cluster/Member"),
            (labels::PREFER, "local,,any"),
            (labels::MIN_READY, "50"),
            (labels::MIN_READY, "0%"),
            (labels::MIN_READY, "-1%"),
            (labels::MIN_READY, "+50%"),
            (labels::UNREACHABLE, "withdraw-after"),
            (labels::UNREACHABLE, "withdraw-after=-1s"),
            (labels::UNREACHABLE, "withdraw-after=PT10M"),
            (labels::UNREACHABLE, "withdraw-after=10 minutes"),
            (labels::UNREACHABLE, "withdraw-after=1d"),
        ] {
            assert!(read(&[(name, value)]).is_err(), "{value}");
        }
    }

    #[test]
    fn tier_needs_one_ready_endpoint_and_its_percentage() {
        let preference = |min_ready: Option<&str>| {
            let prefer = Some((labels::PREFER, "local, any"));
            let min_ready = min_ready.map(|least| (labels::MIN_READY, least));
            let all: Vec<_> = prefer.into_iter().chain(min_ready).collect();
            let read = read(&all).expect("it is right").preference;
            read.expect("one is given")
        };
        for (min_ready, ready, total, carries) in [
            (None, 0, 0, false),
            (None, 0, 4, false),
            (None, 1, 100, true),
            (Some("50%"), 1, 4, false),
            (Some("50%"), 2, 4, true),
            (Some("50%"), 0, 0, false),
            (Some("100%"), 3, 4, false),
            (Some("100%"), 4, 4, true),
        ] {
            let preference = preference(min_ready);
            let found = preference.carries(ready, total);
            assert_eq!(found, carries, "{ready} of {total}, {min_ready:?}");
        }
    }

    #[test]
    fn an_answer_to_unreachable_providers_is_written_as_it_is_read() {
        for answer in [
            Unreachable::Keep,
            Unreachable::Standby,
            Unreachable::WithdrawAfter(Duration::from_secs(600)),
        ] {
            assert_eq!(Unreachable::read(&answer.to_string()), Ok(answer));
        }
        for text in ["300000h", "999999999h", "999999999h999999999m999999999s"] {
            let answer = Unreachable::read(&format!("{WITHDRAW_AFTER}{text}"));
            let answer = answer.expect("nine digits a unit are allowed");
            assert_eq!(answer.to_string(), format!("{WITHDRAW_AFTER}{text}"));
            assert_eq!(Unreachable::read(&answer.to_string()), Ok(answer));
        }
        let ten_minutes = Unreachable::WithdrawAfter(Duration::from_secs(600));
        assert_eq!(ten_minutes.to_string(), "withdraw-after=600s");
        assert_eq!(Unreachable::read("withdraw-after=10m"), Ok(ten_minutes));
    }

    #[test]
    fn early_withdrawal_becomes_the_earliest_and_is_reported() {
        for (text, expected) in [
            ("withdraw-after=0s", Err(MalformedAnswer::TooShort)),
            ("withdraw-after=59s", Err(MalformedAnswer::TooShort)),
            ("withdraw-after=1m", Ok(Unreachable::EARLIEST)),
        ] {
            assert_eq!(Unreachable::read(text), expected, "{text}");
        }
        let mut errors = Vec::new();
        let annotation = |name: &str| (name == labels::UNREACHABLE).then_some("withdraw-after=0s");
        let read = Failover::read(annotation, &mut |error| errors.push(error.to_string()));
        assert_eq!(read.unreachable, Some(Unreachable::EARLIEST));
        let expected = "metadata.annotations[mcs.causeway.dev/unreachable]: Invalid value: \
                        \"withdraw-after=0s\": must be at least 60s: an API server that restarts is \
                        unreachable for a while, and its pods serve on";
        assert_eq!(errors, [expected]);
    }
}
