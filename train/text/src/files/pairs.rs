//! Vocabulary and merges as two files, as in OpenAI's releases and in version 4 of `transformers`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::document::Lists;
use super::ordered::{Field, Object};
use super::settings::Settings;
use super::{DAMAGED, RELEASE, Source, byte_bpe, class, format_error, parse_json, pipeline, short, two};
use crate::bpe::{END_OF_WORD, UNKNOWN};
use crate::byte_level::letter;
use crate::error::TextError;
use crate::mode::Mode;
use crate::tokenizer::Tokenizer;

/// The mode's name in [`CONFIG`].
pub(super) const MODE: &str = "mode";

pub(super) fn load(source: Source<'_>, vocabulary: &str, merges: &str) -> Result<Tokenizer, TextError> {
    let of_two = |name: &str, other: &str| {
        let found = format!("there is no such file beside {}", source.path(other).display());
        let missing = || TextError::missing(&source.path(name), found, "The two belong together: copy it there too");
        source.find(name)?.ok_or_else(missing)
    };
    let (tokens, text) = (of_two(vocabulary, merges)?, of_two(merges, vocabulary)?);
    let [vocabulary, merges] = [vocabulary, merges].map(|name| source.path(name));
    let mut ids = HashMap::new();
    for (token, id) in parse_json::<Map<String, Value>>(&vocabulary, &tokens)? {
        let number = id.as_u64().and_then(|id| u32::try_from(id).ok());
        let bad = || format_error(&vocabulary, &format!("token {token:?}"), "an id", short(&id), DAMAGED);
        let number = number.ok_or_else(bad)?;
        ids.insert(token, number);
    }
    let mut pairs = Vec::new();
    for (line, symbols) in (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with("#version")) {
        let (place, expected) = (format!("line {line}"), "two symbols with one space between");
        let bad = || format_error(&merges, &place, expected, format!("{symbols:?}"), DAMAGED);
        pairs.push(two(symbols.split(' ')).ok_or_else(bad)?);
    }
    let settings = Settings::read(source)?;
    let paths = [vocabulary.as_path(), &merges];
    let class = settings.class_of_lists()?;
    let mode = mode(&settings)?;
    if vocabulary.ends_with(RELEASE.0) {
        remove_added(&settings, &mut ids);
    }
    let vocabulary: Vec<(String, u32)> = ids.into_iter().collect();
    let is_byte_level = is_byte_level(&vocabulary);
    let lists = Lists { paths, vocabulary, merges: pairs, added: Vec::new(), pairs: None };
    let tokenizer = match class {
        Some(class) => pipeline::bpe_of_class(&settings, class, lists),
        None if mode.is_none() && is_byte_level => byte_bpe::without_class(&settings, lists),
        None => pipeline::bpe_of_class(&settings, &class::GPT, lists),
    }?;
    match mode {
        Some(mode) => tokenizer.with_mode(mode),
        None => Ok(tokenizer),
    }
}

/// Returns whether a vocabulary is byte-level: a blank is a token, and no token is a blank at a word's end.
fn is_byte_level(ids: &[(String, u32)]) -> bool {
    let blank = letter(b' ').to_string();
    let has = |name: &str| ids.iter().any(|(token, _)| token == name);
    has(&blank) && !has(&format!("{blank}{END_OF_WORD}"))
}

/// Returns the mode in the configuration, which Gradus writes.
fn mode(settings: &Settings<'_>) -> Result<Option<Mode>, TextError> {
    let Some(name) = settings.config.get(MODE) else { return Ok(None) };
    let bad = || settings.bad(MODE, "basic or spacy", name);
    name.as_str().and_then(|name| name.parse().ok()).map(Some).ok_or_else(bad)
}

/// Removes added tokens from the end of a vocabulary of OpenAI's release, which has no other place for them.
fn remove_added(settings: &Settings<'_>, ids: &mut HashMap<String, u32>) {
    let listed = settings.config.get("added_tokens_decoder").and_then(Field::as_object);
    let tokens = listed.into_iter().flat_map(Object::iter);
    let names = tokens.filter_map(|(_, token)| token.as_object()?.get("content")?.as_str()).filter(|name| *name != UNKNOWN);
    let own: HashMap<u32, &str> = names.filter_map(|name| Some((*ids.get(name)?, name))).collect();
    while let Some(last) = (ids.len() as u32).checked_sub(1).and_then(|last| own.get(&last)) {
        if ids.remove(*last).is_none() {
            break;
        }
    }
}
