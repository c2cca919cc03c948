//! Parsers of text: tokenizers, corpora, token ids, stories, tokenised corpora.

use std::path::Path;
use std::sync::LazyLock;

use gradus_data::{TokenFile, Tokens, pieces};
use gradus_text::{BpeTrainer, ByteBpe, Cleaning, Cut, Mode, Tokenizer, WordPiece, parse_ids, strip_gutenberg, utf8};
use gradus_world::{World, WorldConfig};
use sha2::{Digest, Sha256};

use super::{MIB, Parser, files};

/// The parser of `tokenizer.json` of four forms, `gradus_tokenizer.json`, vocabulary and merges, or `vocab.txt`, and
/// `tokenizer_config.json`. A BPE has a cache of 2 MiB, and there are two of them.
pub static TOKENIZER: Parser =
    Parser { name: "tokenizer", read: read_tokenizer, seeds: tokenizers, always: 8 * MIB, per_byte: 400 };

/// The parser of a file of a corpus, and of a file of `--ids`. Four tokenizers encode it.
pub static TEXT: Parser = Parser { name: "text", read: read_text, seeds: texts, always: 16 * MIB, per_byte: 400 };

/// The parser of stories, one per line, as `gradus world --log-prob` reads them.
pub static STORIES: Parser = Parser { name: "stories", read: read_stories, seeds: stories, always: MIB, per_byte: 200 };

/// The parser of a tokenised corpus in the cache.
pub static TOKEN_FILE: Parser = Parser { name: "token_file", read: read_tokens, seeds: token_files, always: MIB, per_byte: 20 };

const SAMPLE: &str = "The cat, Zoë's <s> SAT\non the <mat> &amp; 3.5\u{3000}日本\r\n";

fn read_tokenizer(input: &[u8]) {
    let given = files::split(input);
    let Ok(tokenizer) = Tokenizer::read(Path::new("model"), &|name| files::find(&given, name).map(<[u8]>::to_vec)) else {
        return;
    };
    if let Ok(ids) = tokenizer.encode(SAMPLE) {
        assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
        tokenizer.decode(&ids).expect("its own ids");
    }
    let written: Vec<(String, Vec<u8>)> = tokenizer.files().into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    let written = files::join(&written);
    let again = files::split(&written);
    let again = Tokenizer::read(Path::new("again"), &|name| files::find(&again, name).map(<[u8]>::to_vec));
    assert_eq!(again.expect("what was written").fingerprint(), tokenizer.fingerprint());
}

fn bpe(mode: Mode) -> Tokenizer {
    let trainer = BpeTrainer { mode, specials: vec!["<s>".into()], ..BpeTrainer::new(48) };
    let mut words = trainer.word_counts();
    words.add("the cat sat on the mat and the rat sat on the hat");
    trainer.train(&words, |_, _| ()).expect("room for the characters")
}

/// Returns a tokenizer with a small WordPiece vocabulary.
fn pieces_of_words(cleaning: Cleaning) -> Tokenizer {
    let tokens =
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##e", "##at", "c", "z", "##oe", "Zo", "##ë", ",", "[", "日"];
    Tokenizer::word_piece(WordPiece::new(tokens.map(str::to_owned).into(), cleaning).expect("sound"))
}

/// Returns a tokenizer of bytes, a few merges, and special tokens.
fn byte_bpe(specials: &[&str]) -> Tokenizer {
    let merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("Ã", "«"), ("Ġ", "Ġ")];
    let bytes = (0..=255).map(|byte| Tokenizer::letter(byte).to_string());
    let merged = merges.iter().map(|(a, b)| format!("{a}{b}"));
    let tokens = bytes.chain(merged).chain(specials.iter().map(|special| special.to_string())).collect();
    let merges = merges.map(|(a, b)| (a.to_owned(), b.to_owned()));
    Tokenizer::byte_bpe(ByteBpe::new(tokens, &merges).expect("sound"))
}

const GPT2: &[&str] = &["<|endoftext|>"];
const ROBERTA: &[&str] = &["<s>", "<pad>", "</s>", "<unk>", "<mask>"];

/// Returns tokenizer files in the formats of Google, OpenAI and `transformers` 4.
fn other_files() -> Vec<Vec<u8>> {
    let lines =
        |tokenizer: &Tokenizer, n: u32| (0..n).map(|id| tokenizer.token(id).expect("one of n") + "\n").collect::<String>();
    let pieces = pieces_of_words(Cleaning::ALL);
    let text = lines(&pieces, pieces.vocab_size() as u32).into_bytes();
    let config = br#"{"do_lower_case": false, "strip_accents": null, "tokenize_chinese_chars": true}"#.to_vec();
    let bpe = byte_bpe(GPT2);
    let ids: serde_json::Map<_, _> =
        (0..bpe.vocab_size() as u32).map(|id| (bpe.token(id).expect("in range"), id.into())).collect();
    let ids = serde_json::to_vec(&ids).expect("an object");
    let merges = "#version: 0.2\nĠ t\nh e\nĠt he\nÃ «\nĠ Ġ\n".as_bytes().to_vec();
    let prefix = br#"{"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true}"#.to_vec();
    vec![
        files::join(&[("vocab.txt", text.clone())]),
        files::join(&[("vocab.txt", text), ("tokenizer_config.json", config)]),
        files::join(&[("encoder.json", ids.clone()), ("vocab.bpe", merges.clone())]),
        files::join(&[("vocab.json", ids), ("merges.txt", merges), ("tokenizer_config.json", prefix)]),
    ]
}

fn tokenizers() -> Vec<Vec<u8>> {
    let kinds = [
        bpe(Mode::Basic),
        bpe(Mode::Spacy),
        Tokenizer::bytes(),
        Tokenizer::characters(["the cat Zoë"]),
        pieces_of_words(Cleaning::ALL),
        pieces_of_words(Cleaning { accents: false, lowercase: false, ..Cleaning::ALL }),
        byte_bpe(GPT2),
        byte_bpe(ROBERTA),
    ];
    let mut seeds: Vec<Vec<u8>> = kinds.iter().map(|kind| files::join(&kind.files())).chain(other_files()).collect();
    let names = [("vocab.json", "encoder_bpe_40000.json"), ("merges.txt", "vocab_40000.bpe")];
    let release = kinds[1].files().into_iter().map(|(name, bytes)| {
        let other = names.iter().find(|(own, _)| *own == name).map_or(name, |(_, other)| other);
        (other, bytes)
    });
    seeds.push(files::join(&release.collect::<Vec<_>>()));
    seeds
}

fn read_text(input: &[u8]) {
    static TOKENIZERS: LazyLock<[Tokenizer; 4]> =
        LazyLock::new(|| [bpe(Mode::Basic), bpe(Mode::Spacy), pieces_of_words(Cleaning::ALL), byte_bpe(GPT2)]);
    let path = Path::new("corpus.txt");
    assert!(utf8(path, 1, input).is_err() || utf8(path, 0, input).is_ok() || gradus_text::foreign(input).is_some());
    let Ok(text) = utf8(path, 0, input) else { return };
    if let Ok(ids) = parse_ids(path, text, 1000, "model") {
        assert!(ids.iter().all(|&id| id < 1000));
    }
    let text = strip_gutenberg(text);
    for cut in [Cut::Words, Cut::Lines, Cut::Blanks] {
        assert_eq!(pieces(&text, cut).concat(), text);
    }
    for tokenizer in &*TOKENIZERS {
        let ids = tokenizer.encode(&text).expect("these encode everything");
        let decoded = tokenizer.decode(&ids).expect("its own ids");
        assert!(tokenizer.kind() != "byte-bpe" || decoded == text, "bytes lose nothing");
    }
}

fn texts() -> Vec<Vec<u8>> {
    let gutenberg = "\u{feff}Title\r\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\r\n\r\nOne line.\r\nEnd of Project Gutenberg's X\r\n\
                     *** END OF THE PROJECT GUTENBERG EBOOK X ***\r\nLicence\r\n";
    let spacy = "I can't, <b>won&#39;t</b> &lt; e-mail a@b.co, see http://x.org/a?b=1. U.S. $3.50 10km :-) \u{201c}don\u{2019}t\u{201d} caf\u{c3}\u{a9}…\n\n(etc.) 'em";
    [gutenberg, spacy, SAMPLE, "0 12 999\n\t7\r\n", "*END THE SMALL PRINT! FOR ETEXTS\nx"]
        .map(|text| text.as_bytes().to_vec())
        .into()
}

fn read_stories(input: &[u8]) {
    static WORLD: LazyLock<World> = LazyLock::new(|| World::new(WorldConfig::default()).expect("the default"));
    let Ok(text) = utf8(Path::new("stories.txt"), 0, input) else { return };
    for line in text.lines() {
        if let Ok(story) = WORLD.read(line) {
            assert!(story.log_prob < 0.0);
        }
    }
}

fn stories() -> Vec<Vec<u8>> {
    let world = World::new(WorldConfig::default()).expect("the default");
    let mut rng = gradus_tensor::rng::Philox::new(3);
    world.corpus(&mut rng, 4).into_iter().map(|story| story.text.into_bytes()).collect()
}

/// Reads the input unchanged, and with its correct digest.
fn read_tokens(input: &[u8]) {
    let mut bytes = input.to_vec();
    if bytes.len() >= 112 {
        let contents: [u8; 32] = Sha256::digest(&bytes[112..]).into();
        let digest = Sha256::new().chain_update(&bytes[..80]).chain_update(contents).finalize();
        bytes[80..112].copy_from_slice(&digest);
    }
    for bytes in [input.to_vec(), bytes] {
        let Ok(file) = TokenFile::parse(Path::new("a.tokens"), bytes, 300) else { continue };
        let n = file.len();
        let all = file.bytes(0..n);
        for at in [0, 1, n / 3, n / 2, n.saturating_sub(1), n] {
            let at = at.min(n);
            assert_eq!(file.bytes(0..at) + file.bytes(at..n), all);
        }
        let mut ids = vec![0; n];
        file.read(0, &mut ids);
        assert!(ids.iter().all(|&id| id < 300));
    }
}

/// Returns files of tokens of 2 and of 4 bytes, in two pieces.
fn token_files() -> Vec<Vec<u8>> {
    let made = |width: usize| {
        let (ids, index): (Vec<u32>, [u64; 4]) = ((0..9).collect(), [5, 12, 9, 20]);
        let ids = ids.iter().flat_map(|id| id.to_le_bytes()[..width].to_vec());
        let contents: Vec<u8> = ids.chain(index.iter().flat_map(|n| n.to_le_bytes())).collect();
        let mut file = b"GRADUSTK\x01\0\0\0".to_vec();
        file.extend((width as u32).to_le_bytes());
        file.extend([9u64, 20, 1, 2].iter().flat_map(|n| n.to_le_bytes()));
        file.extend([7; 32]);
        let digest = Sha256::new().chain_update(&file).chain_update(Sha256::digest(&contents)).finalize();
        file.extend(digest);
        file.extend(contents);
        file
    };
    vec![made(2), made(4)]
}
