//! Opens the page in the person's browser.

use std::env;

/// Whether a browser with windows can be expected. Without one, what opens addresses may start a browser within this terminal.
pub(super) fn is_there() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_screen = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") || is_set("WSL_DISTRO_NAME");
    has_screen || cfg!(any(target_os = "macos", windows))
}

/// Opens an address; says nothing of a browser that then fails.
///
/// # Errors
/// Where there is no program that opens addresses.
pub(super) fn open(address: &str) -> std::io::Result<()> {
    open::that_detached(address)
}
