//! The special tokens of the configuration files, in the order of `transformers` (`PreTrainedTokenizerBase._from_pretrained` and
//! `__init__`): the roles that every class has, further roles of a file, and lists without roles.
//!
//! A role in `special_tokens_map.json` overrides the one in `tokenizer_config.json`, which overrides the class's. Null means no
//! token.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use super::class::Class;
use super::ordered::{Field, Object, Ordered};
use super::settings::{SPECIALS, Settings};
use super::{CONFIG, DAMAGED, SavedToken, format_error, short};
use crate::error::TextError;

/// The roles that every class has, in the order of `transformers`.
const ROLES: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
/// The list of special tokens without a role, and its older name. In an object, the keys are roles.
const EXTRA: &str = "extra_special_tokens";
const ADDITIONAL: &str = "additional_special_tokens";
/// The further roles of a file, as `transformers` 5 writes them.
const OWN: &str = "model_specific_special_tokens";

/// A token given by a file or a class.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Given {
    pub token: SavedToken,
    /// The file; `None` for a class.
    pub file: Option<&'static str>,
    /// Whether the token is given as a string, without options.
    is_text: bool,
}

impl Given {
    pub(super) fn of(token: SavedToken, file: &'static str) -> Self {
        Given { token, file: Some(file), is_text: false }
    }

    fn text(content: &str, file: Option<&'static str>) -> Self {
        Given { token: SavedToken { content: content.into(), special: true, ..SavedToken::default() }, file, is_text: true }
    }

    pub(super) fn with_id(self, id: u32) -> Self {
        Given { token: SavedToken { id: Some(id), ..self.token }, ..self }
    }

    /// Returns the token of an object with its content and options.
    pub(super) fn with_options(path: &Path, file: &'static str, place: &str, fields: &Object) -> Result<Self, TextError> {
        let mut token = SavedToken::default();
        let mut content = None;
        for (name, value) in fields.iter() {
            let bad = |expected: &str| {
                Err(format_error(path, &format!("/{place}/{name}"), expected, short(&value.to_value()), DAMAGED))
            };
            let option = match name {
                "single_word" => &mut token.single_word,
                "lstrip" => &mut token.lstrip,
                "rstrip" => &mut token.rstrip,
                "special" => &mut token.special,
                "normalized" => token.normalized.insert(false),
                "content" => {
                    content = value.as_str();
                    continue;
                }
                _ => continue,
            };
            let Field::Other(Value::Bool(on)) = value else { return bad("true or false") };
            *option = *on;
        }
        let found = || short(&Field::Object(fields.clone()).to_value());
        let none = || format_error(path, &format!("/{place}"), "a token, with its content", found(), DAMAGED);
        token.content = content.ok_or_else(none)?.to_owned();
        Ok(Given::of(token, file))
    }
}

/// Returns whether a field of the configuration is an object that represents a token.
fn is_token(field: &Field) -> bool {
    field.as_object().and_then(|fields| fields.get("__type")).and_then(Field::as_str) == Some("AddedToken")
}

/// Returns whether Python takes a list or an object as true.
fn is_filled(field: &Field) -> bool {
    match field {
        Field::Object(object) => !object.is_empty(),
        Field::Other(Value::Array(list)) => !list.is_empty(),
        Field::Other(value) => !value.is_null(),
    }
}

/// The special tokens of the files and the class.
pub(super) struct Specials {
    /// Each role with its token.
    pub named: Vec<(String, Given)>,
    /// Tokens without a role.
    pub extra: Vec<Given>,
}

impl Settings<'_> {
    /// Returns the token of a role that every class has: the configured one, or else the class's.
    pub(super) fn role(&self, role: &str, class: Option<&Class>) -> Result<Option<Given>, TextError> {
        let older = self.specials.get(role).map(|field| (SPECIALS, field));
        let given = match older.or_else(|| Some((CONFIG, self.config.get(role)?))) {
            Some((_, field)) if field.is_null() => return Ok(None),
            Some((file, field)) => Some(self.given(file, role, field)?),
            None => class.and_then(|class| class.special(role)).map(|content| Given::text(content, None)),
        };
        Ok(given.map(|given| match class {
            Some(class) if class.mask_left && role == "mask_token" && given.is_text => {
                Given { token: SavedToken { lstrip: true, ..given.token }, is_text: false, ..given }
            }
            _ => given,
        }))
    }

    /// Returns the special tokens.
    pub(super) fn specials(&self, class: Option<&Class>) -> Result<Specials, TextError> {
        let mut named = Ordered::default();
        for role in ROLES {
            named.insert(role.to_owned(), self.role(role, class)?);
        }
        let Lists { own, mut extra, additional } = self.lists()?;
        match additional {
            Some(list) if list.field.as_object().is_some() => {
                let mut by_role = Ordered::default();
                self.roles(&mut by_role, list)?;
                by_role.into_entries().into_iter().for_each(|(role, given)| named.insert(role, Some(given)));
            }
            Some(list) => self.tokens(&mut extra, list)?,
            None => {}
        }
        // The configuration's own roles come first if they are objects, or else roles from the older file. A role in both has the
        // configuration's token.
        let objects = self.config.iter().filter(|(_, field)| field.as_str().is_none());
        for (role, field) in objects.chain(self.specials.iter()).filter(|(role, _)| is_own(role)) {
            let given = match self.specials.get(role) {
                Some(field) if field.as_str().is_some() || field.as_object().is_some() => self.given(SPECIALS, role, field)?,
                None if is_token(field) => self.given(CONFIG, role, field)?,
                _ => continue,
            };
            named.insert(role.to_owned(), own.get(role).cloned().or(Some(given)));
        }
        for (role, given) in own.iter() {
            named.insert(role.to_owned(), Some(given.clone()));
        }
        let named = named.into_entries().into_iter().filter_map(|(role, given)| Some((role, given?)));
        Ok(Specials { named: named.collect(), extra })
    }

    /// Returns the tokens that `transformers` treats as special in `added_tokens.json`: those of `special_tokens_map.json`, and
    /// those that `tokenizer_config.json` gives as strings.
    pub(super) fn special_names(&self) -> Result<HashSet<String>, TextError> {
        let roles = ROLES.iter().filter_map(|role| self.role(role, None).transpose()).collect::<Result<Vec<_>, _>>()?;
        let all = roles.into_iter().chain(self.lists()?.extra);
        Ok(all.filter(|given| given.is_text || given.file == Some(SPECIALS)).map(|given| given.token.content).collect())
    }

    /// Returns the lists of special tokens. An empty list in the configuration is replaced by the list of the older name.
    fn lists(&self) -> Result<Lists<'_>, TextError> {
        let mut own = Ordered::default();
        for (role, field) in self.config.iter().filter(|(role, field)| is_own(role) && field.as_str().is_some()) {
            own.insert(role.to_owned(), self.given(CONFIG, role, field)?);
        }
        let of = |file, name| {
            let fields = if file == CONFIG { &self.config } else { &self.specials };
            fields.get(name).map(|field| List { file, name, field })
        };
        let (mut list, mut additional) = (of(CONFIG, EXTRA), of(CONFIG, ADDITIONAL));
        if additional.is_some() && !list.is_some_and(|list| is_filled(list.field)) {
            list = additional.take();
        }
        if let Some(by_role) = list.take_if(|list| list.field.as_object().is_some()) {
            self.roles(&mut own, by_role)?;
        }
        if own.is_empty()
            && let Some(by_role) = of(CONFIG, OWN)
        {
            self.roles(&mut own, by_role)?;
        }
        let (mut extra, older) = (Vec::new(), of(SPECIALS, EXTRA));
        match older.map(|older| older.field) {
            Some(Field::Object(_)) => list = None,
            Some(Field::Other(Value::Array(_))) | None => {}
            Some(Field::Other(_)) => list = older,
        }
        let additional = of(SPECIALS, ADDITIONAL)
            .or(additional)
            .filter(|_| list.is_none() && older.is_none_or(|older| older.field.as_object().is_some()));
        if let Some(list) = list {
            self.tokens(&mut extra, list)?;
        }
        match older {
            Some(by_role) if by_role.field.as_object().is_some() => self.roles(&mut own, by_role)?,
            Some(older) if list.is_none_or(|list| list.file == CONFIG) => self.tokens(&mut extra, older)?,
            _ => {}
        }
        Ok(Lists { own, extra, additional })
    }

    /// Adds the tokens of an object by role.
    fn roles(&self, named: &mut Ordered<Given>, List { file, name, field }: List<'_>) -> Result<(), TextError> {
        for (role, field) in field.as_object().into_iter().flat_map(Object::iter) {
            named.insert(role.to_owned(), self.given(file, &format!("{name}/{role}"), field)?);
        }
        Ok(())
    }

    /// Adds the tokens of a list, which may be null.
    fn tokens(&self, all: &mut Vec<Given>, List { file, name, field }: List<'_>) -> Result<(), TextError> {
        match field {
            Field::Other(Value::Null) => {}
            Field::Other(Value::Array(list)) => {
                for (i, value) in list.iter().enumerate() {
                    all.push(self.given(file, &format!("{name}/{i}"), &value.clone().into())?);
                }
            }
            other => return Err(self.wrong(file, name, "a list of tokens", other)),
        }
        Ok(())
    }

    /// Returns a special token: a string, or an object with its content and options.
    fn given(&self, file: &'static str, place: &str, field: &Field) -> Result<Given, TextError> {
        match field {
            Field::Other(Value::String(content)) => Ok(Given::text(content, Some(file))),
            Field::Object(fields) if file != CONFIG || is_token(field) => {
                let given = Given::with_options(&self.source.path(file), file, place, fields)?;
                let special = given.token.special || !is_token(field);
                Ok(Given { token: SavedToken { special, ..given.token }, ..given })
            }
            other => Err(self.wrong(file, place, "a token: a string, or an object whose __type is AddedToken", other)),
        }
    }

    fn wrong(&self, file: &str, place: &str, expected: &str, found: &Field) -> TextError {
        format_error(&self.source.path(file), &format!("/{place}"), expected, short(&found.to_value()), DAMAGED)
    }
}

/// Returns whether a field is a role that not every class has.
fn is_own(name: &str) -> bool {
    name.ends_with("_token") && !ROLES.contains(&name)
}

/// A field with special tokens, and its place.
#[derive(Clone, Copy)]
struct List<'a> {
    file: &'static str,
    name: &'static str,
    field: &'a Field,
}

/// The special tokens outside the roles that every class has.
struct Lists<'a> {
    /// The further roles of the configuration.
    own: Ordered<Given>,
    extra: Vec<Given>,
    /// The list of the older name, if it counts beside the others.
    additional: Option<List<'a>>,
}
