//! WordPiece: `tokenizer.json` as `transformers`' BertTokenizer writes it, and `vocab.txt`, a line per token, as Google's code has it.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::class::{self, Class, Form};
use super::document::{Around, Document, Rule, Saved, by_id, post_processor};
use super::settings::Settings;
use super::{SavedToken, Source, in_order, of_files};
use crate::basic::Cleaning;
use crate::error::TextError;
use crate::normalizer::{Normalizer, Step};
use crate::roles::Pairs;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;
use crate::wordpiece::{GOES_ON, LONGEST, Pieces, UNKNOWN_WORD, WordPiece};

/// The largest `max_input_chars_per_word` that is accepted. It bounds the time per word, which is quadratic in its length.
const MOST: u64 = 1000;
/// The class that reads such tokenizers, and the class that uses `tokenizer.json` unchanged.
const CLASSES: [&str; 2] = ["BertTokenizer", "PreTrainedTokenizerFast"];
/// The options of BertJapaneseTokenizer for the tokenizers of words and of subwords.
const WORDS: &str = "word_tokenizer_type";
const PIECES: &str = "subword_tokenizer_type";

#[derive(Serialize)]
pub(super) struct SavedPieces<'a> {
    r#type: &'static str,
    unk_token: &'a str,
    continuing_subword_prefix: &'static str,
    max_input_chars_per_word: usize,
    #[serde(serialize_with = "by_id")]
    vocab: &'a [String],
}

fn unknown(pieces: &WordPiece) -> &str {
    &pieces.tokens()[pieces.unknown() as usize]
}

pub(super) fn saved<'a>(tokenizer: &'a Tokenizer, pieces: &'a WordPiece) -> Saved<SavedPieces<'a>> {
    let around = Around {
        normalizer: pieces.normalizer().to_json(),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        post_processor: post_processor(tokenizer, tokenizer.frame(["[CLS]", "[SEP]"]), tokenizer.pairs(Pairs::BERT)),
        decoder: json!({"type": "WordPiece", "prefix": GOES_ON, "cleanup": pieces.cleanup()}),
    };
    let model = SavedPieces {
        r#type: "WordPiece",
        unk_token: unknown(pieces),
        continuing_subword_prefix: GOES_ON,
        max_input_chars_per_word: pieces.longest(),
        vocab: pieces.tokens(),
    };
    Saved::of(tokenizer, around, model)
}

/// The special tokens by role, as configured, or else BERT's that the vocabulary has.
fn names(tokenizer: &Tokenizer) -> Vec<(&str, &str)> {
    let settings: Vec<_> = tokenizer.roles.names.iter().map(|(role, name)| (role.as_str(), name.as_str())).collect();
    let berts = class::BERT.specials.iter().copied().filter(|(_, name)| tokenizer.added.id(name).is_some());
    if settings.is_empty() { berts.collect() } else { settings }
}

/// The contents of `tokenizer_config.json`. The class is BertTokenizer if its options can express the tokenizer.
pub(super) fn roles(tokenizer: &Tokenizer, pieces: &WordPiece) -> Value {
    let names = names(tokenizer);
    let has = |role: &str| names.iter().any(|(own, name)| *own == role && tokenizer.added.id(name).is_some());
    let is_usual = pieces.longest() == LONGEST && pieces.cleanup() && tokenizer.pairs(Pairs::BERT) == Pairs::BERT;
    let all = class::BERT.specials.iter().all(|(role, _)| has(role)) && names.contains(&("unk_token", unknown(pieces)));
    let cleaning = pieces.normalizer().bert().filter(|cleaning| cleaning.clean && is_usual && all);
    let mut roles = json!({ "tokenizer_class": CLASSES[usize::from(cleaning.is_none())], "backend": "tokenizers" });
    for (role, name) in names {
        roles[role] = json!(name);
    }
    if let Some(Cleaning { ideographs, accents, lowercase, .. }) = cleaning {
        roles["do_lower_case"] = lowercase.into();
        roles["strip_accents"] = if accents == lowercase { Value::Null } else { accents.into() };
        roles["tokenize_chinese_chars"] = ideographs.into();
    }
    roles
}

/// The contents of `tokenizer_config.json` and `vocab.txt` of a vocabulary of characters.
pub(super) fn lines(tokenizer: &Tokenizer, pieces: &WordPiece) -> (Value, String) {
    let mut roles = json!({ "tokenizer_class": "BertJapaneseTokenizer", (WORDS): "basic", (PIECES): "character" });
    roles["do_lower_case"] = (*pieces.normalizer() == japanese(true)).into();
    let added = tokenizer.added.as_slice().iter().map(|token| (token.id.to_string(), json!(SavedToken::of(token))));
    roles["added_tokens_decoder"] = added.collect();
    for (role, name) in names(tokenizer) {
        roles[role] = json!(name);
    }
    (roles, pieces.tokens().iter().map(|token| format!("{token}\n")).collect())
}

/// The fields that make a tokenizer BERT's, with the values that do.
fn rules() -> [Rule; 3] {
    [
        ("/decoder/type", vec![json!("WordPiece"), Value::Null]),
        ("/decoder/prefix", vec![json!(GOES_ON), Value::Null]),
        ("/model/continuing_subword_prefix", vec![json!(GOES_ON)]),
    ]
}

pub(super) fn read(settings: &Settings<'_>, document: &Document<'_>) -> Result<Tokenizer, TextError> {
    document.obeys(rules())?;
    document.pre_tokenizer("BertPreTokenizer")?;
    let (unknown, longest) = ("/model/unk_token", "/model/max_input_chars_per_word");
    let name = document.at(unknown).as_str().ok_or_else(|| document.other(unknown, "a token"))?;
    let most = document.at(longest).as_u64().filter(|most| (1..=MOST).contains(most));
    let most = most.ok_or_else(|| document.other(longest, &format!("1 to {MOST}")))?;
    let path = document.path;
    let tokens = in_order(path, document.vocabulary()?)?;
    let pieces = WordPiece::of(tokens, document.normalizer()?, name, most as usize);
    let cleanup = document.switch("/decoder/cleanup")?.unwrap_or(true);
    let pieces = pieces.map_err(|error| of_files([path, path], error))?.with_cleanup(cleanup);
    settings.tokenizer(Vocabulary::WordPiece(pieces), None, document.added()?, document.pairs())
}

/// The normalizer of BertJapaneseTokenizer: the steps of BERT's basic tokenizer in Python, which include NFC.
fn japanese(lowercase: bool) -> Normalizer {
    let clean = Cleaning { clean: true, ideographs: false, accents: false, lowercase: false };
    let mut steps = vec![Step::Bert(clean), Step::Nfc];
    if lowercase {
        steps.push(Step::Bert(Cleaning { clean: false, accents: true, lowercase: true, ..clean }));
    }
    Normalizer::of(steps)
}

/// The WordPiece that a class builds from these tokens.
pub(super) fn of_class(
    settings: &Settings<'_>,
    class: &'static Class,
    path: &Path,
    ids: Vec<(String, u32)>,
    listed: Vec<SavedToken>,
) -> Result<Tokenizer, TextError> {
    let is_japanese = class.form == Form::Japanese;
    let lowercase = settings.switch("do_lower_case")?.unwrap_or(!is_japanese);
    let (mut pieces_are, mut normalizer) = (Pieces::Longest, japanese(lowercase));
    if is_japanese {
        let kinds = [settings.text(WORDS)?.unwrap_or("basic"), settings.text(PIECES)?.unwrap_or("wordpiece")];
        let all = ["do_word_tokenize", "do_subword_tokenize"].map(|name| settings.switch(name).map(|on| on.unwrap_or(true)));
        pieces_are = match (kinds, all) {
            (["basic", "wordpiece"], [Ok(true), Ok(true)]) => Pieces::Longest,
            (["basic", "character"], [Ok(true), Ok(true)]) => Pieces::Characters,
            ([words, pieces], _) => {
                return Err(settings.refused(&format!("BertJapaneseTokenizer with {words} words and {pieces} pieces")));
            }
        };
    } else {
        normalizer = Normalizer::from(Cleaning {
            clean: true,
            ideographs: settings.switch("tokenize_chinese_chars")?.unwrap_or(true),
            accents: settings.switch("strip_accents")?.unwrap_or(lowercase),
            lowercase,
        });
    }
    let unknown = settings.token("unk_token", Some(class))?.unwrap_or_else(|| UNKNOWN_WORD.into());
    let pieces =
        WordPiece::of(in_order(path, ids)?, normalizer, &unknown, LONGEST).map_err(|error| of_files([path, path], error))?;
    settings.tokenizer(Vocabulary::WordPiece(pieces.with_pieces(pieces_are)), Some(class), listed, None)
}

/// Reads `vocab.txt` as `tokenizers` does. The lines are numbered from 0, and trailing white space is removed. A blank line leaves
/// its id unused. A token on two lines has the number of the later one.
pub(super) fn load_lines(source: Source<'_>, name: &str) -> Result<Tokenizer, TextError> {
    let (path, text) = (&source.path(name), source.read(name)?);
    let settings = Settings::read(source)?;
    let class = settings.class_of_lists()?.unwrap_or(&class::BERT);
    if !matches!(class.form, Form::WordPiece | Form::Japanese) {
        return Err(settings.refused(&format!("{}, which reads no {name},", class.names[0])));
    }
    let last: HashMap<&str, u32> = text.lines().map(str::trim_end).zip(0..).collect();
    let mut ids: Vec<(String, u32)> = last.into_iter().map(|(token, id)| (token.to_owned(), id)).collect();
    ids.sort_unstable_by_key(|(_, id)| *id);
    of_class(&settings, class, path, ids, Vec::new())
}
