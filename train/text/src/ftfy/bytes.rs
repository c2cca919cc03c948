//! Decoding of bytes that are UTF-8 or a variant of it.

/// Returns the decoded text if the bytes are UTF-8 or a variant of it.
pub(super) fn decode(bytes: Vec<u8>) -> Option<String> {
    if bytes.iter().any(|b| matches!(b, 0xED | 0xC0)) { decode_variant(&bytes) } else { String::from_utf8(bytes).ok() }
}

/// Decodes UTF-8 in which NUL may be `C0 80`, as in Java, and a character beyond U+FFFF a pair of surrogates of three bytes each
/// (CESU-8).
///
/// A newline at the very end may replace the last byte of either sequence, and is lost. This is a defect of the reference, whose
/// pattern matches the end with `$`.
fn decode_variant(bytes: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(special) = rest.iter().position(|b| matches!(b, 0xED | 0xC0)) {
        text.push_str(std::str::from_utf8(&rest[..special]).ok()?);
        rest = &rest[special..];
        let length = match *rest {
            [0xC0, 0x80, ..] | [0xC0, b'\n'] => {
                text.push('\0');
                2
            }
            [0xED, a @ 0xA0..=0xAF, b @ 0x80..=0xBF, 0xED, c @ 0xB0..=0xBF, d @ 0x80..=0xBF, ..]
            | [0xED, a @ 0xA0..=0xAF, b @ 0x80..=0xBF, 0xED, c @ 0xB0..=0xBF, d @ b'\n'] => {
                let bits = |byte: u8, count: u32| u32::from(byte) & ((1 << count) - 1);
                let code = (bits(a, 4) << 16) + (bits(b, 6) << 10) + (bits(c, 4) << 6) + bits(d, 6);
                text.push(char::from_u32(0x10000 + code)?);
                6
            }
            _ => {
                text.push_str(std::str::from_utf8(rest.get(..3)?).ok()?);
                3
            }
        };
        rest = &rest[length..];
    }
    text.push_str(std::str::from_utf8(rest).ok()?);
    Some(text)
}

/// Restores 0xA0 (a no-break space) where a program replaced it by a space.
///
/// `C3 20` is "à", usually a word by itself. Then the space is kept as well, except in Portuguese "às", "àquele" and similar
/// words.
pub(super) fn restore_byte_a0(bytes: Vec<u8>) -> Vec<u8> {
    if !bytes.contains(&b' ') {
        return bytes;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = &bytes[..];
    while let Some(&byte) = rest.first() {
        let length = altered_length(rest);
        if rest.starts_with(b"\xC3 ") && !joined_to_a_grave(&rest[2..]) {
            out.extend(b"\xC3\xA0 ");
        } else {
            out.extend(rest[..length].iter().map(|&b| if b == b' ' && byte >= 0xC2 { 0xA0 } else { b }));
        }
        rest = &rest[length..];
    }
    out
}

/// Returns the length of the UTF-8 sequence at the start of `bytes` in which a space replaces one 0xA0, or 1.
fn altered_length(bytes: &[u8]) -> usize {
    const SPACE: u8 = b' ';
    match *bytes {
        [0xC2 | 0xC3 | 0xC5 | 0xCE | 0xD0 | 0xD9, SPACE, ..] => 2,
        [0xE2 | 0xE3, SPACE, 0x80..=0x84 | 0x86..=0x9F | 0xA1..=0xBF, ..] => 3,
        [0xE0..=0xE3, 0x80..=0x84 | 0x86..=0x9F | 0xA1..=0xBF, SPACE, ..] => 3,
        [0xF0, SPACE, 0x80..=0xBF, 0x80..=0xBF, ..]
        | [0xF0, 0x80..=0xBF, SPACE, 0x80..=0xBF, ..]
        | [0xF0, 0x80..=0xBF, 0x80..=0xBF, SPACE, ..] => 4,
        _ => 1,
    }
}

fn joined_to_a_grave(after: &[u8]) -> bool {
    [&b" "[..], b"quele", b"quela", b"quilo", b"s "].iter().any(|word| after.starts_with(word))
}

/// Replaces sequences that lost a byte by U+FFFD. 0x1A marks a lost byte, and so may one "?" in each sequence.
pub(super) fn replace_lossy(bytes: Vec<u8>) -> Vec<u8> {
    if !bytes.iter().any(|b| matches!(b, 0x1A | b'?')) {
        return bytes;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = &bytes[..];
    while let Some(&byte) = rest.first() {
        let lossy = lossy_length(rest);
        if lossy > 0 {
            out.extend("\u{fffd}".as_bytes());
        } else {
            out.push(byte);
        }
        rest = &rest[lossy.max(1)..];
    }
    out
}

/// Returns the length of the lossy sequence at the start of `bytes`, or 0.
fn lossy_length(bytes: &[u8]) -> usize {
    let lost = |b: u8| matches!(b, 0x1A | b'?');
    let trail = |b: u8| matches!(b, 0x1A | 0x80..=0xBF);
    match *bytes {
        [0xC2..=0xDF, 0x1A, ..] | [0xC2 | 0xC3, b'?', ..] => 2,
        [0xED, 0xA0..=0xAF, a, 0xED, 0xB0..=0xBF, b, ..]
            if lost(a) && (lost(b) || trail(b)) || (lost(a) || trail(a)) && lost(b) =>
        {
            6
        }
        [0xE0..=0xEF, a, b, ..] if lost(a) && trail(b) || trail(a) && lost(b) => 3,
        [0xF0..=0xF4, a, b, c, ..]
            if lost(a) && trail(b) && trail(c) || trail(a) && lost(b) && trail(c) || trail(a) && trail(b) && lost(c) =>
        {
            4
        }
        [0x1A, ..] => 1,
        _ => 0,
    }
}
