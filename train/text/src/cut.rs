//! The places where a text may be cut.

/// The places where a text may be cut so that the ids of its pieces, concatenated, are the ids of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// After any white space.
    Words,
    /// After a line end, which is a word: [`Tokenizer::line_end`](crate::Tokenizer::line_end).
    Lines,
    /// Before a blank that follows a visible character of ASCII. A token may begin with a blank, and white space is split
    /// according to the character after it.
    Blanks,
    /// Like [`Cut::Blanks`], but not after these ASCII characters, as a set of bits: the last characters of the added tokens that
    /// include the white space after them.
    BlanksBut(u128),
}

impl Cut {
    /// Returns whether a text of these bytes may be cut before the byte at `at`.
    pub fn allows(self, bytes: &[u8], at: usize) -> bool {
        let Some(before) = at.checked_sub(1).map(|before| bytes[before]) else { return false };
        match self {
            Cut::Words => before.is_ascii_whitespace(),
            Cut::Lines => before == b'\n',
            Cut::Blanks => bytes.get(at) == Some(&b' ') && before.is_ascii_graphic(),
            Cut::BlanksBut(ends) => Cut::Blanks.allows(bytes, at) && ends >> before & 1 == 0,
        }
    }
}
