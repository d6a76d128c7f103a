//! The styles of the screen: bold, inverted, and colours where the terminal has them.

use jiff::tz::TimeZone;
use ratatui::style::{Color, Modifier, Style};

/// What of the picture is the reader's choice.
pub struct ScreenOptions {
    /// The zone of the time of day.
    pub zone: TimeZone,
    /// Whether there are colours.
    pub colour: Colour,
}

/// Whether there are colours; weight and inversion are there without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Yes,
    No,
}

impl ScreenOptions {
    pub(super) fn strong(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn chosen(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn accent(&self) -> Style {
        self.coloured(Color::Cyan)
    }

    pub(super) fn alarm(&self) -> Style {
        self.coloured(Color::Red)
    }

    fn coloured(&self, colour: Color) -> Style {
        match self.colour {
            Colour::Yes => self.strong().fg(colour),
            Colour::No => self.strong(),
        }
    }
}
