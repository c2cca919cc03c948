use std::fs;

use super::*;

#[test]
fn train_encode_decode() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = write(dir.path(), "corpus.txt", "the cat sat on the mat and the rat sat on the hat\n".repeat(3));
    let out = dir.path().join("deep/words");
    let json = gradus("tokenizer train --corpus {} --vocab 40 --special <start> --out {} --json", &[&corpus, &out]).json();
    let vocab = json["vocab"].as_u64().unwrap();
    assert!(vocab <= 40 && json["merges"].as_u64().unwrap() > 5, "{json}");

    let page = write(dir.path(), "page.txt", "<start>The  Cat sat!");
    let json = gradus("tokenizer encode --tokenizer {} --mode basic --file {} --json", &[&out, &page]).json();
    let ids = ids_of(&json["ids"]);
    assert_eq!(ids[0] as u64, vocab - 1, "the special is the last id");
    assert_eq!(*ids.last().unwrap(), 0, "! is unknown");
    let plain = gradus("tokenizer encode --tokenizer {} --file {}", &[&out, &page]);
    let file = write(dir.path(), "ids", &plain.stdout);
    assert_eq!(plain.stdout, format!("{}\n", ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")));
    let json = gradus("tokenizer decode --tokenizer {} --ids {} --json", &[&out, &file]).json();
    assert_eq!(json["text"], "<start>the cat sat <unk>");
    assert_eq!(gradus("tokenizer decode --tokenizer {} --ids {}", &[&out, &file]).stdout, "<start>the cat sat <unk>\n");
}

#[test]
fn nothing_is_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = write(dir.path(), "corpus.txt", "one two one two three");
    let out = dir.path().join("words");
    let train = |vocab: usize, flags: &str| {
        gradus(&format!("tokenizer train --corpus {{}} --vocab {vocab} --out {{}} {flags}--json"), &[&corpus, &out])
    };
    let first = train(25, "").json();
    let before = fs::read(out.join("tokenizer.json")).unwrap();
    train(26, "").fails_with(&["words", "there is a tokenizer already", "--overwrite"]);
    assert_eq!(fs::read(out.join("tokenizer.json")).unwrap(), before);
    assert_ne!(train(16, "--overwrite ").json()["fingerprint"], first["fingerprint"]);
}

#[test]
fn bad_input() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("words");
    let train = |corpus: &Path, vocab: usize| {
        gradus(&format!("tokenizer train --corpus {{}} --vocab {vocab} --out {{}}"), &[corpus, &out])
    };
    let text = write(dir.path(), "text", "some text");
    train(&dir.path().join("none"), 100).fails_with(&["none", "Check the path"]);
    train(&write(dir.path(), "empty", ""), 100).fails_with(&["holds no text"]);
    train(&write(dir.path(), "binary", b"a\0b"), 100).fails_with(&["byte 1 is NUL"]);
    train(&write(dir.path(), "latin1", b"caf\xe9"), 100).fails_with(&["byte 3 (0xe9)"]);
    train(&text, 0).misused(&["--vocab 0"]);
    for flag in ["--min-frequency 0", "--max-characters 0"] {
        gradus(&format!("tokenizer train --corpus {{}} --vocab 100 {flag} --out {{}}"), &[&text, &out])
            .misused(&[flag, "at least 1"]);
    }
    train(&text, 3).fails_with(&["a vocabulary of 3 is too small"]);
    assert!(!out.exists(), "nothing was written");
    gradus("tokenizer encode --tokenizer {} --file {}", &[&out, &text]).fails_with(&["words", "Check the path"]);
    Tokenizer::characters(["abc"]).save(&out).unwrap();
    gradus("tokenizer encode --tokenizer {} --file {}", &[&out, &text]).fails_with(&["'s'", "3 characters"]);
    let ids = write(dir.path(), "ids", "0 1 3");
    gradus("tokenizer decode --tokenizer {} --ids {}", &[&out, &ids]).fails_with(&["entry 2", "0 to 2", "tokenizer's"]);
    assert_eq!(gradus("tokenizer encode --tokenizer {} --mode spacy --file {}", &[&out, &text]).code, Some(2));
}
