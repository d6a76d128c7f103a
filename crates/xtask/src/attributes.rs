//! Reads the attributes of an item.

use syn::{Attribute, Meta};

/// The words in the parentheses of the attributes of this name.
pub fn words_of<'a>(
    attributes: &'a [Attribute],
    name: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let lists = attributes.iter().filter_map(move |attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident(name) => Some(list.tokens.to_string()),
        _ => None,
    });
    lists.flat_map(|list| {
        list.split(|c: char| c != '_' && !c.is_alphanumeric())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    })
}

pub fn is_hidden(attributes: &[Attribute]) -> bool {
    words_of(attributes, "doc").any(|word| word == "hidden")
}

pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    let words: Vec<String> = words_of(attributes, "cfg").collect();
    words.iter().any(|word| word == "test")
        && !words.iter().any(|word| word == "not" || word == "any")
}
