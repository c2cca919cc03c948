//! WordPiece: `tokenizer.json` as `transformers`' BertTokenizer writes it, and `vocab.txt`, a line per token, as Google's code has it.

use serde::Serialize;
use serde_json::{Value, json};

use super::document::{Around, Document, Rule, Saved, by_id, template};
use super::{CONFIG, DAMAGED, Source, add_specials, added_of, format_error, in_order, insert_added, of_files, short};
use crate::added::{AddedToken, AddedTokens};
use crate::basic::Cleaning;
use crate::error::TextError;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;
use crate::wordpiece::{GOES_ON, LONGEST, UNKNOWN_WORD, WordPiece};

/// The bound of a longest word, in characters, so that no file makes a word's time its own square.
const MOST: u64 = 1000;
/// The class that reads such tokenizers, and one that makes nothing of its own beside `tokenizer.json`.
const CLASSES: [&str; 2] = ["BertTokenizer", "PreTrainedTokenizerFast"];

#[derive(Serialize)]
pub(super) struct SavedPieces<'a> {
    r#type: &'static str,
    unk_token: &'a str,
    continuing_subword_prefix: &'static str,
    max_input_chars_per_word: usize,
    #[serde(serialize_with = "by_id")]
    vocab: &'a [String],
}

pub(super) fn saved<'a>(pieces: &'a WordPiece, added: &AddedTokens) -> Saved<SavedPieces<'a>> {
    let Cleaning { clean, ideographs, accents, lowercase } = pieces.cleaning();
    let [open, close] = ["[CLS]", "[SEP]"].map(|name| added.id(name).map(|id| (name, id)));
    let around = Around {
        normalizer: json!({
            "type": "BertNormalizer",
            "clean_text": clean,
            "handle_chinese_chars": ideographs,
            "strip_accents": if accents == lowercase { Value::Null } else { accents.into() },
            "lowercase": lowercase,
        }),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        post_processor: template(open.zip(close).map(<[_; 2]>::from)),
        decoder: json!({"type": "WordPiece", "prefix": GOES_ON, "cleanup": pieces.cleanup()}),
    };
    let model = SavedPieces {
        r#type: "WordPiece",
        unk_token: &pieces.tokens()[pieces.unknown() as usize],
        continuing_subword_prefix: GOES_ON,
        max_input_chars_per_word: pieces.longest(),
        vocab: pieces.tokens(),
    };
    Saved::of(around, model, added)
}

/// `tokenizer_config.json`. `BertTokenizer` makes its own of what it says, which cannot be everything.
pub(super) fn roles(pieces: &WordPiece, added: &AddedTokens) -> Value {
    let Cleaning { clean, ideographs, accents, lowercase } = pieces.cleaning();
    let names = [("pad", "[PAD]"), ("unk", UNKNOWN_WORD), ("cls", "[CLS]"), ("sep", "[SEP]"), ("mask", "[MASK]")];
    let is_berts =
        clean && pieces.longest() == LONGEST && pieces.cleanup() && names.iter().all(|(_, name)| added.id(name).is_some());
    let mut roles = json!({ "tokenizer_class": CLASSES[usize::from(!is_berts)], "backend": "tokenizers" });
    for (role, name) in names.iter().filter(|(_, name)| added.id(name).is_some()) {
        roles[format!("{role}_token")] = json!(name);
    }
    if is_berts {
        roles["do_lower_case"] = lowercase.into();
        roles["strip_accents"] = if accents == lowercase { Value::Null } else { accents.into() };
        roles["tokenize_chinese_chars"] = ideographs.into();
    }
    roles
}

/// The fields that make a tokenizer BERT's, with the values that do.
fn rules() -> [Rule; 5] {
    [
        ("/normalizer/type", vec![json!("BertNormalizer")]),
        ("/pre_tokenizer/type", vec![json!("BertPreTokenizer")]),
        ("/decoder/type", vec![json!("WordPiece")]),
        ("/decoder/prefix", vec![json!(GOES_ON)]),
        ("/model/continuing_subword_prefix", vec![json!(GOES_ON)]),
    ]
}

pub(super) fn read(document: &Document<'_>) -> Result<Tokenizer, TextError> {
    document.obeys(rules())?;
    let switch = |place: &str| document.switch(place)?.ok_or_else(|| document.other(place, "true or false"));
    let lowercase = switch("/normalizer/lowercase")?;
    let cleaning = Cleaning {
        clean: switch("/normalizer/clean_text")?,
        ideographs: switch("/normalizer/handle_chinese_chars")?,
        accents: document.switch("/normalizer/strip_accents")?.unwrap_or(lowercase),
        lowercase,
    };
    let (unknown, longest) = ("/model/unk_token", "/model/max_input_chars_per_word");
    let name = document.at(unknown).as_str().ok_or_else(|| document.other(unknown, "a token"))?;
    let most = document.at(longest).as_u64().filter(|most| (1..=MOST).contains(most));
    let most = most.ok_or_else(|| document.other(longest, &format!("1 to {MOST}")))?;
    let path = document.path;
    let tokens = in_order(path, document.vocabulary()?)?;
    let pieces = WordPiece::of(tokens, cleaning, name, most as usize).map_err(|error| of_files([path, path], error))?;
    let pieces = pieces.with_cleanup(switch("/decoder/cleanup")?);
    let mut tokenizer = Tokenizer { vocabulary: Vocabulary::WordPiece(pieces), added: AddedTokens::default() };
    insert_added(path, &mut tokenizer, document.added()?)?;
    Ok(tokenizer)
}

/// `vocab.txt`, whose lines are numbered from 0. `tokenizer_config.json` says how text is cleaned, and which tokens are added.
pub(super) fn load_lines(source: Source<'_>, name: &str) -> Result<Tokenizer, TextError> {
    let (path, text) = (&source.path(name), source.read(name)?);
    let tokens = text.lines().map(str::to_owned).collect::<Vec<_>>();
    if let Some(at) = tokens.iter().position(String::is_empty) {
        return Err(format_error(path, &format!("line {}", at + 1), "a token", "an empty line".into(), DAMAGED));
    }
    let (mut added, mut cleaning) = (Vec::new(), Cleaning::ALL);
    if let Some(document) = source.find_json::<Value>(CONFIG)? {
        let config = source.path(CONFIG);
        added = added_of(&config, &document)?;
        let switch = |name: &str| match document.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(on)) => Ok(Some(*on)),
            Some(other) => Err(format_error(&config, &format!("/{name}"), "true or false", short(other), DAMAGED)),
        };
        cleaning.lowercase = switch("do_lower_case")?.unwrap_or(true);
        cleaning.accents = switch("strip_accents")?.unwrap_or(cleaning.lowercase);
        cleaning.ideographs = switch("tokenize_chinese_chars")?.unwrap_or(true);
    }
    let pieces = WordPiece::new(tokens, cleaning).map_err(|error| of_files([path, path], error))?;
    add_specials(&mut added, &AddedToken::BERT, |name| pieces.id(name));
    let mut tokenizer = Tokenizer { vocabulary: Vocabulary::WordPiece(pieces), added: AddedTokens::default() };
    insert_added(path, &mut tokenizer, added)?;
    Ok(tokenizer)
}
