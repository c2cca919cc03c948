use gradus_autograd::Tape;
use gradus_model::Tree;

use super::*;

/// Greedy continuation by a full pass for every token.
fn greedy(model: &Model<Tensor<f32>>, ids: &mut Vec<u32>, tokens: usize) {
    let vocab = model.backbone.config().vocab();
    for _ in 0..tokens {
        let tape = Tape::off();
        let logits = model.constants(&tape).logits(ids, 1).value().to_vec();
        let last = &logits[(ids.len() - 1) * vocab..][..vocab];
        let best = last.iter().enumerate().fold(0, |best, (i, z)| if *z > last[best] { i } else { best });
        ids.push(best as u32);
    }
}

#[test]
fn greedy_is_the_argmax_of_full_passes() {
    let dir = tempfile::tempdir().unwrap();
    for model in ["l2-d12-h3", "l3-d16-h4-relu"] {
        let loaded = checkpoint::load(&golden(model)).unwrap();
        let tokens = loaded.backbone.config().context() - 3;
        let ids = write(dir.path(), "ids", "3 1\n4");
        let mut expected = vec![3, 1, 4];
        greedy(&loaded, &mut expected, tokens);
        let run = gradus(&format!("generate --model {{}} --ids {{}} --tokens {tokens} --greedy --json"), &[&golden(model), &ids]);
        let json = run.json();
        assert_eq!(ids_of(&json["ids"]), expected);
        assert_eq!(json.get("text"), None, "there is no tokenizer");
    }
}

#[test]
fn text_is_streamed_as_the_whole_decodes() {
    let dir = tempfile::tempdir().unwrap();
    let model = byte_model(dir.path(), |_| {});
    let mut expected: Vec<u32> = b"Hey".iter().map(|&b| b.into()).collect();
    greedy(&model, &mut expected, 5);
    let text = Tokenizer::bytes().decode(&expected).unwrap();
    let json = gradus("generate --model {} --prompt Hey --tokens 5 --greedy --json", &[dir.path()]).json();
    assert_eq!((ids_of(&json["ids"]), json["text"].as_str()), (expected, Some(text.as_str())));
    for flags in ["--greedy", "--seed 3", "--seed 4 --slide"] {
        let json = gradus(&format!("generate --model {{}} --prompt Hey --tokens 5 {flags} --json"), &[dir.path()]).json();
        let run = gradus(&format!("generate --model {{}} --prompt Hey --tokens 5 {flags}"), &[dir.path()]);
        assert_eq!(run.stdout, format!("{}\n", json["text"].as_str().unwrap()), "{flags}");
    }
}

#[test]
fn a_seed_decides_and_the_context_limits() {
    let dir = tempfile::tempdir().unwrap();
    let model = golden("l2-d12-h3"); // context 10
    let ids = write(dir.path(), "ids", "3 1 4");
    let run = |flags: &str| gradus(&format!("generate --model {{}} --ids {{}} {flags}"), &[&model, &ids]);
    let sample = |seed: u64| {
        ids_of(&run(&format!("--tokens 7 --temperature 2 --top-k 9 --top-p 0.95 --seed {seed} --json")).json()["ids"])
    };
    assert_eq!(sample(1), sample(1));
    assert!((2..12).any(|seed| sample(seed) != sample(1)), "seeds differ");
    let plain = run("--tokens 3 --greedy");
    assert_eq!(plain.stdout.split_whitespace().count(), 6);
    assert!(plain.stdout.starts_with("3 1 4 ") && plain.stdout.ends_with('\n'), "{}", plain.stdout);
    assert_eq!(ids_of(&run("--tokens 0 --json").json()["ids"]), [3, 1, 4]);

    run("--tokens 8 --greedy").fails_with(&["context is 10", "--tokens 7", "--slide"]);
    assert_eq!(ids_of(&run("--tokens 30 --slide --json").json()["ids"]).len(), 33);
    run("--tokens 1 --temperature 0").misused(&["--temperature 0", "--greedy"]);
    run("--tokens 1 --temperature -1").misused(&["--temperature -1"]);
    run("--tokens 1 --temperature NaN").misused(&["--temperature NaN"]);
    run("--tokens 1 --top-k 0").misused(&["--top-k 0"]);
    run("--tokens 1 --top-p 1.5").misused(&["--top-p 1.5", "at most 1"]);
    let unknown = write(dir.path(), "unknown", "3 17");
    gradus("generate --model {} --ids {} --tokens 1", &[&model, &unknown]).fails_with(&["entry 1", "0 to 16"]);
    gradus("generate --model {} --prompt hey --tokens 1", &[&model]).fails_with(&["no tokenizer", "--ids"]);
    byte_model(&dir.path().join("own"), |_| {});
    gradus("generate --model {} --prompt= --tokens 1", &[&dir.path().join("own")]).fails_with(&["the prompt has no tokens"]);
}

#[test]
fn ids_that_the_tokenizer_lacks_are_never_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let model = byte_model(dir.path(), |c| (c.vocab, c.context) = (300, 64));
    Tokenizer::characters(["abc"]).save(dir.path()).unwrap();
    let json = gradus("generate --model {} --prompt ab --tokens 62 --seed 3 --json", &[dir.path()]).json();
    let ids = ids_of(&json["ids"]);
    let context = model.backbone.config().context();
    assert!(ids.len() == context && ids.iter().all(|&id| id < 3), "{ids:?}");
    assert_eq!(json["text"].as_str().unwrap().len(), context);
    // A prompt of the model's own ids is continued in ids.
    let beyond = write(dir.path(), "ids", "1 299");
    let run = gradus("generate --model {} --ids {} --tokens 3", &[dir.path(), &beyond]);
    assert!(run.code == Some(0) && run.stdout.starts_with("1 299 "), "{} {}", run.stdout, run.stderr);
    assert!(run.stderr.contains("of 3 ids"), "{}", run.stderr);
}
