//! Vocabulary and merges as two files, as OpenAI and version 4 of `transformers` have them.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::{CONFIG, DAMAGED, RELEASE, SavedToken, Source, added_of, byte_bpe, format_error, gpt, parse_json, short, two};
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
    let ids: HashMap<String, u32> = parse_json(&vocabulary, &tokens)?;
    let mut pairs = Vec::new();
    for (line, symbols) in (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with("#version")) {
        let (place, expected) = (format!("line {line}"), "two symbols with one space between");
        let bad = || format_error(&merges, &place, expected, format!("{symbols:?}"), DAMAGED);
        pairs.push(two(symbols.split(' ')).ok_or_else(bad)?);
    }
    let config = source.find_json::<Value>(CONFIG)?.unwrap_or_default();
    let added = added_of(&source.path(CONFIG), &config)?;
    if !is_byte_level(&ids, &config) {
        return gpt_1(&source.path(CONFIG), [&vocabulary, &merges], ids, &pairs, &config, added);
    }
    let flag = config.get("add_prefix_space").unwrap_or(&Value::Bool(false));
    let bad = || format_error(&source.path(CONFIG), "/add_prefix_space", "true or false", short(flag), DAMAGED);
    let prefix = flag.as_bool().ok_or_else(bad)?;
    byte_bpe::assemble([&vocabulary, &merges], ids.into_iter().collect(), &pairs, added, byte_bpe::Specials::ByName, prefix)
}

/// GPT-2's form or GPT-1's? The configuration may tell; else the vocabulary does: a blank is a symbol, and never the end of a word.
fn is_byte_level(ids: &HashMap<String, u32>, config: &Value) -> bool {
    match config["tokenizer_class"].as_str() {
        _ if config.get(MODE).is_some() => false,
        Some("OpenAIGPTTokenizer" | "OpenAIGPTTokenizerFast") => false,
        Some("GPT2Tokenizer" | "GPT2TokenizerFast" | "RobertaTokenizer" | "RobertaTokenizerFast") => true,
        _ => {
            let blank = letter(b' ').to_string();
            ids.contains_key(&blank) && !ids.contains_key(&format!("{blank}{END_OF_WORD}"))
        }
    }
}

fn gpt_1(
    config_path: &Path,
    [vocabulary, merges]: [&Path; 2],
    mut ids: HashMap<String, u32>,
    pairs: &[(String, String)],
    config: &Value,
    added: Vec<SavedToken>,
) -> Result<Tokenizer, TextError> {
    let mut mode = Mode::default();
    if let Some(name) = config.get(MODE) {
        let found = || format_error(config_path, "/mode", "basic or spacy", short(name), DAMAGED);
        mode = name.as_str().and_then(|name| name.parse().ok()).ok_or_else(found)?;
    }
    if vocabulary.ends_with(RELEASE.0) {
        // There added tokens are the last of the vocabulary, since the release has no other place for them.
        let own = added.iter().filter(|token| token.content != UNKNOWN);
        let own: HashMap<u32, &String> = own.filter_map(|token| Some((*ids.get(&token.content)?, &token.content))).collect();
        while let Some(last) = (ids.len() as u32).checked_sub(1).and_then(|last| own.get(&last)) {
            if ids.remove(*last).is_none() {
                break;
            }
        }
    }
    gpt::assemble([vocabulary, merges], ids.into_iter().collect(), pairs, added)?.with_mode(mode)
}
