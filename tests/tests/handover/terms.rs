//! Holders of the Lease and concurrent writers, by the audit logs of the API servers. All of them
//! run on one machine: their times are comparable.

use std::time::Duration;

use causeway_tests::audit::AuditedWrite;
use k8s_openapi::jiff::Timestamp;

const CONTROLLER: &str = "causeway-controller/";

/// A write that one of the controllers asked an API server for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// Time at which the API server received it.
    pub(super) at: Timestamp,
    /// Process, by the name that it has in the Lease too.
    pub(super) by: String,
    /// Whether it changed anything.
    pub(super) accepted: bool,
    /// The API server.
    pub(super) cluster: String,
    /// Description of the write.
    pub(super) what: String,
}

/// The time in which nobody but one process acquired or renewed the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) by: String,
    pub(super) from: Timestamp,
    /// Time at which its last renewal was received.
    pub(super) renewed: Timestamp,
    /// Time at which another process's acquisition was received; the end of time if there was none.
    pub(super) until: Timestamp,
}

/// The writes of controllers among these: those of Leases, and the others; both as they were
/// received.
pub(super) fn of_controllers(cluster: &str, audited: &[AuditedWrite]) -> (Vec<Write>, Vec<Write>) {
    let named = |write: &AuditedWrite| {
        let agent = write.user_agent.strip_prefix(CONTROLLER)?;
        let by = agent.split_once('(')?.1.strip_suffix(')')?;
        Some(Write {
            at: write.received,
            by: by.to_owned(),
            accepted: write.code < 300,
            cluster: cluster.to_owned(),
            what: format!(
                "{} {} {} {}",
                write.verb, write.resource, write.subresource, write.name
            ),
        })
    };
    let is_lease = |write: &&AuditedWrite| write.resource == "leases";
    // The key of the seal is made by whoever starts first, before anybody leads.
    let is_seal =
        |write: &&AuditedWrite| write.name == "causeway-export-seal" && write.resource == "secrets";
    let (leases, others): (Vec<_>, Vec<_>) = audited
        .iter()
        .filter(|write| !is_seal(write))
        .partition(is_lease);
    (
        leases.into_iter().filter_map(named).collect(),
        others.into_iter().filter_map(named).collect(),
    )
}

/// The terms that follow from the writes of the Lease.
pub(super) fn terms(mut leases: Vec<Write>) -> Vec<Term> {
    leases.retain(|write| write.accepted);
    leases.sort_by_key(|write| write.at);
    let mut terms: Vec<Term> = Vec::new();
    for write in leases {
        match terms.last_mut() {
            Some(term) if term.by == write.by => term.renewed = write.at,
            last => {
                if let Some(last) = last {
                    last.until = write.at;
                }
                terms.push(Term {
                    by: write.by,
                    from: write.at,
                    renewed: write.at,
                    until: Timestamp::MAX,
                });
            }
        }
    }
    terms
}

/// The writes that changed something although their process did not hold the Lease when they were
/// received.
pub(super) fn strays<'a>(terms: &[Term], writes: &'a [Write]) -> Vec<&'a Write> {
    let holds = |write: &&Write| {
        let of =
            |term: &Term| term.by == write.by && term.from <= write.at && write.at < term.until;
        terms.iter().any(of)
    };
    writes
        .iter()
        .filter(|write| write.accepted && !holds(write))
        .collect()
}

/// Returns the time from that moment to the first write of the leader's successor.
pub(super) fn taken_over(
    terms: &[Term],
    writes: &[Write],
    at: Timestamp,
) -> Option<(String, Duration)> {
    let led = terms
        .iter()
        .find(|term| term.from <= at && at < term.until)?;
    let next = writes
        .iter()
        .filter(|write| write.accepted && write.at > at && write.by != led.by);
    let first = next.min_by_key(|write| write.at)?;
    Some((first.by.clone(), first.at.duration_since(at).unsigned_abs()))
}

#[cfg(test)]
fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

#[cfg(test)]
fn write((by, second, accepted): (&str, i64, bool)) -> Write {
    Write {
        at: at(second),
        by: by.to_owned(),
        accepted,
        cluster: "hub".to_owned(),
        what: String::new(),
    }
}

/// a leads, then b, then a again.
#[cfg(test)]
fn three_terms() -> Vec<Term> {
    let leases = [
        ("a", 10, true),
        ("a", 14, true),
        ("b", 15, false),
        ("b", 30, true),
        ("a", 50, true),
    ];
    terms(leases.map(write).to_vec())
}

#[test]
fn a_term_lasts_until_another_process_acquires_the_lease() {
    let terms = three_terms();
    let reported = terms
        .iter()
        .map(|term| (term.by.as_str(), term.from, term.renewed, term.until));
    let expected = [
        ("a", at(10), at(14), at(30)),
        ("b", at(30), at(30), at(50)),
        ("a", at(50), at(50), Timestamp::MAX),
    ];
    assert_eq!(reported.collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_written_outside_of_a_term_is_found() {
    // By whom and when, whether it was accepted, and whether it is a stray one.
    let cases = [
        ("a", 9, true, true),
        ("a", 10, true, false),
        ("a", 29, true, false),
        ("a", 30, true, true),
        ("a", 31, false, false),
        ("b", 29, true, true),
        ("b", 31, true, false),
        ("b", 60, true, true),
        ("a", 60, true, false),
        ("c", 20, true, true),
    ];
    for (by, second, accepted, stray) in cases {
        let writes = [write((by, second, accepted))];
        let found = strays(&three_terms(), &writes).len();
        assert_eq!(found, usize::from(stray), "{by} {second}");
    }
}

#[test]
fn a_successor_has_taken_over_when_it_writes() {
    let writes = [
        ("a", 20, true),
        ("b", 31, false),
        ("b", 33, true),
        ("b", 34, true),
    ]
    .map(write);
    let (by, after) = taken_over(&three_terms(), &writes, at(21)).expect("a successor");
    assert_eq!((by.as_str(), after), ("b", Duration::from_secs(12)));
}
