//! The single-byte encodings in which text is often read by mistake, in the order in which they are tried.
//!
//! Their lower half is ASCII. A sloppy codec maps a byte that its encoding leaves undefined to the character of the same number,
//! as browsers do, and encodes U+FFFD (a lost character) as 0x1A.

use std::sync::LazyLock;

/// A single-byte encoding. Its upper half is that of Latin-1, except for `chars` from the byte `from` on.
pub(super) struct Codec {
    pub sloppy: bool,
    /// Whether spaces may be restored to 0xA0. False for MacRoman, where 0xD0 0x20 is a dash and a space.
    pub spaces_may_be_a0: bool,
    from: u8,
    chars: &'static str,
}

const fn sloppy(chars: &'static str) -> Codec {
    Codec { sloppy: true, spaces_may_be_a0: true, from: 0x80, chars }
}

const WINDOWS_1252: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";

pub(super) const CODECS: [Codec; 10] = [
    // Latin-1
    Codec { sloppy: false, spaces_may_be_a0: true, from: 0x80, chars: "" },
    sloppy(WINDOWS_1252),
    // Windows-1251
    sloppy(
        "ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—\u{98}™љ›њќћџ\u{a0}ЎўЈ¤Ґ¦§Ё©Є«¬\u{ad}®Ї°±Ііґµ¶·ё№є»јЅѕї\
         АБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя",
    ),
    // Windows-1250
    sloppy(
        "€\u{81}‚\u{83}„…†‡\u{88}‰Š‹ŚŤŽŹ\u{90}‘’“”•–—\u{98}™š›śťžź\u{a0}ˇ˘Ł¤Ą¦§¨©Ş«¬\u{ad}®Ż°±˛ł´µ¶·¸ąş»Ľ˝ľż\
         ŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙",
    ),
    // Windows-1253
    sloppy(
        "€\u{81}‚ƒ„…†‡\u{88}‰\u{8a}‹\u{8c}\u{8d}\u{8e}\u{8f}\u{90}‘’“”•–—\u{98}™\u{9a}›\u{9c}\u{9d}\u{9e}\u{9f}\
         \u{a0}΅Ά£¤¥¦§¨©ª«¬\u{ad}®―°±²³΄µ¶·ΈΉΊ»Ό½ΎΏΐΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡÒΣΤΥΦΧΨΩΪΫάέήίΰαβγδεζηθικλμνξοπρςστυφχψωϊϋόύώ",
    ),
    // Windows-1254
    sloppy(
        "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}\u{8e}\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}\u{9e}Ÿ\u{a0}¡¢£¤¥¦§¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿\
         ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏĞÑÒÓÔÕÖ×ØÙÚÛÜİŞßàáâãäåæçèéêëìíîïğñòóôõö÷øùúûüış",
    ),
    // Windows-1257
    sloppy(
        "€\u{81}‚\u{83}„…†‡\u{88}‰\u{8a}‹\u{8c}¨ˇ¸\u{90}‘’“”•–—\u{98}™\u{9a}›\u{9c}¯˛\u{9f}\u{a0}¡¢£¤¥¦§Ø©Ŗ«¬\u{ad}®Æ\
         °±²³´µ¶·ø¹ŗ»¼½¾æĄĮĀĆÄÅĘĒČÉŹĖĢĶĪĻŠŃŅÓŌÕÖ×ŲŁŚŪÜŻŽßąįāćäåęēčéźėģķīļšńņóōõö÷ųłśūüżž˙",
    ),
    // ISO 8859-2
    Codec {
        sloppy: false,
        spaces_may_be_a0: true,
        from: 0xA1,
        chars: "Ą˘Ł¤ĽŚ§¨ŠŞŤŹ\u{ad}ŽŻ°ą˛ł´ľśˇ¸šşťź˝žżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙",
    },
    // MacRoman
    Codec {
        sloppy: false,
        spaces_may_be_a0: false,
        from: 0x80,
        chars: "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»…\u{a0}ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ\
                ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\u{f8ff}ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ",
    },
    // Code page 437
    Codec {
        sloppy: false,
        spaces_may_be_a0: true,
        from: 0x80,
        chars: "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀\
                αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}",
    },
];

/// The encodings of a character: a bit for each codec that has it, and its byte in each.
#[derive(Clone, Copy, Default)]
struct Encoded {
    codecs: u16,
    bytes: [u8; CODECS.len()],
}

/// The exclusive upper bound of the results of [`slot`].
pub(super) const SLOTS: usize = 0x2604;

/// Returns a character's index in tables of the relevant characters: those below U+2600 and four more.
pub(super) fn slot(c: char) -> Option<usize> {
    match c {
        '\0'..'\u{2600}' => Some(c as usize),
        '\u{f8ff}' => Some(0x2600),
        '\u{fb01}' => Some(0x2601),
        '\u{fb02}' => Some(0x2602),
        '\u{fffd}' => Some(0x2603),
        _ => None,
    }
}

static ENCODED: LazyLock<Vec<Encoded>> = LazyLock::new(|| {
    let mut table = vec![Encoded::default(); SLOTS];
    for (i, codec) in CODECS.iter().enumerate() {
        for (byte, c) in (0..=u8::MAX).zip(codec.alphabet()) {
            let encoded = &mut table[slot(c).expect("every character of a codec has a slot")];
            encoded.codecs |= 1 << i;
            encoded.bytes[i] = byte;
        }
    }
    table
});

fn encoded(c: char) -> Encoded {
    slot(c).map_or(Encoded::default(), |i| ENCODED[i])
}

impl Codec {
    /// Returns the characters of the bytes 0–255.
    fn alphabet(&self) -> impl Iterator<Item = char> {
        let lower = (0..self.from).map(|byte| if byte == 0x1A && self.sloppy { '\u{fffd}' } else { char::from(byte) });
        let upper = lower.chain(self.chars.chars());
        let given = usize::from(self.from) + self.chars.chars().count();
        upper.chain((0..=u8::MAX).skip(given).map(char::from))
    }
}

/// Returns the numbers of the codecs that can encode the whole text.
pub(super) fn possible(text: &str) -> impl Iterator<Item = usize> {
    let mut codecs = u16::MAX;
    for c in text.chars().filter(|&c| !c.is_ascii() || c == '\x1a') {
        codecs &= encoded(c).codecs;
        if codecs == 0 {
            break;
        }
    }
    (0..CODECS.len()).filter(move |i| codecs >> i & 1 == 1)
}

/// Encodes the text with codec number `codec`, which must have all its characters.
pub(super) fn encode(text: &str, codec: usize) -> Vec<u8> {
    text.chars().map(|c| encoded(c).bytes[codec]).collect()
}

/// Returns the Windows-1252 character of a C1 control character, or any other character unchanged.
pub(super) fn c1_as_windows(c: char) -> char {
    match c {
        '\u{80}'..='\u{9f}' => WINDOWS_1252.chars().nth(c as usize - 0x80).unwrap_or(c),
        _ => c,
    }
}
