//! Against files that tests/golden/ftfy.py made with the real ftfy.

use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, canonical_combining_class as class};

use super::*;

fn digest(text: &str) -> String {
    gradus_io::hex::encode(&Sha256::digest(text)[..8])
}

/// `fix_text` without its fast path: every line is a segment to fix.
fn slow(text: &str) -> String {
    let mut html = false;
    let mut fix = |line: &str| {
        html = html || line.contains('<');
        fix_segment(line, !html).unwrap_or_else(|| line.to_owned())
    };
    text.split_inclusive('\n').map(&mut fix).collect()
}

#[test]
fn cases_as_the_reference() {
    let cases: Vec<(String, String)> = serde_json::from_str(include_str!("../../tests/data/ftfy/cases.json")).unwrap();
    assert!(cases.len() > 500);
    for (text, fixed) in cases {
        assert_eq!(fix_text(&text), fixed, "{text:?}");
        assert_eq!(slow(&text), fixed, "{text:?}");
    }
}

/// Every character of Unicode between two letters.
#[test]
fn every_character_as_the_reference() {
    let digests = include_str!("../../tests/data/ftfy/every_character.txt");
    for (line, block) in digests.lines().zip((0u32..).step_by(0x1000)) {
        let characters = (block..block + 0x1000).filter_map(char::from_u32);
        let lines: String = characters.map(|c| fix_text(&format!("a{c}b")).into_owned() + "\n").collect();
        assert_eq!(format!("{block:06x} {}", digest(&lines)), line);
    }
    assert_eq!(digests.lines().count(), 0x110);
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
    for (c, expected_digest) in expected.characters.chars().zip(&expected.digests) {
        let mut bits = String::new();
        for d in expected.characters.chars() {
            let pair = String::from_iter([c, d]);
            bits.extend(expected.neighbours.iter().map(|n| if badness::is_bad(&n.replace('|', &pair)) { '1' } else { '0' }));
        }
        assert_eq!(digest(&bits), *expected_digest, "{c:?}");
    }
    assert_eq!(expected.characters.chars().count(), expected.digests.len());
}
