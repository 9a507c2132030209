//! Opens the page in the user's browser.

use std::env;

/// Whether a graphical browser is likely. Without one, the opener may start a browser inside the
/// terminal.
pub(super) fn is_there() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_screen = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") || is_set("WSL_DISTRO_NAME");
    has_screen || cfg!(any(target_os = "macos", windows))
}

/// Opens an address. A browser that fails later is not reported.
///
/// # Errors
/// The system has no program that opens addresses.
pub(super) fn open(address: &str) -> std::io::Result<()> {
    open::that_detached(address)
}
