//! Tests of `gradus finetune`, `evaluate --task`, `predict` and `tasks`, which run the program.

use gradus_model::{Embedding, ModelConfig};

use super::*;
use gradus_text::{BpeTrainer, Mode};

/// The flags of a short run: 12 rows are 3 steps per epoch.
pub(super) const SHORT: &str = "--batch 4 --epochs 2 --lr 0.01 --quiet --json";
/// The flags of a run that leaves every parameter unchanged.
const STILL: &str = "--optimizer sgd --lr 1e-30 --decay 0 --epochs 1 --quiet --json";

const RTE: &str = "index\tsentence1\tsentence2\tlabel\n";

fn word(i: usize) -> &'static str {
    ["a red fox", "it rains", "no, never", "we sat \"here\"", "x"][i % 5]
}

/// Returns the first line and row `i` of a task's file. GLUE's test sets have no labels.
fn table(task: &str, is_test: bool, i: usize) -> (&'static str, String) {
    let (a, b, one) = (word(i), word(i * i + 1), i % 2);
    match (task, is_test) {
        ("cola", false) => ("", format!("src\t{one}\t\t{a}\n")),
        ("cola" | "sst-2", true) => ("index\tsentence\n", format!("{i}\t{a}\n")),
        ("sst-2", false) => ("sentence\tlabel\n", format!("{a} \t{one}\n")),
        ("sts-b", false) => ("index\tsentence1\tsentence2\tscore\n", format!("{i}\t{a}\t{b}\t{}.{}\n", i % 5, i)),
        ("mrpc", false) => ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n", format!("{one}\t{i}\t{i}\t{a}\t{b}\n")),
        ("mrpc", true) => ("index\t#1 ID\t#2 ID\t#1 String\t#2 String\n", format!("{one}\t{i}\t{i}\t{a}\t{b}\n")),
        (_, false) => (RTE, format!("{i}\t{a}\t{b}\t{}\n", ["entailment", "not_entailment"][one])),
        (_, true) => ("index\tsentence1\tsentence2\n", format!("{i}\t{a}\t{b}\n")),
    }
}

impl Desk {
    /// Creates a folder with a pre-trained model of two blocks and context 64, and the data of some tasks.
    pub(super) fn with_data(tasks: &[&str]) -> Self {
        let desk = Desk::new();
        desk.byte_model("model", |c| c.sizes.context = 64);
        tasks.iter().for_each(|task| desk.data(task));
        desk
    }

    /// Writes a folder of a task's files, in their own format: 12 rows for training, 6 dev rows, 2 test rows.
    fn data(&self, task: &str) {
        let file = |name: &str, rows: usize, first: &str, row: &dyn Fn(usize) -> String| {
            self.write(format!("data-{task}/{name}"), first.to_owned() + &(0..rows).map(row).collect::<String>());
        };
        match task {
            "story-cloze" => {
                let columns = "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,RandomFifthSentenceQuiz1,\
                               RandomFifthSentenceQuiz2,AnswerRightEnding\n";
                let row = |i: usize| {
                    format!("s{i},Go.,\"On, \"\"ho\"\".\",{},Up.,{i},End.,{}\n", word(i).replace([',', '"'], ""), 1 + i % 2)
                };
                file("val.csv", 15, columns, &row);
                file("test.csv", 2, columns, &row);
            }
            "wsc273" => {
                let row = |i: usize| format!("The {} saw it as [MASK] fell.\n[MASK]\nfox {i},dog\nfox {i}\n\n", word(i));
                file("wsc273.txt", 3, "", &row);
            }
            _ => {
                for (split, rows) in [("train", 12), ("dev", 6), ("test", 2)] {
                    let is_test = split == "test";
                    if task == "race" {
                        (0..rows).for_each(|i| self.passage(split, ["middle", "high"][i % 2], i, ["A", "B", "C", "D"][i % 4]));
                    } else {
                        let row = |i| table(task, is_test, i).1;
                        file(&format!("{split}.tsv"), rows, table(task, is_test, 0).0, &row);
                    }
                }
            }
        }
    }

    fn passage(&self, split: &str, school: &str, number: usize, letter: &str) {
        let text = serde_json::json!({
            "article": format!("It was {number}."), "questions": ["What was _ ?"], "options": [["it", "he", "she", "they"]],
            "answers": [letter], "id": "x",
        });
        self.write(format!("data-race/{split}/{school}/{number}.txt"), text.to_string());
    }

    pub(super) fn begin(&self, task: &str, out: &str, options: &str) -> Run {
        self.gradus(&format!("finetune --model model --task {task} --data data-{task} --out {out} {options}"))
    }

    pub(super) fn resume(&self, out: &str, options: &str) -> Run {
        self.gradus(&format!("finetune --resume {out} --quiet --json {options}"))
    }

    /// Runs `evaluate` or `predict` on the task of a model.
    pub(super) fn ask(&self, command: &str, model: &str, task: &str, options: &str) -> Run {
        self.gradus(&format!("{command} --model {model} --task {task} --data data-{task} {options}"))
    }

    /// Returns the parameters of a model by name.
    fn parameters(&self, model: &str) -> BTreeMap<String, Vec<f32>> {
        let mut all = BTreeMap::new();
        self.load(model).visit(|name, p| drop(all.insert(name.to_owned(), p.to_vec())));
        all
    }
}

/// Returns a result without the fields that may differ between two equal runs: seconds and paths.
fn timeless(mut result: Value) -> Value {
    result.as_object_mut().unwrap().remove("out");
    result["seeds"].as_array_mut().unwrap().iter_mut().for_each(|seed| drop(seed.as_object_mut().unwrap().remove("seconds")));
    result
}

/// Fine-tunes on a task, and checks that `evaluate` and `predict` agree with the scores of the run.
fn is_fine_tuned_scored_and_answered(task: &str, metric: &str, metrics: &[&str], sequences: usize, dev: usize) {
    let (desk, train) = (Desk::with_data(&[]), 12);
    desk.data(task);
    let made = desk.begin(task, task, SHORT).json();
    for (field, expected) in [
        ("task", Value::from(task)),
        ("split", "dev".into()),
        ("train_examples", train.into()),
        ("examples", dev.into()),
        ("capped", false.into()),
        ("finished", true.into()),
        ("truncated", 0.into()),
        ("metric", metric.into()),
        ("deviation", Value::Null),
    ] {
        assert_eq!(made[field], expected, "{task}: {field}");
    }
    assert_eq!(made["metrics"].as_object().unwrap().keys().collect::<Vec<_>>(), metrics);
    assert_eq!(items(&made["seeds"][0]["curve"]).len(), 2, "{task}: scored at each epoch's end");
    assert_eq!(desk.json(&format!("{task}/result.json")), made);
    let beside = desk.exists(&format!("{task}/head.safetensors"));
    assert_eq!(beside, sequences > 1, "{task}: transformers has a head for one sequence only");
    assert!(!desk.exists(&format!("{task}/trainer.safetensors")), "nothing is left to be continued");

    let scored = desk.ask("evaluate", task, task, "--split dev --json").json();
    for field in ["task", "split", "metric", "score", "metrics", "examples"] {
        assert_eq!(scored[field], made[field], "{task}: the model on disk is the one that was scored: {field}");
    }
    assert_eq!(scored["loss"], made["seeds"][0]["best"]["dev"]["loss"], "{task}");
    assert_eq!((&scored["zero_shot"], &scored["labels"]), (&false.into(), &Value::Null));
    assert_holds(desk.ask("evaluate", task, task, "").printed(), &[&format!("\n{metric} {}\n", made["score"])]);

    let answered = desk.ask("predict", task, task, "--split dev --json").json();
    let rows = items(&answered["answers"]);
    assert_eq!((rows.len(), &answered["examples"]), (dev, &dev.into()));
    assert_eq!((&answered["score"], &answered["metrics"]), (&made["score"], &made["metrics"]), "{task}: labelled, so scored");
    for row in rows {
        let probabilities = numbers(&row["probabilities"]);
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{task}: {row}");
        let ids: Vec<_> = items(&row["ids"]).iter().map(ids_of).collect();
        assert_eq!(ids.len(), sequences, "{task}");
        assert!(ids.iter().all(|ids| ids[0] == 256 && *ids.last().unwrap() == 258), "{ids:?}");
        assert_eq!(numbers(&row["logits"]).len(), probabilities.len());
    }
    let lines = desk.ask("predict", task, task, "--split dev --quiet");
    let lines: Vec<Vec<&str>> = lines.printed().lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), dev + 1);
    assert!(lines[0].starts_with(&["id", "answer"]) && lines.iter().all(|line| line.len() == lines[0].len()), "{lines:?}");
    for (line, row) in lines[1..].iter().zip(rows) {
        // A score is a number, which the lines round.
        let answer = &row["answer"];
        let answer = answer.as_f64().map_or_else(|| answer.as_str().unwrap().to_owned(), |score| format!("{score:.3}"));
        assert_eq!((line[0], line[1]), (row["id"].as_str().unwrap(), answer.as_str()));
    }
}

/// Defines a test per task: metric, all metrics, sequences per example, dev examples.
macro_rules! fine_tuned {
    ($($test:ident: $task:literal, $metric:literal, $metrics:expr, $sequences:literal, $dev:literal;)*) => {
        $(#[test]
        fn $test() {
            is_fine_tuned_scored_and_answered($task, $metric, &$metrics, $sequences, $dev);
        })*
    };
}

fine_tuned! {
    cola_is_fine_tuned: "cola", "matthews", ["accuracy", "matthews"], 1, 6;
    rte_is_fine_tuned: "rte", "accuracy", ["accuracy"], 1, 6;
    mrpc_is_fine_tuned: "mrpc", "f1", ["accuracy", "f1"], 2, 6;
    sts_b_is_fine_tuned: "sts-b", "pearson", ["pearson", "spearman"], 2, 6;
    race_is_fine_tuned: "race", "accuracy", ["accuracy", "accuracy-high", "accuracy-middle"], 4, 6;
    story_cloze_is_fine_tuned: "story-cloze", "accuracy", ["accuracy"], 2, 3;
}

#[test]
fn a_test_set_is_scored_with_labels_from_a_file_of_their_own() {
    let desk = Desk::with_data(&["rte"]);
    desk.begin("rte", "out", SHORT).json();
    let rows = desk.ask("predict", "out", "rte", "--json").json();
    let answer = |i: usize| rows["answers"][i]["answer"].as_str().unwrap();
    desk.write("labels.tsv", format!("index\tprediction\n0\t{}\n1\t{}\n", answer(0), answer(1)));
    let score = |options: &str| desk.ask("evaluate", "out", "rte", &format!("--json {options}"));
    let scored = score("--split test --labels labels.tsv").json();
    assert_eq!((&scored["score"], &scored["examples"], &scored["labels"]), (&1.0.into(), &2.into(), &"labels.tsv".into()));
    score("--split test").fails_with(&["published without labels", "--labels"]);
    score("--split dev --labels labels.tsv").misused(&["RTE, split `dev` has labels of its own"]);
    desk.write("labels.tsv", "index\tprediction\n0\tmaybe\n");
    score("--split test --labels labels.tsv").fails_with(&["labels.tsv, line 2", "maybe"]);
}

#[test]
fn seeds_have_a_mean_and_a_deviation_and_are_not_run_twice() {
    let desk = Desk::with_data(&["sts-b"]);
    let made = desk.begin("sts-b", "out", &format!("{SHORT} --seeds 2 --seed 7")).json();
    let seeds = items(&made["seeds"]);
    assert_eq!(seeds.iter().map(|s| s["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [7, 8]);
    let [first, second] = [0, 1].map(|i| number(&seeds[i]["best"]["dev"]["score"]));
    assert_ne!(first, second, "seeds differ");
    assert_near(&made["score"], (first + second) / 2.0, 1e-12);
    assert_near(&made["deviation"], (first - second).abs() / 2f64.sqrt(), 1e-12);
    assert_eq!(made["metrics"]["pearson"], made["score"]);
    assert_eq!(desk.ask("evaluate", "out/seed-7", "sts-b", "--json").json()["score"], seeds[0]["best"]["dev"]["score"]);
    desk.ask("evaluate", "out", "sts-b", "--json").fails_with(&["several seeds", "seed-"]);

    // A seed has equal results in a run of one seed and in a run of several.
    let alone = desk.begin("sts-b", "alone", &format!("{SHORT} --seed 8")).json();
    assert_eq!(timeless(alone)["seeds"][0], timeless(made.clone())["seeds"][1]);
    assert_eq!(desk.read("alone/model.safetensors"), desk.read("out/seed-8/model.safetensors"));

    // The result of a finished seed is read, not recomputed: a mark in its file reappears.
    let mut first = desk.json("out/seed-7/seed.json");
    first["seconds"] = 12345.0.into();
    desk.forget("out/seed-7");
    desk.write("out/seed-7/seed.json", first.to_string());
    fs::remove_dir_all(desk.path("out/seed-8")).unwrap();
    let again = desk.resume("out", "").json();
    assert_eq!(again["seeds"][0]["seconds"], 12345.0);
    assert_eq!(timeless(again), timeless(made));
}

#[test]
fn a_stopped_run_ends_with_the_bits_of_an_uninterrupted_one() {
    let desk = Desk::with_data(&["rte", "race"]);
    for (task, seeds, options) in [("rte", &[""][..], ""), ("race", &["/seed-1", "/seed-2"], "--seeds 2 --objective token_mean")]
    {
        let (whole, parts) = (format!("{task}-whole"), format!("{task}-parts"));
        let options = format!("--batch 4 --lr 0.01 --quiet --json {options}");
        let expected = desk.begin(task, &whole, &format!("{options} --threads 1")).json();
        let stopped = desk.begin(task, &parts, &format!("{options} --threads 2 --stop-at 4")).json();
        assert_eq!((&stopped["finished"], &stopped["score"]), (&false.into(), &Value::Null));
        assert!(!desk.exists(&format!("{parts}/result.json")));
        desk.resume(&parts, "--threads 1 --stop-at 5").json();
        desk.resume(&parts, "--threads 3 --stop-at 0").json(); // nothing to do
        let found = desk.resume(&parts, "--threads 2").json();
        assert_eq!(timeless(found), timeless(expected), "{task}");
        for seed in seeds {
            for file in ["model.safetensors", "config.json", "gradus_tokenizer.json"] {
                let read = |run: &str| desk.read(&format!("{run}{seed}/{file}"));
                assert!(read(&whole) == read(&parts), "{task}{seed} {file}");
            }
            let metrics = |run: &str| -> Vec<_> {
                let records = desk.records(&format!("{run}{seed}"));
                records.iter().map(|r| ["step", "tokens", "loss", "lr", "grad_norm"].map(|field| r[field].clone())).collect()
            };
            assert_eq!(metrics(&whole), metrics(&parts), "{task}{seed}");
        }
    }
}

#[test]
fn transferred_parameters_match_the_requested_transfer() {
    let desk = Desk::with_data(&["rte"]);
    let before = desk.parameters("model");
    for (transfer, expected) in [
        ("none", &[][..]),
        ("0", &["positions_embed", "tokens_embed"]),
        ("1", &["h.0", "positions_embed", "tokens_embed"]),
        ("2", &["h.0", "h.1", "positions_embed", "tokens_embed"]),
        ("all", &["h.0", "h.1", "positions_embed", "tokens_embed"]),
    ] {
        desk.begin("rte", transfer, &format!("{STILL} --transfer {transfer}")).json();
        let after = desk.parameters(transfer);
        let random = before.iter().filter(|(name, _)| name.ends_with("weight") && !name.contains("ln_"));
        // The rows of the special tokens come after those of the embedding.
        let kept = random.filter(|(name, values)| after[*name].starts_with(values));
        let part = |name: &str| name.split('.').take(if name.starts_with("h.") { 2 } else { 1 }).collect::<Vec<_>>().join(".");
        let mut kept: Vec<String> = kept.map(|(name, _)| part(name)).collect();
        kept.dedup();
        assert_eq!(kept, expected, "--transfer {transfer}");
    }
}

/// Weight decay does not change parameters that are not trained.
#[test]
fn frozen_trains_only_the_head() {
    let desk = Desk::with_data(&["mrpc"]);
    desk.begin("mrpc", "still", &format!("{STILL} --aux 0")).json();
    desk.begin("mrpc", "frozen", &format!("{SHORT} --frozen --aux 0 --decay 0.5 --schedule constant")).json();
    let (still, frozen) = (desk.parameters("still"), desk.parameters("frozen"));
    let changed: Vec<&String> = still.iter().filter(|(name, values)| frozen[*name] != **values).map(|(name, _)| name).collect();
    assert_eq!(changed, ["score.weight"]);
}

#[test]
fn options_are_applied_to_the_model_and_the_data() {
    let desk = Desk::with_data(&["cola", "rte"]);
    let made = desk.begin("cola", "bias", &format!("{SHORT} --head-bias --rows 5 --dev-rows 2")).json();
    assert_eq!((&made["train_examples"], &made["examples"]), (&5.into(), &2.into()));
    assert_eq!((&made["capped"], &made["dev_capped"]), (&true.into(), &true.into()));
    assert!(desk.exists("bias/head.safetensors"), "a head with a bias is not transformers'");
    assert_eq!(desk.parameters("bias")["score.bias"].len(), 2);
    assert_eq!(desk.ask("evaluate", "bias", "cola", "--rows 2 --json").json()["score"], made["score"]);
    // The joint form, and a model that is fine-tuned again: its head is dropped, and its special tokens are kept.
    desk.byte_model("model", |c| {
        c.sizes.context = 64;
        *c = c.clone().with_transformer(|c| c.embedding = Embedding::Joint);
    });
    desk.begin("cola", "joint", SHORT).json();
    fs::remove_dir_all(desk.path("model")).unwrap();
    fs::rename(desk.path("joint"), desk.path("model")).unwrap();
    desk.begin("rte", "again", SHORT).json();
    assert_eq!(desk.parameters("again")["tokens_embed.weight"].len(), desk.parameters("model")["tokens_embed.weight"].len());
}

#[test]
fn a_fine_tuned_model_remains_a_language_model() {
    let desk = Desk::with_data(&["rte", "race"]);
    desk.write("corpus.txt", "it rains and rains, and a red fox sits in the rain");
    desk.write_ids("ids", &[97, 98, 99]);
    for task in ["rte", "race"] {
        desk.begin(task, task, SHORT).json();
        let found = desk.gradus(&format!("evaluate --model {task} --corpus corpus.txt --gradients --json")).json();
        // The model's tokens are bytes.
        assert_near(&found["bits_per_byte"], number(&found["nll"]) / 2f64.ln(), 1e-12);
        assert_eq!(found["tokens"], 49);
        let more = desk.gradus(&format!("generate --model {task} --ids ids --tokens 4 --greedy --json")).json();
        assert!(items(&more["ids"]).len() == 7 && ids_of(&more["ids"])[..3] == [97, 98, 99], "{more}");
    }
}

#[test]
fn truncated_texts_are_counted_and_reported() {
    let desk = Desk::with_data(&["cola"]);
    let long = "long ".repeat(40);
    let add = |name: &str, row: String| desk.write(name, desk.text(name) + &row);
    add("data-cola/train.tsv", format!("src\t1\t\t{long}\n"));
    add("data-cola/dev.tsv", format!("src\t1\t\t{long}\nsrc\t0\t*\t{long}\n"));
    let made = desk.begin("cola", "out", SHORT).json();
    assert_eq!((&made["truncated"], &made["longest"]), (&3.into(), &64.into()));
    assert_eq!(desk.ask("evaluate", "out", "cola", "--json").json()["truncated"], 2);
    assert_holds(desk.ask("evaluate", "out", "cola", "").printed(), &["\ntruncated 2\n"]);
    let answered = desk.ask("predict", "out", "cola", "--split dev --json").json();
    assert_eq!((&answered["truncated"], ids_of(&answered["answers"][7]["ids"][0]).len()), (&2.into(), 64));
    assert_holds(&desk.ask("predict", "out", "cola", "--split dev").stderr, &["2 examples had a text cut"]);
    assert_eq!(desk.ask("predict", "out", "cola", "--split dev --quiet").stderr, "");
    let again = desk.gradus("finetune --resume out");
    assert_holds(again.printed(), &["(train 13 of 13 rows, 1 cut to the context; dev 8 of 8 rows, 2 cut to the context)"]);
}

#[test]
fn a_glue_submission_is_not_overwritten() {
    let desk = Desk::with_data(&["rte"]);
    desk.begin("rte", "rte", SHORT).json();
    let ask = |options: &str| desk.ask("predict", "rte", "rte", &format!("--glue glue --quiet {options}"));
    desk.write("glue", "a file");
    ask("").misused(&["--glue", "a folder, or a name for a new one"]);
    fs::remove_file(desk.path("glue")).unwrap();
    ask("--split dev").misused(&["a test set of GLUE", "dev"]);
    assert_eq!(ask("").printed(), "");
    let text = desk.text("glue/RTE.tsv");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "index\tprediction"));
    let answered = desk.ask("predict", "rte", "rte", "--json").json();
    for (i, row) in items(&answered["answers"]).iter().enumerate() {
        assert_eq!(lines[i + 1], format!("{i}\t{}", row["answer"].as_str().unwrap()));
    }
    desk.write("glue/RTE.tsv", "mine");
    ask("").fails_with(&["RTE.tsv", "--overwrite"]);
    assert_eq!(desk.text("glue/RTE.tsv"), "mine");
    assert_eq!(ask("--overwrite --json").json()["examples"], 2);
    assert_eq!(desk.text("glue/RTE.tsv"), text);
}

#[test]
fn tasks_are_listed() {
    let listed = gradus("tasks --json").json();
    let listed = items(&listed["tasks"]);
    let names: Vec<&str> = listed.iter().map(|task| task["name"].as_str().unwrap()).collect();
    let entailment = ["mnli", "snli", "scitail", "qnli", "rte", "wnli"];
    let (questions, classes, pairs) = (["story-cloze", "race"], ["cola", "sst-2"], ["mrpc", "sts-b", "qqp"]);
    let references = ["dprd", "wsc273"];
    assert_eq!(names, [&entailment[..], &questions, &classes, &pairs, &references].concat());
    let text = gradus("tasks");
    let paragraphs: Vec<&str> = text.printed().trim_end().split("\n\n").collect();
    assert_eq!(paragraphs.len(), names.len());
    for (task, paragraph) in listed.iter().zip(paragraphs) {
        let (first, second) = paragraph.split_once('\n').unwrap();
        let [name, title, metric, folder] = ["name", "title", "metric", "folder"].map(|field| task[field].as_str().unwrap());
        assert!(first.starts_with(&format!("{name} ")) && first.contains(&format!(" {title}: ")), "{first}");
        assert!(first.contains(&format!("); {metric}")), "{first}");
        let splits: Vec<&str> = items(&task["splits"]).iter().map(|split| split.as_str().unwrap()).collect();
        assert!(second.trim_start().starts_with(&format!("splits {}; {folder}", splits.join(", "))), "{second}");
        let end = first.split_once("; zero-shot").map(|(_, end)| end);
        let expected = match name {
            "dprd" | "wsc273" => Some(" only"),
            "story-cloze" | "race" | "cola" | "sst-2" => Some(" too"),
            _ => None,
        };
        assert_eq!((end, &task["zero_shot"]), (expected, &expected.is_some().into()), "{name}");
        assert_eq!(task["fine_tuned"], expected != Some(" only"), "{name}");
    }
}

/// OpenAI's weights were trained on words split by spaCy; `transformers` splits them otherwise.
#[test]
fn a_model_is_fine_tuned_with_another_tokenizer_mode() {
    let desk = Desk::with_data(&["rte"]);
    let mut trainer = BpeTrainer::new(60);
    trainer.specials.push("<story>".into());
    let mut words = trainer.word_counts();
    words.add("a red fox, it rains, no, never, we sat \"here\" x don't");
    let tokenizer = trainer.train(&words, |_, _| ()).unwrap();
    let config = desk.byte_model("model", |c| c.sizes.context = 64).config();
    desk.model_with("words", &tokenizer, config.with_vocab(tokenizer.vocab_size()));
    desk.write("data-rte/dev.tsv", format!("{RTE}0\tI don't\tno\tentailment\n1\tit rains\tno\tnot_entailment\n"));
    let begin = |out: &str, more: &str| {
        desk.gradus(&format!("finetune --model words --task rte --data data-rte --out {out} {SHORT} {more}"))
    };
    for (out, more, mode) in [("kept", "", Mode::Basic), ("spacy", "--mode spacy", Mode::Spacy)] {
        begin(out, more).json();
        let answered = desk.ask("predict", out, "rte", "--split dev --json").json();
        let premise = tokenizer.clone().with_mode(mode).unwrap().encode("I don't").unwrap();
        assert_eq!(ids_of(&answered["answers"][0]["ids"][0])[1..=premise.len()], premise, "{mode}");
    }
    assert_eq!(desk.json("spacy/tokenizer_config.json")["mode"], "spacy");
    desk.begin("rte", "none", &format!("{SHORT} --mode spacy")).misused(&["mode spacy", "the byte tokenizer"]);
}

/// A test set may lack labels.
#[test]
fn rows_are_predicted_without_a_head() {
    let desk = Desk::with_data(&["cola", "wsc273", "race"]);
    let scored = desk.ask("evaluate", "model", "cola", "--zero-shot --json").json();
    let answered = desk.ask("predict", "model", "cola", "--zero-shot --split dev --json").json();
    assert_eq!((&answered["score"], &answered["metrics"]), (&scored["score"], &scored["metrics"]));
    let threshold = answered["threshold"].as_f64().unwrap_or(f64::NEG_INFINITY); // null in JSON
    for row in items(&answered["answers"]) {
        let [score] = items(&row["scores"]) else { panic!("{row}") };
        let score = score.as_f64().unwrap_or(f64::NEG_INFINITY);
        assert_eq!(row["answer"], if score >= threshold { "acceptable" } else { "unacceptable" });
    }
    desk.write("data-wsc273/wsc273.txt", "The cup fell, for [MASK] shook.\n[MASK]\nThe cup,the shelf\n");
    let answered = desk.ask("predict", "model", "wsc273", "--zero-shot");
    let (header, line) = answered.printed().trim_end().split_once('\n').unwrap();
    assert_eq!(header, "id\tanswer\t0\t1");
    let line: Vec<&str> = line.split('\t').collect();
    let scores: Vec<f64> = line[2..].iter().map(|score| score.parse().unwrap()).collect();
    assert_eq!((line[0], line[1], scores.len()), ("0", if scores[1] > scores[0] { "1" } else { "0" }, 2));
    let json = desk.ask("predict", "model", "wsc273", "--zero-shot --json").json();
    assert_eq!((&json["score"], &json["threshold"], &json["rows"]), (&Value::Null, &Value::Null, &1.into()));
    let race = desk.ask("predict", "model", "race", "--zero-shot --split dev").printed().to_owned();
    assert!(race.lines().all(|line| line.split('\t').count() == 6) && race.lines().count() == 7, "{race}");
    desk.ask("predict", "model", "rte", "--zero-shot").misused(&["rte", "no zero-shot heuristic"]);
}

#[test]
fn row_counts_and_notes_on_the_data_are_reported() {
    let desk = Desk::with_data(&["story-cloze", "race"]);
    let made = desk.begin("story-cloze", "out", SHORT);
    let splits = &made.json()["splits"];
    for (split, used) in [("train", 12), ("dev", 3)] {
        assert_eq!(
            (&splits[split]["file"], &splits[split]["used"], &splits[split]["cut"]),
            (&15.into(), &used.into(), &0.into())
        );
    }
    let run = desk.begin("story-cloze", "again", &SHORT.replace("--json", "--rows 4"));
    assert_holds(run.printed(), &["train 12 of 15 rows, 4 of them used; dev 3 of 15 rows)"]);
    for number in [1, 3, 5] {
        desk.remove(&format!("data-race/dev/high/{number}.txt"));
    }
    let scored = desk.ask("evaluate", "model", "race", "--zero-shot --json");
    assert_holds(&scored.stderr, &["note: data-race/dev/high: found no passages"]);
    assert_eq!((&scored.json()["rows"], &scored.json()["examples"]), (&3.into(), &3.into()));
    let fine_tuned = desk.begin("race", "race", &SHORT.replace("--quiet", ""));
    assert_holds(&fine_tuned.stderr, &["note: ", "data-race/dev/high: found no passages"]);
}

#[test]
fn rows_of_a_task_are_printed_as_read() {
    let desk = Desk::with_data(&["race", "wsc273", "cola"]);
    let show = |task: &str, options: &str| desk.gradus(&format!("tasks show {task} --data data-{task} {options}"));
    let output = show("race", "--split dev --rows 2");
    assert_eq!(output.printed().matches("  label: ").count(), 2);
    assert_holds(
        output.printed(),
        &["RACE, split dev: 6 of 6 rows", "document: It was", "question: What was _ ?", "answer 3: they"],
    );
    let json = show("race", "--split dev --model model --json").json();
    let shown = items(&json["shown"]);
    assert_eq!((shown.len(), &json["used"], &json["rows"]), (5, &6.into(), &6.into()));
    let first = &shown[0]["encoded"];
    let tokens: Vec<String> =
        items(&first["tokens"]).iter().map(|row| items(row).iter().map(|t| t.as_str().unwrap()).collect()).collect();
    assert_eq!((tokens.len(), &first["cut"]), (4, &false.into()));
    assert!(
        tokens[1].starts_with("<start>It was ") && tokens[1].ends_with("What was _ ?<delimiter>he<extract>"),
        "{}",
        tokens[1]
    );
    desk.write("data-cola/dev.tsv", format!("src\t0\t*\t{}\n", "very ".repeat(99)));
    let output = show("cola", "--split dev --model model");
    assert_holds(
        output.printed(),
        &["label: unacceptable", "text: very very", "<start>|v|e|r|y", "a text was cut to the context of"],
    );
    assert_holds(show("cola", "--split test").printed(), &["label: none", "text: "]);
    assert_holds(show("wsc273", "").printed(), &["[?]", "candidate 1: "]);
    show("wsc273", "--model model").misused(&["wsc273", "zero-shot only"]);
    show("cola", "--rows 0").misused(&["--rows 0"]);
    show("colla", "").misused(&["expected one of mnli, snli,"]);
}

#[test]
fn a_language_model_is_evaluated_without_a_head() {
    let desk = Desk::with_data(&["rte"]);
    let ask = |task: &str, options: &str| desk.ask("evaluate", "model", task, &format!("--zero-shot --json {options}"));
    for (task, split, examples) in
        [("cola", "dev", 6), ("sst-2", "dev", 6), ("race", "dev", 6), ("story-cloze", "test", 2), ("wsc273", "test", 3)]
    {
        desk.data(task);
        if task != "cola" {
            let _ = fs::remove_dir_all(desk.path(format!("data-{task}/train")));
            let _ = fs::remove_file(desk.path(format!("data-{task}/train.tsv"))); // only CoLA's threshold uses it
        }
        let scored = ask(task, &format!("--split {split}")).json();
        assert_eq!((&scored["examples"], &scored["zero_shot"]), (&examples.into(), &true.into()), "{task}");
        assert_eq!(scored["score"], scored["metrics"][scored["metric"].as_str().unwrap()], "{task}");
        assert!((-1.0..=1.0).contains(&number(&scored["score"])), "{task}: {scored}");
    }
    desk.remove("data-cola/train.tsv");
    ask("cola", "").fails_with(&["train.tsv"]);
    ask("rte", "").misused(&["rte", "no zero-shot heuristic", "cola"]);
    ask("wsc273", "--split dev").misused(&["no split `dev`", "test"]);
    assert_eq!(ask("wsc273", "").json()["split"], "test", "the only one there is");
    ask("wsc273", "--split test --opening <nil>").misused(&["--opening <nil>"]);
    ask("wsc273", "--split test --rows 0").misused(&["--rows 0"]);
}

/// The threshold of CoLA's heuristic is from all training rows, however few rows are scored (§5).
#[test]
fn few_rows_are_scored_with_the_threshold_of_all_training_rows() {
    let desk = Desk::with_data(&[]);
    // Only one training row is unacceptable, and it is not the last, which `--rows 1` would take.
    let train = ["0\t*\tqqqq zzzz xx jj", "1\t\tit rains", "1\t\twe sat here", "1\t\ta red fox"];
    desk.write("data-cola/train.tsv", train.map(|row| format!("src\t{row}\n")).concat());
    desk.write("data-cola/dev.tsv", ["1\t\ta red fox", "0\t*\tqqqq zzzz xx jj"].map(|row| format!("src\t{row}\n")).concat());
    for rows in ["", "--rows 1"] {
        let found = desk.ask("evaluate", "model", "cola", &format!("--zero-shot --json {rows}")).json();
        assert_eq!(found["metrics"]["accuracy"], 1.0, "{rows}");
    }
}

/// Each format's faults are tested where it is read, in `gradus_data::sets`.
#[test]
fn bad_data_is_rejected_and_nothing_is_written() {
    let desk = Desk::with_data(&[]);
    for (task, file, text, words) in [
        ("rte", "train.tsv", "src\t1\t\tA sentence of another task.\n", &["train.tsv, line 1", "sentence1", "RTE"][..]),
        ("rte", "dev.tsv", &format!("{RTE}0\ta\tb\tentailment\n1\ta\tb\tmaybe\n"), &["dev.tsv, line 3, column 4", "`maybe`"]),
        ("rte", "dev.tsv", RTE, &["RTE, split `dev`", "at least one row"]),
        ("rte", "dev.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n", &["dev.tsv, line 1", "label"]), // unlabelled
        ("story-cloze", "val.csv", "InputStoryid,Ending\n1,a\n", &["val.csv, line 1", "InputSentence1"]),
        ("race", "train/high/1.txt", "{\"article\": 1}", &["1.txt, line 1", "article"]),
    ] {
        desk.data(task);
        desk.write(format!("data-{task}/{file}"), text);
        desk.begin(task, "out", SHORT).fails_with(words);
        assert!(!desk.exists("out"), "{task} {file}");
    }
    desk.data("race");
    desk.passage("dev", "high", 1, "E");
    desk.begin("race", "out", SHORT).fails_with(&["1.txt", "a letter from A to D", "`E`"]);
    desk.begin("qnli", "out", SHORT).fails_with(&["data-qnli", "must hold"]);
    desk.begin("glue", "out", SHORT).misused(&["expected one of mnli", "`glue`"]);
    desk.begin("dprd", "out", SHORT).misused(&["dprd", "--zero-shot"]);
    assert!(!desk.exists("out"));
}

#[test]
fn bad_settings_are_rejected_and_nothing_is_written() {
    let desk = Desk::with_data(&["rte"]);
    for (options, words) in [
        ("--batch 0", &["--batch 0: expected a number from 1"][..]),
        ("--epochs 0", &["--epochs 0: expected a number from 1"]),
        ("--shards 0", &["--shards 0: expected a number from 1"]),
        ("--rows 0", &["--rows 0: expected a number from 1"]),
        ("--dev-rows 0", &["--dev-rows 0: expected a number from 1"]),
        ("--seeds 0", &["--seeds 0: expected"]),
        ("--seeds 2 --seed 18446744073709551615", &["--seed 18446744073709551615"]),
        ("--aux=-1", &["--aux -1: expected a number from 0 to 100"]),
        ("--aux NaN", &["--aux NaN: expected a number from 0 to 100"]),
        ("--lr NaN", &["--lr NaN: expected a learning rate above 0"]),
        ("--lr=-1", &["--lr -1: expected a learning rate above 0"]),
        ("--decay=-1", &["--decay -1: expected a decay of 0 or more"]),
        ("--clip=-1", &["--clip -1: expected a number of at least 0"]),
        ("--dropout 1", &["--dropout 1: expected a probability from 0 to below 1"]),
        ("--classifier-dropout NaN", &["--classifier-dropout NaN: expected a probability from 0"]),
        ("--transfer 99", &["--transfer 99", "0 to 2"]),
        ("--frozen", &["--aux 0.5: expected 0 with --frozen"]),
        ("--threads 0", &["--threads 0: expected a number from 1 to 1024"]),
    ] {
        desk.begin("rte", "out", &format!("--quiet {options}")).misused(words);
        assert!(!desk.exists("out"), "{options}");
    }
}

#[test]
fn bad_models_are_rejected() {
    let desk = Desk::with_data(&["rte", "cola", "race", "mnli", "dprd"]);
    let both = |model: &str, task: &str, words: &[&str]| {
        desk.ask("evaluate", model, task, "").fails_with(words);
        desk.ask("predict", model, task, "--split dev").fails_with(words);
    };
    desk.begin("rte", "rte", SHORT).json();
    both("model", "rte", &["expected a model with a head", "gradus finetune --task rte"]);
    // A head with equal classes may answer, but with a note.
    let other = desk.text("data-rte/dev.tsv").replace("sentence1\tsentence2", "question\tsentence");
    desk.write("data-qnli/dev.tsv", other);
    let run = desk.ask("evaluate", "rte", "qnli", "");
    assert_eq!(run.code, Some(0));
    assert_holds(&run.stderr, &["fine-tuned on rte, not on qnli"]);
    assert!(!desk.ask("evaluate", "rte", "rte", "").stderr.contains("fine-tuned on"));
    both("rte", "race", &["another task", "race"]);
    both("rte", "mnli", &["another task", "3"]);
    both("rte", "cola", &["its head has the answers entailment", "acceptable"]);
    desk.ask("evaluate", "rte", "dprd", "").misused(&["dprd", "--zero-shot"]);
    desk.ask("predict", "rte", "dprd", "--split dev").misused(&["dprd", "--zero-shot"]);
    both("nothing", "rte", &["nothing", "config.json"]);
    desk.ask("evaluate", "rte", "rte", "--split test").fails_with(&["example 0 has no label", "gradus predict"]);
    desk.ask("evaluate", "rte", "rte", "--rows 0").misused(&["--rows 0"]);
    desk.ask("evaluate", "rte", "rte", "--split dev-mismatched").misused(&["no split", "train, dev, test"]);
    desk.forget("rte");
    desk.spoil("rte", "score.weight", f32::NAN);
    both("rte", "rte", &["example 0", "NaN", "checkpoint"]);
    desk.tokenizer("rte", &Tokenizer::bytes());
    both("rte", "rte", &["tokenizer lacks <start>, <delimiter>, <extract>"]);
    desk.remove("rte/gradus_tokenizer.json");
    desk.forget("rte");
    both("rte", "rte", &["no tokenizer beside the model"]);
    desk.begin("race", "race", SHORT).json();
    desk.remove("race/head.safetensors");
    both("race", "race", &["head.safetensors"]);
}

#[test]
fn bad_pre_trained_models_are_rejected_and_nothing_is_written() {
    let desk = Desk::with_data(&["rte"]);
    let begin = |words: &[&str]| {
        desk.begin("rte", "out", SHORT).fails_with(words);
        assert!(!desk.exists("out"), "{words:?}");
    };
    for (parameter, value, name) in [("h.1.ln_2.bias", f32::INFINITY, "infinity"), ("h.0.mlp.c_fc.bias", f32::NAN, "NaN")] {
        desk.byte_model("model", |c| c.sizes.context = 64);
        desk.spoil("model", parameter, value);
        begin(&[parameter, name, "earlier checkpoint"]);
    }
    desk.byte_model("model", |c| c.sizes.context = 7);
    begin(&["context of 7", "at least 8"]);
    desk.remove("model/gradus_tokenizer.json");
    desk.forget("model");
    begin(&["no tokenizer beside the model"]);
    desk.byte_model("model", |c| c.sizes.vocab = 100);
    begin(&["trained with 100 rows", "another model's"]);
    desk.write("model/model.safetensors", "torn");
    begin(&["model.safetensors"]);
    fs::remove_dir_all(desk.path("model")).unwrap();
    begin(&["config.json"]);
}

#[test]
fn existing_files_are_not_overwritten() {
    let desk = Desk::with_data(&["rte"]);
    for name in ["run.json", "seed.json", "head.safetensors", "notes.txt"] {
        let out = format!("taken-{name}");
        desk.write(format!("{out}/{name}"), "mine");
        desk.begin("rte", &out, SHORT).fails_with(&["already holds", name, "another --out"]);
        assert_eq!(desk.files(&out), BTreeMap::from([(desk.path(&out).join(name), b"mine".to_vec())]));
    }
    desk.write("model/file", "mine");
    desk.begin("rte", "model/file", SHORT).fails_with(&["file"]);
    desk.begin("rte", "model", SHORT).fails_with(&["already holds"]);
    fs::create_dir(desk.path("empty")).unwrap();
    desk.begin("rte", "empty", SHORT).json();
}

#[test]
#[expect(clippy::too_many_lines, reason = "one directory, spoilt in one way after the other")]
fn a_run_that_cannot_be_resumed_is_an_error_with_the_cause() {
    let desk = Desk::with_data(&["rte"]);
    desk.begin("rte", "out", &format!("{SHORT} --stop-at 4")).json();
    let good = desk.files("out");
    let restore = || good.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    let damaged = |name: &str, bytes: &[u8], words: &[&str]| {
        desk.forget("out");
        desk.write(format!("out/{name}"), bytes);
        desk.resume("out", "").fails_with(words);
        assert_eq!(desk.read(&format!("out/{name}")), bytes, "{name} is as it was");
        restore();
        let _ = fs::remove_file(desk.path("out/seed.json"));
    };
    desk.resume("nothing", "").fails_with(&["cannot resume", "run.json", "--out directory of a `gradus finetune`"]);
    damaged("run.json", b"{", &["cannot resume", "run.json", "damaged"]);
    damaged("run.json", b"{\"format\": 1}", &["cannot resume", "run.json", "damaged"]);
    damaged("run.json", b"{}", &["cannot resume", "run.json", "expected format 1, found no format"]);
    let run = desk.text("out/run.json").replace(",\n  \"checksums\": true", "");
    for (from, to, word) in [
        ("\"batch\": 4", "\"batch\": 0", "--batch 0"),
        ("\"epochs\": 2", "\"epochs\": 1", "does not belong to the run.json"),
        ("\"aux\": 0.5", "\"aux\": 0.25", "does not belong to the run.json"),
        ("\"seeds\": 1", "\"seeds\": 0", "--seeds 0"),
        ("\"task\": \"rte\"", "\"task\": \"glue\"", "expected one of"),
        ("\"lr\": 0.01", "\"lr\": null", "damaged"),
    ] {
        assert!(run.contains(from), "{from} in {run}");
        damaged("run.json", run.replace(from, to).as_bytes(), &[word]);
    }
    damaged("seed.json", b"{}", &["cannot resume", "seed.json", "run this seed again, delete"]);
    let state = desk.read("out/trainer.safetensors");
    damaged("trainer.safetensors", &state[..state.len() / 2], &["trainer.safetensors"]);
    damaged("trainer.safetensors", b"", &["trainer.safetensors", "run this seed again, delete"]);
    desk.begin("rte", "other", &format!("{SHORT} --seed 2 --stop-at 4")).json();
    damaged(
        "trainer.safetensors",
        &desk.read("other/trainer.safetensors"),
        &["trainer.safetensors", "does not belong to the run.json"],
    );
    damaged("model.safetensors", &desk.read("out/model.safetensors")[..100], &["the best model so far", "model.safetensors"]);
    // The number of steps in the header is larger than the total, or different from the curve's.
    for steps in ["7", "2"] {
        let at = state.windows(11).position(|w| w == b"\"steps\":\"4\"").expect("in the header");
        let mut changed = state.clone();
        changed[at + 9] = steps.as_bytes()[0];
        let found = format!("{steps} of 6 steps");
        damaged("trainer.safetensors", &changed, &["trainer.safetensors", &found, "run this seed again, delete"]);
    }
    for (flag, name) in [("--batch 4", "--batch"), ("--seeds 1", "--seeds"), ("--epochs 3", "--epochs")] {
        desk.resume("out", flag).misused(&[&format!("leave {name} out"), "--out"]);
    }
    desk.forget("out");
    desk.remove("out/model.safetensors");
    desk.resume("out", "").fails_with(&["cannot resume", "model.safetensors", "the best model so far", "put it back"]);
    restore();
    let dev = desk.read("data-rte/dev.tsv");
    desk.write("data-rte/dev.tsv", format!("{RTE}0\ta\tb\tentailment\n"));
    desk.resume("out", "").fails_with(&["cannot resume", "data-rte", "have changed since the run began"]);
    desk.write("data-rte/dev.tsv", dev);
    let params = desk.load("model");
    let config = params.config();
    let other = ModelConfig { body: config.body.with_dropout(0.3), ..config.clone() };
    for changed in [Model::init(&config, 6), params.clone().with_config(&other)] {
        desk.save("model", &changed);
        desk.resume("out", "").fails_with(&["cannot resume", "model", "have changed"]);
    }
    desk.save("model", &params);
    desk.begin("rte", "out", SHORT).fails_with(&["already holds", "continued with --resume", "out"]);
    desk.forget("out");
    desk.remove("out/trainer.safetensors");
    let again = desk.resume("out", "");
    assert_holds(&again.stderr, &["trainer.safetensors is missing: seed 1 begins again"]);
    assert_eq!(again.json()["finished"], true);
    // A seed is finished only with its own settings.
    desk.forget("out");
    desk.write("out/run.json", run.replace("\"epochs\": 2", "\"epochs\": 3"));
    desk.resume("out", "").fails_with(&["seed.json", "belongs to another run", "run this seed again, delete"]);
}

/// Settings that are allowed but hardly intended cause a warning.
#[test]
fn a_warm_up_longer_than_the_run_causes_a_warning() {
    let desk = Desk::with_data(&["rte"]);
    let warnings = |name: &str, options: &str| desk.begin("rte", name, &format!("{SHORT} {options}")).stderr;
    assert_holds(&warnings("long", "--warmup 7"), &["a warm-up of 7 steps in a run of 6"]);
    assert!(!warnings("whole", "--warmup 6").contains("warm-up"));
    assert!(!warnings("none", "--warmup 7 --schedule constant").contains("warm-up"));
}

/// If every model of the run diverged, the message names the rate, not the checkpoint.
#[test]
fn divergence_found_on_the_dev_split_is_reported_as_divergence() {
    let desk = Desk::with_data(&["rte"]);
    let run = desk.begin("rte", "out", "--batch 12 --epochs 1 --warmup 0 --optimizer sgd --lr 1e38 --quiet");
    run.fails_with(&["diverged", "lower --lr"]);
    assert!(!run.stderr.contains("another checkpoint"), "{}", run.stderr);
}

/// Only one process works in a directory. A path that is not Unicode is refused without a panic.
#[cfg(unix)]
#[test]
fn a_directory_is_used_by_one_process_at_a_time() {
    use std::os::unix::ffi::OsStringExt;
    let desk = Desk::with_data(&["rte"]);
    let lock = gradus_io::files::Lock::take(&desk.path("out")).unwrap();
    desk.begin("rte", "out", SHORT).fails_with(&["out", "another gradus process is using the folder"]);
    drop(lock);
    desk.begin("rte", "out", SHORT).json();
    let mut odd = command(&format!("finetune --task rte --model model --data data-rte {SHORT} --out"));
    odd.arg(OsString::from_vec(b"odd/x\xff".to_vec()));
    let found = Run::from(desk.prepare(odd).output().unwrap());
    found.misused(&["--out odd/x\u{fffd}: expected a path in Unicode"]);
    assert!(!desk.path("odd").exists(), "nothing was written");
}

#[cfg(unix)]
#[test]
fn a_full_disk_ends_with_an_error_and_can_be_resumed() {
    let desk = Desk::with_data(&["rte"]);
    let whole = desk.begin("rte", "whole", SHORT).json();
    let model = desk.read("whole/model.safetensors");
    let line = format!("finetune --task rte --model model --data data-rte --out out {SHORT}");
    let full = desk.on_a_full_disk(model.len() * 2 / 512, &line);
    full.fails_with(&["cannot write", "trainer.safetensors", "continue with `gradus finetune --resume out`"]);
    assert_eq!(timeless(desk.resume("out", "").json()), timeless(whole));
    assert!(desk.read("out/model.safetensors") == model);
}

#[test]
fn wrong_usage_is_rejected() {
    for (flags, words) in [
        ("", &["\n  --model <DIR>\n  --task <NAME>\n  --data <DIR>\n  --out <DIR>\n"][..]),
        ("--model m --task rte --data d", &["\n  --out <DIR>\n"]),
        ("--resume d --batch 3", &["leave --batch out"]),
        ("--resume d --batch 32", &["leave --batch out"]), // the default, given explicitly
        ("--resume d --seeds 1", &["leave --seeds out"]),
    ] {
        gradus(&format!("finetune {flags}")).misused(words);
    }
    for (flag, words) in [
        ("--transfer some", &["'some'", "'--transfer <all|none|N>'", "all, none or a number"][..]),
        ("--objective mean", &["'mean'", "'--objective <OBJECTIVE>'", "token_mean or sequence_mean"]),
        ("--warmup x", &["'x'", "'--warmup <WARMUP>'", "from 0.0 to 1.0"]),
        ("--optimizer adam", &["'adam'", "'--optimizer <OPTIMIZER>'", "openai, paper37, adamw, adam_l2, sgd]"]),
        ("--batch x", &["'x'", "'--batch <BATCH>'"]),
        ("--resume", &["'--resume <DIR>'", "none was supplied"]),
    ] {
        gradus(&format!("finetune --model m --task rte --data d --out o {flag}")).misused(words);
    }
}

/// A step of fine-tuning is shown with both objectives, for every form of a head. A fine-tuned model uses its own head.
#[test]
fn a_step_of_a_fine_tuning_is_opened() {
    let desk = Desk::with_data(&["sst-2", "rte", "sts-b", "race"]);
    let open = |model: &str, task: &str| {
        let line = format!("audit step --model {model} --task {task} --data data-{task}");
        desk.gradus(&format!("{line} --sequences 2 --html step.html --overwrite --quiet --json"))
    };
    for (task, sequences) in [("sst-2", 2), ("rte", 2), ("sts-b", 4), ("race", 8)] {
        assert_eq!(open("model", task).json()["faults"], Value::Array(Vec::new()), "{task}");
        let sequences = format!("\"sequences\":{sequences}");
        let nats = "nats: L₂ per example, and λ·L₁ per token";
        assert_holds(&desk.text("step.html"), &["under a fresh head", "L₃ = L₂ + λ·L₁", nats, "score.weight", &sequences]);
    }
    desk.begin("rte", "tuned", SHORT).json();
    open("tuned", "rte").json();
    assert_holds(&desk.text("step.html"), &["with the head that it has"]);
    open("tuned", "sst-2").fails_with(&["fine-tuned for another task"]);
    open("model", "nonsense").misused(&["nonsense"]);
}
