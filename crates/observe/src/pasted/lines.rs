//! The lines of a text without what mails and terminals put around them: marks of quotes, colours,
//! carriage returns.
//!
//! Invariant: a line keeps its number in the text, which messages name.

/// A line of a text, which keeps its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// From 1.
    pub number: usize,
    pub text: &'a str,
}

/// Lines that a reader may join because a mail wrapped a longer one.
const MOST_JOINED: usize = 4;

/// The text without colours and with plain blanks.
pub(super) fn normalise(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // CSI sequences end with a letter (ECMA-48).
            '\u{1b}' if chars.peek() == Some(&'[') => {
                while chars.next_if(|c| !c.is_ascii_alphabetic() && *c != '\n').is_some() {}
                chars.next_if(char::is_ascii_alphabetic);
            }
            '\u{a0}' => plain.push(' '),
            '\u{feff}' => {}
            c => plain.push(c),
        }
    }
    plain
}

/// A text line by line, without marks of quotes.
pub(super) fn of(text: &str) -> Vec<Line<'_>> {
    let numbered = text.lines().enumerate();
    numbered.map(|(at, text)| Line { number: at + 1, text: unquoted(text) }).collect()
}

/// A line without the marks of a mail that quotes it, and without blanks at its end.
fn unquoted(line: &str) -> &str {
    let mut line = line.trim_end();
    while let Some(rest) = line.trim_start().strip_prefix('>') {
        line = rest.strip_prefix(' ').unwrap_or(rest);
    }
    line
}

/// What the line at a place says, joined with those behind it if it says nothing alone; and how many
/// lines that are. A line that says something alone begins anew and is never joined to another.
pub(super) fn joined<T>(
    lines: &[Line<'_>],
    at: usize,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<(T, usize)> {
    let first = lines.get(at)?.text;
    if let Some(found) = parse(first) {
        return Some((found, 1));
    }
    if first.trim().is_empty() {
        return None;
    }
    let mut whole = first.to_owned();
    for (nth, line) in lines.get(at + 1..)?.iter().take(MOST_JOINED - 1).enumerate() {
        if line.text.trim().is_empty() || parse(line.text).is_some() {
            return None;
        }
        whole.push(' ');
        whole.push_str(line.text);
        if let Some(found) = parse(&whole) {
            return Some((found, nth + 2));
        }
    }
    None
}

/// A line for a message.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let text = clean(text.trim());
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("`{}...`", text.get(..end).unwrap_or_default()),
        None => format!("`{text}`"),
    }
}

/// Text for a screen: no control characters, and not too long.
pub(super) fn clean(text: &str) -> String {
    crate::kernel::printable(text)
}

/// What to say of lines among a format's own that do not fit; `None` if there is none.
pub(super) fn strange(lines: &[Line<'_>]) -> Option<String> {
    let first = lines.first()?;
    let more = match lines.len() - 1 {
        0 => String::new(),
        1 => "; nor is 1 more".into(),
        n => format!("; nor are {n} more"),
    };
    Some(format!("line {} is no row of it: {}{more}", first.number, shown(first.text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_colours_and_carriage_returns_go() {
        let text = normalise("\u{feff}> > a\u{a0}b \r\n>\n  c\n\u{1b}[1;31m>>d\u{1b}[0m\n\u{1b}[");
        let lines: Vec<_> = of(&text).iter().map(|line| (line.number, line.text)).collect();
        assert_eq!(lines, [(1, "a b"), (2, ""), (3, "  c"), (4, "d")]);
    }

    #[test]
    fn a_wrapped_line_is_joined_and_one_that_is_whole_is_not() {
        let parse = |text: &str| {
            let words: Vec<_> = text.split_whitespace().collect();
            (words.len() == 3).then(|| words.concat())
        };
        let text = "a b c\nd e\nf\nx\ng h i\nj\n\nk l";
        let lines = of(text);
        assert_eq!(joined(&lines, 0, parse), Some(("abc".into(), 1)));
        assert_eq!(joined(&lines, 1, parse), Some(("def".into(), 2)));
        assert_eq!(joined(&lines, 3, parse), None, "the next one is a line of its own");
        assert_eq!(joined(&lines, 5, parse), None, "an empty line ends it");
        assert_eq!(joined(&lines, 7, parse), None);
        assert_eq!(joined(&lines, 8, parse), None);
    }

    #[test]
    fn a_message_shows_the_first_strange_line() {
        let lines = of("one\n\u{7}two");
        assert_eq!(strange(&lines).unwrap(), "line 1 is no row of it: `one`; nor is 1 more");
        assert_eq!(strange(&lines[1..]).unwrap(), "line 2 is no row of it: `two`");
        assert_eq!(strange(&[]), None);
        assert_eq!(shown(&"x".repeat(61)).len(), 60 + 5);
    }
}
