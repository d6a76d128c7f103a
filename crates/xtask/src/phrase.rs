//! Searches text for phrases, word by word.
//!
//! A phrase is words with one space between them. `a|b` is either word, a `?` at its end makes a
//! word optional, and `...` stands for up to three words. Text is read in lower case, without
//! anything between words. Only whole words match: `home` is not found in `homecoming`.

/// What text is held against.
#[derive(Debug)]
pub struct Phrase {
    parts: Vec<PhrasePart>,
}

#[derive(Debug)]
struct PhrasePart {
    /// None of them means any word.
    words: Vec<String>,
    least: usize,
    most: usize,
}

/// The most words that `...` covers.
const GAP: usize = 3;

impl Phrase {
    pub fn of(text: &str) -> Phrase {
        let part = |part: &str| match part.strip_suffix('?') {
            _ if part == "..." => PhrasePart { words: Vec::new(), least: 0, most: GAP },
            Some(optional) => PhrasePart { words: alternatives(optional), least: 0, most: 1 },
            None => PhrasePart { words: alternatives(part), least: 1, most: 1 },
        };
        Phrase { parts: text.split(' ').map(part).collect() }
    }

    /// The words that a place where this may stand begins with, if it begins with any.
    pub fn first_words(&self) -> &[String] {
        self.parts.first().map_or(&[], |part| &part.words)
    }

    /// The number of words, starting with the first, that are this phrase.
    pub fn length_at(&self, words: &[Word]) -> Option<usize> {
        length(&self.parts, words)
    }
}

fn alternatives(part: &str) -> Vec<String> {
    part.split('|').map(str::to_owned).collect()
}

fn length(parts: &[PhrasePart], words: &[Word]) -> Option<usize> {
    let Some((part, rest)) = parts.split_first() else { return Some(0) };
    let is_part = |word: &Word| match &part.words[..] {
        [] => word.text.bytes().all(|byte| byte.is_ascii_lowercase()),
        alternatives => alternatives.contains(&word.text),
    };
    let most = words.iter().take(part.most).take_while(|word| is_part(word)).count();
    (part.least..=most).rev().find_map(|taken| Some(taken + length(rest, &words[taken..])?))
}

/// A word of a text, in small letters.
#[derive(Debug)]
pub struct Word {
    pub text: String,
    pub line: usize,
}

/// Appends the words of a line.
pub fn add_words(words: &mut Vec<Word>, line: usize, text: &str) {
    let texts = text.split(|c: char| !c.is_ascii_alphanumeric() && !"'-_".contains(c));
    let texts = texts.filter(|text| !text.is_empty());
    words.extend(texts.map(|text| Word { text: text.to_ascii_lowercase(), line }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length_in(phrase: &str, text: &str) -> Option<usize> {
        let mut words = Vec::new();
        add_words(&mut words, 1, text);
        Phrase::of(phrase).length_at(&words)
    }

    #[test]
    fn finds_alternatives() {
        assert_eq!(length_in("comes|came by", "Came `by`."), Some(2));
        assert_eq!(length_in("comes|came by", "coming by"), None);
    }

    #[test]
    fn finds_words_that_may_be_left_out() {
        assert_eq!(length_in("pass that? gathers", "a pass"), None);
        assert_eq!(length_in("pass that? gathers", "pass gathers it"), Some(2));
        assert_eq!(length_in("pass that? gathers", "pass that gathers"), Some(3));
    }

    #[test]
    fn finds_words_around_others() {
        assert_eq!(length_in("goes ... home", "goes home"), Some(2));
        assert_eq!(length_in("goes ... home", "goes all the way home, home"), Some(5));
        assert_eq!(length_in("goes ... home", "goes a b c d home"), None);
    }
}
