//! Colours.

use clap::Args;

use crate::term::screen::Color;

/// Whether the result is coloured.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ColorArgs {
    /// When to use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,
}
