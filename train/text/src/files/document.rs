//! `tokenizer.json` in the format of `tokenizers`: the parts that all models share.

use std::path::Path;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};

use super::ordered::Field;
use super::specials::Given;
use super::{DAMAGED, SavedToken, TOKENIZER, format_error, short, two};
use crate::error::TextError;
use crate::normalizer::Normalizer;
use crate::roles::Pairs;
use crate::tokenizer::Tokenizer;

/// The file, field for field and in the order in which `transformers` writes it.
#[derive(Serialize)]
pub(super) struct Saved<M> {
    version: &'static str,
    truncation: Value,
    padding: Value,
    added_tokens: Vec<SavedToken>,
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    decoder: Value,
    model: M,
}

/// The parts of a tokenizer around its model.
pub(super) struct Around {
    pub normalizer: Value,
    pub pre_tokenizer: Value,
    pub post_processor: Value,
    pub decoder: Value,
}

impl<M> Saved<M> {
    pub(super) fn of(tokenizer: &Tokenizer, around: Around, model: M) -> Self {
        let added_tokens = tokenizer.added.as_slice().iter().map(SavedToken::of).collect();
        let Around { normalizer, pre_tokenizer, post_processor, decoder } = around;
        let (truncation, padding) = (Value::Null, Value::Null);
        Saved { version: "1.0", truncation, padding, added_tokens, normalizer, pre_tokenizer, post_processor, decoder, model }
    }
}

/// Returns the `TemplateProcessing` of one text and of two. `around`: the opening and the closing special token, each a name and
/// an id.
pub(super) fn template(around: Option<[(&str, u32); 2]>) -> Value {
    let sequence = |id: &str, type_id: u32| json!({"Sequence": {"id": id, "type_id": type_id}});
    let Some([open, close]) = around else {
        return json!({
            "type": "TemplateProcessing",
            "single": [sequence("A", 0)],
            "pair": [sequence("A", 0), sequence("B", 1)],
            "special_tokens": {},
        });
    };
    let token = |(name, _): (&str, u32), type_id: u32| json!({"SpecialToken": {"id": name, "type_id": type_id}});
    let listed = |(name, id): (&str, u32)| json!({"id": name, "ids": [id], "tokens": [name]});
    json!({
        "type": "TemplateProcessing",
        "single": [token(open, 0), sequence("A", 0), token(close, 0)],
        "pair": [token(open, 0), sequence("A", 0), token(close, 0), sequence("B", 1), token(close, 1)],
        "special_tokens": { (open.0): listed(open), (close.0): listed(close) },
    })
}

/// Returns the post-processor: the template of one text and of a pair, from the opening and closing special tokens.
pub(super) fn post_processor(tokenizer: &Tokenizer, marks: Option<[(&str, u32); 2]>, pairs: Pairs) -> Value {
    match marks {
        Some([(open, cls), (close, sep)]) if pairs == Pairs::ROBERTA => json!({
            "type": "RobertaProcessing",
            "sep": [close, sep],
            "cls": [open, cls],
            "trim_offsets": true,
            "add_prefix_space": tokenizer.begins_with_blank(),
        }),
        marks => template(marks),
    }
}

/// The field `model` of a BPE.
#[derive(Serialize)]
pub(super) struct SavedBpe<'a> {
    pub r#type: &'static str,
    pub dropout: Value,
    pub unk_token: Option<&'a str>,
    pub continuing_subword_prefix: &'static str,
    pub end_of_word_suffix: &'static str,
    pub fuse_unk: bool,
    pub byte_fallback: bool,
    pub ignore_merges: bool,
    pub vocab: ById<'a>,
    pub merges: Vec<(&'a str, &'a str)>,
}

impl<'a> SavedBpe<'a> {
    /// Creates a BPE with this vocabulary, these merges, and default options.
    pub fn new(vocab: ById<'a>, merges: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        SavedBpe {
            r#type: "BPE",
            dropout: Value::Null,
            unk_token: None,
            continuing_subword_prefix: "",
            end_of_word_suffix: "",
            fuse_unk: false,
            byte_fallback: false,
            ignore_merges: false,
            vocab,
            merges: merges.collect(),
        }
    }
}

/// Tokens as an object of tokens and ids.
pub(super) struct ById<'a> {
    tokens: &'a [String],
    /// The number of listed tokens; if it exceeds the number of tokens, the empty token is one of them.
    listed: usize,
}

impl<'a> ById<'a> {
    pub fn of(tokenizer: &Tokenizer, tokens: &'a [String]) -> Self {
        ById { tokens, listed: tokenizer.listed }
    }
}

impl Serialize for ById<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let used = self.tokens.iter().filter(|token| !token.is_empty()).count();
        // Unused ids are left out, except for an empty token, which counts.
        let is_listed = |id: &usize| used < self.listed || id + 1 == self.tokens.len();
        let empty = self.tokens.iter().rposition(String::is_empty).filter(is_listed);
        for (id, token) in self.tokens.iter().enumerate().filter(|(id, token)| !token.is_empty() || Some(*id) == empty) {
            map.serialize_entry(token, &id)?;
        }
        map.end()
    }
}

const NOT_OURS: &str = "Gradus reads tokenizers of the forms of GPT-1 (transformers' OpenAIGPTTokenizer), BERT (WordPiece), GPT-2 and \
    RoBERTa (byte-level BPE), and its own";

/// A field, by JSON pointer, and its allowed values.
pub(super) type Rule = (&'static str, Vec<Value>);

/// Returns the allowed values of a BPE's fields.
pub(super) fn rules_of_bpe() -> [Rule; 3] {
    [
        ("/model/continuing_subword_prefix", vec![Value::Null, json!("")]),
        ("/model/dropout", vec![Value::Null, json!(0.0), json!(0)]),
        ("/model/byte_fallback", vec![json!(false), Value::Null]),
    ]
}

/// A parsed `tokenizer.json`.
pub(super) struct Document<'a> {
    pub path: &'a Path,
    pub value: Value,
}

impl Document<'_> {
    /// Returns the value at a JSON pointer such as `/model/type`; `null` if absent.
    pub(super) fn at(&self, place: &str) -> &Value {
        self.value.pointer(place).unwrap_or(&Value::Null)
    }

    /// Returns an error if a field has a value that its rule does not allow.
    pub(super) fn obeys(&self, rules: impl IntoIterator<Item = Rule>) -> Result<(), TextError> {
        for (place, allowed) in rules {
            if !allowed.contains(self.at(place)) {
                return Err(self.other(place, &allowed[0].to_string()));
            }
        }
        Ok(())
    }

    /// Returns the error of a field with an unsupported value.
    pub(super) fn other(&self, place: &str, expected: &str) -> TextError {
        format_error(self.path, place, expected, short(self.at(place)), NOT_OURS)
    }

    /// Returns the normalizer.
    pub(super) fn normalizer(&self) -> Result<Normalizer, TextError> {
        let place = "/normalizer";
        Normalizer::from_json(self.at(place), place).map_err(|(place, found)| {
            let expected = match place.ends_with("/type") {
                true => "BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, a Sequence of them or null",
                false => "true or false",
            };
            format_error(self.path, &place, expected, short(found), NOT_OURS)
        })
    }

    /// Returns the JSON pointer of the pre-tokenizer, which may be in a `Sequence` of one, or an error if its type is another.
    pub(super) fn pre_tokenizer(&self, name: &str) -> Result<String, TextError> {
        let mut place = "/pre_tokenizer".to_owned();
        while let Some([_]) = self.at(&format!("{place}/pretokenizers")).as_array().map(Vec::as_slice) {
            place += "/pretokenizers/0";
        }
        let of_type = format!("{place}/type");
        if self.at(&of_type) == name { Ok(place) } else { Err(self.other(&of_type, &json!(name).to_string())) }
    }

    /// Returns the template of a pair of texts in the post-processor; `None` if it has none.
    pub(super) fn pairs(&self) -> Option<Pairs> {
        let processor = self.at("/post_processor");
        match processor["type"].as_str()? {
            "RobertaProcessing" => Some(Pairs::ROBERTA),
            "BertProcessing" => Some(Pairs::BERT),
            "TemplateProcessing" => {
                let items = processor["pair"].as_array()?;
                let place = |id: &str| items.iter().position(|item| item["Sequence"]["id"] == id);
                let (first, second) = (place("A")?, place("B")?);
                let between = second.checked_sub(first + 1).filter(|&n| n > 0)?;
                Some(Pairs { between, segments: items[second]["Sequence"]["type_id"] == 1 })
            }
            _ => None,
        }
    }

    /// Returns the lists of a BPE: vocabulary, merges and added tokens.
    pub(super) fn lists(&self) -> Result<Lists<'_>, TextError> {
        Ok(Lists {
            paths: [self.path; 2],
            vocabulary: self.vocabulary()?,
            merges: self.merges()?,
            added: self.added()?,
            pairs: self.pairs(),
        })
    }

    /// Returns whether the model is WordPiece. Older files omit its type.
    pub(super) fn is_word_piece(&self) -> bool {
        let name = self.at("/model/type");
        name == "WordPiece"
            || (name.is_null() && self.at("/model/merges").is_null() && self.at("/model/max_input_chars_per_word").is_u64())
    }

    /// Returns a boolean field; `None` if it is absent or null.
    pub(super) fn switch(&self, place: &str) -> Result<Option<bool>, TextError> {
        match self.at(place) {
            Value::Null => Ok(None),
            Value::Bool(on) => Ok(Some(*on)),
            _ => Err(self.other(place, "true or false")),
        }
    }

    /// Returns the tokens with their ids, in the file's order.
    pub(super) fn vocabulary(&self) -> Result<Vec<(String, u32)>, TextError> {
        let listed = self.at("/model/vocab");
        let bad = || format_error(self.path, "/model/vocab", "an object of tokens and ids", short(listed), DAMAGED);
        let mut ids = Vec::new();
        for (token, id) in listed.as_object().ok_or_else(bad)? {
            let bad = || format_error(self.path, &format!("/model/vocab, token {token:?}"), "an id", short(id), DAMAGED);
            ids.push((token.clone(), id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(bad)?));
        }
        Ok(ids)
    }

    /// Returns the merges, by rank.
    pub(super) fn merges(&self) -> Result<Vec<(String, String)>, TextError> {
        let listed = self.at("/model/merges");
        let bad = |place: &str, found| format_error(self.path, place, "merges: [\"a\", \"b\"] or \"a b\"", found, DAMAGED);
        let mut merges = Vec::new();
        for (i, merge) in listed.as_array().ok_or_else(|| bad("/model/merges", short(listed)))?.iter().enumerate() {
            let symbols = match merge {
                Value::String(line) => two(line.split(' ')),
                Value::Array(parts) => two(parts.iter().map(|p| p.as_str().unwrap_or_default())),
                _ => None,
            };
            merges.push(symbols.ok_or_else(|| bad(&format!("/model/merges/{i}"), short(merge)))?);
        }
        Ok(merges)
    }

    /// Returns the added tokens.
    pub(super) fn added(&self) -> Result<Vec<SavedToken>, TextError> {
        let listed = self.at("/added_tokens");
        let bad = |place: &str, found| format_error(self.path, place, "a list of {id, content, …}", short(found), DAMAGED);
        let tokens = match listed {
            Value::Null => &[],
            Value::Array(tokens) => tokens.as_slice(),
            _ => return Err(bad("/added_tokens", listed)),
        };
        let mut added = Vec::new();
        for (i, value) in tokens.iter().enumerate() {
            let place = format!("added_tokens/{i}");
            let Field::Object(fields) = Field::from(value.clone()) else { return Err(bad(&format!("/{place}"), value)) };
            let id = value["id"].as_u64().and_then(|id| u32::try_from(id).ok());
            let id = id.ok_or_else(|| format_error(self.path, &format!("/{place}/id"), "an id", short(&value["id"]), DAMAGED))?;
            added.push(Given::with_options(self.path, TOKENIZER, &place, &fields)?.with_id(id).token);
        }
        Ok(added)
    }
}

/// The lists of a BPE, with the paths of the vocabulary and of the merges for error messages.
pub(super) struct Lists<'a> {
    pub paths: [&'a Path; 2],
    pub vocabulary: Vec<(String, u32)>,
    pub merges: Vec<(String, String)>,
    /// The added tokens of `tokenizer.json`.
    pub added: Vec<SavedToken>,
    /// The template of a pair of texts.
    pub pairs: Option<Pairs>,
}
