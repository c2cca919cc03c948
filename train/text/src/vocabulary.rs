//! The encoding of text outside added tokens.

use std::borrow::Cow;

use crate::basic::{self, Cleaning};
use crate::bpe::{Bpe, UNKNOWN};
use crate::byte_level::{ByteBpe, Way};
use crate::error::TextError;
use crate::plain::{Characters, byte_name};
use crate::wordpiece::{Pieces, WordPiece};

/// The encoding of text outside added tokens.
#[derive(Clone, Debug)]
pub enum Vocabulary {
    /// Byte-pair encoding as in GPT-1.
    Bpe(Bpe),
    /// WordPiece, as in BERT.
    WordPiece(WordPiece),
    /// Byte-pair encoding over bytes, as in GPT-2 and RoBERTa.
    ByteBpe(ByteBpe),
    /// One id per byte, 0 to 255. For teaching; Gradus-only.
    Byte,
    /// One id per character. For teaching; Gradus-only.
    Char(Characters),
}

impl Vocabulary {
    /// Returns `bpe`, `wordpiece`, `byte-bpe`, `byte` or `char`.
    pub fn kind(&self) -> &'static str {
        match self {
            Vocabulary::Bpe(_) => "bpe",
            Vocabulary::WordPiece(_) => "wordpiece",
            Vocabulary::ByteBpe(_) => "byte-bpe",
            Vocabulary::Byte => "byte",
            Vocabulary::Char(_) => "char",
        }
    }

    /// Returns the tokens by id, if they are texts.
    fn tokens(&self) -> Option<&[String]> {
        match self {
            Vocabulary::Bpe(bpe) => Some(bpe.tokens()),
            Vocabulary::WordPiece(pieces) => Some(pieces.tokens()),
            Vocabulary::ByteBpe(bpe) => Some(bpe.tokens()),
            Vocabulary::Byte | Vocabulary::Char(_) => None,
        }
    }

    /// Returns the number of ids.
    pub(crate) fn size(&self) -> usize {
        match self {
            Vocabulary::Byte => 256,
            Vocabulary::Char(characters) => characters.as_slice().len(),
            _ => self.tokens().map_or(0, <[String]>::len),
        }
    }

    /// Returns the number of ids that are in use.
    pub(crate) fn listed(&self) -> usize {
        self.tokens().map_or(self.size(), |tokens| tokens.iter().filter(|token| !token.is_empty()).count())
    }

    pub(crate) fn id(&self, token: &str) -> Option<u32> {
        match self {
            Vocabulary::Bpe(bpe) => bpe.id(token),
            Vocabulary::WordPiece(pieces) => pieces.id(token),
            Vocabulary::ByteBpe(bpe) => bpe.id(token),
            Vocabulary::Byte => (0..=255).find(|&b| byte_name(b) == token).map(u32::from),
            Vocabulary::Char(characters) => token.parse().ok().and_then(|c| characters.id(c)),
        }
    }

    pub(crate) fn token(&self, id: u32) -> Option<String> {
        match self {
            Vocabulary::Byte => u8::try_from(id).ok().map(byte_name),
            Vocabulary::Char(characters) => characters.as_slice().get(id as usize).map(char::to_string),
            _ => self.tokens()?.get(id as usize).cloned(),
        }
    }

    /// Returns the normalised text, in which added tokens with `normalized` are matched.
    pub(crate) fn normalize<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self {
            Vocabulary::Bpe(bpe) => basic::normalize_by(text, bpe.cleaning()).into(),
            Vocabulary::WordPiece(pieces) => pieces.normalizer().apply(text),
            Vocabulary::ByteBpe(bpe) => bpe.way().normalizer.apply(text),
            Vocabulary::Byte | Vocabulary::Char(_) => text.into(),
        }
    }

    /// Appends the ids of a text, which begins at byte `offset` of a longer one.
    pub(crate) fn encode_into(&self, text: &str, offset: usize, html: bool, ids: &mut Vec<u32>) -> Result<(), TextError> {
        match self {
            Vocabulary::Bpe(bpe) => bpe.encode_into(text, html, ids),
            Vocabulary::WordPiece(pieces) => pieces.encode_into(text, ids),
            Vocabulary::ByteBpe(bpe) => bpe.encode_into(text, ids),
            Vocabulary::Byte => ids.extend(text.bytes().map(u32::from)),
            Vocabulary::Char(characters) => characters.encode_into(text, offset, ids)?,
        }
        Ok(())
    }

    /// Appends the ids of text that is already normalised.
    pub(crate) fn encode_normalized_into(&self, text: &str, offset: usize, ids: &mut Vec<u32>) -> Result<(), TextError> {
        match self {
            Vocabulary::Bpe(bpe) => bpe.encode_normalized_into(text, ids),
            Vocabulary::WordPiece(pieces) => pieces.encode_normalized_into(text, ids),
            Vocabulary::ByteBpe(bpe) => bpe.encode_normalized_into(text, ids),
            _ => self.encode_into(text, offset, false, ids)?,
        }
        Ok(())
    }

    /// Calls `field` with everything that determines the ids, in a fixed order.
    pub(crate) fn each_field(&self, mut field: impl FnMut(&str)) {
        field(self.kind());
        match self {
            Vocabulary::Bpe(bpe) => {
                field(bpe.mode().name());
                if (bpe.cleaning(), bpe.tokens()[bpe.unknown() as usize].as_str()) != (Cleaning::ALL, UNKNOWN) {
                    field(&format!("{:?}", (bpe.cleaning(), bpe.unknown())));
                }
                bpe.tokens().iter().for_each(|t| field(t));
                each_merge(bpe.merge_tokens(), field);
            }
            Vocabulary::WordPiece(pieces) => {
                let rules = (pieces.unknown(), pieces.longest());
                match pieces.normalizer().bert() {
                    Some(cleaning) => field(&format!("{:?}", (cleaning, rules.0, rules.1))),
                    None => field(&format!("{:?}", (pieces.normalizer(), rules))),
                }
                if pieces.pieces() == Pieces::Characters {
                    field("characters");
                }
                pieces.tokens().iter().for_each(|t| field(t));
            }
            Vocabulary::ByteBpe(bpe) => {
                field(if bpe.prefix() { "prefix" } else { "no prefix" });
                let (way, usual) = (bpe.way(), Way { prefix: bpe.prefix(), ..Way::default() });
                if *way != usual {
                    field(&format!("{way:?}"));
                }
                bpe.tokens().iter().for_each(|t| field(t));
                each_merge(bpe.merge_tokens(), field);
            }
            Vocabulary::Byte => {}
            Vocabulary::Char(characters) => characters.as_slice().iter().for_each(|c| field(c.encode_utf8(&mut [0; 4]))),
        }
    }
}

fn each_merge<'a>(merges: impl Iterator<Item = (&'a str, &'a str)>, mut field: impl FnMut(&str)) {
    field("merges");
    for (a, b) in merges {
        field(a);
        field(b);
    }
}
