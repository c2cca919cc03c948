use super::*;

#[test]
fn train_encode_decode() {
    let desk = Desk::new();
    desk.write("corpus.txt", "the cat sat on the mat and the rat sat on the hat\n".repeat(3));
    let json = desk.gradus("tokenizer train --corpus corpus.txt --vocab 40 --special <start> --out deep/words --json").json();
    // 11 letters, 11 letters at a word's end, 11 merges, <unk> and the special token.
    assert_eq!((&json["vocab"], &json["merges"], &json["bytes"]), (&35.into(), &11.into(), &150.into()));

    desk.write("page.txt", "<start>The  Cat sat!");
    let encode = "tokenizer encode --tokenizer deep/words --file page.txt";
    let ids = ids_of(&desk.gradus(&format!("{encode} --mode basic --json")).json()["ids"]);
    assert_eq!(ids, [34, 25, 29, 27, 0], "the special is the last id, and ! is unknown");
    let plain = desk.gradus(encode);
    assert_eq!(plain.printed(), words(&ids) + "\n");
    desk.write("ids", plain.printed());
    let decode = "tokenizer decode --tokenizer deep/words --ids ids";
    assert_eq!(desk.gradus(&format!("{decode} --json")).json()["text"], "<start>the cat sat <unk>");
    assert_eq!(desk.gradus(decode).printed(), "<start>the cat sat <unk>\n");
}

#[test]
fn text_is_split_in_the_stored_mode() {
    let desk = Desk::new();
    desk.write("corpus.txt", "I don't; you won't.\nThe caf\u{c3}\u{a9} &amp; the end&hellip;\n".repeat(40));
    desk.gradus("tokenizer train --corpus corpus.txt --mode spacy --vocab 120 --out words --json").json();
    desk.write("page.txt", "Don't\n\nSTOP, caf\u{e9} &amp; co");
    let encode = |more: &str| {
        ids_of(&desk.gradus(&format!("tokenizer encode --tokenizer words --file page.txt --json {more}")).json()["ids"])
    };
    let decode = |ids: &[u32]| {
        desk.write_ids("ids", ids);
        desk.gradus("tokenizer decode --tokenizer words --ids ids").printed().to_owned()
    };
    let (kept, basic) = (encode(""), encode("--mode basic"));
    assert_eq!(kept, encode("--mode spacy"));
    assert_eq!(decode(&kept).trim_end(), "do n't \n <unk>to<unk><unk>café & co");
    assert_ne!(basic, kept);
    assert!(!decode(&basic).contains('\n') || decode(&basic).ends_with('\n'));
    desk.gradus("tokenizer encode --tokenizer words --file page.txt --mode words")
        .misused(&["expected basic or spacy, found \"words\""]);

    // A run, its continuation and its model also read text in this mode.
    let sizes = "--layers 1 --width 8 --heads 2 --context 8 --batch 2 --quiet --json";
    let begin = |out: &str, more: &str| desk.gradus(&format!("pretrain --corpus corpus.txt --out {out} {sizes} {more}")).json();
    let whole = begin("whole", "--tokenizer words --steps 4");
    begin("half", "--mode spacy --vocab 120 --steps 4 --stop-at 2");
    let resumed = desk.gradus("pretrain --resume half --quiet --json").json();
    assert_eq!(resumed["parameters_sha256"], whole["parameters_sha256"], "the same words and merges, trained here or before");
    assert_eq!(desk.json("half/tokenizer_config.json")["mode"], "spacy");
    let basic = begin("basic", "--tokenizer words --mode basic --steps 4");
    assert_ne!(basic["parameters_sha256"], whole["parameters_sha256"]);
    assert!(desk.exists("basic/tokenizer.json") && !desk.exists("basic/vocab.json"));
    let loss = |model: &str| desk.gradus(&format!("evaluate --model {model} --corpus page.txt --json")).json()["tokens"].clone();
    assert_eq!((loss("whole"), loss("basic")), ((kept.len() - 1).into(), (encode("--mode basic").len() - 1).into()));
    desk.gradus(&format!("pretrain --corpus corpus.txt --out none {sizes} --tokenizer byte --mode spacy"))
        .fails_with(&["mode spacy", "the byte tokenizer"]);
    desk.gradus("pretrain --out none --mode spacy").misused(&["--mode spacy", "--corpus"]);
    assert!(!desk.exists("none"));
}

#[test]
fn existing_files_are_not_overwritten() {
    let desk = Desk::new();
    desk.write("corpus.txt", "one two one two three");
    let train = |flags: &str| desk.gradus(&format!("tokenizer train --corpus corpus.txt --out words --json {flags}"));
    let first = train("--vocab 25").json();
    let before = desk.read("words/tokenizer.json");
    train("--vocab 26").fails_with(&["words/tokenizer.json already exists", "--overwrite"]);
    assert_eq!(desk.read("words/tokenizer.json"), before);
    assert_ne!(train("--vocab 16 --overwrite").json()["fingerprint"], first["fingerprint"]);
}

#[test]
fn bad_input() {
    let desk = Desk::new();
    let train = |flags: &str| desk.gradus(&format!("tokenizer train --out words {flags}"));
    desk.write("latin1", b"caf\xe9");
    train("--corpus latin1 --vocab 100").fails_with(&["latin1: byte 3 (0xe9)"]);
    train("--corpus none --vocab 100").fails_with(&["none", "check the spelling of the path"]);
    desk.write("text", "some text");
    train("--corpus text --vocab 3").fails_with(&["a vocabulary of 3 is too small", "need 13"]);
    train("--corpus text --vocab 0").misused(&["--vocab 0"]);
    for flag in ["--min-frequency 0", "--max-characters 0"] {
        train(&format!("--corpus text --vocab 100 {flag}")).misused(&[flag, "at least 1"]);
    }
    assert!(!desk.exists("words"), "nothing was written");
    let encode = "tokenizer encode --tokenizer words --file text";
    desk.gradus(encode).fails_with(&["words", "check the spelling of the path"]);
    desk.tokenizer("words", &Tokenizer::characters(["abc"]));
    desk.gradus(encode).fails_with(&["'s'", "3 characters"]);
    desk.write_ids("ids", &[0, 1, 3]);
    desk.gradus("tokenizer decode --tokenizer words --ids ids").fails_with(&["entry 2", "0 to 2", "tokenizer's"]);
}

/// Overlong words, which no language has, are skipped with a note.
#[test]
fn overlong_words_are_skipped_with_a_note() {
    let desk = Desk::new();
    for (letters, merges) in [(1000, true), (1001, false)] {
        desk.write("corpus.txt", "a".repeat(letters));
        let run = desk.gradus("tokenizer train --corpus corpus.txt --vocab 20 --out bpe --overwrite --json");
        assert_eq!(run.json()["merges"].as_u64().unwrap() > 0, merges, "{}", run.stderr);
        assert_eq!(run.stderr.contains("note: 1 word of more than 1,000 characters"), !merges, "{}", run.stderr);
    }
}
