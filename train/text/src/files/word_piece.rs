//! WordPiece: `tokenizer.json` as `transformers`' BertTokenizer writes it, and `vocab.txt`, one line per token, as in Google's
//! code.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::class::{self, Class, Form};
use super::document::{Around, ById, Document, Rule, Saved, post_processor};
use super::settings::Settings;
use super::{SavedToken, Source, in_order, of_files, set_roles};
use crate::basic::Cleaning;
use crate::error::TextError;
use crate::normalizer::Normalizer;
use crate::roles::Pairs;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;
use crate::wordpiece::{GOES_ON, LONGEST, Pieces, WordPiece};

/// The largest `max_input_chars_per_word` that is accepted. It bounds the time per word, which is quadratic in its length.
const MOST: u64 = 1000;
/// The class that reads WordPiece tokenizers, and the class that uses `tokenizer.json` unchanged.
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
    vocab: ById<'a>,
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
        vocab: ById::of(tokenizer, pieces.tokens()),
    };
    Saved::of(tokenizer, around, model)
}

/// Returns the special tokens by role: the configured ones, or else BERT's that are in the vocabulary.
fn names(tokenizer: &Tokenizer) -> Vec<(&str, &str)> {
    let settings: Vec<_> = tokenizer.roles.iter().collect();
    let berts = class::BERT.specials.iter().copied().filter(|(_, name)| tokenizer.added.is_special(name));
    if settings.is_empty() { berts.collect() } else { settings }
}

/// Returns the contents of `tokenizer_config.json`. The class is BertTokenizer if its options can express the tokenizer.
pub(super) fn roles(tokenizer: &Tokenizer, pieces: &WordPiece) -> Value {
    let names = names(tokenizer);
    let has = |role: &str| names.iter().any(|(own, name)| *own == role && tokenizer.added.id(name).is_some());
    let is_usual = pieces.longest() == LONGEST && pieces.cleanup() && tokenizer.pairs(Pairs::BERT) == Pairs::BERT;
    let all = class::BERT.specials.iter().all(|(role, _)| has(role)) && names.contains(&("unk_token", unknown(pieces)));
    let cleaning = pieces.normalizer().bert().filter(|cleaning| cleaning.clean && is_usual && all);
    let mut roles = json!({ "tokenizer_class": CLASSES[usize::from(cleaning.is_none())], "backend": "tokenizers" });
    set_roles(&mut roles, names);
    if let Some(Cleaning { ideographs, accents, lowercase, .. }) = cleaning {
        roles["do_lower_case"] = lowercase.into();
        roles["strip_accents"] = if accents == lowercase { Value::Null } else { accents.into() };
        roles["tokenize_chinese_chars"] = ideographs.into();
    }
    roles
}

/// Returns the contents of `tokenizer_config.json` and `vocab.txt` of BertJapaneseTokenizer.
pub(super) fn lines(tokenizer: &Tokenizer, pieces: &WordPiece) -> (Value, String) {
    let kind = if pieces.pieces() == Pieces::Characters { "character" } else { "wordpiece" };
    let mut roles = json!({ "tokenizer_class": "BertJapaneseTokenizer", (WORDS): "basic", (PIECES): kind });
    roles["do_lower_case"] = pieces.normalizer().is_japanese().into();
    let added = tokenizer.added.as_slice().iter().map(|token| (token.id.to_string(), json!(SavedToken::of(token))));
    roles["added_tokens_decoder"] = added.collect();
    for (role, _) in class::BERT.specials {
        roles[*role] = Value::Null; // the class has a token in each role, unless the file has null
    }
    set_roles(&mut roles, names(tokenizer));
    (roles, pieces.tokens().iter().map(|token| format!("{token}\n")).collect())
}

/// Returns the fields that make a tokenizer BERT's, with their allowed values.
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
    let ids = document.vocabulary()?;
    let listed = ids.len();
    let tokens = in_order(path, ids)?;
    let pieces = WordPiece::of(tokens, document.normalizer()?, name, most as usize);
    let cleanup = document.switch("/decoder/cleanup")?.unwrap_or(true);
    let pieces = pieces.map_err(|error| of_files([path, path], error))?.with_cleanup(cleanup);
    settings.tokenizer(Vocabulary::WordPiece(pieces), None, (listed, document.added()?), document.pairs())
}

/// Returns an error for an option of BertJapaneseTokenizer that Gradus does not support.
fn has_usual_options(settings: &Settings<'_>) -> Result<(), TextError> {
    let remedy = "BertJapaneseTokenizer with another value splits text in a way that Gradus does not support: take another model";
    for (name, allowed) in [
        ("do_word_tokenize", json!(true)),
        ("do_subword_tokenize", json!(true)),
        ("split_special_tokens", json!(false)),
        ("never_split", json!([])),
    ] {
        settings.only(name, &[allowed], remedy)?;
    }
    Ok(())
}

/// Returns the WordPiece that a class builds from these tokens.
pub(super) fn of_class(
    settings: &Settings<'_>,
    class: &'static Class,
    path: &Path,
    ids: Vec<(String, u32)>,
    added: Vec<SavedToken>,
) -> Result<Tokenizer, TextError> {
    let is_japanese = class.form == Form::Japanese;
    let lowercase = settings.switch("do_lower_case")?.unwrap_or(!is_japanese);
    let (mut pieces_are, mut normalizer) = (Pieces::Longest, Normalizer::japanese(lowercase));
    if is_japanese {
        has_usual_options(settings)?;
        pieces_are = match [settings.text(WORDS)?.unwrap_or("basic"), settings.text(PIECES)?.unwrap_or("wordpiece")] {
            ["basic", "wordpiece"] => Pieces::Longest,
            ["basic", "character"] => Pieces::Characters,
            [words, pieces] => {
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
    let (unknown, listed) = (settings.unknown(class)?, ids.len());
    let pieces =
        WordPiece::of(in_order(path, ids)?, normalizer, &unknown, LONGEST).map_err(|error| of_files([path, path], error))?;
    settings.tokenizer(Vocabulary::WordPiece(pieces.with_pieces(pieces_are)), Some(class), (listed, added), None)
}

/// Reads `vocab.txt` as `tokenizers` does: the lines are numbered from 0, and trailing white space is removed. A blank line
/// leaves its id unused. A token on two lines has the number of the later one. BertJapaneseTokenizer reads it as Python does:
/// white space is kept, and a carriage return also ends a line. `added`: the added tokens of a `tokenizer.json` beside it.
pub(super) fn load_lines(source: Source<'_>, name: &str, added: Vec<SavedToken>) -> Result<Tokenizer, TextError> {
    let (path, text) = (&source.path(name), source.read(name)?);
    let settings = Settings::read(source)?;
    let class = settings.class_of_lists()?.unwrap_or(&class::BERT);
    let universal = text.replace("\r\n", "\n").replace('\r', "\n");
    let last: HashMap<&str, u32> = match class.form {
        Form::WordPiece => text.lines().map(str::trim_end).zip(0..).collect(),
        Form::Japanese => universal.lines().zip(0..).collect(),
        _ => {
            let expected = format!("a class that reads {name}, such as BertTokenizer");
            return Err(settings.other_class(
                &expected,
                class.names[0],
                "The files do not belong together: copy the model again",
            ));
        }
    };
    let mut ids: Vec<(String, u32)> = last.into_iter().map(|(token, id)| (token.to_owned(), id)).collect();
    ids.sort_unstable_by_key(|(_, id)| *id);
    of_class(&settings, class, path, ids, added)
}
