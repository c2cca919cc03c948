//! A visible character for each byte, so that a token of any bytes can be written as text: `Ġ` is the blank, `Ċ` the line end.
//!
//! A byte that is visible in Latin-1 (without the soft hyphen) is its own letter. The other 68 bytes, in order, are U+0100 and
//! following.

/// The first letter of the bytes that are not their own letters.
const SHIFTED: u32 = 0x100;

const fn is_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The letter of each byte.
const LETTERS: [char; 256] = {
    let (mut letters, mut byte, mut shifted) = (['\0'; 256], 0, SHIFTED);
    while byte < 256 {
        letters[byte] = match char::from_u32(shifted) {
            Some(letter) if !is_itself(byte as u8) => {
                shifted += 1;
                letter
            }
            _ => byte as u8 as char,
        };
        byte += 1;
    }
    letters
};

/// Returns the letter of a byte.
pub(crate) fn letter(byte: u8) -> char {
    LETTERS[byte as usize]
}

/// Returns the byte of a letter; `None` for other characters.
pub(crate) fn byte(letter: char) -> Option<u8> {
    match u32::from(letter) {
        code @ ..SHIFTED => u8::try_from(code).ok().filter(|&byte| is_itself(byte)),
        _ => LETTERS.iter().position(|&other| other == letter).map(|byte| byte as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_maps_to_its_own_visible_letter() {
        for b in 0..=255 {
            assert_eq!(byte(letter(b)), Some(b));
            assert!(!letter(b).is_whitespace() && !letter(b).is_control(), "{b}");
        }
        assert_eq!([b' ', b'\n', 0, 0x7F, 0xAD, b'a', 0xE9].map(letter), ['Ġ', 'Ċ', 'Ā', 'ġ', 'Ń', 'a', 'é']);
        for none in [' ', '\n', '\u{ad}', '\u{144}', '日'] {
            assert_eq!(byte(none), None, "{none:?}");
        }
    }
}
