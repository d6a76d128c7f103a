//! Words of strangers without what steers a terminal: traces and snapshots are sent by others, and the
//! names in them are printed, written into tables, and saved again.
//!
//! Neighbours: `trace::names` and `trace::format` pass what they read through [`plain`],
//! `snapshot::parse` all that it parses through [`plain_json`]. Invariant: behind them no text of a
//! trace or a snapshot has a control character; other words are as they were.

use serde_json::Value;
use std::borrow::Cow;

/// Each control character as Rust writes it, `\u{1b}`, so that different names stay different.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if c.is_control() { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    Cow::Owned(plain)
}

/// The same of all keys and texts of a document. Values may be whole files of sysfs: their ends of lines
/// and tabs become spaces.
pub(crate) fn plain_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain(&text.replace(['\n', '\t'], " ")).into_owned()),
        Value::Array(values) => Value::Array(values.into_iter().map(plain_json).collect()),
        Value::Object(fields) => {
            let plain_field =
                |(key, value): (String, _)| (plain(&key).into_owned(), plain_json(value));
            Value::Object(fields.into_iter().map(plain_field).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn control_characters_are_written_out_and_the_rest_stays() {
        for text in ["", "kmalloc-64", "größe", "a b\\n"] {
            assert!(matches!(plain(text), Cow::Borrowed(same) if same == text));
        }
        assert_eq!(plain("a\x1b[2Jb\n\u{9b}"), "a\\u{1b}[2Jb\\n\\u{9b}");
        assert_ne!(plain("a\x1b"), plain("a\x07"));
    }

    #[test]
    fn documents_are_plain_at_every_depth() {
        let value = json!({ "a\x1b": [{ "b": "c\x07\n" }, 1, null] });
        assert_eq!(plain_json(value), json!({ "a\\u{1b}": [{ "b": "c\\u{7} " }, 1, null] }));
    }
}
