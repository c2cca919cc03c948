//! The splitting of a chunk, a run of characters other than white space, into tokens.

use super::{infixes, prefixes, specials::Specials, suffixes, suffixes::Lengths, urls};

/// Calls `token` with the bytes (from, to) of each token of `text[from..to]`, a chunk.
pub(super) fn split(text: &str, mut from: usize, mut to: usize, specials: &Specials, token: &mut impl FnMut(usize, usize)) {
    let mut cut = Lengths::default();
    let special = loop {
        let rest = &text[from..to];
        if let Some(tokens) = specials.tokens(rest) {
            break Some(tokens);
        }
        let prefix = prefixes::length(rest);
        if prefix > 0
            && let Some(tokens) = specials.tokens(&rest[prefix..])
        {
            token(from, from + prefix);
            from += prefix;
            break Some(tokens);
        }
        // A suffix is searched after the prefix, but a possible exception before the suffix includes the prefix.
        let suffix = suffixes::length(&rest[prefix..]);
        if suffix > 0
            && let Some(tokens) = specials.tokens(&rest[..rest.len() - suffix])
        {
            cut.push(suffix);
            to -= suffix;
            break Some(tokens);
        }
        if prefix > 0 {
            token(from, from + prefix);
            from += prefix;
        }
        if suffix > 0 {
            cut.push(suffix);
            to -= suffix;
        }
        if prefix + suffix == 0 || from == to {
            break None;
        }
    };
    let rest = &text[from..to];
    match special {
        Some(tokens) => pieces(from, tokens, token),
        None if rest.is_empty() => {}
        None if urls::is_url(rest) => token(from, to),
        None => infixes::split(rest, |start, end| token(from + start, from + end)),
    }
    while let Some(length) = cut.pop() {
        token(to, to + length);
        to += length;
    }
}

/// Calls `token` with the tokens of an exception that begins at byte `from`.
pub(super) fn pieces(mut from: usize, lengths: &[u8], token: &mut impl FnMut(usize, usize)) {
    for &length in lengths {
        let to = from + usize::from(length);
        token(from, to);
        from = to;
    }
}
