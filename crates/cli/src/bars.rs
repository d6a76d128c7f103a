//! Bars and curves of characters, for terminals.
//!
//! Invariant: they are made of what the terminal's language has; they have no colour of their own.

/// Of what bars are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bars {
    /// Blocks, to an eighth of a character.
    Blocks,
    /// Where the terminal's characters are not known to have blocks.
    Ascii,
}

impl Bars {
    /// As the language of the terminal allows.
    pub fn of_terminal() -> Bars {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let language = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let language = language.unwrap_or_default().to_ascii_lowercase();
        if language.contains("utf-8") || language.contains("utf8") {
            Bars::Blocks
        } else {
            Bars::Ascii
        }
    }

    /// A bar of so many characters, parts of one included.
    pub fn draw(self, characters: f64) -> String {
        const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let eighths = (characters * 8.0).round() as usize;
        match self {
            // What is there is seen.
            Bars::Blocks if eighths == 0 => EIGHTHS[1].into(),
            Bars::Blocks => "█".repeat(eighths / 8) + EIGHTHS[eighths % 8],
            Bars::Ascii => "#".repeat((characters.round() as usize).max(1)),
        }
    }

    /// A curve in one line of at most so many characters, from the smallest value to the largest;
    /// an unknown value leaves a gap. Where there are more values than characters, each character
    /// is the largest of its values.
    pub fn sparkline(self, values: &[Option<f64>], width: usize) -> String {
        const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const ASCII: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];
        let levels = if self == Bars::Blocks { BLOCKS } else { ASCII };
        let known = || values.iter().flatten().copied();
        let (low, high) = (known().fold(f64::MAX, f64::min), known().fold(f64::MIN, f64::max));
        let level = |value: f64| match high > low {
            true => ((value - low) / (high - low) * 7.0).round() as usize,
            false => 3,
        };
        let each = values.len().div_ceil(width.max(1)).max(1);
        let largest = |values: &[Option<f64>]| values.iter().flatten().copied().reduce(f64::max);
        let characters =
            values.chunks(each).map(|of| largest(of).map_or(' ', |v| levels[level(v)]));
        characters.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_eighths() {
        assert_eq!(Bars::Blocks.draw(2.5), "██▌");
        assert_eq!(Bars::Blocks.draw(0.001), "▏");
        assert_eq!(Bars::Ascii.draw(2.4), "##");
    }

    #[test]
    fn a_curve_goes_from_the_smallest_to_the_largest() {
        let values: Vec<Option<f64>> = (0..8).map(|n| Some(f64::from(n) * 100.0 + 5.0)).collect();
        assert_eq!(Bars::Blocks.sparkline(&values, 80), "▁▂▃▄▅▆▇█");
        assert_eq!(Bars::Ascii.sparkline(&values, 80), "_.:-=+*#");
        assert_eq!(Bars::Ascii.sparkline(&values, 4), ".-+#", "the larger of two");
        assert_eq!(Bars::Ascii.sparkline(&[Some(1.0), None, Some(2.0)], 9), "_ #");
        assert_eq!(Bars::Ascii.sparkline(&[Some(7.0), Some(7.0)], 9), "--");
        assert_eq!(Bars::Ascii.sparkline(&[None, None], 0), " ");
        assert_eq!(Bars::Ascii.sparkline(&[], 9), "");
    }
}
