//! Selects the caches whose name, id or alias contains a text, or matches a pattern with `*`, `?`
//! or `[...]`.

use glob::Pattern;
use slabyard_observe::Cache;

/// A choice of caches.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    text: String,
    /// Where the text is a pattern; one that is not finished, such as `[a`, is
    /// looked for as it stands.
    pattern: Option<Pattern>,
}

impl Filter {
    /// From what was typed.
    pub fn new(text: &str) -> Filter {
        let pattern = if text.contains(['*', '?', '[']) { Pattern::new(text).ok() } else { None };
        Filter { text: text.into(), pattern }
    }

    /// The patterns as they were typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if all caches are shown.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// True if a cache is shown.
    pub fn takes(&self, cache: &Cache) -> bool {
        cache.names().any(|name| match &self.pattern {
            Some(pattern) => pattern.matches(name),
            None => name.contains(&self.text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(text: &str, name: &str) -> bool {
        Filter::new(text).takes(&Cache::new(name))
    }

    #[test]
    fn a_text_is_looked_for_and_a_pattern_must_match() {
        assert!(takes("", "dentry"));
        assert!(takes("entr", "dentry"));
        assert!(!takes("entr*", "dentry"));
        assert!(takes("*entr*", "dentry"));
        assert!(takes("kmalloc-?k", "kmalloc-4k"));
        assert!(!takes("kmalloc-?k", "kmalloc-192"));
        assert!(takes("malloc-[12]*", "malloc-192"));
    }

    #[test]
    fn a_pattern_that_is_being_typed_is_no_error() {
        assert!(!takes("dent[", "dentry"));
        assert!(takes("dent[", "dent[ry"));
    }

    #[test]
    fn aliases_count() {
        let mut cache = Cache::new("anon_vma");
        cache.aliases.push("pid_namespace".into());
        assert!(Filter::new("pid_").takes(&cache));
    }
}
