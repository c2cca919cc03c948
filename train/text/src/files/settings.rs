//! The configuration files of a tokenizer: `tokenizer_config.json`, and in older releases `special_tokens_map.json` and
//! `added_tokens.json`.
//!
//! Tokens are added in the order of `transformers` (`_from_pretrained`, and `TokenizersBackend.__init__`):
//!
//! 1. the added tokens of `tokenizer.json`, if no class builds the pipeline;
//! 2. the tokens with ids, in order of their ids: `added_tokens_decoder`, or, without it, `added_tokens.json` and, if a class
//!    builds the pipeline, the added tokens of `tokenizer.json`;
//! 3. the special tokens by role, as configured, or else the class's;
//! 4. `extra_special_tokens`, or `additional_special_tokens`.
//!
//! A token that is already added keeps its options. A token without an id has its id in the vocabulary, or else the next free one.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::class::{self, Class};
use super::{CONFIG, DAMAGED, ROWLESS, SavedToken, Source, format_error, short};
use crate::added::{AddedToken, Edges};
use crate::error::TextError;
use crate::roles::{Pairs, Roles};
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;

/// The special tokens of each role, as older releases keep them.
const SPECIALS: &str = "special_tokens_map.json";
/// Added tokens and their ids, as older releases keep them.
const ADDED: &str = "added_tokens.json";
/// The roles that every class has, in the order of `transformers`.
const ROLES: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
/// Lists of special tokens without a role.
const EXTRA: [&str; 2] = ["extra_special_tokens", "additional_special_tokens"];

/// The contents of a tokenizer's configuration files.
pub(super) struct Settings<'a> {
    source: Source<'a>,
    /// `tokenizer_config.json`.
    pub config: Map<String, Value>,
    /// `special_tokens_map.json`; empty if the configuration has `added_tokens_decoder`, with which `transformers` ignores it.
    specials: Map<String, Value>,
}

impl<'a> Settings<'a> {
    pub(super) fn read(source: Source<'a>) -> Result<Self, TextError> {
        let config: Map<String, Value> = source.find_json(CONFIG)?.unwrap_or_default();
        let specials = if config.contains_key("added_tokens_decoder") { None } else { source.find_json(SPECIALS)? };
        Ok(Settings { source, config, specials: specials.unwrap_or_default() })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.source.path(CONFIG)
    }

    /// The class that the configuration names; `None` if it names none, or one that uses `tokenizer.json` unchanged.
    pub(super) fn class(&self) -> Result<Option<&'static Class>, TextError> {
        match self.option("tokenizer_class") {
            None => Ok(None),
            Some(Value::String(name)) => class::named(name).map_err(|name| self.refused(name)),
            Some(other) => Err(self.bad("tokenizer_class", "the name of a class", other)),
        }
    }

    /// The class for files without a pipeline (`vocab.txt`, `vocab.json`). Returns an error if the class is unknown.
    pub(super) fn class_of_lists(&self) -> Result<Option<&'static Class>, TextError> {
        let class = self.class()?;
        match self.text("tokenizer_class")? {
            Some(name) if class.is_none() && !class::is_of_the_file(name) => Err(self.refused(name)),
            _ => Ok(class),
        }
    }

    /// Returns whether the configuration names a class.
    pub(super) fn has_class(&self) -> bool {
        self.option("tokenizer_class").is_some()
    }

    /// The error of a class that Gradus does not read.
    pub(super) fn refused(&self, found: &str) -> TextError {
        let expected = "a tokenizer of GPT-1 (OpenAIGPTTokenizer), BERT (BertTokenizer), GPT-2 or RoBERTa, or PreTrainedTokenizerFast, \
            which is read as tokenizer.json says";
        let remedy = format!(
            "{found} cuts text in a way of its own, so read as another it would give other ids: take a model with one of those"
        );
        format_error(&self.path(), "/tokenizer_class", expected, found.to_owned(), &remedy)
    }

    /// An option of the configuration; `None` if it is absent or null.
    fn option(&self, name: &str) -> Option<&Value> {
        self.config.get(name).filter(|value| !value.is_null())
    }

    fn bad(&self, name: &str, expected: &str, found: &Value) -> TextError {
        format_error(&self.path(), &format!("/{name}"), expected, short(found), DAMAGED)
    }

    pub(super) fn switch(&self, name: &str) -> Result<Option<bool>, TextError> {
        match self.option(name) {
            None => Ok(None),
            Some(Value::Bool(on)) => Ok(Some(*on)),
            Some(other) => Err(self.bad(name, "true or false", other)),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, TextError> {
        self.option(name).map(|value| value.as_str().ok_or_else(|| self.bad(name, "a text", value))).transpose()
    }

    /// The token of a role: the configured one, or else the class's.
    pub(super) fn token(&self, role: &str, class: Option<&Class>) -> Result<Option<String>, TextError> {
        let settings =
            self.entry(role).map(|(path, value)| token_of(&path, role, value).map(|token| token.content)).transpose()?;
        Ok(settings.or_else(|| of_class(class, role).map(str::to_owned)))
    }

    /// The configured token of a role, and the path of its file.
    fn entry(&self, role: &str) -> Option<(PathBuf, &Value)> {
        let given = |value: &&Value| !value.is_null();
        let older = self.specials.get(role).filter(given).map(|value| (self.source.path(SPECIALS), value));
        older.or_else(|| self.config.get(role).filter(given).map(|value| (self.path(), value)))
    }

    /// The tokenizer of a vocabulary, with its added tokens. `listed`: the added tokens of `tokenizer.json`.
    pub(super) fn tokenizer(
        &self,
        vocabulary: Vocabulary,
        class: Option<&'static Class>,
        listed: Vec<SavedToken>,
        pairs: Option<Pairs>,
    ) -> Result<Tokenizer, TextError> {
        let pairs = class.map_or(pairs, |class| class.pairs);
        let mut tokenizer = Tokenizer { roles: Roles { pairs, ..Roles::default() }, ..Tokenizer::of(vocabulary) };
        let config = self.path();
        let of_file = self.source.path(super::TOKENIZER);
        let mut with_ids = Vec::new();
        match class {
            None => insert(&of_file, &mut tokenizer, listed)?,
            Some(_) if !self.config.contains_key("added_tokens_decoder") => {
                with_ids.extend(listed.into_iter().map(|token| (of_file.clone(), token)));
            }
            Some(_) => {}
        }
        if self.config.contains_key("added_tokens_decoder") {
            with_ids.extend(self.decoder()?.into_iter().map(|token| (config.clone(), token)));
        } else if let Some(older) = self.source.find_json::<Map<String, Value>>(ADDED)? {
            let path = self.source.path(ADDED);
            let special = self.special_names(class)?;
            for (content, id) in older {
                let bad = || format_error(&path, &format!("token {content:?}"), "an id", short(&id), DAMAGED);
                let number = id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(bad)?;
                let special = special.contains(&content);
                with_ids.push((path.clone(), SavedToken { id: number, content, special, ..SavedToken::default() }));
            }
        }
        with_ids.sort_by_key(|(_, token)| token.id);
        for (path, token) in with_ids {
            if tokenizer.added.id(&token.content).is_none() {
                insert(&path, &mut tokenizer, vec![token])?;
            }
        }
        self.insert_specials(&mut tokenizer, class)?;
        let Some(value) = self.option(ROWLESS) else { return Ok(tokenizer) };
        let ids = Range::deserialize(value).map_err(|_| self.bad(ROWLESS, "the start and the end of a range of ids", value))?;
        Ok(tokenizer.without_rows(ids))
    }

    /// The tokens of `added_tokens_decoder`.
    fn decoder(&self) -> Result<Vec<SavedToken>, TextError> {
        let config = self.path();
        let all = &self.config["added_tokens_decoder"];
        let mut added = Vec::new();
        for (id, token) in all.as_object().into_iter().flatten() {
            let place = format!("/added_tokens_decoder/{id}");
            let bad = |found| format_error(&config, &place, "an id with {content, …}", found, DAMAGED);
            let number = id.parse::<u32>().map_err(|_| bad(id.clone()))?;
            let Value::Object(mut token) = token.clone() else { return Err(bad(short(token))) };
            token.insert("id".into(), number.into());
            added.push(serde_json::from_value(token.into()).map_err(|error| bad(error.to_string()))?);
        }
        Ok(added)
    }

    /// The names of all special tokens.
    fn special_names(&self, class: Option<&Class>) -> Result<Vec<String>, TextError> {
        let roles = ROLES.iter().map(|role| self.token(role, class)).collect::<Result<Vec<_>, _>>()?;
        let extra = self.extra()?.into_iter().map(|(_, token)| token.content);
        Ok(roles.into_iter().flatten().chain(extra).collect())
    }

    /// The special tokens outside [`ROLES`], each with the name of its role if it has one.
    fn extra(&self) -> Result<Vec<(Option<String>, SavedToken)>, TextError> {
        let mut all = Vec::new();
        for (role, value) in self.config.iter().filter(|(name, value)| {
            name.ends_with("_token") && !ROLES.contains(&name.as_str()) && (value.is_string() || is_token(value))
        }) {
            all.push((Some(role.clone()), token_of(&self.path(), role, value)?));
        }
        let files = [(self.path(), &self.config), (self.source.path(SPECIALS), &self.specials)];
        for (path, file) in files {
            let filled = |name: &&str| file.get(*name).is_some_and(|v| !v.is_null() && *v != serde_json::json!([]));
            let Some(name) = EXTRA.into_iter().find(filled) else { continue };
            match &file[name] {
                Value::Object(by_role) => {
                    for (role, value) in by_role {
                        all.push((Some(role.clone()), token_of(&path, &format!("{name}/{role}"), value)?));
                    }
                }
                Value::Array(list) => {
                    for (i, value) in list.iter().enumerate() {
                        all.push((None, token_of(&path, &format!("{name}/{i}"), value)?));
                    }
                }
                other => return Err(format_error(&path, &format!("/{name}"), "a list of tokens", short(other), DAMAGED)),
            }
        }
        Ok(all)
    }

    /// Adds the special tokens and stores their roles.
    fn insert_specials(&self, tokenizer: &mut Tokenizer, class: Option<&Class>) -> Result<(), TextError> {
        for role in ROLES {
            let (token, is_given) = match (self.entry(role), of_class(class, role)) {
                (Some((path, value)), _) => (token_of(&path, role, value)?, true),
                (None, Some(name)) => {
                    let left = role == "mask_token" && class.is_some_and(|class| class.mask_left);
                    (SavedToken { content: name.into(), special: true, lstrip: left, ..SavedToken::default() }, false)
                }
                (None, None) => continue,
            };
            // A default class, which the configuration does not name, adds no ids to the vocabulary.
            if is_given || self.has_class() || tokenizer.token_id(&token.content).is_some() {
                tokenizer.roles.names.insert(role.into(), token.content.clone());
                self.insert_next(tokenizer, token)?;
            }
        }
        for (role, token) in self.extra()? {
            if let Some(role) = role {
                tokenizer.roles.names.insert(role, token.content.clone());
            }
            self.insert_next(tokenizer, token)?;
        }
        Ok(())
    }

    /// Adds a token, unless it is already added, with its id in the vocabulary or else the next free one.
    fn insert_next(&self, tokenizer: &mut Tokenizer, token: SavedToken) -> Result<(), TextError> {
        if tokenizer.added.id(&token.content).is_some() {
            return Ok(());
        }
        let id = tokenizer.token_id(&token.content).unwrap_or(tokenizer.vocab_size() as u32);
        insert(&self.path(), tokenizer, vec![SavedToken { id, ..token }])
    }
}

/// The special token that a class has in a role.
fn of_class(class: Option<&Class>, role: &str) -> Option<&'static str> {
    class?.specials.iter().find(|(name, _)| *name == role).map(|(_, token)| *token)
}

/// Returns whether a JSON value is a token object.
fn is_token(value: &Value) -> bool {
    value["content"].is_string()
}

/// Parses a special token: a string, or an object with its content and options.
fn token_of(path: &Path, place: &str, value: &Value) -> Result<SavedToken, TextError> {
    match value {
        Value::String(content) => Ok(SavedToken { content: content.clone(), special: true, ..SavedToken::default() }),
        Value::Object(fields) => {
            let mut fields = fields.clone();
            fields.insert("id".into(), 0.into());
            if path.ends_with(SPECIALS) {
                fields.insert("special".into(), true.into());
            }
            let token: Result<SavedToken, _> = serde_json::from_value(fields.into());
            let bad = |e: serde_json::Error| format_error(path, &format!("/{place}"), "a token", e.to_string(), DAMAGED);
            token
                .map(|token| SavedToken { special: true, normalized: token.normalized.or(Some(!token.special)), ..token })
                .map_err(bad)
        }
        other => Err(format_error(path, &format!("/{place}"), "a token", short(other), DAMAGED)),
    }
}

/// Adds the tokens that a file lists. Returns an error if a token's id is neither its id in the vocabulary nor, for a token outside
/// it, the next free one.
pub(super) fn insert(path: &Path, tokenizer: &mut Tokenizer, mut added: Vec<SavedToken>) -> Result<(), TextError> {
    added.sort_by_key(|t| t.id);
    for token in added {
        let place = format!("added token {:?}", token.content);
        let id = tokenizer.token_id(&token.content).unwrap_or(tokenizer.vocab_size() as u32);
        if token.id != id {
            return Err(format_error(path, &place, &format!("id {id}"), format!("id {}", token.id), DAMAGED));
        }
        let edges = Edges { left: token.lstrip, right: token.rstrip, word: token.single_word };
        let normalized = token.normalized.unwrap_or(!token.special);
        let SavedToken { id, content, special, .. } = token;
        tokenizer
            .insert(AddedToken { content, id, special, normalized, edges })
            .map_err(|error| format_error(path, &place, "a token that can be matched", error.to_string(), DAMAGED))?;
    }
    Ok(())
}
