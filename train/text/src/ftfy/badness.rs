//! Detection of mojibake by neighbouring characters that ordinary text does not have, such as an accented small letter and a
//! currency sign.

use super::classes::*;

const ASCII_LETTER: u32 = ASCII_UPPER | ASCII_LOWER;
const ACCENTED: u32 = LOWER | UPPER;
const MARKS: u32 = OPENING | CLOSING;
const SUSPECT: u32 = ACCENTED | BOX | MARKS | CURRENCY | NUMERIC | LAW;

/// The classes of the character before (0: any), of a character beyond ASCII and of the next character, which together mark
/// mojibake.
const RULES: [(u32, u32, u32); 14] = [
    (0, SUSPECT | BAD, BAD),
    (0, BAD, SUSPECT),
    (0, LOWER | PLAIN_LOWER | BOX | CLOSING | CURRENCY | NUMERIC, UPPER),
    (0, BOX | CLOSING | CURRENCY | NUMERIC, LOWER),
    (0, LOWER | BOX | CLOSING, CURRENCY),
    (0, UPPER | BOX, NUMERIC | LAW),
    (0, CURRENCY | NUMERIC | BOX, OPENING),
    (0, ACCENTED | MARKS | CURRENCY | NUMERIC | LAW, BOX),
    (0, BOX, KAOMOJI | CLOSING),
    (SPACE, UPPER, CURRENCY),
    (ASCII_LETTER, PLAIN_LOWER | PLAIN_UPPER, BAD),
    (ASCII_LOWER, UPPER, OPENING | CURRENCY),
    (ACCENTED | BOX | CURRENCY | CLOSING, OPENING, NUMERIC),
    (ACCENTED | BOX | CURRENCY | NUMERIC | LAW, CLOSING, OPENING),
];

/// Returns whether any part of the text looks like mojibake.
pub(super) fn is_bad(text: &str) -> bool {
    let mut at = 0;
    while let Some(ascii) = text.as_bytes()[at..].iter().position(|byte| !byte.is_ascii()) {
        at += ascii;
        let (before, here) = text.split_at(at);
        let mut after = here.chars();
        let Some(c) = after.next() else { break };
        if is_bad_at(before, c, after.as_str()) {
            return true;
        }
        at += c.len_utf8();
    }
    false
}

fn is_bad_at(before: &str, c: char, after: &str) -> bool {
    let class = classes(c);
    if class & C1 != 0 {
        return true;
    }
    let Some(next) = after.chars().next().filter(|_| class & (SUSPECT | BAD | KAOMOJI | PLAIN_LOWER | PLAIN_UPPER) != 0) else {
        return false;
    };
    let next_class = classes(next);
    let before_class = before.chars().next_back().map_or(0, classes);
    let fits = |&(before, here, after): &(u32, u32, u32)| {
        class & here != 0 && next_class & after != 0 && (before == 0 || before_class & before != 0)
    };
    RULES.iter().any(fits) || is_bad_accented(class, next, after) || is_bad_character(before, c, next, after)
}

/// Returns whether an accented letter is before punctuation inside a word, or a capital before a degree sign.
fn is_bad_accented(class: u32, next: char, after: &str) -> bool {
    class & ACCENTED != 0 && classes(next) & MARKS != 0 && after.chars().nth(1).is_some_and(is_word)
        || class & UPPER != 0 && next == '°'
}

/// Returns whether a particular character looks like mojibake before the next ones. `next` is the first character of `after`.
fn is_bad_character(before: &str, c: char, next: char, after: &str) -> bool {
    let class = classes(next);
    let third_is_of = |characters: &str| after.chars().nth(1).is_some_and(|third| characters.contains(third));
    match c {
        'Œ' | 'œ' => !next.is_ascii_alphabetic(),
        'Â' | 'Ã' if next == ' ' => is_bad_before_space(before, c),
        'Â' | 'Ã' | 'Î' | 'Ð' => class & MARKS != 0 || "€œŠš¢£Ÿž\u{a0}\u{ad}®©°·»–—´".contains(next),
        '×' => matches!(next, '²' | '³'),
        'Ø' | 'Ù' => {
            let follows = |c: char| classes(c) & (COMMON | CURRENCY | BAD | NUMERIC | OPENING) != 0 || "ŸŠ®°µ»".contains(c);
            follows(next) && third_is_of("ØÙ") && after.chars().nth(2).is_some_and(follows)
        }
        'à' => "²µ¹¼½¾".contains(next),
        '√' => "±∂†≠®™´≤≥¥µø".contains(next),
        '≈' => matches!(next, '°' | '¢'),
        '‚' if next == 'Ä' => third_is_of("ìîïòôúùû†°¢π"),
        '‚' => matches!(next, 'â' | 'ó') && third_is_of("àä°ê"),
        'в' => next == 'Ђ',
        'Г' if next == 'ў' => is_twice_bad(after),
        'В' | 'Г' | 'Р' | 'С' => (class & (BAD | MARKS | CURRENCY) != 0 || matches!(next, '°' | 'µ')) && third_is_of("ВГРС"),
        'β' => next == '€' && third_is_of("™\u{a0}Ά\u{ad}®°"),
        'Β' | 'Γ' | 'Ξ' | 'Ο' => (class & (BAD | MARKS | CURRENCY) != 0 || next == '°') && third_is_of("ΒΓΞΟ"),
        'ā' => next == '€',
        _ => false,
    }
}

/// Returns whether "Â" or "Ã" is before a space that was 0xA0: "à", or a no-break space.
fn is_bad_before_space(before: &str, c: char) -> bool {
    let mut back = before.chars().rev().map(classes);
    let Some(last) = back.next() else { return true };
    last & ASCII_LOWER != 0
        || last & SPACE != 0 && back.next().is_some_and(|class| class & ASCII_LOWER != 0)
        || c == 'Â' && last & (STOP | CLOSING) != 0
}

/// Returns whether `after`, which follows "Г", is Latin-1 read as Windows-1252 whose UTF-8 was read as Windows-1251.
fn is_twice_bad(after: &str) -> bool {
    let mut rest = after.strip_prefix("ўВЂВ").unwrap_or_default().chars();
    rest.next().is_some_and(|c| c != '\n') && rest.next().is_some_and(|c| c.is_ascii_alphabetic() || c == ' ')
}

/// Returns whether Python's `\w` matches a character. Only the characters of the codecs matter: no text with another one that
/// looks bad can be decoded.
fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
