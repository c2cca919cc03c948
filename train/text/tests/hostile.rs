//! Hostile text: lines without end, marks without end, nested damage, every character. Memory grows linearly with the text,
//! pieces give the ids of the whole, and files with half surrogate pairs are refused.
//!
//! The growth of time is measured, not tested: `cargo run --release -p gradus-text --example slopes`.

use gradus_text::{BpeTrainer, ByteBpe, Cleaning, Cut, Mode, TextError, Tokenizer, WordPiece};

#[allow(dead_code, reason = "another test counts blocks")]
#[path = "../../../tests/src/allocations.rs"]
mod allocations;
#[allow(dead_code, reason = "the tests read the families alone")]
#[path = "../examples/slopes.rs"]
mod slopes;

use allocations::{Counting, alone, most_held, requested};
use slopes::FAMILIES;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns at least this many bytes of each family, and of the texts that are not repetitions.
fn families(bytes: usize) -> Vec<String> {
    let mut families: Vec<String> = FAMILIES.iter().map(|(_, unit)| unit.repeat(bytes / unit.len() + 1)).collect();
    families.push(format!("{}©", "Â".repeat(bytes / 2)));
    families.push(format!("{}©", "Â".repeat(100)).repeat(bytes / 202 + 1));
    families.push(format!("&{}", "amp;".repeat(bytes / 4)));
    families.push(format!("&{}", "amp;".repeat(100)).repeat(bytes / 401 + 1));
    families.push(format!("e{}", "\u{301}".repeat(bytes / 2)));
    families
}

fn every_character() -> String {
    ('\0'..=char::MAX).collect()
}

/// Returns a small vocabulary with the characters of the families.
fn tokenizer(mode: Mode) -> Tokenizer {
    let trainer = BpeTrainer { mode, ..BpeTrainer::new(400) };
    let mut words = trainer.word_counts();
    families(100).iter().for_each(|text| words.add(text));
    trainer.train(&words, |_, _| {}).expect("room for the characters")
}

/// Returns a WordPiece tokenizer with the characters of the families, and the pairs of the ASCII ones.
fn pieces() -> Tokenizer {
    let characters: std::collections::BTreeSet<char> = families(100).iter().flat_map(|text| text.chars()).collect();
    let ascii = || characters.iter().filter(|c| c.is_ascii_lowercase());
    let one = characters.iter().flat_map(|c| [c.to_string(), format!("##{c}")]);
    let two = ascii().flat_map(|a| ascii().map(move |b| format!("##{a}{b}")));
    let tokens = ["[UNK]", "[CLS]"].map(str::to_owned).into_iter().chain(one.filter(|token| token != "##")).chain(two);
    Tokenizer::word_piece(WordPiece::new(tokens.collect(), Cleaning::ALL).expect("sound"))
}

/// Returns a byte-level BPE whose merges build on each other, so that each merge halves a run of one letter.
fn bytes() -> Tokenizer {
    let of = |text: &str| text.bytes().map(Tokenizer::letter).collect::<String>();
    let mut merges: Vec<(String, String)> = Vec::new();
    for unit in ["a", " ", ".", "\n", "é"] {
        if let [first, second] = of(unit).chars().collect::<Vec<_>>()[..] {
            merges.push((first.into(), second.into()));
        }
        merges.extend((0..6).map(|n| (of(&unit.repeat(1 << n)), of(&unit.repeat(1 << n)))));
    }
    let single = (0..=255).map(|byte| Tokenizer::letter(byte).to_string());
    let tokens = single.chain(merges.iter().map(|(a, b)| format!("{a}{b}"))).chain(["<|endoftext|>".to_owned()]);
    Tokenizer::byte_bpe(ByteBpe::new(tokens.collect(), &merges).expect("sound"))
}

/// Returns one tokenizer of every kind that has words.
fn tokenizers() -> [Tokenizer; 4] {
    [tokenizer(Mode::Basic), tokenizer(Mode::Spacy), pieces(), bytes()]
}

/// Returns the most bytes held, and all bytes allocated, while a text is encoded.
fn memory(tokenizer: &Tokenizer, text: &str) -> [usize; 2] {
    let tokenizer = tokenizer.clone(); // with an empty cache
    let before = requested();
    let held = most_held(|| drop(tokenizer.encode(text).expect("any text has ids")));
    [held, requested() - before]
}

#[test]
fn memory_grows_at_most_linearly_with_the_text() {
    let _alone = alone();
    const N: usize = 8 << 10;
    for tokenizer in tokenizers() {
        let mode = tokenizer.kind();
        memory(&tokenizer, "Ã© warm.");
        for (short, long) in families(N).iter().zip(&families(8 * N)) {
            let ([held, allocated], [held_8, allocated_8]) = (memory(&tokenizer, short), memory(&tokenizer, long));
            let what: String = short.chars().take(12).collect();
            // Vectors double as they grow, so a vector's capacity may be up to twice its length.
            assert!(held_8 <= 16 * (held + N), "{mode}, {what:?}: {held} bytes held, {held_8} for eight times the text");
            assert!(
                allocated_8 <= 16 * (allocated + N),
                "{mode}, {what:?}: {allocated} bytes allocated, {allocated_8} for eight times the text"
            );
            assert!(held_8 <= 64 * long.len(), "{mode}, {what:?}: {held_8} bytes held for {}", long.len());
        }
    }
}

#[test]
fn every_character_has_ids_and_a_text() {
    let _alone = alone();
    let text = every_character();
    for tokenizer in tokenizers() {
        let ids = tokenizer.encode(&text).expect("any text has ids");
        assert!(ids.len() > 50_000 && !tokenizer.decode(&ids).expect("known ids").is_empty());
        let [held, _] = memory(&tokenizer, &text);
        assert!(held <= 64 * text.len(), "{held} bytes");
    }
}

/// Words do not extend across a line end, which is a word itself in mode `spacy`.
#[test]
fn pieces_have_the_ids_of_the_whole() {
    let _alone = alone();
    for mode in Mode::ALL {
        let tokenizer = tokenizer(mode);
        let families = families(300);
        for (a, b) in families.iter().zip(families.iter().cycle().skip(1)) {
            let (a, b) = (a.trim_end_matches(['\r', '\n', ' ']), b.trim_start_matches(['\r', '\n', ' ']));
            let [whole, before, after] = [
                tokenizer.encode(&format!("{a} x\n{b}")),
                tokenizer.encode(&format!("{a} x")),
                tokenizer.encode_after(b, tokenizer.is_html(a)),
            ]
            .map(Result::unwrap);
            let between = if after.is_empty() { Vec::new() } else { tokenizer.line_end().unwrap_or_default() };
            // An added token has no effect on the ids of the text next to it.
            if !b.starts_with("<unk>") {
                assert_eq!(whole, [before, between, after].concat(), "{mode}: {a:?} and {b:?}");
            }
        }
    }
}

/// Cuts at all places that the tokenizer's `cut` allows.
#[test]
fn a_cut_changes_no_ids() {
    let _alone = alone();
    for tokenizer in [pieces(), bytes()] {
        let mut cuts = 0;
        for (a, b) in families(60).iter().zip(families(60).iter().cycle().skip(1)) {
            let text = format!("{a} x\n\n y  z{b}\u{a0} <|endoftext|> [CLS] 3");
            let whole = tokenizer.encode(&text).unwrap();
            for at in (1..text.len()).filter(|&at| tokenizer.cut().allows(text.as_bytes(), at)) {
                let [before, after] = [&text[..at], &text[at..]].map(|part| tokenizer.encode(part).unwrap());
                assert_eq!([before, after].concat(), whole, "{} at {at} of {text:?}", tokenizer.kind());
                cuts += 1;
            }
        }
        assert!(cuts > 100, "{cuts}");
    }
    assert!(!Cut::Blanks.allows(b"a\n b", 2) && !Cut::Blanks.allows(" b".as_bytes(), 0) && Cut::Blanks.allows(b"a  b", 1));
}

/// Nothing takes time or memory quadratic in a word's length: each case would take minutes, or exhaust the memory.
#[test]
fn endless_words_take_bounded_time_and_memory() {
    let _alone = alone();
    const N: usize = 1 << 20;
    for text in [
        "a".repeat(N),
        "é".repeat(N / 2),
        " ".repeat(N),
        "\n".repeat(N),
        "'".repeat(N),
        "a\u{301}".repeat(N / 3),
        "日".repeat(N / 3),
    ] {
        let [pieces, bytes] = [pieces(), bytes()].map(|tokenizer| {
            let ids = tokenizer.encode(&text).unwrap();
            (tokenizer.decode(&ids).unwrap(), ids.len())
        });
        assert!(bytes.0 == text && bytes.1 <= N, "{:?}", text.chars().next());
        assert!(pieces.1 <= N, "{}", pieces.1);
    }
}

/// A vocabulary for which every search runs to the end of the longest word and fails there.
#[test]
fn a_worst_case_vocabulary_is_searched_in_bounded_time() {
    let _alone = alone();
    let tokens = ["[UNK]".to_owned(), "a".repeat(99), "##a".to_owned(), "a".to_owned(), format!("##{}", "a".repeat(98))];
    let tokenizer = Tokenizer::word_piece(WordPiece::new(tokens.into(), Cleaning::ALL).unwrap());
    let words = (0..2000).map(|n| format!("{}{} ", "a".repeat(98), char::from(b'b' + (n % 20) as u8)));
    let ids = tokenizer.encode(&words.collect::<String>()).unwrap();
    assert_eq!(ids, vec![0; 2000]);
}

/// In mode `basic` the words of a decoded text are the words of the text.
#[test]
fn a_decoded_text_has_the_same_ids() {
    let _alone = alone();
    let tokenizer = tokenizer(Mode::Basic);
    let unknown = tokenizer.token_id("<unk>").expect("every BPE has it");
    let mut same = 0;
    for text in families(2000) {
        let ids = tokenizer.encode(&text).unwrap();
        if !ids.contains(&unknown) {
            assert_eq!(tokenizer.encode(&tokenizer.decode(&ids).unwrap()).unwrap(), ids, "{:?}", &text[..text.len().min(20)]);
            same += 1;
        }
    }
    assert!(same > 30, "{same} families have known characters alone");
}

/// Half of a surrogate pair, which no Rust string can contain, is an error of the file at any place.
#[test]
fn halves_of_surrogates_are_rejected() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let tokenizer = tokenizer(Mode::Basic);
    let refused = |names: [&str; 2], from: &str, to: &str, file: &str| {
        let path = directory.path().join("a");
        tokenizer
            .clone()
            .with_mode(if names[0] == "vocab.json" { Mode::Spacy } else { Mode::Basic })
            .unwrap()
            .save(&path)
            .unwrap();
        let written = std::fs::read_to_string(path.join(file)).unwrap();
        assert!(written.contains(from), "{file}: {written}");
        std::fs::write(path.join(file), written.replacen(from, to, 1)).unwrap();
        let error: TextError = Tokenizer::load(&path).expect_err(to);
        assert!(error.to_string().contains(file), "{error}");
        std::fs::remove_dir_all(path).unwrap();
    };
    for half in [r#""\ud800""#, r#""\udfff""#, r#""\ud800\u0041""#, r#""x\udc00\ud800""#] {
        refused(["tokenizer.json", ""], r#""<unk>""#, half, "tokenizer.json");
        refused(["vocab.json", ""], r#""<unk>""#, half, "vocab.json");
    }
    let path = directory.path().join("characters");
    Tokenizer::characters(["ab"]).save(&path).unwrap();
    let file = path.join("gradus_tokenizer.json");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("\"a"), "{written}");
    std::fs::write(&file, written.replacen("\"a", "\"\\ud800", 1)).unwrap();
    Tokenizer::load(&path).expect_err("half a pair");
}
