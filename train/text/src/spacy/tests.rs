use rayon::prelude::*;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::*;

fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    English::new().for_each_token(text, |token| out.push(token.to_owned()));
    out
}

fn digest(lines: &str) -> String {
    gradus_io::hex::encode(&Sha256::digest(lines)[..8])
}

/// Returns texts of up to `most` pieces, drawn with a fixed seed.
fn texts<'a>(pieces: &'a [&'a str], most: usize) -> impl Iterator<Item = String> + 'a {
    let mut state = 1u64;
    let mut below = move |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    std::iter::repeat_with(move || (0..=below(most)).map(|_| pieces[below(pieces.len())]).collect())
}

const PIECES: &[&str] = &[
    ":", ")", "(", "-", "'", "’", "\"", "o", "O", "D", "8", "3", "<", ">", "^", "_", ".", "..", "…", ",", "/", " ", "  ", "\n",
    "Mr", "Mr.", "let", "s", "do", "n't", "10", "am", "a.m.", "km", "$", "US$", "°", "C", "é", "日本", "ǅ", "👍", "🏽",
    "\u{301}", "http", "://", "a.bc", "@", "#", "1.2.3.4", "+", "*", "=", "—", "~", "\\", "¯", "(ツ)", "\u{a0}", "\u{1c}", "Я",
    "x", "%",
];

#[test]
fn texts_as_the_reference() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../../tests/data/spacy/cases.json")).unwrap();
    for case in &cases {
        let expected: Vec<_> = case["tokens"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
        let text = case["text"].as_str().unwrap();
        assert_eq!(tokens(text), expected, "{text:?}");
    }
    assert!(cases.len() > 1000);
}

#[test]
fn exceptions_as_the_reference() {
    let all = exceptions::all();
    let lines: String = all.iter().map(|(text, tokens)| format!("{text}\t{}\n", tokens.join("\t"))).collect();
    let expected = include_str!("../../tests/data/spacy/exceptions.txt");
    assert_eq!(format!("{} {}\n", all.len(), digest(&lines)), expected);
}

/// Every character of Unicode in several places: between letters, after a digit, before a full stop, in an address.
#[test]
fn every_character_as_the_reference() {
    let places = include_str!("../../tests/data/spacy/places.txt");
    let digests = include_str!("../../tests/data/spacy/every_character.txt");
    let found = (0..0x110).into_par_iter().map(|block| {
        let characters = (block << 12..(block + 1) << 12).filter_map(char::from_u32);
        let mut lines = String::new();
        for c in characters {
            let mut separator = "";
            English::new().for_each_token(&places.replace('@', c.encode_utf8(&mut [0; 4])), |token| {
                lines.extend([separator, token]);
                separator = "|";
            });
            lines.push('\n');
        }
        format!("{:06x} {}", block << 12, digest(&lines))
    });
    assert_eq!(found.collect::<Vec<_>>(), digests.lines().collect::<Vec<_>>());
}

/// Compares the short path of a word of letters with the long one.
#[test]
fn the_shortcut_for_letters_equals_the_general_path() {
    let exceptions = exceptions::all();
    let letters = ["a", "A", "km", "S", "US", "in", "do", "nt", "ve", "can", "not", "I", "ll", "Z", "re", "m", "t", "T"];
    for word in texts(&letters, 5).take(5000).chain(exceptions.into_keys()) {
        let mut long = Vec::new();
        affixes::split(&word, 0, word.len(), &ENGLISH, &mut |from, to| long.push(word[from..to].to_owned()));
        let mut rejoin = Vec::new();
        let mut pass = Rejoin::new(&word, &ENGLISH, |token: &str| rejoin.push(token.to_owned()));
        affixes::split(&word, 0, word.len(), &ENGLISH, &mut |from, to| pass.token(from, to));
        pass.finish();
        assert_eq!(tokens(&word), rejoin, "{word}");
        assert!(!word.bytes().all(|b| b.is_ascii_alphabetic()) || rejoin == long, "{word}");
    }
}

/// Compares the last pass, which passes tokens on incrementally, with its definition over all tokens.
#[test]
fn the_incremental_rejoin_equals_its_definition() {
    for text in texts(PIECES, 24).take(4000) {
        let mut cut = Vec::new();
        for chunk in text.split(' ').filter(|chunk| !chunk.is_empty()) {
            let from = chunk.as_ptr() as usize - text.as_ptr() as usize;
            affixes::split(&text, from, from + chunk.len(), &ENGLISH, &mut |from, to| cut.push((from, to)));
        }
        let mut given = Vec::new();
        let mut pass = Rejoin::new(&text, &ENGLISH, |token: &str| given.push(token.to_owned()));
        cut.iter().for_each(|&(from, to)| pass.token(from, to));
        pass.finish();
        assert_eq!(given, rejoined(&text, &cut), "{text:?}");
    }
}

fn rejoined(text: &str, cut: &[(usize, usize)]) -> Vec<String> {
    let mut matches = Vec::new();
    for start in 0..cut.len() {
        let mut node = 0;
        for (end, &(from, to)) in cut.iter().enumerate().skip(start) {
            let Some(next) = ENGLISH.word(&text[from..to]).and_then(|word| ENGLISH.step(node, word)) else { break };
            node = next;
            if ENGLISH.is_end(node) {
                matches.push((start, end + 1));
            }
        }
    }
    matches.sort_by_key(|&(start, end)| (start + cut.len() - end, start));
    let mut seen = vec![false; cut.len()];
    let mut ends = vec![None; cut.len()];
    for (start, end) in matches {
        if !seen[start] && !seen[end - 1] {
            ends[start] = Some(end);
        }
        seen[start..end].fill(true);
    }
    let mut out = Vec::new();
    let mut at = 0;
    while at < cut.len() {
        let end = ends[at].unwrap_or(at + 1);
        let (from, to) = (cut[at].0, cut[end - 1].1);
        match ENGLISH.tokens(&text[from..to]).filter(|_| ends[at].is_some()) {
            Some(lengths) => affixes::pieces(from, lengths, &mut |from, to| out.push(text[from..to].to_owned())),
            None => out.extend(cut[at..end].iter().map(|&(from, to)| text[from..to].to_owned())),
        }
        at = end;
    }
    out
}

/// Only single blanks are lost, and long texts of one kind take no more time than others.
#[test]
fn only_single_blanks_are_lost() {
    let million = 1_000_000;
    let long =
        ["!", "a", "a.b.", "1", "👍", "\u{301}", "\"", "a.", ".", "-", "a-", "@", "a@", "http://", ":)", "(:", "'s", "5km", "…"];
    let long = long.into_iter().map(|piece| piece.repeat(million / piece.len()));
    let nested = "(".repeat(million) + &")".repeat(million);
    let all: String = ('\0'..=char::MAX).collect();
    let dots = format!("{}x{}", ".".repeat(million), ".".repeat(million));
    for text in texts(PIECES, 24).take(4000).chain(long).chain([nested, all, dots]) {
        let mut rest = &text[..];
        English::new().for_each_token(&text, |token| {
            rest = rest.strip_prefix(token).or_else(|| rest.strip_prefix(' ')?.strip_prefix(token)).unwrap();
        });
        assert!(matches!(rest, "" | " "), "{rest:?}");
    }
}

#[test]
fn suffixes_of_any_length() {
    let mut stack = suffixes::Lengths::default();
    let lengths = [1, 254, 255, 256, 509, 510, 511, 100_000];
    lengths.iter().for_each(|&length| stack.push(length));
    assert!(lengths.iter().rev().all(|&length| stack.pop() == Some(length)));
    assert_eq!(stack.pop(), None);
}
