//! Conflicts of the exports of one service, in words.

use std::collections::BTreeMap;

use causeway::api::multicluster::{CLUSTER_SET_IP, HEADLESS};
use causeway::api::{bounds, labels};

use super::export::Export;
use super::shape::ImportPort;
use crate::plan::capabilities::meant_by;
use crate::reasons::Reason;

/// Field on which the exports of a service disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// Reason as KEP-1645 words it.
    pub reason: Reason,
    /// One sentence: the value that is used, its cluster, and the clusters with other values.
    pub message: String,
}

/// Maximum number of disagreeing clusters that a message names.
const NAMED_AT_MOST: usize = 3;
/// Maximum length of one cluster's value, in bytes.
const VALUE_MAX: usize = 96;
/// Maximum length of a condition's message about conflicts, in bytes: its Event has the same text.
const MESSAGE_MAX: usize = bounds::EVENT_NOTE;
const SEPARATOR: &str = ". ";

/// Internal traffic policy of a Service that names none.
const DEFAULT_POLICY: &str = "Cluster";

type Words = BTreeMap<String, String>;

/// Returns the reason and the message of a condition that reports these conflicts; `None` without
/// conflicts.
pub(crate) fn conflict_text(conflicts: &[Conflict]) -> Option<(String, String)> {
    if conflicts.is_empty() {
        return None;
    }
    let reasons: Vec<_> = conflicts
        .iter()
        .map(|conflict| conflict.reason.as_str())
        .collect();
    let join = |most: usize| {
        let sentences = conflicts
            .iter()
            .map(|conflict| cut(&conflict.message, most));
        sentences.collect::<Vec<_>>().join(SEPARATOR)
    };
    let whole = join(usize::MAX);
    let message = match whole.len() {
        0..=MESSAGE_MAX => whole,
        _ => join((MESSAGE_MAX + SEPARATOR.len()) / conflicts.len() - SEPARATOR.len()),
    };
    Some((reasons.join(","), message))
}

/// Finds the conflicts of exports, the first of which is the oldest. `ports` are the imported
/// ports.
pub(super) fn find(exports: &[Export<'_>], ports: &[ImportPort]) -> Vec<Conflict> {
    let Some((oldest, others)) = exports.split_first() else {
        return Vec::new();
    };
    let exports = Exports { oldest, others };
    [
        exports.ports(ports),
        exports.type_(),
        exports.session_affinity(),
        exports.session_affinity_config(),
        exports.internal_traffic_policy(),
        exports.traffic_distribution(),
        exports.ip_families(),
        exports.words(Reason::LabelsConflict, "labels", |export| {
            &export.exported.labels
        }),
        exports.words(Reason::AnnotationsConflict, "annotations", |export| {
            &export.exported.annotations
        }),
        exports.preference(),
        exports.unreachable(),
        exports.consumers(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

struct Exports<'e, 'a> {
    oldest: &'e Export<'a>,
    others: &'e [Export<'a>],
}

impl<'e, 'a> Exports<'e, 'a> {
    fn type_(&self) -> Option<Conflict> {
        let differs = |other: &Export<'_>| other.is_headless() != self.oldest.is_headless();
        self.conflict(Reason::TypeConflict, "type", differs, |export| {
            match export.is_headless() {
                true => HEADLESS,
                false => CLUSTER_SET_IP,
            }
            .to_owned()
        })
    }

    /// Finds a conflict between lists that differ, although all ports that do not collide are
    /// imported.
    fn ports(&self, imported: &[ImportPort]) -> Option<Conflict> {
        let of = |export: &Export<'_>| export.ports().collect::<Vec<_>>();
        let own = of(self.oldest);
        let differs = |other: &Export<'_>| {
            let ports = of(other);
            let all_in = |one: &[ImportPort], other: &[ImportPort]| {
                one.iter().all(|port| other.contains(port))
            };
            !all_in(&ports, &own) || !all_in(&own, &ports)
        };
        let is_own = |port: &&ImportPort| own.iter().any(|own| own.port.id == port.port.id);
        let added: Vec<_> = imported.iter().filter(|port| !is_own(port)).collect();
        let addition = match added.is_empty() {
            true => String::new(),
            false => cut(&format!(", and adding {}", describe(added)), VALUE_MAX),
        };
        let subject = Subject {
            reason: Reason::PortConflict,
            what: "ports",
            addition: &addition,
        };
        self.conflict_about(subject, differs, |export| describe(&of(export)))
    }

    fn session_affinity(&self) -> Option<Conflict> {
        let of = |export: &Export<'_>| export.service().shape.session_affinity.clone();
        let differs = |other: &Export<'_>| of(other) != of(self.oldest);
        self.conflict(
            Reason::SessionAffinityConflict,
            "sessionAffinity",
            differs,
            of,
        )
    }

    /// Compares the seconds only if both exports have them: a missing affinity is another conflict.
    fn session_affinity_config(&self) -> Option<Conflict> {
        let of = |export: &Export<'_>| export.service().shape.affinity_seconds;
        let own = of(self.oldest);
        let differs = |other: &Export<'_>| {
            let other = of(other);
            own.is_some() && other.is_some() && own != other
        };
        let show = |export: &Export<'_>| {
            let seconds = of(export);
            seconds.map_or_else(String::new, |seconds| format!("{seconds} s"))
        };
        self.conflict(
            Reason::SessionAffinityConfigConflict,
            "sessionAffinityConfig",
            differs,
            show,
        )
    }

    fn internal_traffic_policy(&self) -> Option<Conflict> {
        let of = |export: &Export<'a>| {
            let policy = export.service().internal_traffic_policy.as_deref();
            policy.unwrap_or(DEFAULT_POLICY)
        };
        let differs = |other: &Export<'a>| of(other) != of(self.oldest);
        self.conflict(
            Reason::InternalTrafficPolicyConflict,
            "internalTrafficPolicy",
            differs,
            |export| of(export).to_owned(),
        )
    }

    fn traffic_distribution(&self) -> Option<Conflict> {
        let of = |export: &Export<'a>| export.service().shape.traffic_distribution.as_deref();
        let meant = |export: &Export<'a>| of(export).map(meant_by);
        let differs = |other: &Export<'a>| meant(other) != meant(self.oldest);
        self.conflict(
            Reason::TrafficDistributionConflict,
            "trafficDistribution",
            differs,
            |export| of(export).unwrap_or("no preference").to_owned(),
        )
    }

    fn preference(&self) -> Option<Conflict> {
        let of = |export: &Export<'a>| export.failover().preference;
        let differs = |other: &Export<'a>| of(other) != of(self.oldest);
        self.conflict(Reason::PreferConflict, labels::PREFER, differs, |export| {
            let Some(preference) = of(export) else {
                return "no preference".to_owned();
            };
            match preference.min_ready() {
                Some(least) => format!("{preference}; min-ready {least}"),
                None => preference.to_string(),
            }
        })
    }

    fn unreachable(&self) -> Option<Conflict> {
        let of = |export: &Export<'a>| export.export.failover.unreachable;
        let differs = |other: &Export<'a>| of(other) != of(self.oldest);
        self.conflict(
            Reason::UnreachableConflict,
            labels::UNREACHABLE,
            differs,
            |export| of(export).map_or_else(|| "nothing".to_owned(), |answer| answer.to_string()),
        )
    }

    fn consumers(&self) -> Option<Conflict> {
        let of = |export: &Export<'a>| export.export.consumers;
        let differs = |other: &Export<'a>| of(other) != of(self.oldest);
        self.conflict(
            Reason::ConsumersConflict,
            labels::CONSUMERS,
            differs,
            |export| of(export).to_string(),
        )
    }

    fn ip_families(&self) -> Option<Conflict> {
        let of = |export: &Export<'a>| &export.service().ip_families;
        let own = of(self.oldest);
        let differs = |other: &Export<'a>| {
            let other = of(other);
            own.len() != other.len() || own.iter().any(|family| !other.contains(family))
        };
        self.conflict(Reason::IPFamilyConflict, "ipFamilies", differs, |export| {
            some_or(of(export).join(" and "), "no families")
        })
    }

    /// Finds a conflict of labels or annotations. The message shows only those that not all exports
    /// share.
    fn words(
        &self,
        reason: Reason,
        what: &str,
        of: impl for<'x> Fn(&'x Export<'a>) -> &'x Words,
    ) -> Option<Conflict> {
        let own = of(self.oldest);
        let differs = |other: &Export<'a>| of(other) != own;
        let shared = |name: &str, value: &str| {
            let has = |export: &Export<'a>| of(export).get(name).is_some_and(|own| own == value);
            has(self.oldest) && self.others.iter().all(has)
        };
        self.conflict(reason, what, differs, |export| {
            let all = of(export);
            let apart = all.iter().filter(|(name, value)| !shared(name, value));
            let texts: Vec<_> = apart
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let other = if all.is_empty() { "" } else { "other " };
            some_or(texts.join(", "), &format!("no {other}{what}"))
        })
    }

    fn conflict(
        &self,
        reason: Reason,
        what: &str,
        differs: impl Fn(&Export<'a>) -> bool,
        show: impl Fn(&Export<'a>) -> String,
    ) -> Option<Conflict> {
        let subject = Subject {
            reason,
            what,
            addition: "",
        };
        self.conflict_about(subject, differs, show)
    }

    fn conflict_about(
        &self,
        subject: Subject<'_>,
        differs: impl Fn(&Export<'a>) -> bool,
        show: impl Fn(&Export<'a>) -> String,
    ) -> Option<Conflict> {
        let Subject {
            reason,
            what,
            addition,
        } = subject;
        let differing: Vec<_> = self.others.iter().filter(|other| differs(other)).collect();
        if differing.is_empty() {
            return None;
        }
        let count = differing.len();
        let total = self.others.len() + 1;
        let verb = if count == 1 { "disagrees" } else { "disagree" };
        let name = |export: &Export<'_>| export.export.cluster.to_string();
        let show = |export: &Export<'a>| cut(&show(export), VALUE_MAX);
        let named = differing.iter().take(NAMED_AT_MOST);
        let mut texts: Vec<_> = named
            .map(|export| format!("{} ({})", name(export), show(export)))
            .collect();
        if count > NAMED_AT_MOST {
            texts.push(format!("and {} more", count - NAMED_AT_MOST));
        }
        let (used, winner) = (show(self.oldest), name(self.oldest));
        let list = texts.join(", ");
        let message = format!(
            "Conflicting {what}: using that of the oldest export, in {winner} ({used}){addition}; {count} of {total} clusters {verb}: {list}"
        );
        Some(Conflict { reason, message })
    }
}

/// Field on which exports disagree.
struct Subject<'a> {
    reason: Reason,
    what: &'a str,
    /// Statement that follows the value in use.
    addition: &'a str,
}

/// Describes ports in words: `http 80/TCP as kubernetes.io/h2c, dns 53/UDP`.
fn describe<'p>(ports: impl IntoIterator<Item = &'p ImportPort>) -> String {
    let text = |port: &ImportPort| match &port.app_protocol {
        Some(protocol) => format!("{} as {protocol}", port.port),
        None => port.port.to_string(),
    };
    let texts: Vec<_> = ports.into_iter().map(text).collect();
    some_or(texts.join(", "), "no ports")
}

fn some_or(text: String, otherwise: &str) -> String {
    if text.is_empty() {
        otherwise.to_owned()
    } else {
        text
    }
}

/// Returns at most `most` bytes of a text, on one line.
fn cut(text: &str, most: usize) -> String {
    bounds::cut(text.replace(char::is_control, " "), most)
}
