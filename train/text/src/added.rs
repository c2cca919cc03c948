//! Added tokens: pieces of text, such as `<start>`, that are one token each, found before any other processing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use unicode_categories::UnicodeCategories;

use crate::error::TextError;

/// A token that is matched in the text itself and kept whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddedToken {
    /// The text that it matches.
    pub content: String,
    pub id: u32,
    /// Whether it is a control token (`<start>`), rather than a word of the language.
    pub special: bool,
    /// Whether it is matched in normalised text (so in any case), rather than in the raw text. Gradus makes none of
    /// these, but reads and writes those of others.
    pub normalized: bool,
    /// Options for the text next to it.
    pub edges: Edges,
}

/// Options of an added token for the text next to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edges {
    /// Whether it includes the white space before it (`lstrip`).
    pub left: bool,
    /// Whether it includes the white space after it (`rstrip`).
    pub right: bool,
    /// Whether it is matched only if no word character is next to it (`single_word`).
    pub word: bool,
}

impl AddedToken {
    /// BERT's special tokens.
    pub(crate) const BERT: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    /// RoBERTa's special tokens.
    pub(crate) const ROBERTA: [&str; 5] = ["<s>", "<pad>", "</s>", "<unk>", MASK];
    /// GPT-2's special token.
    pub(crate) const GPT2: [&str; 1] = ["<|endoftext|>"];

    /// The names of the special tokens of a byte-level vocabulary with these ids: RoBERTa's if it has them all, else GPT-2's.
    pub(crate) fn of_bytes(id: impl Fn(&str) -> Option<u32>) -> &'static [&'static str] {
        if Self::ROBERTA.iter().all(|name| id(name).is_some()) { &Self::ROBERTA } else { &Self::GPT2 }
    }

    /// A special token that is matched anywhere in the raw text.
    pub(crate) fn special(content: &str, id: u32) -> Self {
        AddedToken { content: content.to_owned(), id, special: true, normalized: false, edges: Edges::default() }
    }

    /// A special token with its published options: RoBERTa's `<mask>` includes the white space before it.
    pub(crate) fn published(content: &str, id: u32) -> Self {
        AddedToken { edges: Edges { left: content == MASK, ..Edges::default() }, ..Self::special(content, id) }
    }
}

const MASK: &str = "<mask>";

/// The added tokens of a tokenizer, by id.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddedTokens {
    tokens: Vec<AddedToken>,
    ids: HashMap<String, u32>,
    pub(crate) raw: Matcher,
    pub(crate) normalized: Matcher,
}

impl AddedTokens {
    /// Adds a token; `normalize` is the tokenizer's normaliser.
    pub(crate) fn insert(&mut self, token: AddedToken, normalize: impl Fn(&str) -> String) -> Result<(), TextError> {
        let refuse = |reason: &str| Err(TextError::Special { token: token.content.clone(), reason: reason.to_owned() });
        let pattern = if token.normalized { normalize(&token.content) } else { token.content.clone() };
        if pattern.is_empty() {
            return refuse("it matches nothing, since it is empty (after normalisation). Give it visible characters");
        }
        if self.ids.contains_key(&token.content) {
            return refuse("it is listed twice. Remove one");
        }
        let matcher = if token.normalized { &mut self.normalized } else { &mut self.raw };
        matcher.insert(pattern, token.id, token.edges);
        self.ids.insert(token.content.clone(), token.id);
        let at = self.tokens.partition_point(|t| t.id < token.id);
        self.tokens.insert(at, token);
        Ok(())
    }

    pub(crate) fn as_slice(&self) -> &[AddedToken] {
        &self.tokens
    }

    pub(crate) fn id(&self, content: &str) -> Option<u32> {
        self.ids.get(content).copied()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&AddedToken> {
        self.tokens.binary_search_by_key(&id, |t| t.id).ok().map(|i| &self.tokens[i])
    }
}

/// Finds patterns in text: the leftmost, and of those that start there the longest. Patterns are grouped by length, so that each
/// position needs one look-up per length.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    /// The id and the options of each pattern, by its length in bytes.
    patterns: BTreeMap<Reverse<usize>, HashMap<String, (u32, Edges)>>,
    starts: [bool; 256],
}

impl Default for Matcher {
    fn default() -> Self {
        Matcher { patterns: BTreeMap::new(), starts: [false; 256] }
    }
}

/// A piece of text, or a token found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Token(u32),
}

/// A token found in a text, from `start` to `end`, including the white space that belongs to it.
#[derive(Clone, Copy)]
struct Match {
    start: usize,
    end: usize,
    id: u32,
}

impl Matcher {
    pub(crate) fn insert(&mut self, pattern: String, id: u32, edges: Edges) {
        self.starts[pattern.as_bytes()[0] as usize] = true;
        self.patterns.entry(Reverse(pattern.len())).or_default().entry(pattern).or_insert((id, edges)); // of two alike the first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The last bytes of the tokens that include the white space after them.
    pub(crate) fn ends_before_space(&self) -> impl Iterator<Item = u8> {
        let all = self.patterns.values().flatten().filter(|(_, (_, edges))| edges.right);
        all.filter_map(|(pattern, _)| pattern.as_bytes().last().copied())
    }

    /// Splits `text` into its tokens and the text between them, each with its byte offset.
    pub(crate) fn split<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, Piece<'a>)> {
        let (mut from, mut found) = (0, None); // `found`: a token behind the text that was given last
        std::iter::from_fn(move || {
            let start = from;
            if let Some(Match { start: at, end, id }) = found.take().or_else(|| self.find(text, from)) {
                if start < at {
                    (from, found) = (at, Some(Match { start: at, end, id }));
                    return Some((start, Piece::Text(&text[start..at])));
                }
                from = end;
                return Some((at, Piece::Token(id)));
            }
            from = text.len();
            (start < from).then(|| (start, Piece::Text(&text[start..])))
        })
    }

    /// The next match from byte `from` on. A match that `single_word` rejects is skipped as a whole, as in `tokenizers`.
    fn find(&self, text: &str, from: usize) -> Option<Match> {
        if self.is_empty() {
            return None;
        }
        let (bytes, mut at) = (text.as_bytes(), from);
        while at < bytes.len() {
            let Some((end, id, edges)) = self.starts[bytes[at] as usize].then(|| self.longest_at(text, at)).flatten() else {
                at += 1;
                continue;
            };
            let (before, after) = (&text[..at], &text[end..]);
            if edges.word && (before.chars().next_back().is_some_and(is_word) || after.chars().next().is_some_and(is_word)) {
                at = end;
                continue;
            }
            let start = if edges.left { from + text[from..at].trim_end().len() } else { at };
            let end = if edges.right { text.len() - after.trim_start().len() } else { end };
            return Some(Match { start, end, id });
        }
        None
    }

    /// The longest token that starts at byte `at`: its end, its id and its options.
    fn longest_at(&self, text: &str, at: usize) -> Option<(usize, u32, Edges)> {
        self.patterns.iter().find_map(|(&Reverse(length), patterns)| {
            let &(id, edges) = patterns.get(text.get(at..at + length)?)?;
            Some((at + length, id, edges))
        })
    }
}

/// Returns whether the regular expression `\w` matches a character (Unicode Technical Standard 18, Annex C).
fn is_word(c: char) -> bool {
    c.is_alphabetic()
        || c.is_number_decimal_digit()
        || c.is_mark()
        || c.is_punctuation_connector()
        || matches!(c, '\u{200c}' | '\u{200d}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as a file may list: compared with one another they would take minutes.
    #[test]
    fn a_hundred_thousand_tokens_are_found() {
        let mut added = AddedTokens::default();
        let content = |id: u32| format!("<{}{id}>", "x".repeat(id as usize % 50));
        for id in 0..100_000 {
            let token = AddedToken::special(&content(id), id);
            added.insert(token, str::to_owned).unwrap();
        }
        let text: String = (0..100_000).step_by(7).map(content).collect();
        let found = added.raw.split(&text).map(|(_, piece)| piece);
        assert!(found.eq((0..100_000).step_by(7).map(Piece::Token)));
        assert_eq!((added.id(&content(77_777)), added.as_slice().len()), (Some(77_777), 100_000));
        let again = AddedToken::special(&content(5), 100_000);
        assert!(added.insert(again, str::to_owned).is_err());
    }

    #[test]
    fn leftmost_longest() {
        let mut matcher = Matcher::default();
        for (id, p) in ["<a>", "<a><b>", "é"].into_iter().enumerate() {
            matcher.insert(p.to_owned(), id as u32, Edges::default());
        }
        use Piece::{Text, Token};
        assert_eq!(
            matcher.split("x<a><b><a>é<a").collect::<Vec<_>>(),
            [(0, Text("x")), (1, Token(1)), (7, Token(0)), (10, Token(2)), (12, Text("<a"))]
        );
        matcher.insert("é".into(), 9, Edges::default());
        assert_eq!(matcher.split("é").collect::<Vec<_>>(), [(0, Token(2))], "of two alike the first");
        assert_eq!(matcher.split("").count(), 0);
        assert_eq!(Matcher::default().split("<a>").collect::<Vec<_>>(), [(0, Text("<a>"))]);
    }

    #[test]
    fn white_space_on_the_left() {
        let mut matcher = Matcher::default();
        matcher.insert("<m>".into(), 1, Edges { left: true, ..Edges::default() });
        matcher.insert("<s>".into(), 2, Edges::default());
        use Piece::{Text, Token};
        let pieces = |text| matcher.split(text).map(|(_, piece)| piece).collect::<Vec<_>>();
        assert_eq!(
            pieces("a \u{3000}\n<m> <m>  <s> b<m>"),
            [Text("a"), Token(1), Token(1), Text("  "), Token(2), Text(" b"), Token(1)]
        );
        assert_eq!(pieces(" <m> "), [Token(1), Text(" ")]);
    }
}
