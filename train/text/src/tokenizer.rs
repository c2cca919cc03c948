//! The conversion of text to ids and back.

use std::ops::Range;

use gradus_io::hex;
use sha2::{Digest, Sha256};

use crate::added::{AddedToken, AddedTokens};
use crate::bpe::{Bpe, END_OF_WORD, UNKNOWN};
use crate::byte_level::{ByteBpe, letter};
use crate::cut::Cut;
use crate::error::TextError;
use crate::matcher::{Edges, Piece};
use crate::mode::Mode;
use crate::openai::LINE_END;
use crate::plain::Characters;
use crate::roles::{Pairs, Roles};
use crate::vocabulary::Vocabulary;
use crate::wordpiece::WordPiece;

/// A converter of text to ids and back. It can be used from several threads at once.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    pub(crate) vocabulary: Vocabulary,
    pub(crate) added: AddedTokens,
    pub(crate) roles: Roles,
    /// The number of tokens that the vocabulary's file lists. It is less than the number of ids if some are unused.
    pub(crate) listed: usize,
    /// The ids without a row in the model's embedding.
    pub(crate) rowless: Range<usize>,
}

impl Tokenizer {
    /// Creates a BPE tokenizer. `<unk>` in the text is its id, as in `transformers`.
    pub fn bpe(bpe: Bpe) -> Self {
        Tokenizer::with_specials(Vocabulary::Bpe(bpe), &[UNKNOWN])
    }

    /// Creates a WordPiece tokenizer. Its special tokens are `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]` and `[MASK]`, if in the
    /// vocabulary.
    pub fn word_piece(pieces: WordPiece) -> Self {
        Tokenizer::with_specials(Vocabulary::WordPiece(pieces), &AddedToken::BERT)
    }

    /// Creates a byte-level BPE tokenizer. Its special tokens are RoBERTa's `<s>`, `<pad>`, `</s>`, `<unk>` and `<mask>` if all
    /// are in the vocabulary, and otherwise `<|endoftext|>` if it is.
    pub fn byte_bpe(bpe: ByteBpe) -> Self {
        let names = AddedToken::of_bytes(|name| bpe.id(name));
        Tokenizer::with_specials(Vocabulary::ByteBpe(bpe), names)
    }

    /// Returns the letter of a byte in the tokens of a byte-level BPE: `Ġ` for a blank.
    pub fn letter(byte: u8) -> char {
        letter(byte)
    }

    /// Creates a tokenizer whose added tokens are those of `names` that are in the vocabulary.
    fn with_specials(vocabulary: Vocabulary, names: &[&str]) -> Self {
        let mut added = AddedTokens::default();
        for (name, id) in names.iter().filter_map(|name| Some((name, vocabulary.id(name)?))) {
            added.insert(AddedToken::published(name, id), str::to_owned).expect("none twice, and none empty");
        }
        Tokenizer { added, ..Tokenizer::of(vocabulary) }
    }

    /// Creates a tokenizer without added tokens.
    pub(crate) fn of(vocabulary: Vocabulary) -> Self {
        let listed = vocabulary.listed();
        Tokenizer { vocabulary, added: AddedTokens::default(), roles: Roles::default(), listed, rowless: 0..0 }
    }

    /// Sets the number of rows of the model's embedding. The tokenizer may have more ids, but encoding a text with such an id is
    /// an error, also after the embedding has grown for tokens that are added later: the tokenizer's files keep these ids.
    #[must_use]
    pub fn with_rows(self, rows: usize) -> Self {
        let ids = rows..self.vocab_size();
        self.without_rows(ids)
    }

    /// Adds to the ids without a row. The ids between two ranges have no row either.
    pub(crate) fn without_rows(self, ids: Range<usize>) -> Self {
        let rowless = match (ids.is_empty(), self.rowless.is_empty()) {
            (true, _) => self.rowless,
            (false, true) => ids,
            (false, false) => self.rowless.start.min(ids.start)..self.rowless.end.max(ids.end),
        };
        Tokenizer { rowless, ..self }
    }

    /// Returns whether the model's embedding has a row for this id.
    pub fn has_row(&self, id: u32) -> bool {
        !self.rowless.contains(&(id as usize))
    }

    /// Returns the ids, or an error if one of them has no row.
    fn within_rows(&self, ids: Vec<u32>) -> Result<Vec<u32>, TextError> {
        match ids.iter().find(|&&id| !self.has_row(id)) {
            Some(&id) => Err(TextError::NoRow { token: self.token(id).unwrap_or_default(), id, rows: self.rowless.start }),
            None => Ok(ids),
        }
    }

    /// Creates the byte tokenizer: ids 0 to 255.
    pub fn bytes() -> Self {
        Tokenizer::of(Vocabulary::Byte)
    }

    /// Creates the character tokenizer of a corpus.
    pub fn characters<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Tokenizer::of(Vocabulary::Char(Characters::of(texts)))
    }

    /// Returns the vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns `bpe`, `wordpiece`, `byte-bpe`, `byte` or `char`.
    pub fn kind(&self) -> &'static str {
        self.vocabulary.kind()
    }

    /// Returns the number of ids, added tokens included: the rows of a model's token embedding. Ids are less than this.
    pub fn vocab_size(&self) -> usize {
        let own = self.vocabulary.size();
        own.max(self.added.as_slice().last().map_or(0, |t| t.id as usize + 1))
    }

    /// Returns the id of a token, added tokens first. For bytes and characters, tokens are as [`token`](Self::token) shows them.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.added.id(token).or_else(|| self.vocabulary.id(token))
    }

    /// Returns the token of an id as text: a BPE's with its `</w>`, `##` or `Ġ`, a byte as `A` or `<0x0A>`. `None` outside the
    /// vocabulary.
    pub fn token(&self, id: u32) -> Option<String> {
        self.added.get(id).map(|t| t.content.clone()).or_else(|| self.vocabulary.token(id))
    }

    /// Returns the id of the next token that is added, as in `tokenizers`: the number of tokens or, if greater, the greatest id
    /// of an added token plus 1. In a vocabulary with unused ids, another token may have this id.
    pub(crate) fn next_id(&self) -> u32 {
        self.added.as_slice().last().map_or(0, |token| token.id + 1).max(self.listed as u32)
    }

    /// Adds a special token and returns its id: the next one, or its existing id if it is already in the vocabulary.
    ///
    /// # Errors
    /// Returns [`TextError::Special`] for an empty token, and if another token has the next id, which can happen in a vocabulary
    /// with unused ids.
    pub fn add_special(&mut self, content: &str) -> Result<u32, TextError> {
        if let Some(id) = self.added.id(content) {
            return Ok(id);
        }
        let id = self.token_id(content).unwrap_or_else(|| self.next_id());
        if let Some(own) = self.token(id).filter(|own| !own.is_empty() && own != content) {
            let reason = format!(
                "`tokenizers` gives it the id {id}, the number of tokens, which {own:?} has, since the vocabulary leaves ids unused. \
                 Number the vocabulary without gaps"
            );
            return Err(TextError::Special { token: content.to_owned(), reason });
        }
        self.insert(AddedToken::special(content, id))?;
        Ok(id)
    }

    pub(crate) fn insert(&mut self, token: AddedToken) -> Result<(), TextError> {
        self.added.insert(token, |text| self.vocabulary.normalize(text).into_owned())
    }

    /// Returns the roles of the special tokens, as configured in the files of the tokenizer.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Returns the tokens that open and close a text, with their ids: by role, or else by these names.
    pub(crate) fn frame<'a>(&'a self, names: [&'a str; 2]) -> Option<[(&'a str, u32); 2]> {
        let [open, close] = names;
        let named = [self.roles.get("cls_token").unwrap_or(open), self.roles.get("sep_token").unwrap_or(close)];
        let [open, close] = named.map(|name| self.added.id(name).map(|id| (name, id)));
        open.zip(close).map(<[_; 2]>::from)
    }

    /// Returns the template of a pair of texts: the configured one, or else `usual`.
    pub(crate) fn pairs(&self, usual: Pairs) -> Pairs {
        self.roles.pairs.unwrap_or(usual)
    }

    /// Returns whether the tokenizer inserts a blank before a text that does not begin with one.
    pub(crate) fn begins_with_blank(&self) -> bool {
        matches!(&self.vocabulary, Vocabulary::ByteBpe(bpe) if bpe.prefix())
    }

    /// Returns the mode in which a BPE of GPT-1's form splits text into words; `None` for other tokenizers, which have no modes.
    pub fn mode(&self) -> Option<Mode> {
        match &self.vocabulary {
            Vocabulary::Bpe(bpe) => Some(bpe.mode()),
            _ => None,
        }
    }

    /// Sets the mode in which text is split into words.
    ///
    /// # Errors
    /// Returns an error for a tokenizer without modes, and for mode `spacy` if added tokens are matched in normalised text.
    pub fn with_mode(self, mode: Mode) -> Result<Self, TextError> {
        match self.vocabulary {
            Vocabulary::Bpe(bpe) if mode == Mode::Basic || self.added.normalized.is_empty() => {
                Ok(Tokenizer { vocabulary: Vocabulary::Bpe(bpe.with_mode(mode)), ..self })
            }
            Vocabulary::Bpe(_) => Err(TextError::Mode { mode, found: "one with added tokens that are found in normalised text" }),
            Vocabulary::WordPiece(_) => Err(TextError::Mode { mode, found: "a WordPiece tokenizer" }),
            Vocabulary::ByteBpe(_) => Err(TextError::Mode { mode, found: "a byte-level BPE" }),
            Vocabulary::Byte => Err(TextError::Mode { mode, found: "the byte tokenizer" }),
            Vocabulary::Char(_) => Err(TextError::Mode { mode, found: "a character tokenizer" }),
        }
    }

    /// Returns the ids of a text. Added tokens are found in the raw text and kept whole; the rest is encoded by the vocabulary.
    ///
    /// # Errors
    /// Returns [`TextError::UnknownCharacter`] if a character tokenizer does not have a character of the text, and
    /// [`TextError::NoRow`] if a token's id has no row in the model's embedding.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        self.encode_after(text, false)
    }

    /// Encodes a text that continues another one. `html`: whether the other one contains a `<`, after which mode `spacy` keeps
    /// entities.
    pub fn encode_after(&self, text: &str, mut html: bool) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::with_capacity(text.len() / 4 + 1);
        for (offset, piece) in self.added.raw.split(text) {
            match piece {
                Piece::Token(id) => ids.push(id),
                Piece::Text(text) if self.finds_normalized() => {
                    for (at, piece) in self.added.normalized.split(&self.vocabulary.normalize(text)) {
                        match piece {
                            Piece::Token(id) => ids.push(id),
                            Piece::Text(text) => self.vocabulary.encode_normalized_into(text, offset + at, &mut ids)?,
                        }
                    }
                }
                Piece::Text(text) => {
                    self.vocabulary.encode_into(text, offset, html, &mut ids)?;
                    html = html || text.contains('<');
                }
            }
        }
        self.within_rows(ids)
    }

    /// Returns whether there are tokens that are matched in normalised text. Byte and character tokenizers ignore them.
    fn finds_normalized(&self) -> bool {
        !self.added.normalized.is_empty() && !matches!(self.vocabulary, Vocabulary::Byte | Vocabulary::Char(_))
    }

    /// Returns the places where a text may be cut so that the ids of its pieces, concatenated, are its ids.
    pub fn cut(&self) -> Cut {
        match &self.vocabulary {
            Vocabulary::Bpe(bpe) if bpe.mode() == Mode::Spacy => Cut::Lines,
            Vocabulary::ByteBpe(_) => match self.ends_before_space() {
                0 => Cut::Blanks,
                ends => Cut::BlanksBut(ends),
            },
            _ => Cut::Words,
        }
    }

    /// Returns the last characters, in ASCII, of the tokens that include the white space after them, as a set of bits.
    fn ends_before_space(&self) -> u128 {
        let ends = self.added.raw.ends_before_space().chain(self.added.normalized.ends_before_space());
        ends.filter(u8::is_ascii).fold(0, |ends, last| ends | 1 << last)
    }

    /// Returns whether a word's token begins with the blank before the word. A text before such a word must end before that
    /// blank.
    pub fn blanks_lead(&self) -> bool {
        matches!(self.vocabulary, Vocabulary::ByteBpe(_))
    }

    /// Returns the ids of a line end between two words; `None` if a line end is not a word. Otherwise a text can be cut after a
    /// line end ([`Cut::Lines`]): these ids are then between the ids of the pieces, unless either has none or an added token is
    /// next to the cut.
    pub fn line_end(&self) -> Option<Vec<u32>> {
        match &self.vocabulary {
            Vocabulary::Bpe(bpe) if bpe.mode() == Mode::Spacy => Some(bpe.word(LINE_END)),
            _ => None,
        }
    }

    /// Returns whether a text contains a `<` outside added tokens. The text after it is encoded by
    /// [`encode_after`](Self::encode_after).
    pub fn is_html(&self, text: &str) -> bool {
        text.contains('<')
            && self.added.raw.split(text).any(|(_, piece)| matches!(piece, Piece::Text(text) if text.contains('<')))
    }

    /// Returns whether an id is that of an added token.
    pub fn is_added(&self, id: u32) -> bool {
        self.added.get(id).is_some()
    }

    /// Encodes a text as [`encode`](Self::encode) does, but with added tokens as ordinary words: `<extract>` in a data set is not
    /// a control token.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::with_capacity(text.len() / 4 + 1);
        self.vocabulary.encode_into(text, 0, false, &mut ids)?;
        self.within_rows(ids)
    }

    /// Decodes a sequence of ids, added tokens included. A BPE's `</w>` becomes a space, but not the last one. WordPiece's tokens
    /// have a space before them, except for the first, `##` and some marks, as in `tokenizers`. Bytes that are not UTF-8, as an
    /// untrained model generates them, become U+FFFD.
    ///
    /// # Errors
    /// Returns [`TextError::UnknownId`] for an id outside the vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TextError> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for (position, &id) in ids.iter().enumerate() {
            let unknown = || TextError::UnknownId { id, position, vocab_size: self.vocab_size() };
            let space = if position + 1 == ids.len() { "" } else { " " };
            let token = || match self.added.get(id) {
                Some(added) if added.normalized => Ok(self.vocabulary.normalize(&added.content).into_owned()),
                _ => self.token(id).ok_or_else(unknown),
            };
            match (&self.vocabulary, self.added.get(id)) {
                (Vocabulary::Byte, None) => bytes.push(u8::try_from(id).map_err(|_| unknown())?),
                (Vocabulary::WordPiece(pieces), _) => bytes.extend(pieces.text_of(&token()?, position == 0).bytes()),
                (Vocabulary::ByteBpe(_), None) => ByteBpe::decode_into(&token()?, &mut bytes),
                (Vocabulary::Bpe(_), None) => bytes.extend(token()?.replace(END_OF_WORD, space).bytes()),
                _ => bytes.extend(token()?.bytes()),
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the SHA-256, in hexadecimal, of everything that determines the ids: kind and mode, tokens, merges, added tokens.
    /// Two tokenizers with the same fingerprint have the same ids for every text, whatever files they came from, so it can key a
    /// cache.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let mut field = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes()); // lengths separate the fields
            hash.update(text.as_bytes());
        };
        field("gradus tokenizer 1");
        self.vocabulary.each_field(&mut field);
        field("added");
        for token in self.added.as_slice() {
            field(&token.content);
            let Edges { left, right, word } = token.edges;
            let edges = [(left, " left"), (right, " right"), (word, " word")].map(|(is, name)| if is { name } else { "" });
            field(&format!("{} {} {}{}", token.id, token.special, token.normalized, edges.concat()));
        }
        if self.added.split {
            field("split");
        }
        hex::encode(hash.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_characters_are_lossless() {
        let text = "Tab\t, CRLF\r\n, NUL \0, é, 日本, 😀  two spaces ";
        let mut bytes = Tokenizer::bytes();
        assert_eq!((bytes.vocab_size(), bytes.encode("Aé").unwrap()), (256, vec![65, 0xc3, 0xa9]));
        assert_eq!(bytes.decode(&bytes.encode(text).unwrap()).unwrap(), text);
        assert_eq!(bytes.add_special("<start>").unwrap(), 256);
        assert_eq!(bytes.encode("a<start>").unwrap(), [97, 256]);
        assert_eq!(bytes.encode_plain("a<").unwrap(), [97, 60]);
        assert_eq!(bytes.encode_plain("a<start>").unwrap(), b"a<start>".map(u32::from));
        assert_eq!(bytes.decode(&[256, 97, 0xff]).unwrap(), "<start>a\u{fffd}");

        let characters = Tokenizer::characters([text]);
        assert_eq!(characters.decode(&characters.encode(text).unwrap()).unwrap(), text);
        assert_eq!(Tokenizer::characters(["bca", "ab"]).encode("abc").unwrap(), [0, 1, 2]);
    }

    #[test]
    fn tokens_and_ids_agree() {
        for tokenizer in [Tokenizer::bytes(), Tokenizer::characters(["héllo"])] {
            for id in 0..tokenizer.vocab_size() as u32 {
                assert_eq!(tokenizer.token_id(&tokenizer.token(id).unwrap()), Some(id));
            }
            assert_eq!(tokenizer.token(tokenizer.vocab_size() as u32), None);
        }
    }

    #[test]
    fn unknown_characters_and_ids_are_errors() {
        let mut characters = Tokenizer::characters(["abc"]);
        characters.add_special("<é>").unwrap();
        let error = characters.encode("<é>cd").unwrap_err();
        assert!(matches!(error, TextError::UnknownCharacter { character: 'd', offset: 5, known: 3 }), "{error}");
        let error = characters.decode(&[0, 4]).unwrap_err();
        assert!(matches!(error, TextError::UnknownId { id: 4, position: 1, vocab_size: 4 }), "{error}");
        assert!(error.to_string().contains("0 to 3"), "{error}");
        let error = Tokenizer::bytes().decode(&[256]).unwrap_err();
        assert!(matches!(error, TextError::UnknownId { id: 256, position: 0, vocab_size: 256 }), "{error}");
        let error = Tokenizer::bytes().add_special("").unwrap_err();
        assert!(matches!(&error, TextError::Special { token, .. } if token.is_empty()), "{error}");
    }

    #[test]
    fn different_contents_have_different_fingerprints() {
        let mut with_special = Tokenizer::characters(["abc"]);
        with_special.add_special("<s>").unwrap();
        let all = [Tokenizer::bytes(), Tokenizer::characters(["abc"]), Tokenizer::characters(["abd"]), with_special];
        for (i, a) in all.iter().enumerate() {
            assert_eq!(a.fingerprint(), a.clone().fingerprint());
            assert_eq!(a.fingerprint().len(), 64);
            assert!(all[..i].iter().all(|b| a.fingerprint() != b.fingerprint()));
        }
    }
}
