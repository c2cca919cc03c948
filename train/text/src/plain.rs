//! Two tokenizers for teaching: one id per byte, and one id per character. Both are lossless. Hugging Face has no such form, so
//! they are kept in a file that only Gradus reads.

use std::collections::BTreeSet;

use crate::error::TextError;

/// Returns the token of a byte as text: the character itself if it is visible ASCII or a space, else as `<0x0A>`.
pub(crate) fn byte_name(byte: u8) -> String {
    match byte {
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("<0x{byte:02X}>"),
    }
}

/// The vocabulary with one id for each character of a corpus, in order of code points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Characters {
    sorted: Vec<char>,
}

impl Characters {
    /// Collects the characters of these texts.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let seen: BTreeSet<char> = texts.into_iter().flat_map(str::chars).collect();
        Characters { sorted: seen.into_iter().collect() }
    }

    /// Returns the characters, by id.
    pub fn as_slice(&self) -> &[char] {
        &self.sorted
    }

    /// Returns the id of a character.
    pub fn id(&self, c: char) -> Option<u32> {
        self.sorted.binary_search(&c).ok().map(|i| i as u32)
    }

    /// Appends the ids of `text`, which starts at byte `offset` of the caller's text.
    pub(crate) fn encode_into(&self, text: &str, offset: usize, ids: &mut Vec<u32>) -> Result<(), TextError> {
        for (i, c) in text.char_indices() {
            let unknown = || TextError::UnknownCharacter { character: c, offset: offset + i, known: self.sorted.len() };
            ids.push(self.id(c).ok_or_else(unknown)?);
        }
        Ok(())
    }
}
