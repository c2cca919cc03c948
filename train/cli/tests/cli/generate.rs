use gradus_autograd::Tape;
use gradus_model::{Input, Tree};

use super::*;

/// Continues `ids` greedily, with a full pass for every token.
fn greedy(model: &Model<Tensor<f32>>, ids: &mut Vec<u32>, tokens: usize) {
    let vocab = model.sizes().vocab;
    for _ in 0..tokens {
        let tape = Tape::off();
        let logits = model.constants(&tape).logits(&Input::causal(1, &ids[..])).value().to_vec();
        let last = &logits[(ids.len() - 1) * vocab..][..vocab];
        let best = last.iter().enumerate().fold(0, |best, (i, z)| if *z > last[best] { i } else { best });
        ids.push(best as u32);
    }
}

#[test]
fn greedy_is_the_argmax_of_full_passes() {
    let desk = Desk::new();
    desk.write_ids("ids", &[3, 1, 4]);
    for model in ["l2-d12-h3", "l3-d16-h4-relu"] {
        let loaded = checkpoint::load(&golden(model)).unwrap();
        let tokens = loaded.sizes().context - 3;
        let mut expected = vec![3, 1, 4];
        greedy(&loaded, &mut expected, tokens);
        let json = desk.gradus(&format!("generate --model golden/{model} --ids ids --tokens {tokens} --greedy --json")).json();
        assert_eq!(ids_of(&json["ids"]), expected);
        assert_eq!((json.get("text"), json.get("slid")), (None, None), "no tokenizer, and room for all");
    }
}

#[test]
fn text_is_streamed_as_the_whole_decodes() {
    let desk = Desk::new();
    let model = desk.byte_model("model", |_| {});
    let mut expected: Vec<u32> = b"Hey".iter().map(|&b| b.into()).collect();
    greedy(&model, &mut expected, 5);
    let text = Tokenizer::bytes().decode(&expected).unwrap();
    let json = desk.gradus("generate --model model --prompt Hey --tokens 5 --greedy --json").json();
    assert_eq!((ids_of(&json["ids"]), json["text"].as_str()), (expected, Some(text.as_str())));
    for flags in ["--tokens 5 --greedy", "--tokens 5 --seed 3", "--tokens 20 --seed 4"] {
        let line = format!("generate --model model --prompt Hey {flags}");
        let json = desk.gradus(&format!("{line} --json")).json();
        assert_eq!(desk.gradus(&line).printed(), format!("{}\n", json["text"].as_str().unwrap()), "{flags}");
    }
}

/// The context is 10, and the prompt has three tokens.
#[test]
fn the_window_slides_beyond_the_context_with_a_note() {
    let desk = Desk::new();
    desk.write_ids("ids", &[3, 1, 4]);
    let run = |flags: &str| desk.gradus(&format!("generate --model golden/l2-d12-h3 --ids ids --greedy --json {flags}"));
    let long = run("--tokens 30");
    assert_eq!(ids_of(&long.json()["ids"]).len(), 33);
    // The eleventh token sees all ten tokens before it, the twelfth the last five.
    assert_eq!(long.json()["slid"], serde_json::json!({ "at": 11, "unseen": 6 }));
    assert_holds(
        &long.stderr,
        &["context is 10 tokens", "from token 12 on", "re-reads only the last 5 tokens", "no longer sees tokens 1 to 6"],
    );
    assert_eq!(run("--tokens 30 --slide").json(), long.json(), "the flag asks for the default");
    let fits = run("--tokens 8");
    assert_eq!((fits.json().get("slid"), fits.stderr.lines().count()), (None, 1));
    assert_holds(&fits.stderr, &["has no checksums.json"]);
    run("--tokens 8 --no-slide").fails_with(&["do not fit the 10 tokens of a text", "--tokens 7", "leave out --no-slide"]);
    assert_eq!(ids_of(&run("--tokens 7 --no-slide").json()["ids"]), ids_of(&long.json()["ids"])[..10]);
}

#[test]
fn a_seed_determines_the_sample() {
    let desk = Desk::new();
    desk.write("ids", "3 1\n4");
    let run = |flags: &str| desk.gradus(&format!("generate --model golden/l2-d12-h3 --ids ids {flags}"));
    let sample = |seed: u64| {
        ids_of(&run(&format!("--tokens 7 --temperature 2 --top-k 9 --top-p 0.95 --seed {seed} --json")).json()["ids"])
    };
    assert_eq!(sample(1), sample(1));
    assert!((2..12).any(|seed| sample(seed) != sample(1)), "seeds differ");
    let plain = run("--tokens 3 --greedy");
    let ids = ids_of(&run("--tokens 3 --greedy --json").json()["ids"]);
    assert_eq!((plain.printed(), ids.len()), (&*(words(&ids) + "\n"), 6));
    assert_eq!(ids_of(&run("--tokens 0 --json").json()["ids"]), [3, 1, 4]);
}

#[test]
fn invalid_generation_requests_are_rejected() {
    let desk = Desk::new();
    desk.write_ids("ids", &[3, 1, 4]);
    for (flags, words) in [
        ("--temperature 0", &["--temperature 0: expected", "--greedy"][..]),
        ("--temperature -1", &["--temperature -1: expected"]),
        ("--temperature 1e-310", &["--temperature 1e-310: expected", "from 1e-200"]),
        ("--temperature NaN", &["--temperature NaN: expected"]),
        ("--top-k 0", &["--top-k 0: expected"]),
        ("--top-p 1.5", &["--top-p 1.5: expected", "at most 1"]),
    ] {
        desk.gradus(&format!("generate --model golden/l2-d12-h3 --ids ids --tokens 1 {flags}")).misused(words);
    }
    desk.write_ids("ids", &[3, 17]);
    desk.gradus("generate --model golden/l2-d12-h3 --ids ids --tokens 1").fails_with(&["entry 1", "0 to 16"]);
    desk.gradus("generate --model golden/l2-d12-h3 --prompt hey --tokens 1").fails_with(&["no tokenizer", "--ids"]);
    desk.byte_model("own", |_| {});
    desk.gradus("generate --model own --prompt= --tokens 1").fails_with(&["the prompt has no tokens"]);
    desk.gradus("generate --model own --prompt 123456789 --tokens 1 --no-slide")
        .fails_with(&["shorten the prompt, or leave out"]);
    desk.spoil("own", "h.0.mlp.c_fc.weight", f32::NAN);
    desk.gradus("generate --model own --prompt ab --tokens 4").fails_with(&["logits of token 3", "NaN", "another checkpoint"]);
}

#[test]
fn ids_that_the_tokenizer_lacks_are_never_drawn() {
    let desk = Desk::new();
    desk.byte_model("model", |c| (c.sizes.vocab, c.sizes.context) = (300, 64));
    desk.tokenizer("model", &Tokenizer::characters(["abc"]));
    let json = desk.gradus("generate --model model --prompt ab --tokens 62 --seed 3 --json").json();
    let ids = ids_of(&json["ids"]);
    assert!(ids.len() == 64 && ids.iter().all(|&id| id < 3), "{ids:?}");
    assert_eq!(json["text"].as_str().unwrap().len(), 64);
    // A prompt of ids that only the model has is continued in ids.
    desk.write_ids("ids", &[1, 299]);
    let run = desk.gradus("generate --model model --ids ids --tokens 3");
    let ids: Vec<u32> = run.printed().split_whitespace().map(|id| id.parse().unwrap()).collect();
    assert!(ids.len() == 5 && ids[..2] == [1, 299] && ids.iter().all(|&id| id < 300), "{ids:?}");
    assert_holds(&run.stderr, &["of 3 ids"]);
}
