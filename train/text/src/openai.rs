//! Mode `spacy`: the splitting of text into words as in OpenAI's code (`TextEncoder` of `text_utils.py` in
//! finetune-transformer-lm), which GPT-1's weights require.
//!
//! ```text
//! text → ftfy         repairs of the text
//!      → standardize  dashes → -, … → ..., ´ → '; a blank on either side of each run of one of the marks
//!                     - ~ ! " ; ? + , ) ( / * [ ] } { | _; white space with a line end in it → " \n ", other → " "; none at
//!                     either end
//!      → tokens       of spaCy's English tokenizer
//!      → words        the tokens in lower case; the line end with the blank behind it is the word "\n"
//! ```
//!
//! The marks are those that the original's pattern matches. The pattern is not a raw string, so `\\+` in it is a plus sign, and a
//! backslash gets no blanks.
//!
//! The steps remove case, the kind and amount of white space (but not line ends), and all that ftfy repairs. Accents stay.

use crate::ftfy;
use crate::spacy::{English, is_space};

/// The word for a line end of standardized text.
pub const LINE_END: &str = "\n";

/// Calls `word` with every word of `text`, in order. `html`: whether the text before it contains a `<`, after which entities
/// stay.
pub fn for_each_word(text: &str, html: bool, mut word: impl FnMut(&str)) {
    let mut lower = String::new();
    English::new().for_each_token(&standardize(&ftfy::fix_text_after(text, html)), |token| {
        if token.starts_with('\n') {
            word(LINE_END);
        } else if token.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
            word(token);
        } else if token.is_ascii() {
            lower.clear();
            lower.push_str(token);
            lower.make_ascii_lowercase();
            word(&lower);
        } else {
            word(&token.to_lowercase());
        }
    });
}

/// White space that is not yet written.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Gap {
    None,
    Blank,
    LineEnd,
}

/// Standardizes a text as `text_standardize` of the original does.
pub fn standardize(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let (mut gap, mut last) = (Gap::None, None);
    let mut push = |c: char| {
        if is_space(c) {
            let wider = if c == '\n' { Gap::LineEnd } else { Gap::Blank };
            gap = if wider > gap { wider } else { gap };
            last = None;
            return;
        }
        // A run of one mark is separated from the characters before and after it.
        if last.is_some_and(|last| last != c && (is_mark(last) || is_mark(c))) && gap == Gap::None {
            gap = Gap::Blank;
        }
        match gap {
            Gap::None => {}
            _ if out.is_empty() => {}
            Gap::Blank => out.push(' '),
            Gap::LineEnd => out.push_str(" \n "),
        }
        out.push(c);
        (gap, last) = (Gap::None, Some(c));
    };
    for c in text.chars() {
        match c {
            '—' | '–' | '―' => push('-'),
            '…' => (0..3).for_each(|_| push('.')),
            '´' => push('\''),
            _ => push(c),
        }
    }
    out
}

fn is_mark(c: char) -> bool {
    matches!(c, '-' | '~' | '!' | '"' | ';' | '?' | '+' | ',' | ')' | '(' | '/' | '*' | '[' | ']' | '}' | '{' | '|' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        for_each_word(text, false, |word| out.push(word.to_owned()));
        out
    }

    #[test]
    fn text_is_standardized_as_the_original_does() {
        for (text, expected) in [
            ("a—b – c―…´", "a - b - c - ...'"),
            ("“x”!!?(a)++\\/", "“x” !! ? ( a ) ++ \\ /"),
            (" \n a \t\n\n b \u{a0} c\u{c}d \n", "a \n b c d"),
            ("a-\nb- -c---", "a - \n b - - c ---"),
            ("a.b:c'd", "a.b:c'd"),
            ("-a", "- a"),
            ("", ""),
            (" \n", ""),
        ] {
            assert_eq!(standardize(text), expected, "{text:?}");
        }
    }

    #[test]
    fn words_of_every_kind() {
        assert_eq!(words("Don't\r\nSTOP, Zoë!"), ["do", "n't", "\n", "stop", ",", "zoë", "!"]);
        assert_eq!(words("I’ve paid &pound;5 at 10am — cafÃ©"), ["i", "'ve", "paid", "£", "5", "at", "10", "am", "-", "café"]);
        assert_eq!(words(" \n\t"), Vec::<String>::new());
        assert_eq!(words("<b>&amp;"), ["<", "b>&amp", ";"]);
        let mut after = Vec::new();
        for_each_word("&amp;x", true, |word| after.push(word.to_owned()));
        assert_eq!(after, ["&", "amp", ";", "x"].map(String::from));
    }
}
