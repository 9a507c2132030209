//! Random numbers as hexadecimal digits.

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::term::exit::CommandError;

/// Missing random numbers of the system.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random numbers")]
pub(crate) struct NoRandom;

impl CommandError for NoRandom {}

/// Returns that number of random bytes, as two digits each.
pub(crate) fn digits<const BYTES: usize>() -> Result<String, NoRandom> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(hex(&bytes))
}

/// Returns two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
