//! Failures of credential plugins. The output of a plugin contains credentials and is never shown.

use std::error::Error;

use kube::client::AuthError;
use kube::config::ExecConfig;

/// Maximum number of characters of standard error in a message.
const STDERR_SHOWN: usize = 500;

/// Describes a failure of a credential plugin with its name and its standard error. Returns `None`
/// for other errors.
pub(crate) fn describe(error: &(dyn Error + 'static), exec: Option<&ExecConfig>) -> Option<String> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    let error = causes.find_map(|cause| cause.downcast_ref::<AuthError>())?;
    let name = exec.and_then(|exec| exec.command.as_deref())?;
    Some(match error {
        AuthError::AuthExecStart(why) => format!("cannot run credential plugin {name}: {why}"),
        AuthError::AuthExecRun { out, .. } => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            let stderr = stderr.trim().escape_debug().take(STDERR_SHOWN);
            let stderr: String = [':', ' '].into_iter().chain(stderr).collect();
            let stderr = stderr.trim_end_matches([':', ' ']);
            format!(
                "credential plugin {name} failed with {}{stderr}",
                out.status
            )
        }
        AuthError::AuthExecParse(_)
        | AuthError::ExecPluginFailed
        | AuthError::MalformedTokenExpirationDate(_) => {
            format!("credential plugin {name} printed no valid ExecCredential")
        }
        _ => format!("credential plugin {name} returned no usable credentials"),
    })
}
