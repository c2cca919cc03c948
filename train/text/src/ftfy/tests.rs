//! Comparisons with files that tests/golden/ftfy_fixtures.py made with ftfy.

use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization;

use super::*;

fn digest(text: &str) -> String {
    gradus_io::hex::encode(&Sha256::digest(text)[..8])
}

#[test]
fn cases_as_the_reference() {
    let cases: Vec<(String, String)> = serde_json::from_str(include_str!("../../tests/data/ftfy/cases.json")).unwrap();
    assert!(cases.len() > 500);
    for (text, fixed) in cases {
        assert_eq!(fix_text(&text), fixed, "{text:?}");
    }
}

/// Every character of Unicode, between two letters and after another mark.
#[test]
fn every_character_as_the_reference() {
    // Marks that are newer than the reference's Unicode, so that the reference does not move them.
    let newer = |c: char| {
        matches!(u32::from(c),
            0x5C8 | 0x5C9 | 0x897 | 0x1ACF..=0x1AF0 | 0x10D69..=0x10D6D | 0x10ECB..=0x10ECF | 0x10EF0..=0x10EFB
            | 0x10EFD..=0x10EFF | 0x113CE..=0x113D0 | 0x11F41 | 0x11F42 | 0x1612F | 0x1D127 | 0x1D128 | 0x1D250..=0x1D252
            | 0x1D25B | 0x1D25C | 0x1D25F | 0x1D280 | 0x1D281 | 0x1E08F | 0x1E4EC..=0x1E4EF | 0x1E5EE | 0x1E5EF | 0x1E6E3
            | 0x1E6E6 | 0x1E6EE | 0x1E6EF | 0x1E6F5)
    };
    let digests = include_str!("../../tests/data/ftfy/every_character.txt");
    for (line, block) in digests.lines().zip((0u32..).step_by(0x1000)) {
        let mut lines = String::new();
        for c in (block..block + 0x1000).filter_map(char::from_u32) {
            let mark = format!("a\u{345}{c}");
            let mark = if newer(c) { mark } else { fix_text(&mark).into_owned() };
            lines += &format!("{}\n{mark}\n", fix_text(&format!("a{c}b")));
        }
        assert_eq!(format!("{block:06x} {}", digest(&lines)), line);
    }
    assert_eq!(digests.lines().count(), 0x110);
}

/// Letters that are newer than the reference's Unicode, and that it does not compose.
#[test]
fn newer_letters_are_composed() {
    let newer = [
        0x105C9, 0x105E4, 0x11383, 0x11385, 0x1138E, 0x11391, 0x113C5, 0x113C7, 0x113C8, 0x16121, 0x16122, 0x16123, 0x16124,
        0x16125, 0x16126, 0x16127, 0x16128, 0x16D68, 0x16D69, 0x16D6A,
    ];
    for c in newer.map(|code| char::from_u32(code).unwrap()) {
        let apart: String = [c].into_iter().nfd().collect();
        assert!(apart.chars().count() > 1);
        assert_eq!(fix_text(&apart), c.to_string());
    }
}

/// All pairs of the characters that mojibake consists of, with neighbours.
#[test]
fn badness_as_the_reference() {
    #[derive(serde::Deserialize)]
    struct Expected {
        characters: String,
        neighbours: Vec<String>,
        digests: Vec<String>,
    }
    let expected: Expected = serde_json::from_str(include_str!("../../tests/data/ftfy/badness.json")).unwrap();
    assert_eq!(expected.characters.chars().count(), expected.digests.len());
    for (c, expected_digest) in expected.characters.chars().zip(&expected.digests) {
        let mut bits = String::new();
        for d in expected.characters.chars() {
            let pair = String::from_iter([c, d]);
            bits.extend(expected.neighbours.iter().map(|n| if badness::is_bad(&n.replace('|', &pair)) { '1' } else { '0' }));
        }
        assert_eq!(digest(&bits), *expected_digest, "{c:?}");
    }
}

/// Returns random texts of interacting fragments.
fn texts(count: usize) -> impl Iterator<Item = String> {
    let fragments = [
        "plain ",
        "text\n",
        "\n",
        "\r\n",
        "\r",
        "&amp;",
        "&",
        "amp;",
        "#39;",
        "&lt;",
        "<",
        "“",
        "’",
        "—",
        "é",
        "Ã©",
        "Ã",
        " ",
        "Â",
        "©",
        "â€™",
        "â€\u{fffd}",
        "ﬁ",
        "Ａ",
        "ｶ",
        "ﾞ",
        "e\u{301}",
        "\u{327}",
        "\x1b[1m",
        "\x1b[",
        "\0",
        "\x7f",
        "\u{81}",
        "\u{85}",
        "í\u{a0}½í¸\u{80}",
        "À\u{80}",
        "ð\u{9f}\u{98}\u{80}",
        "日本",
        "Добрый",
        "вЂ™",
        "\u{feff}",
        "\u{2028}",
        "\x0c",
        "1",
        "m",
    ];
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    std::iter::repeat_with(move || (0..random(20)).map(|_| fragments[random(fragments.len())]).collect()).take(count)
}

/// The fast path skips only text that no fix would change.
#[test]
fn fast_equals_slow() {
    for text in texts(20_000) {
        let mut html = false;
        let mut slow = |line: &str| {
            html = html || line.contains('<');
            fix_segment(line, !html).unwrap_or_else(|| line.to_owned())
        };
        let slow: String = text.split_inclusive('\n').map(&mut slow).collect();
        assert_eq!(fix_text(&text), slow, "{text:?}");
    }
    let plain: String = (0..0x7F).map(char::from).filter(|&c| !is_odd(c as u8)).collect();
    assert_eq!(fix_segment(&plain, true), None);
    assert!(matches!(fix_text(&plain.repeat(100)), Cow::Borrowed(_)));
}

#[test]
fn fixed_text_is_left_alone() {
    // Other line breaks, and a "<" that was an entity, would divide the text into other segments.
    for text in texts(20_000).filter(|text| !text.contains(['&', '<', '\r', '\u{2028}'])) {
        let fixed = fix_text(&text);
        assert_eq!(fix_text(&fixed), fixed, "{text:?}");
    }
}

/// A long line is cut at every millionth character.
#[test]
fn long_lines_are_cut_at_every_millionth_character() {
    let line = |before: usize, rest: &str| "x".repeat(before) + rest;
    let fixed = |before: usize, rest: &str| fix_text(&line(before, rest))[before..].to_owned();
    assert_eq!(fixed(SEGMENT - 2, "Ã©\n"), "é\n");
    assert_eq!(fixed(SEGMENT - 1, "Ã©\n"), "Ã©\n");
    assert_eq!(fixed(SEGMENT - 1, "\r\n"), "\n\n");
    assert_eq!(fixed(3 * SEGMENT - 3, "&amp;"), "&amp;");
    assert_eq!(fixed(3 * SEGMENT, "&amp;\n<&amp;"), "&\n<&amp;");
    assert_eq!(fixed(SEGMENT - 5, "&amp;<\n&amp;"), "&<\n&amp;");
    let wide = "日".repeat(SEGMENT - 1);
    assert_eq!(fix_text(&(wide.clone() + "Ã©’")), wide + "Ã©'");
}

/// The number of passes is limited for text that would need as many as it has characters.
#[test]
fn nested_damage_is_limited() {
    let nested = |levels: usize| "é &".to_owned() + &"amp;".repeat(levels);
    assert_eq!(fix_text(&nested(20)), "é &");
    assert_eq!(fix_text(&("Â".repeat(50) + "©")), "©");
    let deep = nested(100_000);
    let passes = (deep.len() - fix_text(&deep).len()) / 4;
    assert!((16..100).contains(&passes), "{passes}");
    assert!(fix_text(&("Â".repeat(100_000) + "©")).starts_with("ÂÂÂ"));
}
