//! The configuration files of a tokenizer: `tokenizer_config.json`, in older releases `special_tokens_map.json` and
//! `added_tokens.json`, and the model's `config.json`, which may give the class.
//!
//! Tokens are added in the order of `transformers` (`_from_pretrained`, and `TokenizersBackend.__init__`), in two steps:
//!
//! 1. the added tokens of `tokenizer.json`, if no class builds the pipeline;
//! 2. the tokens with ids, in order of their ids: `added_tokens_decoder`, or, without it, `added_tokens.json` and the added
//!    tokens of `tokenizer.json`; then the special tokens (`specials.rs`) that are not yet added.
//!
//! A token that is added again has the later options. A token outside the vocabulary has the next id: the number of tokens in
//! the vocabulary, or, if an earlier step added a greater id, the one after that. In a vocabulary with unused ids this may be the
//! id of another token.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::class::{self, Class, Form};
use super::ordered::{Field, Object};
use super::specials::{Given, Specials};
use super::{CONFIG, DAMAGED, ROWLESS, SavedToken, Source, TOKENIZER, end_of_ids, format_error, short};
use crate::added::AddedToken;
use crate::error::TextError;
use crate::matcher::Edges;
use crate::roles::{Pairs, Roles};
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;

/// The special tokens of each role, in older releases.
pub(super) const SPECIALS: &str = "special_tokens_map.json";
/// Added tokens and their ids, in older releases.
const ADDED: &str = "added_tokens.json";
/// Added tokens by id, in [`CONFIG`].
const DECODER: &str = "added_tokens_decoder";
/// The model's configuration.
const MODEL: &str = "config.json";

/// The class of a tokenizer.
struct Named {
    name: String,
    /// The file and the field that give it.
    file: &'static str,
    field: &'static str,
}

/// The contents of a tokenizer's configuration files.
pub(super) struct Settings<'a> {
    pub source: Source<'a>,
    /// `tokenizer_config.json`.
    pub config: Object,
    /// `special_tokens_map.json`; empty if the configuration has `added_tokens_decoder`, with which `transformers` ignores it.
    pub specials: Object,
    named: Option<Named>,
}

impl<'a> Settings<'a> {
    pub(super) fn read(source: Source<'a>) -> Result<Self, TextError> {
        let config: Object = source.find_json(CONFIG)?.unwrap_or_default();
        let specials = if config.get(DECODER).is_some() { None } else { source.find_json(SPECIALS)? };
        let mut settings = Settings { source, config, specials: specials.unwrap_or_default(), named: None };
        settings.named = settings.named()?;
        Ok(settings)
    }

    /// Returns the class that AutoTokenizer takes: the one of the tokenizer's configuration, of the model's, or of the model's
    /// type.
    fn named(&self) -> Result<Option<Named>, TextError> {
        const FIELDS: [&str; 2] = ["tokenizer_class", "model_type"];
        let mut model = Object::default();
        if let Some(text) = self.source.find(MODEL)? {
            // Python writes numbers that JSON lacks. They do not matter in this file.
            let text = ["-Infinity", "Infinity", "NaN"].iter().fold(text, |text, number| text.replace(number, "null"));
            model = serde_json::from_str(&text).map_err(|error| {
                let place = format!("line {}, column {}", error.line(), error.column());
                format_error(&self.source.path(MODEL), &place, "the model's configuration", format!("not JSON: {error}"), DAMAGED)
            })?;
        }
        let own = match self.option(FIELDS[0]) {
            None => None,
            Some(field) => Some(field.as_str().ok_or_else(|| self.bad(FIELDS[0], "the name of a class", field))?),
        };
        let of_model = FIELDS.map(|field| model.get(field).and_then(Field::as_str));
        let given = own.map(|own| (own, CONFIG)).or_else(|| Some((of_model[0]?, MODEL)));
        let mut chosen = class::chosen(given.map(|(name, _)| name), of_model[1].unwrap_or_default());
        // LlamaTokenizer is not byte-level, so `transformers` uses the file unchanged.
        if given.is_some_and(|(name, _)| class::plain(name) == "LlamaTokenizer")
            && self.source.find(TOKENIZER)?.is_some_and(|text| text.contains("\"ByteLevel\""))
        {
            chosen = Some("TokenizersBackend");
        }
        Ok(chosen.map(|name| match given {
            Some((own, file)) if own == name => Named { name: name.into(), file, field: FIELDS[0] },
            _ => Named { name: name.into(), file: MODEL, field: FIELDS[1] },
        }))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.source.path(CONFIG)
    }

    /// Returns the class; `None` if none is given, or one that uses `tokenizer.json` unchanged.
    pub(super) fn class(&self) -> Result<Option<&'static Class>, TextError> {
        let Some(named) = &self.named else { return Ok(None) };
        class::named(&named.name).map_err(|name| self.refused(name))
    }

    /// Returns the class for files without a pipeline (`vocab.txt`, `vocab.json`). Returns an error if the class is unknown.
    pub(super) fn class_of_lists(&self) -> Result<Option<&'static Class>, TextError> {
        let class = self.class()?;
        match &self.named {
            Some(named) if class.is_none() && !class::is_of_the_file(&named.name) => Err(self.refused(&named.name)),
            _ => Ok(class),
        }
    }

    /// Returns whether a class is given.
    pub(super) fn has_class(&self) -> bool {
        self.named.is_some()
    }

    /// Returns the error of a class.
    pub(super) fn other_class(&self, expected: &str, found: &str, remedy: &str) -> TextError {
        let (file, field) = self.named.as_ref().map_or((CONFIG, "tokenizer_class"), |named| (named.file, named.field));
        format_error(&self.source.path(file), &format!("/{field}"), expected, found.to_owned(), remedy)
    }

    /// Returns the error of a class that Gradus does not read.
    pub(super) fn refused(&self, found: &str) -> TextError {
        let expected = "a tokenizer of GPT-1 (OpenAIGPTTokenizer), BERT (BertTokenizer), GPT-2 or RoBERTa, or \
            PreTrainedTokenizerFast, which is read as tokenizer.json specifies";
        let remedy =
            format!("{found} splits text differently, so another class would give other ids: take a model with one of those");
        self.other_class(expected, found, &remedy)
    }

    /// Returns an option of the configuration; `None` if it is absent or null.
    fn option(&self, name: &str) -> Option<&Field> {
        self.config.get(name).filter(|value| !value.is_null())
    }

    /// Returns the error of an option.
    pub(super) fn bad(&self, name: &str, expected: &str, found: &Field) -> TextError {
        format_error(&self.path(), &format!("/{name}"), expected, short(&found.to_value()), DAMAGED)
    }

    /// Returns an error unless an option is absent, null, or one of these values.
    pub(super) fn only(&self, name: &str, allowed: &[Value], remedy: &str) -> Result<(), TextError> {
        match self.option(name).map(Field::to_value) {
            Some(value) if !allowed.contains(&value) => {
                Err(format_error(&self.path(), &format!("/{name}"), &allowed[0].to_string(), short(&value), remedy))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn switch(&self, name: &str) -> Result<Option<bool>, TextError> {
        match self.option(name) {
            None => Ok(None),
            Some(Field::Other(Value::Bool(on))) => Ok(Some(*on)),
            Some(other) => Err(self.bad(name, "true or false", other)),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, TextError> {
        self.option(name).map(|value| value.as_str().ok_or_else(|| self.bad(name, "a text", value))).transpose()
    }

    /// Returns the token for unknown words of a class.
    pub(super) fn unknown(&self, class: &Class) -> Result<String, TextError> {
        let none = || self.bad("unk_token", "a token for unknown words", &Field::Other(Value::Null));
        Ok(self.role("unk_token", Some(class))?.ok_or_else(none)?.token.content)
    }

    /// Creates the tokenizer of a vocabulary in which a file lists `listed` tokens, with its added tokens. `added`: the ones of
    /// `tokenizer.json`.
    pub(super) fn tokenizer(
        &self,
        vocabulary: Vocabulary,
        class: Option<&'static Class>,
        (listed, added): (usize, Vec<SavedToken>),
        pairs: Option<Pairs>,
    ) -> Result<Tokenizer, TextError> {
        let pairs = class.map_or(pairs, |class| class.pairs);
        let mut tokenizer = Tokenizer { roles: Roles { pairs, ..Roles::default() }, listed, ..Tokenizer::of(vocabulary) };
        tokenizer.added.split = self.switch("split_special_tokens")?.unwrap_or(false);
        if class.is_none() {
            self.add(&mut tokenizer, added.iter().cloned().map(|token| Given::of(token, TOKENIZER)).collect())?;
        }
        let mut tokens: Vec<Given> = self.with_ids(added)?.into_values().collect();
        let mut known: HashSet<String> = tokens.iter().map(|given| given.token.content.clone()).collect();
        known.extend(tokenizer.added.as_slice().iter().map(|token| token.content.clone()));
        let Specials { named, extra } = self.specials(class)?;
        // A class that no file gives adds no ids to the vocabulary.
        let is_kept = |given: &Given| {
            let content = &given.token.content;
            let adds = given.file.is_some() || self.has_class() || tokenizer.token_id(content).is_some();
            adds && !content.is_empty()
        };
        let named: Vec<(String, Given)> = named.into_iter().filter(|(_, given)| is_kept(given)).collect();
        let names: HashSet<String> = named.iter().map(|(_, given)| given.token.content.clone()).collect();
        let mut seen = HashSet::new();
        tokens.extend(
            named
                .iter()
                .map(|(_, given)| given)
                .cloned()
                .chain(extra.into_iter().filter(|given| !given.token.content.is_empty()))
                .filter(|given| !known.contains(&given.token.content) && seen.insert(given.clone())),
        );
        for given in &mut tokens {
            given.token.special |= names.contains(&given.token.content);
        }
        tokenizer.roles.names = named.into_iter().map(|(role, given)| (role, given.token.content)).collect();
        match class {
            Some(class) if class.form == Form::Japanese => self.add_in_python(&mut tokenizer, tokens)?,
            _ => self.add(&mut tokenizer, tokens)?,
        }
        let Some(value) = self.config.get(ROWLESS).filter(|value| !value.is_null()) else { return Ok(tokenizer) };
        let ids = Range::deserialize(value.to_value())
            .map_err(|_| self.bad(ROWLESS, "the start and the end of a range of ids", value))?;
        Ok(tokenizer.without_rows(ids))
    }

    /// Adds tokens in one step, as `tokenizers` does.
    fn add(&self, tokenizer: &mut Tokenizer, tokens: Vec<Given>) -> Result<(), TextError> {
        let mut next = tokenizer.next_id();
        for given in tokens {
            let id = tokenizer.token_id(&given.token.content).unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            let (path, stated) = (self.source.path(given.file.unwrap_or(CONFIG)), given.token.id);
            insert(&path, tokenizer, SavedToken { id: stated.or(Some(id)), ..given.token }, id)?;
        }
        Ok(())
    }

    /// Adds tokens as `PythonBackend.__init__` does: tokens with ids keep them, and all are matched in the raw text.
    fn add_in_python(&self, tokenizer: &mut Tokenizer, tokens: Vec<Given>) -> Result<(), TextError> {
        let (with_ids, specials): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|given| given.token.id.is_some());
        let outside = with_ids.iter().filter(|given| tokenizer.vocabulary.id(&given.token.content).is_none()).count();
        let mut next = (tokenizer.listed + outside) as u32;
        for given in with_ids {
            let path = self.source.path(given.file.unwrap_or(CONFIG));
            let id = given.token.id.unwrap_or_default();
            let place = format!("added token {:?}", given.token.content);
            if given.token.single_word {
                let remedy = "BertJapaneseTokenizer splits the text next to such a token differently: leave the option out";
                return Err(format_error(&path, &place, "no single_word", "true".into(), remedy));
            }
            if id as usize >= end_of_ids(tokenizer.listed + outside) {
                let expected = format!("an id below {}", end_of_ids(tokenizer.listed + outside));
                return Err(format_error(&path, &place, &expected, format!("id {id}"), DAMAGED));
            }
            insert(&path, tokenizer, SavedToken { normalized: Some(false), ..given.token }, id)?;
        }
        for given in specials {
            if tokenizer.added.id(&given.token.content).is_some() {
                continue;
            }
            let id = tokenizer.vocabulary.id(&given.token.content).unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            let bare = SavedToken { id: Some(id), content: given.token.content, special: true, ..SavedToken::default() };
            insert(&self.path(), tokenizer, bare, id)?;
        }
        Ok(())
    }

    /// Returns the added tokens with ids. `listed`: the ones of `tokenizer.json`.
    fn with_ids(&self, listed: Vec<SavedToken>) -> Result<BTreeMap<u32, Given>, TextError> {
        let mut all = BTreeMap::new();
        if let Some(decoder) = self.config.get(DECODER) {
            let decoder = decoder.as_object().ok_or_else(|| self.bad(DECODER, "an object of ids and tokens", decoder))?;
            for (id, token) in decoder.iter() {
                let place = format!("{DECODER}/{id}");
                let bad = |found| format_error(&self.path(), &format!("/{place}"), "an id with {content, …}", found, DAMAGED);
                let number = id.parse::<u32>().map_err(|_| bad(id.to_owned()))?;
                let object = token.as_object().ok_or_else(|| bad(short(&token.to_value())))?;
                all.insert(number, Given::with_options(&self.path(), CONFIG, &place, object)?.with_id(number));
            }
            return Ok(all);
        }
        if let Some(older) = self.source.find_json::<Object>(ADDED)? {
            let specials = self.special_names()?;
            for (content, id) in older.iter() {
                let bad = || {
                    format_error(&self.source.path(ADDED), &format!("token {content:?}"), "an id", short(&id.to_value()), DAMAGED)
                };
                let number = id.to_value().as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(bad)?;
                let special = specials.contains(content);
                let (content, normalized) = (content.to_owned(), Some(!special));
                let token = SavedToken { id: Some(number), content, special, normalized, ..SavedToken::default() };
                all.insert(number, Given::of(token, ADDED));
            }
        }
        all.extend(listed.into_iter().filter_map(|token| Some((token.id?, Given::of(token, TOKENIZER)))));
        Ok(all)
    }
}

/// Adds a token that a file lists. Returns an error if the file gives another id than `id`.
pub(super) fn insert(path: &Path, tokenizer: &mut Tokenizer, token: SavedToken, id: u32) -> Result<(), TextError> {
    let place = format!("added token {:?}", token.content);
    if let Some(stated) = token.id.filter(|stated| *stated != id) {
        let remedy = format!(
            "Read in this order, the token has the id {id} in `transformers`: put back a copy of the file, or correct it"
        );
        return Err(format_error(path, &place, &format!("id {id}"), format!("id {stated}"), &remedy));
    }
    let edges = Edges { left: token.lstrip, right: token.rstrip, word: token.single_word };
    let normalized = token.normalized.unwrap_or(!token.special);
    let SavedToken { content, special, .. } = token;
    tokenizer
        .insert(AddedToken { content, id, special, normalized, edges })
        .map_err(|error| format_error(path, &place, "a token that can be matched", error.to_string(), DAMAGED))
}
