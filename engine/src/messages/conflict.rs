//! Sentences about exports that disagree.

use causeway::api::multicluster::{CLUSTER_SET_IP, HEADLESS};
use causeway::api::{bounds, labels};

use crate::observed::service::PortShape;
use crate::plan::clusterset::merge::{Conflict, ConflictingValue as Value, Words};

/// Maximum length of one cluster's value, in bytes.
const VALUE_MAX: usize = 96;
/// Maximum length of a condition's message about conflicts, in bytes: its Event has the same text.
const MESSAGE_MAX: usize = bounds::EVENT_NOTE;
const SEPARATOR: &str = ". ";

/// Returns the reason and the message of a condition that reports these conflicts; `None` without
/// conflicts.
pub(crate) fn conflicts(conflicts: &[Conflict]) -> Option<(String, String)> {
    if conflicts.is_empty() {
        return None;
    }
    let reasons = conflicts.iter().map(|conflict| conflict.reason().as_str());
    let sentences: Vec<_> = conflicts.iter().map(Conflict::sentence).collect();
    let join = |most: usize| {
        let sentences = sentences.iter().map(|sentence| cut(sentence, most));
        sentences.collect::<Vec<_>>().join(SEPARATOR)
    };
    let whole = join(usize::MAX);
    let message = match whole.len() {
        0..=MESSAGE_MAX => whole,
        _ => join((MESSAGE_MAX + SEPARATOR.len()) / conflicts.len() - SEPARATOR.len()),
    };
    Some((reasons.collect::<Vec<_>>().join(","), message))
}

impl Conflict {
    /// Returns a sentence with the value that is used, its cluster, and the clusters with other
    /// values.
    pub(crate) fn sentence(&self) -> String {
        let (winner, used) = &self.used;
        let addition = match self.added.as_slice() {
            [] => String::new(),
            added => cut(&format!(", and adding {}", ports(added)), VALUE_MAX),
        };
        let verb = match self.count {
            1 => "disagrees",
            _ => "disagree",
        };
        let others = self.others.iter();
        let mut others: Vec<_> = others
            .map(|(name, value)| format!("{name} ({})", value.text()))
            .collect();
        let more = self.count - others.len();
        others.extend((more > 0).then(|| format!("and {more} more")));
        format!(
            "Conflicting {}: using that of the oldest export, in {winner} ({}){addition}; {} of {} clusters {verb}: {}",
            used.field(),
            used.text(),
            self.count,
            self.total,
            others.join(", ")
        )
    }
}

impl Value {
    /// Returns the name of the field.
    fn field(&self) -> &'static str {
        match self {
            Self::Ports(_) => "ports",
            Self::Headless(_) => "type",
            Self::SessionAffinity(_) => "sessionAffinity",
            Self::SessionAffinitySeconds(_) => "sessionAffinityConfig",
            Self::InternalTrafficPolicy(_) => "internalTrafficPolicy",
            Self::TrafficDistribution(_) => "trafficDistribution",
            Self::IpFamilies(_) => "ipFamilies",
            Self::Labels(_) => "labels",
            Self::Annotations(_) => "annotations",
            Self::ClusterSelectors(_) => "clusterSelectors",
            Self::Prefer(_) => labels::PREFER,
            Self::Unreachable(_) => labels::UNREACHABLE,
            Self::Share(_) => labels::SHARE,
            Self::Consumers(_) => labels::CONSUMERS,
        }
    }

    /// Returns the value on one line, cut if it is long.
    fn text(&self) -> String {
        let text = match self {
            Self::Ports(all) => ports(all),
            Self::Headless(true) => HEADLESS.to_owned(),
            Self::Headless(false) => CLUSTER_SET_IP.to_owned(),
            Self::SessionAffinity(text) | Self::InternalTrafficPolicy(text) => text.clone(),
            Self::SessionAffinitySeconds(seconds) => format!("{seconds} s"),
            Self::TrafficDistribution(None) | Self::ClusterSelectors(None) | Self::Prefer(None) => {
                "no preference".to_owned()
            }
            Self::TrafficDistribution(Some(preference)) => preference.clone(),
            Self::IpFamilies(families) => some_or(families.join(" and "), "no families"),
            Self::Labels(words) | Self::Annotations(words) => self.words(words),
            Self::ClusterSelectors(Some(preference)) | Self::Prefer(Some(preference)) => {
                match preference.min_ready() {
                    Some(least) => format!("{preference}; min-ready {least}"),
                    None => preference.to_string(),
                }
            }
            Self::Unreachable(answer) => {
                answer.map_or_else(|| "nothing".to_owned(), |answer| answer.to_string())
            }
            Self::Share(share) => {
                let none = || "no share".to_owned();
                share.as_ref().map_or_else(none, ToString::to_string)
            }
            Self::Consumers(consumers) => consumers.to_string(),
        };
        cut(&text, VALUE_MAX)
    }

    fn words(&self, words: &Words) -> String {
        let apart = words.apart.iter();
        let texts: Vec<_> = apart.map(|(name, text)| format!("{name}={text}")).collect();
        let other = if words.share_others { "other " } else { "" };
        some_or(texts.join(", "), &format!("no {other}{}", self.field()))
    }
}

/// Describes ports: `http 80/TCP as kubernetes.io/h2c, dns 53/UDP`.
fn ports(all: &[PortShape]) -> String {
    let text = |port: &PortShape| match &port.app_protocol {
        Some(protocol) => format!("{} as {protocol}", port.port),
        None => port.port.to_string(),
    };
    let texts: Vec<_> = all.iter().map(text).collect();
    some_or(texts.join(", "), "no ports")
}

fn some_or(text: String, otherwise: &str) -> String {
    match text.is_empty() {
        true => otherwise.to_owned(),
        false => text,
    }
}

/// Returns at most `most` bytes of a text, on one line.
fn cut(text: &str, most: usize) -> String {
    bounds::cut(text.replace(char::is_control, " "), most)
}
