//! Tests of GPT-1's relatives: each system trains, resumes to the same bits, and fills gaps.

use gradus_report::metrics::{self, VALIDATION};
use gradus_train::systems::{self, ALL, Card};

use super::*;

/// Returns two hundred lines of two short sentences.
fn corpus() -> String {
    let names = ["Mia", "Tom", "Ben", "Ann"];
    (0..200).map(|i| format!("{} saw a cat. It was {}!\n", names[i % 4], ["big", "red", "old"][i % 3])).collect()
}

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("corpus.txt", corpus());
    desk
}

/// Returns the systems that train a network.
fn networks() -> impl Iterator<Item = &'static Card> {
    ALL.iter().copied().filter(|card| card.axes.body.network().is_some())
}

/// Returns the flags of a tiny model's sizes.
fn sizes(system: &str) -> &'static str {
    if system == "lstm" { "--width 16 --units 24" } else { "--layers 1 --width 16 --heads 2" }
}

/// Begins a tiny run of a system.
fn pretrain(desk: &Desk, system: &str, out: &str, more: &str) -> Run {
    desk.gradus(&format!(
        "pretrain --system {system} --corpus corpus.txt --tokenizer char {} --context 40 --batch 4 \
         --eval-tokens 300 --steps 8 --quiet --json --out {out} {more}",
        sizes(system)
    ))
}

fn sha(outcome: &Value) -> &str {
    outcome["parameters_sha256"].as_str().expect("a hash")
}

#[test]
fn every_system_trains_to_the_same_bits_and_fills_a_gap() {
    let desk = desk();
    for card in networks() {
        let whole = pretrain(&desk, card.name, "whole", "--threads 1").json();
        assert!(number(&whole["validation"]["nll"]).is_finite(), "{}: {whole}", card.name);
        pretrain(&desk, card.name, "cut", "--threads 2 --stop-at 3").json();
        let resumed = desk.gradus("pretrain --resume cut --quiet --json").json();
        assert_eq!(sha(&resumed), sha(&whole), "{}", card.name);
        let evaluated = metrics::read(&desk.path("whole/metrics.jsonl")).unwrap();
        let follows = metrics::evaluations(&evaluated, VALIDATION).last().expect("one at the end").follows;
        let reads_pairs = card.axes.view.has_pairs();
        assert_eq!(follows.is_some(), reads_pairs, "{}", card.name);
        assert!(follows.is_none_or(|it| it.right <= it.pairs && it.pairs > 0 && it.nll.is_finite()), "{follows:?}");
        assert_eq!(desk.text("whole/report.html").contains("Next-sentence accuracy"), reads_pairs, "{}", card.name);
        let model = desk.json("whole/config.json");
        assert_eq!(model["model_type"], card.model_type, "{}", card.name);

        let run = desk.prepare(command("fill --model whole --top 3 --json --text")).arg("Mia s[MASK]w a cat.").output();
        let run = Run::from(run.expect("the program starts"));
        let filled = run.json();
        let [gap] = items(&filled["gaps"]) else { panic!("{filled}") };
        let (answers, by_bayes) = (items(&gap["answers"]), filled["by_bayes"].as_bool().unwrap());
        assert_eq!((gap["at"].as_u64(), answers.len(), by_bayes), (Some(5), 3, card.axes.view.is_next()), "{}", card.name);
        assert_eq!(run.stderr.contains("filled by Bayes' rule"), by_bayes, "{}", run.stderr);
        assert!(answers.iter().all(|answer| (0.0..=1.0).contains(&number(&answer["probability"]))));
        ["whole", "cut"].iter().for_each(|run| fs::remove_dir_all(desk.path(run)).unwrap());
    }
}

#[test]
fn invalid_requests_to_a_masked_model_are_rejected() {
    let desk = desk();
    pretrain(&desk, "bert", "bert", "").json();
    let fill = |text: &str| Run::from(desk.prepare(command("fill --model bert --text")).arg(text).output().unwrap());
    fill("Mia saw a cat.").misused(&["expected a text with a gap, [MASK]"]);
    fill(&"[MASK]".repeat(40)).fails_with(&["the text has 40 tokens, the model reads at most 38 at once"]);
    // Texts on the lines of a file or of standard input.
    desk.write("gaps.txt", "Mia s[MASK]w a cat.\n\nTom saw [MASK] cat.\n");
    let lines = desk.gradus("fill --model bert --file gaps.txt --top 1");
    assert_eq!(lines.printed().lines().filter(|line| line.contains(" %  ")).count(), 2, "{}", lines.stdout);
    let alone = fill("Mia s[MASK]w a cat.").printed().lines().next().unwrap().to_owned();
    assert_eq!(lines.printed().lines().next().unwrap(), alone);
    let json = desk.gradus("fill --model bert --file gaps.txt --top 1 --json").json();
    assert_eq!(items(&json["texts"]).iter().map(|text| text["line"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 3]);
    for line in ["fill --model bert --top 1", "fill --model bert --top 1 --file -"] {
        let mut piped = desk.prepare(command(line));
        let piped = piped.stdin(fs::File::open(desk.path("gaps.txt")).unwrap()).output().unwrap();
        assert_eq!(Run::from(piped).printed(), lines.printed());
    }
    desk.gradus("fill --model bert").fails_with(&["standard input: expected texts with [MASK]", "found none"]);
    desk.gradus("fill --model bert --file nowhere").fails_with(&["cannot read nowhere"]);
    desk.write("none.txt", "Mia s[MASK]w a cat.\nMia saw a cat.\n");
    let refused = desk.gradus("fill --model bert --file none.txt");
    assert_eq!(refused.code, Some(2));
    assert_holds(&refused.stderr, &["error: none.txt, line 2: expected a text with a gap, [MASK]"]);
    let two = fill("[MASK]ia s[MASK]w a cat.");
    assert!(two.printed().lines().count() == 1 + 2 * 5 && two.stdout.contains("  2. "), "{}", two.stdout);
    // A blank is an answer like any other, and is visible.
    let all = Run::from(desk.prepare(command("fill --model bert --top 1000 --text")).arg("Mia s[MASK]w.").output().unwrap());
    assert!(all.printed().lines().any(|line| line.ends_with(" %  \" \"")), "{}", all.stdout);
    let run = desk.gradus("generate --model bert --prompt Mia --tokens 3 --greedy --json");
    assert_holds(
        &run.stderr,
        &["this model fills masks and was not trained to continue a text", "at the first of as many masks"],
    );
    let made = run.json();
    assert_eq!(made["text"].as_str().unwrap().chars().count(), 6, "{made}");
    assert!(made["ids"].as_array().unwrap().len() == 6 && made["text"].as_str().unwrap().starts_with("Mia"), "{made}");
    desk.gradus("generate --model bert --prompt Mia --tokens 50 --no-slide")
        .fails_with(&["do not fit the 38 tokens of a text that the model reads at once"]);
    let long = desk.gradus("generate --model bert --prompt Mia --tokens 60 --greedy --json");
    assert_holds(&long.stderr, &["the model's context is 40 tokens, masks included, so from token 21 on"]);
    assert_eq!(long.json()["slid"], serde_json::json!({ "at": 20, "unseen": 1 }));
    let step = |more: &str| {
        desk.gradus(&format!("audit step --model bert --text MiasawacatTomsawacat --html step.html --overwrite --json {more}"))
    };
    let opened = step("--sequences 2 --tokens 9").json();
    assert!(opened["faults"].as_array().unwrap().is_empty() && opened["proved"].as_u64().unwrap() > 100, "{opened}");
    assert_holds(&desk.text("step.html"), &["One training step of a Transformer that fills masks", "[MASK]"]);
    step("--tokens 39").misused(&["a number from 1 to 38, the model's context without its special tokens"]);
    // A vocabulary without [MASK], from another run.
    pretrain(&desk, "gpt", "gpt", "").json();
    desk.forget("bert");
    desk.write("bert/gradus_tokenizer.json", desk.text("gpt/gradus_tokenizer.json"));
    fill("Mia s[MASK]w a cat.").fails_with(&["expected a tokenizer with [CLS], [SEP] and [MASK]"]);

    pretrain(&desk, "gpt9", "new", "").misused(&[&format!("--system gpt9: expected {}", systems::names())]);
    pretrain(&desk, "gpt", "new", "--pairs").misused(&["--pairs with the view next", "expected --view pairs instead"]);
    desk.write("corpus.txt", "no end in sight ".repeat(300));
    pretrain(&desk, "bert", "new", "").misused(&["--view pairs: expected texts of several sentences", "or --view masked"]);
    assert!(!desk.exists("new"), "refused before anything was written");
    pretrain(&desk, "bert", "new", "--pairs false").json();
    assert_eq!(desk.json("new/config.json")["architectures"][0], "BertForMaskedLM");
}

/// The pseudo-log-likelihood is the sum of ln P of each letter from `fill`.
#[test]
fn a_masked_model_is_evaluated_by_its_pseudo_log_likelihood() {
    let desk = desk();
    pretrain(&desk, "bert", "bert", "").json();
    let text = "Mia saw a cat.";
    desk.write("text", text);
    let found = desk.gradus("evaluate --model bert --corpus text --dtype f64 --json").json();
    let letter = |at: usize| {
        let hidden = format!("{}[MASK]{}", &text[..at], &text[at + 1..]);
        let filled = desk.prepare(command("fill --model bert --top 100 --json --text")).arg(hidden).output().unwrap();
        let filled = Run::from(filled).json();
        let answers = items(&filled["gaps"][0]["answers"]).to_vec();
        number(&answers.into_iter().find(|answer| answer["token"] == text[at..=at]).unwrap()["probability"]).ln()
    };
    let pll: f64 = (0..text.len()).map(letter).sum();
    assert_near(&found["pseudo_log_likelihood"], pll, 1e-4);
    assert_near(&found["pseudo_perplexity"], (-pll / text.len() as f64).exp(), 1e-4);
    assert_eq!(found["tokens"], text.len());
    let evaluate = |flags: &str| desk.gradus(&format!("evaluate --model bert --corpus text {flags}"));
    assert!(number(&evaluate("--context 5 --json").json()["pseudo_nll"]).is_finite(), "in windows");
    evaluate("--context 2").misused(&["--context 2", "3 to 40"]);
    evaluate("--stride 4").misused(&["--stride", "do not overlap"]);
    evaluate("--gradients").misused(&["--gradients", "--targets"]);
    desk.write("text", "");
    evaluate("").fails_with(&["text"]);
}

#[test]
fn the_systems_are_shown() {
    let listed = gradus("systems");
    assert!(ALL.iter().zip(listed.printed().lines()).all(|(card, line)| line.starts_with(card.name)), "{}", listed.stdout);
    let shown = gradus("systems bert");
    assert_holds(shown.printed(), &["BERT (2018)", "d ← abc·ef", "pairs:rate=0.15,hide=0.8,replace=0.1", "Devlin"]);
    let differ = gradus("systems bert --against roberta --json").json();
    assert_eq!(items(&differ["axes"])[2], serde_json::json!({ "axis": "segments", "bert": "2", "roberta": "1" }));
    assert_eq!(items(&gradus("systems --json").json()["systems"]).len(), ALL.len());
    gradus("systems gpt9").misused(&[&format!("gpt9: expected a system: {}", systems::names())]);
}

/// Every system learns classes, pairs read once and choices of answers. A stopped run resumes to the same bits.
#[test]
fn every_system_is_fine_tuned_and_answers() {
    let desk = desk();
    desk.gradus("world --tasks tasks --rows 24 --seed 1 --json").json();
    desk.gradus("world --stories 60 --out stories.txt");
    for card in networks() {
        let line = format!(
            "pretrain --system {} --corpus stories.txt --tokenizer byte {} --context 320 --batch 2 \
             --eval-tokens 600 --steps 2 --quiet --json --out model",
            card.name,
            sizes(card.name)
        );
        desk.gradus(&line).json();
        let masked = !card.axes.view.is_next();
        let all = [("cola", "SequenceClassification"), ("mrpc", "SequenceClassification"), ("story-cloze", "MultipleChoice")];
        // `finetune.rs` tests every task of systems that read from left to right.
        for &(task, class) in if masked { &all[..] } else { &all[..1] } {
            let begin = |out: &str, more: &str| {
                desk.gradus(&format!(
                    "finetune --model model --task {task} --data tasks/{task} --batch 4 --epochs 1 --rows 12 --dev-rows 6 --quiet --json \
                     --out {out} {more}"
                ))
            };
            let whole = begin("whole", "--threads 1").json();
            begin("cut", "--threads 2 --stop-at 1").json();
            let resumed = desk.gradus("finetune --resume cut --quiet --json").json();
            assert_eq!((&resumed["score"], &resumed["finished"]), (&whole["score"], &true.into()), "{} {task}", card.name);
            assert!(desk.read("whole/model.safetensors") == desk.read("cut/model.safetensors"), "{} {task}", card.name);
            let config = desk.json("whole/config.json");
            assert_eq!(config["model_type"], card.model_type, "{}", card.name);
            let ask = |command: &str| {
                desk.gradus(&format!("{command} --model whole --task {task} --data tasks/{task} --split dev --json"))
            };
            let answered = ask("predict").json();
            assert_eq!(answered["score"], ask("evaluate").json()["score"], "{} {task}", card.name);
            let ids = items(&items(&answered["answers"])[0]["ids"]).len();
            if masked {
                let called = config["architectures"][0].as_str().unwrap();
                assert!(called.ends_with(class) && !desk.exists("whole/head.safetensors"), "{} {task}: {called}", card.name);
                assert_eq!(
                    (ids, &desk.json("whole/run.json")["settings"]["aux"]),
                    (if task == "story-cloze" { 2 } else { 1 }, &0.0.into())
                );
                let step = format!(
                    "audit step --model whole --task {task} --data tasks/{task} --html step.html --overwrite --quiet --json"
                );
                assert_eq!(desk.gradus(&step).json()["faults"], serde_json::json!([]), "{} {task}", card.name);
                desk.write("ids", "1 2 3");
                for about_tokens in ["fill --text a[MASK]", "evaluate --corpus ids", "evaluate --ids ids --targets ids"] {
                    let refused = desk.gradus(&format!("{about_tokens} --model whole"));
                    refused.fails_with(&["expected a model that was pre-trained, found one that was fine-tuned for a task"]);
                }
            }
            ["whole", "cut"].iter().for_each(|run| fs::remove_dir_all(desk.path(run)).unwrap());
        }
        let audited = desk.gradus("audit model --model model --coordinates 1 --tokens 6 --quiet --json").json();
        assert_eq!(audited["faults"], serde_json::json!([]), "{}", card.name);
        fs::remove_dir_all(desk.path("model")).unwrap();
    }
}

#[test]
fn tasks_reject_options_that_a_masked_model_lacks() {
    let desk = desk();
    desk.gradus("world --tasks tasks --rows 24 --seed 1 --json").json();
    desk.gradus("world --stories 60 --out stories.txt");
    desk.gradus(
        "pretrain --system bert --corpus stories.txt --tokenizer byte --layers 1 --width 16 --heads 2 --context 64 --batch 2 --eval-tokens 300 \
         --steps 2 --quiet --json --out model",
    )
    .json();
    let begin = |model: &str, out: &str, more: &str| {
        let line =
            format!("finetune --model {model} --task cola --data tasks/cola --rows 8 --dev-rows 4 --epochs 1 --quiet --json");
        desk.gradus(&format!("{line} --out {out} {more}"))
    };
    begin("model", "out", "--aux 0.5").misused(&["--aux 0.5: expected 0 for a model that fills masks", "leave --aux out"]);
    assert!(!desk.exists("out/run.json"), "refused before anything was written");
    let ask = |more: &str| desk.gradus(&format!("evaluate --model model --task cola --data tasks/cola {more}"));
    ask("--zero-shot").fails_with(&["expected a model that predicts the next token"]);
    ask("").fails_with(&["expected a model with a head", "this one has none"]);

    begin("model", "out", "--transfer 0 --seeds 2 --aux 0").json();
    let run = Run::from(desk.prepare(command("fill --model out/seed-1 --text")).arg("a[MASK]b").output().unwrap());
    run.fails_with(&["expected a model that was pre-trained, found one that was fine-tuned"]);
    let shown = desk.gradus("tasks show cola --data tasks/cola --rows 1 --model model");
    assert_holds(shown.printed(), &["tokens: [CLS]|", "|[SEP]"]);

    desk.gradus("pretrain --system gpt --corpus stories.txt --tokenizer byte --layers 1 --width 16 --heads 2 --context 64 --batch 2 --eval-tokens 300 --steps 2 --quiet --json --out gpt").json();
    desk.forget("model");
    desk.write("model/gradus_tokenizer.json", desk.text("gpt/gradus_tokenizer.json"));
    begin("model", "other", "").fails_with(&["expected a tokenizer with [CLS], [SEP] and [MASK]", "copy the tokenizer"]);
}

/// The task is the class of an adjective, one of two: guessing is right half of the time.
#[test]
fn masked_models_learn_an_easy_task() {
    let desk = desk();
    let (names, adjectives) = (["Mia", "Tom", "Ben", "Ann"], ["big", "red", "old", "shy"]);
    let row = |i: usize| format!("{} saw a {} cat\t{}\n", names[i / 4 % 4], adjectives[i % 4], usize::from(i % 4 < 2));
    for (split, rows) in [("train", 0..160), ("dev", 160..176)] {
        desk.write(format!("easy/{split}.tsv"), "sentence\tlabel\n".to_owned() + &rows.map(row).collect::<String>());
    }
    for card in ALL.iter().filter(|card| !card.axes.view.is_next()) {
        let line = format!("pretrain --system {} --corpus corpus.txt --tokenizer byte --steps 8 --out {0}", card.name);
        desk.gradus(&format!("{line} --layers 1 --width 32 --heads 2 --context 40 --batch 4 --eval-tokens 300 --quiet --json"))
            .json();
        let line = format!("finetune --model {} --task sst-2 --data easy --out {0}-tuned --quiet --json", card.name);
        let tuned = desk.gradus(&format!("{line} --epochs 8 --lr 2e-3 --batch 16 --warmup 0.1")).json();
        assert!(number(&tuned["score"]) > 0.9, "{}: {tuned}", card.name);
    }
}
