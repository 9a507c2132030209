//! Input and output of the terminal: results, progress, tables, confirmations and exit codes.

pub(crate) mod age;
pub(crate) mod confirm;
pub(crate) mod exit;
pub(crate) mod interrupt;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod table;
