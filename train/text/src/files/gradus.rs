//! `gradus_tokenizer.json`: bytes and characters.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::settings::insert;
use super::{DAMAGED, GRADUS, SavedToken, Source, format_error};
use crate::error::TextError;
use crate::plain::Characters;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;

const GRADUS_FORMAT: &str = "gradus-tokenizer";

/// `gradus_tokenizer.json`.
#[derive(Serialize, Deserialize)]
pub(super) struct Gradus {
    format: String,
    version: u32,
    note: String,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    characters: Option<Vec<char>>,
    added_tokens: Vec<SavedToken>,
    /// The ids without a row in the model's embedding.
    #[serde(default, skip_serializing_if = "Range::is_empty")]
    rowless: Range<usize>,
}

impl Gradus {
    pub(super) fn of(tokenizer: &Tokenizer) -> Self {
        let characters = match &tokenizer.vocabulary {
            Vocabulary::Char(characters) => Some(characters.as_slice().to_vec()),
            _ => None,
        };
        Gradus {
            format: GRADUS_FORMAT.into(),
            version: 1,
            note: "Made by Gradus for teaching; no other program reads this file.".into(),
            kind: tokenizer.kind().into(),
            characters,
            added_tokens: tokenizer.added.as_slice().iter().map(SavedToken::of).collect(),
            rowless: tokenizer.rowless.clone(),
        }
    }
}

pub(super) fn load(source: Source<'_>) -> Result<Tokenizer, TextError> {
    let path = &source.path(GRADUS);
    let saved: Gradus = source.read_json(GRADUS)?;
    if (saved.format.as_str(), saved.version) != (GRADUS_FORMAT, 1) {
        let found = format!("{:?}, version {}", saved.format, saved.version);
        let remedy = "Use the version of Gradus that wrote it";
        return Err(format_error(path, "/format", &format!("{GRADUS_FORMAT:?}, version 1"), found, remedy));
    }
    let vocabulary = match (saved.kind.as_str(), saved.characters) {
        ("byte", None) => Vocabulary::Byte,
        ("char", Some(listed)) => {
            let text: String = listed.iter().collect();
            let characters = Characters::of([text.as_str()]);
            if characters.as_slice() != listed {
                let found = "another order, or one of them twice".to_owned();
                return Err(format_error(path, "/characters", "characters by code point, each once", found, DAMAGED));
            }
            Vocabulary::Char(characters)
        }
        (kind, characters) => {
            let found = format!("{kind:?} {} characters", if characters.is_some() { "with" } else { "without" });
            return Err(format_error(path, "/kind", "\"byte\", or \"char\" with characters", found, DAMAGED));
        }
    };
    let mut tokenizer = Tokenizer::of(vocabulary);
    let mut added = saved.added_tokens;
    added.sort_by_key(|token| token.id);
    for token in added {
        let id = tokenizer.token_id(&token.content).unwrap_or(tokenizer.next_id());
        insert(path, &mut tokenizer, token, id)?;
    }
    Ok(tokenizer.without_rows(saved.rowless))
}
