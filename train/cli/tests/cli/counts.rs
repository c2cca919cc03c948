//! Tests of a system without a trainer: n-grams are counted, and every command that predicts tokens reads the counts.

use gradus_model::KneserNey;

use super::*;

/// Returns a desk with a corpus of short sentences, and with counts of its characters in `counts`.
fn desk() -> (Desk, Value) {
    let desk = Desk::new();
    let names = ["Mia", "Tom", "Ben", "Ann"];
    let sentence = |i: usize| format!("{} saw a {} cat.\n", names[i * i % 4], ["big", "red", "old"][i % 3]);
    desk.write("corpus.txt", (0..200).map(sentence).collect::<String>());
    let counted = count(&desk, "counts").json();
    (desk, counted)
}

fn count(desk: &Desk, out: &str) -> Run {
    desk.gradus(&format!("pretrain --system kneser-ney --corpus corpus.txt --tokenizer byte --quiet --json --out {out}"))
}

#[test]
fn n_grams_are_counted_and_evaluated() {
    let (desk, counted) = desk();
    let text = desk.text("corpus.txt");
    let ids: Vec<u32> = text.bytes().map(u32::from).collect();
    let (train, held_out) = ids.split_at(ids.len() * 9 / 10);
    let expected = KneserNey::between(None, 5, [train.to_vec()], 256);
    assert_eq!(
        (&counted["steps"], &counted["finished"], &counted["parameters"]),
        (&0.into(), &true.into(), &expected.ngrams().into())
    );
    let mean = |losses: Vec<f64>| losses.iter().sum::<f64>() / losses.len() as f64;
    let nll = mean(expected.losses(held_out));
    assert!((number(&counted["validation"]["nll"]) - nll).abs() < 1e-12 && nll < 1.5, "{counted} {nll}");
    assert_eq!(desk.json("counts/config.json")["model_type"], "gradus-ngram");
    let settings = &desk.json("counts/run.json")["settings"];
    assert!(settings["order"] == 5 && settings["model"].is_null() && settings["optimizer"].is_null(), "{settings}");
    assert_eq!(count(&desk, "again").json()["parameters_sha256"], counted["parameters_sha256"]);

    desk.write("text", &text[..300]);
    let evaluated = desk.gradus("evaluate --model counts --corpus text --json").json();
    assert!((number(&evaluated["nll"]) - mean(expected.losses(&ids[..300]))).abs() < 1e-12, "{evaluated}");
    assert_eq!((&evaluated["tokens"], &evaluated["order"]), (&299.into(), &5.into()));
    desk.write("ids", "77 105 97 32");
    let by_token = desk.gradus("evaluate --model counts --ids ids --json").json();
    let found: Vec<f64> = items(&by_token["token_nll"]).iter().map(number).collect();
    assert!(found.iter().zip(expected.losses(&[77, 105, 97, 32])).all(|(a, b)| (a - b).abs() < 1e-12), "{by_token}");

    let run =
        Run::from(desk.prepare(command("fill --model counts --json --text")).arg("Mia saw a r[MASK]d cat.").output().unwrap());
    assert_holds(&run.stderr, &["filled by Bayes' rule"]);
    let filled = run.json();
    let answer = &items(&items(&filled["gaps"])[0]["answers"])[0];
    assert!(answer["token"] == "e" && number(&answer["probability"]) > 0.9, "{answer}");
    let made = desk.gradus("generate --model counts --prompt Mi --tokens 9 --greedy").printed().to_owned();
    assert!(made.starts_with("Mia saw a "), "{made}");
    let drawn =
        |seed: u8| desk.gradus(&format!("generate --model counts --prompt Mia --tokens 40 --seed {seed}")).printed().to_owned();
    assert!(drawn(1) == drawn(1) && drawn(1) != drawn(2));
    desk.gradus("world --tasks tasks --rows 12 --seed 1 --json").json();
    let zero_shot =
        desk.gradus("predict --model counts --zero-shot --task story-cloze --data tasks/story-cloze --split dev --json").json();
    assert!((0.0..=1.0).contains(&number(&zero_shot["score"])), "{zero_shot}");
}

#[test]
fn commands_that_need_a_network_reject_n_gram_counts() {
    let (desk, _) = desk();
    desk.gradus("pretrain --resume counts")
        .fails_with(&["cannot resume: counts: expected a network, found counts of n-grams, which have no steps"]);
    desk.gradus("compare counts counts").fails_with(&["counts: expected a network, found counts of n-grams"]);
    let again = count(&desk, "counts");
    assert!(again.code == Some(1) && !again.stderr.contains("--resume"), "{}", again.stderr);
    for command in ["finetune --task cola --data nowhere --out tuned", "audit model", "export --openai there"] {
        desk.gradus(&format!("{command} --model counts")).fails_with(&["counts: expected a network, found counts of n-grams"]);
    }
    let count = |flags: &str| desk.gradus(&format!("pretrain --system kneser-ney --corpus corpus.txt --out other {flags}"));
    count("--context 4").misused(&["--context with counts of n-grams"]);
    count("--seed 2").misused(&["--seed with counts of a corpus, which are not random"]);
    count("--lr 1e-3").misused(&["--lr with counts of n-grams: expected a network, to which it applies, or no --lr"]);
    count("--mask-rate 0.2").misused(&["--mask-rate with counts of n-grams"]);
    count("--tokenizer bpe").misused(&["--tokenizer bpe: expected char, byte, or a directory with a tokenizer"]);
    desk.write("one.txt", "a");
    count("--tokenizer byte --held-out-corpus one.txt")
        .fails_with(&["held-out part of the corpus", "at least 2 tokens, found 1"]);
    count("--steps 3").misused(&["--steps with counts of n-grams"]);
    count("--order 0").misused(&["--order 0: expected a number of tokens from 1 to 255"]);
    count("--device gpu").misused(&["--device: n-grams are counted on the CPU of one process"]);
    count("--stop-at 3").misused(&["--stop-at: n-grams are counted"]);
    desk.gradus("pretrain --order 3 --out other").misused(&["--order with a network, which counts nothing"]);
    assert!(!desk.exists("other"));
    let evaluate = |flags: &str| desk.gradus(&format!("evaluate --model counts {flags}"));
    evaluate("--corpus corpus.txt --stride 4").misused(&["--stride with this model"]);
    desk.write("ids", "1 2 3");
    evaluate("--ids ids --targets ids").misused(&["--targets with this model"]);
}

#[test]
fn damaged_counts_are_named() {
    let (desk, _) = desk();
    desk.gradus("verify counts").printed();
    let mut bytes = desk.read("counts/model.safetensors");
    let at = bytes.len() - 7;
    bytes[at] ^= 1;
    desk.write("counts/model.safetensors", &bytes);
    let verified = desk.gradus("verify counts");
    assert_eq!(verified.code, Some(1));
    assert_holds(&verified.stderr, &["counts/model.safetensors: it is damaged"]);
    desk.write("ids", "1 2 3");
    let evaluate = || desk.gradus("evaluate --model counts --ids ids");
    evaluate().fails_with(&["counts/model.safetensors: it is damaged"]);
    // Without checksums, only contents that cannot be a tree of n-grams are detected.
    desk.forget("counts");
    bytes.truncate(at);
    desk.write("counts/model.safetensors", &bytes);
    evaluate().fails_with(&["counts/model.safetensors", "damaged or incomplete"]);
}
