//! Addresses of the web and of mail, which are kept whole.
//!
//! ```text
//! scheme://            optional; at least two letters, digits, `_`, `+`, `-`, `.`
//! anything@            optional
//! host                 IPv4 in dots (no private network), or labels and a top-level domain in lower case
//! :port                optional; two to five digits
//! /anything            optional; so are `?` and `#`
//! ```

use super::classes::{self, LOWER};
use crate::unicode::is_digit;

/// Returns whether a text without white space is such an address as a whole.
///
/// A host may begin where the text does, after the scheme, or after any `@`. Since it contains no `@` itself, all these searches
/// together read the text a fixed number of times.
pub(super) fn is_url(text: &str) -> bool {
    let after_at = text.match_indices('@').map(|(at, _)| at + 1).filter(|&start| start > 1);
    text.contains('.') && [Some(0), scheme(text)].into_iter().flatten().chain(after_at).any(|start| is_place(&text[start..]))
}

/// Returns the position after the scheme of the text.
fn scheme(text: &str) -> Option<usize> {
    let end = text.find(|c| !(classes::is_word(c) || matches!(c, '+' | '-' | '.')))?;
    (text[end..].starts_with("://") && text[..end].chars().nth(1).is_some()).then_some(end + 3)
}

/// Returns whether the text is a host with a permitted remainder.
fn is_place(text: &str) -> bool {
    let (address, after) = text.split_at(text.find(|c| !(is_digit(c) || c == '.')).unwrap_or(text.len()));
    let (name, behind) = text.split_at(text.find(|c| !is_of_host(c)).unwrap_or(text.len()));
    is_end(after) && is_address(address) || is_end(behind) && is_name(name)
}

/// Returns whether the text may follow a host: a port, a path, or nothing.
fn is_end(text: &str) -> bool {
    let path = match text.strip_prefix(':') {
        None => text,
        Some(port) => {
            let digits = port.chars().take(6).take_while(|&c| is_digit(c));
            let (count, length) = digits.fold((0, 0), |(count, length), c| (count + 1, length + c.len_utf8()));
            if !(2..=5).contains(&count) {
                return false;
            }
            &port[length..]
        }
    };
    path.is_empty() || path.starts_with(['/', '?', '#'])
}

/// Returns whether a character may be anywhere in a label, its ends included.
fn is_of_label(c: char) -> bool {
    c.is_ascii_alphanumeric() || ('\u{A1}'..='\u{FFFF}').contains(&c)
}

fn is_of_host(c: char) -> bool {
    matches!(c, '.' | '_' | '-') || is_of_label(c) || classes::is(c, LOWER)
}

/// Returns whether a name has labels of up to 64 characters, each followed by a dot, and a top-level domain of 2 to 63 letters.
fn is_name(name: &str) -> bool {
    let Some((labels, domain)) = name.rsplit_once('.') else { return false };
    (2..=63).contains(&domain.chars().count())
        && domain.chars().all(|c| classes::is(c, LOWER))
        && labels.split('.').all(|label| {
            label.starts_with(is_of_label)
                && label.ends_with(is_of_label)
                && label.chars().all(|c| is_of_label(c) || matches!(c, '_' | '-'))
                && label.chars().nth(64).is_none()
        })
}

/// Returns whether an address is four numbers with dots, outside the networks 10, 127, 169.254, 172.16 to 172.31 and 192.168, the
/// first number from 1 to 223 and the last from 1 to 254. All digits but the first of a number may be of any script.
fn is_address(address: &str) -> bool {
    let numbers: Vec<Vec<char>> = address.split('.').take(5).map(|n| n.chars().take(4).collect()).collect();
    let [a, b, c, d] = &numbers[..] else { return false };
    let local = matches!(
        (&a[..], &b[..]),
        (['1', '0'] | ['1', '2', '7'], _)
            | (['1', '6', '9'], ['2', '5', '4'])
            | (['1', '9', '2'], ['1', '6', '8'])
            | (['1', '7', '2'], ['1', '6'..='9'] | ['2', _] | ['3', '0' | '1'])
    );
    let first = matches!(a[..], ['1'..='9'] | ['1'..='9', _] | ['1', _, _] | ['2', '0' | '1', _] | ['2', '2', '0'..='3']);
    let last = matches!(d[..], ['1'..='9'] | ['1'..='9', _] | ['1', _, _] | ['2', '0'..='4', _] | ['2', '5', '0'..='4']);
    let inner = |n: &[char]| matches!(n, [_] | [_, _] | ['1', _, _] | ['2', '0'..='4', _] | ['2', '5', '0'..='5']);
    !local && first && inner(b) && inner(c) && last
}
