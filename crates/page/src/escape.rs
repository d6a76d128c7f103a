//! Texts and JSON of whatever origin, so that HTML takes them as text.

use std::borrow::Cow;

/// A text without characters that mean something in HTML.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped.into()
}

/// JSON that may stand in a script: `<` is in its strings alone, where an escape means the same.
pub(crate) fn script(json: &str) -> String {
    json.replace('<', "\\u003c")
}
