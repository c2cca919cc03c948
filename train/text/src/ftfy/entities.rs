//! HTML entities: `&eacute;`, `&#233;`, `&#xE9;`, and `&EACUTE;`, which a database capitalised.
//!
//! Only a name with a semicolon is an entity here, because "this&not that" is text.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::codecs::c1_as_windows;

/// The greatest length of a name that is recognised; HTML has a few longer ones.
const LONGEST: usize = 24;

/// HTML5's names and capitalised ones, with their characters: one per line, in hexadecimal (tests/golden/ftfy_fixtures.py).
static NAMES: LazyLock<HashMap<&str, String>> = LazyLock::new(|| {
    let character = |code: &str| u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
    let entry = |line: &'static str| {
        let mut words = line.split(' ');
        Some((words.next()?, words.filter_map(character).collect()))
    };
    include_str!("entities.txt").lines().filter_map(entry).collect()
});

/// Replaces the entities of the text once; `None` if it has none.
pub(super) fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(i) = text[at..].find('&') {
        let start = at + i;
        at = start + 1;
        let Some(body) = body(&text[at..]) else { continue };
        let Some(meaning) = meaning(body) else { continue };
        out.push_str(&text[copied..start]);
        out.push_str(&meaning);
        at += body.len() + 1;
        copied = at;
    }
    (copied > 0).then(|| out + &text[copied..])
}

/// Returns the text between "&" and ";" if it has the form of an entity.
fn body(after: &str) -> Option<&str> {
    let bytes = after.as_bytes();
    let from = usize::from(bytes.first() == Some(&b'#'));
    let length = bytes[from..].iter().take(LONGEST + 1).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let end = from + length;
    ((1..=LONGEST).contains(&length) && bytes.get(end) == Some(&b';')).then(|| &after[..end])
}

fn meaning(body: &str) -> Option<String> {
    match body.strip_prefix('#') {
        Some(number) => numeric(number),
        None => NAMES.get(body).cloned(),
    }
}

/// Returns the character of a number by HTML's rules; a semicolon stays a number.
fn numeric(number: &str) -> Option<String> {
    let (digits, radix) = match number.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    if digits.is_empty() {
        return None;
    }
    let mut code = 0u32;
    for digit in digits.chars() {
        code = code.saturating_mul(radix).saturating_add(digit.to_digit(radix)?);
    }
    let c = char::from_u32(code).filter(|&c| c != '\0').unwrap_or('\u{fffd}');
    match c {
        ';' => None,
        '\u{1}'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}' | '\u{fdd0}'..='\u{fdef}' => Some(String::new()),
        _ if u32::from(c) & 0xFFFE == 0xFFFE => Some(String::new()),
        _ => Some(c1_as_windows(c).to_string()),
    }
}
