//! The commands of `kubectl mcs`. Only the page imports another command: it starts `verify`.
//! `membership`, `moving` and `overview` hold what several commands share.

pub(crate) mod adopt;
pub(crate) mod bug_report;
pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod confirm_deletions;
pub(crate) mod diff;
pub(crate) mod dns;
pub(crate) mod drain;
#[cfg(test)]
mod exit_codes;
pub(crate) mod explain;
pub(crate) mod hand_over;
pub(crate) mod install;
pub(crate) mod join;
mod membership;
mod moving;
mod overview;
pub(crate) mod shift;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod tunnel;
pub(crate) mod ui;
pub(crate) mod uninstall;
pub(crate) mod unjoin;
pub(crate) mod verify;
pub(crate) mod version;
