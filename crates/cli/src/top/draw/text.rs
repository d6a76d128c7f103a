//! Fits lines to a width: parts are dropped from the end, and a text that is too long ends in `…`.

/// Columns that a text takes.
pub fn width(text: &str) -> usize {
    ratatui::text::Span::raw(text).width()
}

/// As many parts as fit, the first one in any case.
pub fn join(parts: &[String], separator: &str, room: usize) -> String {
    let mut line = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let longer =
            if line.is_empty() { part.clone() } else { format!("{line}{separator}{part}") };
        if width(&longer) > room && !line.is_empty() {
            break;
        }
        line = longer;
    }
    cut(&line, room)
}

/// All parts, in as many lines as that takes.
pub fn wrap(parts: &[String], separator: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        match lines.last_mut() {
            Some(line) if width(line) + width(separator) + width(part) <= room => {
                *line += separator;
                *line += part;
            }
            _ => lines.push(cut(part, room)),
        }
    }
    lines
}

/// The text, or its begin and `…`.
pub fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.into();
    }
    let mut short = String::new();
    for c in text.chars() {
        let longer = format!("{short}{c}");
        if width(&longer) + 1 > room {
            break;
        }
        short = longer;
    }
    if room > 0 {
        short.push('…');
    }
    short
}

/// The text and spaces before it.
pub fn right(text: &str, room: usize) -> String {
    let text = cut(text, room);
    format!("{}{text}", " ".repeat(room - width(&text)))
}

/// The text and spaces behind it.
pub fn left(text: &str, room: usize) -> String {
    let text = cut(text, room);
    format!("{text}{}", " ".repeat(room - width(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        assert_eq!(cut("dentry", 6), "dentry");
        assert_eq!(cut("dentry", 5), "dent…");
        assert_eq!(cut("größe", 4), "grö…");
        assert_eq!(cut("dentry", 1), "…");
        assert_eq!(cut("dentry", 0), "");
    }

    #[test]
    fn whole_parts_are_left_out() {
        let parts = ["one".to_owned(), String::new(), "two".into(), "three".into()];
        assert_eq!(join(&parts, ", ", 80), "one, two, three");
        assert_eq!(join(&parts, ", ", 14), "one, two");
        assert_eq!(join(&parts, ", ", 2), "o…");
    }

    #[test]
    fn parts_that_do_not_fit_begin_a_line() {
        let parts = ["one".to_owned(), "two".into(), "three".into()];
        assert_eq!(wrap(&parts, ", ", 80), ["one, two, three"]);
        assert_eq!(wrap(&parts, ", ", 8), ["one, two", "three"]);
        assert_eq!(wrap(&parts, ", ", 4), ["one", "two", "thr…"]);
    }

    #[test]
    fn cells_are_as_wide_as_they_must_be() {
        assert_eq!(right("12", 4), "  12");
        assert_eq!(left("12", 4), "12  ");
        assert_eq!(right("12345", 4), "123…");
    }
}
