use super::*;

#[test]
fn train_encode_decode() {
    let desk = Desk::new();
    desk.write("corpus.txt", "the cat sat on the mat and the rat sat on the hat\n".repeat(3));
    let json = desk.gradus("tokenizer train --corpus corpus.txt --vocab 40 --special <start> --out deep/words --json").json();
    // 11 letters, as many at a word's end, as many pairs that repeat, <unk> and the special.
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
fn nothing_is_written_over() {
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
