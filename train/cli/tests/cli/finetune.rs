//! Fine-tuning as people and scripts meet it: `gradus finetune`, `evaluate --task`, `predict`, `tasks`.

use std::collections::BTreeMap;
use std::fs;

use gradus_model::{Embedding, Tree};

use super::*;

/// A pre-trained model of two blocks and context 64, and a folder for data and results.
struct Desk {
    dir: tempfile::TempDir,
}

/// What makes a run short: 12 rows are 3 updates an epoch.
const SHORT: &str = "--batch 4 --epochs 2 --lr 0.01 --quiet --json";
/// What leaves every parameter as it begins.
const STILL: &str = "--optimizer sgd --lr 1e-30 --decay 0 --epochs 1 --quiet --json";

impl Desk {
    fn new() -> Self {
        let desk = Desk { dir: tempfile::tempdir().unwrap() };
        byte_model(&desk.path("model"), |c| c.context = 64);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A folder of a task's files, in its own format: 12 rows to train on, 6 to choose by, 2 to report on.
    fn data(&self, task: &str) -> PathBuf {
        let dir = self.path(&format!("data-{task}"));
        fs::create_dir_all(&dir).unwrap();
        let word = |i: usize| ["a red fox", "it rains", "no, never", "we sat \"here\"", "x"][i % 5];
        for (split, n) in [("train", 12), ("dev", 6), ("test", 2)] {
            let test = split == "test";
            let mut rows = String::from(match (task, test) {
                ("cola", false) => "",
                ("cola" | "sst-2", true) => "index\tsentence\n",
                ("sst-2", false) => "sentence\tlabel\n",
                ("sts-b", false) => "index\tsentence1\tsentence2\tscore\n",
                ("mrpc", false) => "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n",
                ("mrpc", true) => "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n",
                (_, false) => "index\tsentence1\tsentence2\tlabel\n",
                (_, true) => "index\tsentence1\tsentence2\n",
            });
            for i in 0..n {
                let (a, b, one) = (word(i), word(i * i + 1), i % 2);
                rows += &match (task, test) {
                    ("cola", false) => format!("src\t{one}\t\t{a}\n"),
                    ("cola" | "sst-2", true) => format!("{i}\t{a}\n"),
                    ("sst-2", false) => format!("{a} \t{one}\n"),
                    ("sts-b", false) => format!("{i}\t{a}\t{b}\t{}.{}\n", i % 5, i),
                    ("mrpc", _) => format!("{one}\t{i}\t{i}\t{a}\t{b}\n"),
                    (_, false) => format!("{i}\t{a}\t{b}\t{}\n", ["entailment", "not_entailment"][one]),
                    (_, true) => format!("{i}\t{a}\t{b}\n"),
                };
            }
            match task {
                "race" => (0..n).for_each(|i| self.passage(split, ["middle", "high"][i % 2], i, ["A", "B", "C", "D"][i % 4])),
                "wsc273" | "story-cloze" => {}
                _ => drop(write(&dir, &format!("{split}.tsv"), rows)),
            }
        }
        if task == "story-cloze" {
            let columns = "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,RandomFifthSentenceQuiz1,\
                           RandomFifthSentenceQuiz2,AnswerRightEnding\n";
            let row = |i: usize| {
                format!("s{i},Go.,\"On, \"\"ho\"\".\",{},Up.,{},End.,{}\n", word(i).replace([',', '"'], ""), i, 1 + i % 2)
            };
            write(&dir, "val.csv", columns.to_owned() + &(0..15).map(row).collect::<String>());
            write(&dir, "test.csv", columns.to_owned() + &(0..2).map(row).collect::<String>());
        }
        if task == "wsc273" {
            let row = |i: usize| format!("The {} saw it as [MASK] fell.\n[MASK]\nfox {i},dog\nfox {i}\n\n", word(i));
            write(&dir, "wsc273.txt", (0..3).map(row).collect::<String>());
        }
        dir
    }

    fn passage(&self, split: &str, school: &str, number: usize, letter: &str) {
        let dir = self.path("data-race").join(split).join(school);
        fs::create_dir_all(&dir).unwrap();
        let text = serde_json::json!({
            "article": format!("It was {number}."), "questions": ["What was _ ?"], "options": [["it", "he", "she", "they"]],
            "answers": [letter], "id": "x",
        });
        write(&dir, &format!("{number}.txt"), text.to_string());
    }

    fn begin(&self, task: &str, out: &str, options: &str) -> Run {
        let line = format!("finetune --model {{}} --task {task} --data {{}} --out {{}} {options}");
        gradus(&line, &[&self.path("model"), &self.path(&format!("data-{task}")), &self.path(out)])
    }

    fn resume(&self, out: &str, options: &str) -> Run {
        gradus(&format!("finetune --resume {{}} --quiet --json {options}"), &[&self.path(out)])
    }

    /// `evaluate` or `predict`, with what a model was made for.
    fn ask(&self, command: &str, model: &str, task: &str, options: &str) -> Run {
        let line = format!("{command} --model {{}} --task {task} --data {{}} {options}");
        gradus(&line, &[&self.path(model), &self.path(&format!("data-{task}"))])
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// The parameters of a model by name.
    fn parameters(&self, model: &str) -> BTreeMap<String, Vec<f32>> {
        let params = checkpoint::load(&self.path(model)).unwrap();
        let mut all = BTreeMap::new();
        params.visit(|name, p| drop(all.insert(name.to_owned(), p.to_vec())));
        all
    }
}

/// A result without what may differ between two runs of the same: seconds and places.
fn timeless(mut result: Value) -> Value {
    result.as_object_mut().unwrap().remove("out");
    result["seeds"].as_array_mut().unwrap().iter_mut().for_each(|seed| drop(seed.as_object_mut().unwrap().remove("seconds")));
    result
}

#[test]
fn each_transformation_is_fine_tuned_scored_and_answered() {
    let desk = Desk::new();
    let tasks = [
        ("cola", "matthews", &["accuracy", "matthews"][..], 1),
        ("rte", "accuracy", &["accuracy"], 1),
        ("mrpc", "f1", &["accuracy", "f1"], 2),
        ("sts-b", "pearson", &["pearson", "spearman"], 2),
        ("race", "accuracy", &["accuracy", "accuracy-high", "accuracy-middle"], 4),
        ("story-cloze", "accuracy", &["accuracy"], 2),
    ];
    for (task, metric, metrics, sequences) in tasks {
        desk.data(task);
        let made = desk.begin(task, task, SHORT).json();
        let expected = if task == "story-cloze" { (12, 3) } else { (12, 6) };
        assert_eq!((made["task"].as_str(), made["split"].as_str()), (Some(task), Some("dev")));
        assert_eq!((&made["train_examples"], &made["examples"]), (&expected.0.into(), &expected.1.into()), "{task}");
        assert_eq!((&made["capped"], &made["finished"], &made["truncated"]), (&false.into(), &true.into(), &0.into()));
        assert_eq!((made["metric"].as_str(), &made["deviation"]), (Some(metric), &Value::Null));
        assert_eq!(made["metrics"].as_object().unwrap().keys().collect::<Vec<_>>(), metrics);
        assert_eq!(made["seeds"][0]["curve"].as_array().unwrap().len(), 2, "{task}: scored at each epoch's end");
        let result: Value = serde_json::from_slice(&desk.read(&format!("{task}/result.json"))).unwrap();
        assert_eq!(result, made);
        let beside = desk.path(task).join("head.safetensors").exists();
        assert_eq!(beside, sequences > 1, "{task}: transformers has a head for one sequence only");
        assert!(!desk.path(task).join("trainer.safetensors").exists(), "nothing is left to be continued");

        let scored = desk.ask("evaluate", task, task, "--split dev --json").json();
        for field in ["task", "split", "metric", "score", "metrics", "examples"] {
            assert_eq!(scored[field], made[field], "{task}: the model on disk is the one that was scored: {field}");
        }
        assert_eq!(scored["loss"], made["seeds"][0]["best"]["dev"]["loss"], "{task}");
        assert!(desk.ask("evaluate", task, task, "").stdout.contains(&format!("{metric} ")));

        let answered = desk.ask("predict", task, task, "--split dev --json").json();
        let rows = answered["answers"].as_array().unwrap();
        assert_eq!((rows.len(), &answered["examples"]), (expected.1, &expected.1.into()));
        assert_eq!((&answered["score"], &answered["metrics"]), (&made["score"], &made["metrics"]), "{task}: labelled, so scored");
        for row in rows {
            let sum: f64 = numbers(&row["probabilities"]).iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{task}: {row}");
            let ids: Vec<_> = row["ids"].as_array().unwrap().iter().map(ids_of).collect();
            assert_eq!(ids.len(), sequences, "{task}");
            assert!(ids.iter().all(|ids| ids[0] == 256 && *ids.last().unwrap() == 258), "{ids:?}");
            assert_eq!(numbers(&row["logits"]).len(), numbers(&row["probabilities"]).len());
        }
        let lines = desk.ask("predict", task, task, "--split dev --quiet");
        let lines: Vec<Vec<&str>> = lines.stdout.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines.len(), expected.1);
        for (line, row) in lines.iter().zip(rows) {
            // A score is a number, which the lines round.
            let answer = &row["answer"];
            let answer = answer.as_f64().map_or_else(|| answer.as_str().unwrap().to_owned(), |score| format!("{score:.3}"));
            assert_eq!((line[0], line[1]), (row["id"].as_str().unwrap(), answer.as_str()));
        }
    }
}

#[test]
fn a_test_set_is_scored_with_labels_from_a_file_of_their_own() {
    let desk = Desk::new();
    let data = desk.data("rte");
    desk.begin("rte", "out", SHORT).json();
    let rows = desk.ask("predict", "out", "rte", "--json").json()["answers"].clone();
    let answers: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["answer"].as_str().unwrap()).collect();
    let labels = write(&data, "labels.tsv", format!("index\tprediction\n0\t{}\n1\t{}\n", answers[0], answers[1]));
    let line = "evaluate --model {} --task rte --data {} --split test --json";
    let scored = gradus(&format!("{line} --labels {{}}"), &[&desk.path("out"), &data, &labels]).json();
    assert_eq!((scored["score"].as_f64(), scored["examples"].as_u64()), (Some(1.0), Some(2)));
    assert_eq!(scored["labels"].as_str(), labels.to_str());
    gradus(line, &[&desk.path("out"), &data]).fails_with(&["published without labels", "--labels"]);
    let dev = line.replace("test", "dev") + " --labels {}";
    gradus(&dev, &[&desk.path("out"), &data, &labels]).misused(&["RTE, split `dev` has labels of its own"]);
    write(&data, "labels.tsv", "index\tprediction\n0\tmaybe\n");
    gradus(&format!("{line} --labels {{}}"), &[&desk.path("out"), &data, &labels]).fails_with(&["labels.tsv, line 2", "maybe"]);
}

#[test]
fn seeds_have_a_mean_and_a_deviation_and_are_not_run_twice() {
    let desk = Desk::new();
    desk.data("sts-b");
    let made = desk.begin("sts-b", "out", &format!("{SHORT} --seeds 2 --seed 7")).json();
    let seeds = made["seeds"].as_array().unwrap();
    let score = |i: usize| seeds[i]["best"]["dev"]["score"].as_f64().unwrap();
    assert_eq!(seeds.iter().map(|s| s["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [7, 8]);
    assert_ne!(score(0), score(1), "seeds differ");
    let (mean, deviation) = ((score(0) + score(1)) / 2.0, (score(0) - score(1)).abs() / 2f64.sqrt());
    assert!((made["score"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert!((made["deviation"].as_f64().unwrap() - deviation).abs() < 1e-12);
    assert_eq!(made["metrics"]["pearson"], made["score"]);
    assert_eq!(desk.ask("evaluate", "out/seed-7", "sts-b", "--json").json()["score"], seeds[0]["best"]["dev"]["score"]);
    desk.ask("evaluate", "out", "sts-b", "--json").fails_with(&["several seeds", "seed-"]);

    // One seed alone is the same as among several.
    let alone = desk.begin("sts-b", "alone", &format!("{SHORT} --seed 8")).json();
    assert_eq!(timeless(alone)["seeds"][0], timeless(made.clone())["seeds"][1]);
    assert_eq!(desk.read("alone/model.safetensors"), desk.read("out/seed-8/model.safetensors"));

    // A seed that is done is read, not run: a mark in its file comes back.
    let mut first: Value = serde_json::from_slice(&desk.read("out/seed-7/seed.json")).unwrap();
    first["seconds"] = 12345.0.into();
    write(&desk.path("out/seed-7"), "seed.json", first.to_string());
    fs::remove_dir_all(desk.path("out/seed-8")).unwrap();
    let again = desk.resume("out", "").json();
    assert_eq!(again["seeds"][0]["seconds"], 12345.0);
    assert_eq!(timeless(again), timeless(made));
}

#[test]
fn a_stopped_run_ends_with_the_bits_of_an_uninterrupted_one() {
    let desk = Desk::new();
    for (task, options) in [("rte", ""), ("race", "--seeds 2 --objective token_mean")] {
        desk.data(task);
        let (whole, parts) = (format!("{task}-whole"), format!("{task}-parts"));
        let options = format!("--batch 4 --lr 0.01 --quiet --json {options}");
        let expected = desk.begin(task, &whole, &format!("{options} --threads 1")).json();
        let stopped = desk.begin(task, &parts, &format!("{options} --threads 2 --stop-at 4")).json();
        assert_eq!((&stopped["finished"], &stopped["score"]), (&false.into(), &Value::Null));
        assert!(!desk.path(&parts).join("result.json").exists());
        desk.resume(&parts, "--threads 1 --stop-at 5").json();
        desk.resume(&parts, "--threads 3 --stop-at 0").json(); // nothing to do
        let found = desk.resume(&parts, "--threads 2").json();
        assert_eq!(timeless(found), timeless(expected), "{task}");
        for seed in if task == "race" { &["/seed-1", "/seed-2"][..] } else { &[""] } {
            for file in ["model.safetensors", "config.json", "gradus_tokenizer.json"] {
                assert!(
                    desk.read(&format!("{whole}{seed}/{file}")) == desk.read(&format!("{parts}{seed}/{file}")),
                    "{task}{seed} {file}"
                );
            }
            let metrics = |run: &str| -> Vec<Value> {
                let text = String::from_utf8(desk.read(&format!("{run}{seed}/metrics.jsonl"))).unwrap();
                let each = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                each.map(|r| serde_json::json!([r["step"], r["tokens"], r["loss"], r["lr"], r["grad_norm"]])).collect()
            };
            assert_eq!(metrics(&whole), metrics(&parts), "{task}{seed}");
        }
    }
}

#[test]
fn what_is_transferred_is_what_was_asked_for() {
    let desk = Desk::new();
    desk.data("rte");
    let before = desk.parameters("model");
    let kept =
        |out: &str| {
            let after = desk.parameters(out);
            let random = before.iter().filter(|(name, _)| name.ends_with("weight") && !name.contains("ln_"));
            // The special tokens' rows stand behind those of the embedding.
            let kept = random.filter(|(name, values)| after[*name].starts_with(values));
            kept.map(|(name, _)| name.split('.').take(if name.starts_with("h.") { 2 } else { 1 }).collect::<Vec<_>>().join("."))
                .fold(Vec::new(), |mut all: Vec<String>, name| {
                    if !all.contains(&name) {
                        all.push(name);
                    }
                    all
                })
        };
    for (transfer, expected) in [
        ("none", &[][..]),
        ("0", &["positions_embed", "tokens_embed"]),
        ("1", &["h.0", "positions_embed", "tokens_embed"]),
        ("2", &["h.0", "h.1", "positions_embed", "tokens_embed"]),
        ("all", &["h.0", "h.1", "positions_embed", "tokens_embed"]),
    ] {
        desk.begin("rte", transfer, &format!("{STILL} --transfer {transfer}")).json();
        assert_eq!(kept(transfer), expected, "--transfer {transfer}");
    }
}

/// Decay falls on no parameter that is not trained.
#[test]
fn frozen_trains_the_head_alone() {
    let desk = Desk::new();
    desk.data("mrpc");
    desk.begin("mrpc", "still", &format!("{STILL} --aux 0")).json();
    desk.begin("mrpc", "frozen", &format!("{SHORT} --frozen --aux 0 --decay 0.5 --schedule constant")).json();
    let (still, frozen) = (desk.parameters("still"), desk.parameters("frozen"));
    let changed: Vec<&String> = still.iter().filter(|(name, values)| frozen[*name] != **values).map(|(name, _)| name).collect();
    assert_eq!(changed, ["score.weight"]);
}

#[test]
fn options_reach_the_model_and_the_data() {
    let desk = Desk::new();
    desk.data("cola");
    let made = desk.begin("cola", "bias", &format!("{SHORT} --head-bias --rows 5 --dev-rows 2")).json();
    assert_eq!((&made["train_examples"], &made["examples"], &made["capped"]), (&5.into(), &2.into(), &true.into()));
    assert_eq!(made["dev_capped"], true);
    assert!(desk.path("bias/head.safetensors").exists(), "a head with a bias is not transformers'");
    assert_eq!(desk.parameters("bias")["score.bias"].len(), 2);
    assert_eq!(desk.ask("evaluate", "bias", "cola", "--rows 2 --json").json()["score"], made["score"]);
    // The joint form, and a model that is fine-tuned again: its head is dropped, its special tokens stay.
    byte_model(&desk.path("model"), |c| (c.context, c.embedding) = (64, Embedding::Joint));
    desk.begin("cola", "joint", SHORT).json();
    fs::rename(desk.path("joint"), desk.path("moved")).unwrap();
    fs::remove_dir_all(desk.path("model")).unwrap();
    fs::rename(desk.path("moved"), desk.path("model")).unwrap();
    desk.data("rte");
    desk.begin("rte", "again", SHORT).json();
    assert_eq!(desk.parameters("again")["tokens_embed.weight"].len(), desk.parameters("model")["tokens_embed.weight"].len());
}

#[test]
fn a_fine_tuned_model_is_a_language_model_still() {
    let desk = Desk::new();
    let corpus = write(&desk.path("model"), "corpus.txt", "it rains and rains, and a red fox sits in the rain");
    for task in ["rte", "race"] {
        desk.data(task);
        desk.begin(task, task, SHORT).json();
        let model = desk.path(task);
        let nll = gradus("evaluate --model {} --corpus {} --gradients --json", &[&model, &corpus]).json();
        // Its tokens are bytes.
        let bits = nll["nll"].as_f64().unwrap() / 2f64.ln();
        assert!((bits - nll["bits_per_byte"].as_f64().unwrap()).abs() < 1e-12 && nll["tokens"] == 49, "{nll}");
        let ids = write(&desk.path("model"), "ids", "97 98 99");
        let more = gradus("generate --model {} --ids {} --tokens 4 --greedy --json", &[&model, &ids]).json();
        assert!(more["ids"].as_array().is_some_and(|ids| ids.len() == 7 && ids[..3] == [97, 98, 99]), "{more}");
    }
}

#[test]
fn long_texts_are_cut_counted_and_told_of() {
    let desk = Desk::new();
    let data = desk.data("cola");
    let long = "long ".repeat(40);
    let add = |name: &str, row: String| {
        let old = fs::read_to_string(data.join(name)).unwrap();
        write(&data, name, old + &row);
    };
    add("train.tsv", format!("src\t1\t\t{long}\n"));
    add("dev.tsv", format!("src\t1\t\t{long}\nsrc\t0\t*\t{long}\n"));
    let made = desk.begin("cola", "out", SHORT).json();
    assert_eq!((&made["truncated"], &made["longest"]), (&3.into(), &64.into()));
    assert_eq!(desk.ask("evaluate", "out", "cola", "--json").json()["truncated"], 2);
    assert!(desk.ask("evaluate", "out", "cola", "").stdout.contains("truncated 2"));
    let answered = desk.ask("predict", "out", "cola", "--split dev --json").json();
    assert_eq!((&answered["truncated"], ids_of(&answered["answers"][7]["ids"][0]).len()), (&2.into(), 64));
    assert!(desk.ask("predict", "out", "cola", "--split dev --quiet").stderr.contains("2 examples had a text cut"));
    let again = gradus("finetune --resume {}", &[&desk.path("out")]);
    assert!(
        again.stdout.contains("3 examples cut to the context") && again.stdout.contains("13 to train on"),
        "{}",
        again.stdout
    );
}

#[test]
fn a_submission_to_glue_is_written_once() {
    let desk = Desk::new();
    desk.data("rte");
    desk.begin("rte", "rte", SHORT).json();
    let glue = desk.path("glue");
    let ask = |options: &str| {
        let line = format!("predict --model {{}} --task rte --data {{}} --glue {{}} --quiet {options}");
        gradus(&line, &[&desk.path("rte"), &desk.path("data-rte"), &glue])
    };
    ask("").misused(&["--glue", "a folder that exists"]);
    fs::create_dir(&glue).unwrap();
    ask("--split dev").misused(&["a test set of GLUE", "dev"]);
    assert_eq!(ask("").code, Some(0));
    let text = fs::read_to_string(glue.join("RTE.tsv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "index\tprediction"));
    assert!(lines[1].starts_with("0\t") && lines[2].ends_with("entailment"), "{text}");
    write(&glue, "RTE.tsv", "mine");
    ask("").fails_with(&["RTE.tsv", "--overwrite"]);
    assert_eq!(fs::read_to_string(glue.join("RTE.tsv")).unwrap(), "mine");
    assert_eq!(ask("--overwrite --json").json()["examples"], 2);
    assert_eq!(fs::read_to_string(glue.join("RTE.tsv")).unwrap(), text);
}

#[test]
fn tasks_are_listed() {
    let listed = gradus("tasks --json", &[]).json();
    let tasks = listed["tasks"].as_array().unwrap();
    let names: Vec<&str> = tasks.iter().map(|t| t["name"].as_str().unwrap()).collect();
    for name in ["mnli", "snli", "scitail", "qnli", "rte", "race", "story-cloze", "cola", "sst-2", "mrpc", "sts-b", "qqp"] {
        assert!(names.contains(&name), "{name}");
    }
    for task in tasks {
        assert!(
            task["metric"].is_string() && task["folder"].is_string() && !task["splits"].as_array().unwrap().is_empty(),
            "{task}"
        );
    }
    let text = gradus("tasks", &[]).stdout;
    for (name, word) in [("wsc273", "; zero-shot only"), ("race", "; zero-shot too")] {
        assert!(text.lines().any(|line| line.starts_with(name) && line.ends_with(word)), "{name} in {text}");
    }
    assert_eq!(text.matches("; zero-shot only").count(), 2, "{text}");
    assert!(names.iter().all(|name| text.lines().any(|line| line.starts_with(name))), "{text}");
}

#[test]
fn a_language_model_is_asked_without_a_head() {
    let desk = Desk::new();
    for (task, split, examples) in
        [("cola", "dev", 6), ("sst-2", "dev", 6), ("race", "dev", 6), ("story-cloze", "test", 2), ("wsc273", "test", 3)]
    {
        let data = desk.data(task);
        if task != "cola" {
            let _ = fs::remove_dir_all(data.join("train"));
            let _ = fs::remove_file(data.join("train.tsv")); // only CoLA's threshold looks at it
        }
        let scored = desk.ask("evaluate", "model", task, &format!("--zero-shot --split {split} --json")).json();
        assert_eq!((&scored["examples"], &scored["zero_shot"]), (&examples.into(), &true.into()), "{task}");
        assert_eq!(scored["score"], scored["metrics"][scored["metric"].as_str().unwrap()], "{task}");
        assert!((-1.0..=1.0).contains(&scored["score"].as_f64().unwrap()), "{task}: {scored}");
    }
    let data = desk.data("cola");
    fs::remove_file(data.join("train.tsv")).unwrap();
    desk.ask("evaluate", "model", "cola", "--zero-shot").fails_with(&["train.tsv"]);
    desk.data("rte");
    desk.ask("evaluate", "model", "rte", "--zero-shot").misused(&["rte", "no zero-shot heuristic", "cola"]);
    desk.ask("evaluate", "model", "wsc273", "--zero-shot --split dev").misused(&["no split `dev`", "test"]);
    let only = desk.ask("evaluate", "model", "wsc273", "--zero-shot --json").json();
    assert_eq!(only["split"], "test", "the only one there is");
    desk.ask("evaluate", "model", "wsc273", "--zero-shot --split test --opening <nil>").misused(&["--opening <nil>"]);
    desk.ask("evaluate", "model", "wsc273", "--zero-shot --split test --rows 0").misused(&["--rows 0"]);
}

/// The threshold of CoLA's heuristic is that of all training rows, however few rows are asked (§5).
#[test]
fn few_rows_are_asked_with_the_threshold_of_all() {
    let desk = Desk::new();
    let data = desk.data("cola");
    let answers =
        |rows: &str| desk.ask("evaluate", "model", "cola", &format!("--zero-shot --json {rows}")).json()["metrics"].clone();
    // Of the training rows one alone is unacceptable, and it is not the one that `--rows 1` would take, the last.
    let train = ["0\t*\tqqqq zzzz xx jj", "1\t\tit rains", "1\t\twe sat here", "1\t\ta red fox"];
    write(&data, "train.tsv", train.map(|row| format!("src\t{row}\n")).concat());
    write(&data, "dev.tsv", ["1\t\ta red fox", "0\t*\tqqqq zzzz xx jj"].map(|row| format!("src\t{row}\n")).concat());
    assert_eq!(answers("")["accuracy"], 1.0);
    assert_eq!(answers("--rows 1")["accuracy"], 1.0);
}

#[test]
fn bad_data_is_refused_and_nothing_is_written() {
    let desk = Desk::new();
    let rte = "index\tsentence1\tsentence2\tlabel\n";
    for (task, file, text, words) in [
        ("rte", "train.tsv", "src\t1\t\tA sentence of another task.\n", &["train.tsv, line 1", "sentence1", "RTE"][..]),
        ("rte", "train.tsv", "index\tsentence1\tlabel\n0\ta\tentailment\n", &["train.tsv, line 1", "sentence2"]),
        ("rte", "train.tsv", &format!("{rte}0\ta\tb\tentailment\n1\ta\tmaybe\n"), &["train.tsv, line 3"]),
        ("rte", "dev.tsv", &format!("{rte}0\ta\tb\tentailment\n1\ta\tb\tmaybe\n"), &["dev.tsv, line 3, column 4", "`maybe`"]),
        ("rte", "dev.tsv", rte, &["RTE, split `dev`", "at least one row"]),
        ("rte", "train.tsv", "", &["train.tsv"]),
        ("rte", "dev.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n", &["dev.tsv, line 1", "label"]), // unlabelled
        ("sts-b", "dev.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t7\n", &["dev.tsv, line 2", "from 0 to 5", "`7`"]),
        ("cola", "train.tsv", "src\t2\t\tA.\n", &["train.tsv, line 1, column 2", "0, 1", "`2`"]),
        ("story-cloze", "val.csv", "InputStoryid,Ending\n1,a\n", &["val.csv, line 1", "InputSentence1"]),
        ("race", "train/high/1.txt", "{\"article\": 1}", &["1.txt, line 1", "article"]),
    ] {
        let data = desk.data(task);
        write(&data, file, text);
        desk.begin(task, "out", SHORT).fails_with(words);
        assert!(!desk.path("out").exists(), "{task} {file}");
    }
    desk.data("race");
    desk.passage("dev", "high", 1, "E");
    desk.begin("race", "out", SHORT).fails_with(&["1.txt", "a letter from A to D", "`E`"]);
    desk.begin("qnli", "out", SHORT).fails_with(&["data-qnli", "must hold"]);
    desk.begin("glue", "out", SHORT).misused(&["expected one of mnli", "`glue`"]);
    desk.begin("dprd", "out", SHORT).misused(&["dprd", "--zero-shot"]);
    assert!(!desk.path("out").exists());
}

#[test]
fn bad_settings_are_refused_and_nothing_is_written() {
    let desk = Desk::new();
    desk.data("rte");
    for (options, words) in [
        ("--batch 0", &["--batch 0"][..]),
        ("--epochs 0", &["--epochs 0"]),
        ("--shards 0", &["--shards 0"]),
        ("--rows 0", &["--rows 0"]),
        ("--dev-rows 0", &["--dev-rows 0"]),
        ("--seeds 0", &["--seeds 0"]),
        ("--seeds 2 --seed 18446744073709551615", &["--seed 18446744073709551615"]),
        ("--aux=-1", &["--aux -1"]),
        ("--aux NaN", &["--aux NaN"]),
        ("--lr NaN", &["NaN"]),
        ("--lr=-1", &["-1"]),
        ("--decay=-1", &["-1"]),
        ("--clip=-1", &["--clip -1"]),
        ("--dropout 1", &["--dropout 1"]),
        ("--classifier-dropout NaN", &["--classifier-dropout NaN"]),
        ("--transfer 99", &["--transfer 99", "0 to 2"]),
        ("--frozen", &["--aux 0.5", "--frozen"]),
        ("--threads 0", &["--threads 0"]),
    ] {
        desk.begin("rte", "out", &format!("--quiet {options}")).misused(words);
        assert!(!desk.path("out").exists(), "{options}");
    }
    for options in ["--transfer some", "--objective mean", "--warmup x", "--optimizer adam", "--batch x", "--resume {}"] {
        let run = desk.begin("rte", "out", options.trim_end_matches("{}"));
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{options}: {}", run.stderr);
    }
    for line in [
        "finetune",
        "finetune --model m --task rte --data d",
        "finetune --resume d --batch 3",
        "finetune --resume d --batch 32",
        "finetune --resume d --seeds 1",
        "evaluate --model m --task rte",
        "evaluate --model m --task rte --data d --context 3",
        "evaluate --model m --task rte --data d --stride 3",
        "evaluate --model m --task rte --data d --gradients",
        "evaluate --model m --task rte --data d --dtype f64",
        "evaluate --model m --task rte --data d --opening x",
        "evaluate --model m --corpus c --zero-shot",
        "evaluate --model m --corpus c --data d",
        "evaluate --model m --task rte --data d --split never",
        "predict --model m --task rte --data d --overwrite",
    ] {
        let run = gradus(line, &[]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{line}: {}", run.stderr);
    }
}

#[test]
fn bad_models_are_refused() {
    let desk = Desk::new();
    for task in ["rte", "cola", "race", "mnli", "dprd"] {
        desk.data(task);
    }
    let both = |model: &str, task: &str, words: &[&str]| {
        desk.ask("evaluate", model, task, "").fails_with(words);
        desk.ask("predict", model, task, "--split dev").fails_with(words);
    };
    desk.begin("rte", "rte", SHORT).json();
    both("model", "rte", &["without a head", "gradus finetune --task rte"]);
    // A head of the same classes may answer; but it is said.
    let other = fs::read_to_string(desk.path("data-rte/dev.tsv")).unwrap().replace("sentence1\tsentence2", "question\tsentence");
    fs::create_dir_all(desk.path("data-qnli")).unwrap();
    write(&desk.path("data-qnli"), "dev.tsv", other);
    let asked = desk.ask("evaluate", "rte", "qnli", "");
    assert!(asked.code == Some(0) && asked.stderr.contains("fine-tuned on rte, and is asked qnli"), "{}", asked.stderr);
    assert!(!desk.ask("evaluate", "rte", "rte", "").stderr.contains("fine-tuned on"));
    both("rte", "race", &["another task", "race"]);
    both("rte", "mnli", &["another task", "3"]);
    both("rte", "cola", &["its head answers entailment", "acceptable"]);
    desk.ask("evaluate", "rte", "dprd", "").misused(&["dprd", "--zero-shot"]);
    desk.ask("predict", "rte", "dprd", "--split dev").misused(&["dprd", "--zero-shot"]);
    both("nothing", "rte", &["nothing", "config.json"]);
    desk.ask("evaluate", "rte", "rte", "--split test").fails_with(&["example 0 has no label", "gradus predict"]);
    desk.ask("evaluate", "rte", "rte", "--rows 0").misused(&["--rows 0"]);
    desk.ask("evaluate", "rte", "rte", "--split dev-mismatched").misused(&["no split", "train, dev, test"]);

    Tokenizer::bytes().save(&desk.path("rte")).unwrap();
    both("rte", "rte", &["tokenizer lacks <start>, <delimiter>, <extract>"]);
    fs::remove_file(desk.path("rte/gradus_tokenizer.json")).unwrap();
    both("rte", "rte", &["no tokenizer beside the model"]);
    desk.begin("race", "race", SHORT).json();
    fs::remove_file(desk.path("race/head.safetensors")).unwrap();
    both("race", "race", &["head.safetensors"]);

    let begin = |words: &[&str]| {
        desk.begin("rte", "out", SHORT).fails_with(words);
        assert!(!desk.path("out").exists(), "{words:?}");
    };
    byte_model(&desk.path("model"), |c| c.context = 7);
    begin(&["context of 7", "at least 8"]);
    fs::remove_file(desk.path("model/gradus_tokenizer.json")).unwrap();
    begin(&["no tokenizer beside the model"]);
    byte_model(&desk.path("model"), |c| c.vocab = 100);
    begin(&["256 ids", "100"]);
    byte_model(&desk.path("model"), |c| c.context = 64);
    let mut params = checkpoint::load(&desk.path("model")).unwrap();
    params.as_mut().visit(|name, p| {
        if name == "h.1.ln_2.bias" {
            p.set(3, f32::INFINITY);
        }
    });
    checkpoint::save(&desk.path("model"), &params).unwrap();
    begin(&["h.1.ln_2.bias", "earlier checkpoint"]);
    write(&desk.path("model"), "model.safetensors", "torn");
    begin(&["model.safetensors"]);
    fs::remove_dir_all(desk.path("model")).unwrap();
    begin(&["config.json"]);
}

#[test]
fn weights_that_are_no_numbers_give_no_score() {
    let desk = Desk::new();
    desk.data("rte");
    desk.begin("rte", "rte", SHORT).json();
    let mut params = checkpoint::load(&desk.path("rte")).unwrap();
    params.as_mut().visit(|name, p| {
        if name == "score.weight" {
            p.set(0, f32::NAN);
        }
    });
    checkpoint::save(&desk.path("rte"), &params).unwrap();
    desk.ask("evaluate", "rte", "rte", "--json").fails_with(&["example 0", "NaN", "checkpoint"]);
    desk.ask("predict", "rte", "rte", "--quiet").fails_with(&["example 0", "NaN", "checkpoint"]);
    let mut params = checkpoint::load(&desk.path("model")).unwrap();
    params.as_mut().visit(|name, p| {
        if name == "h.0.mlp.c_fc.bias" {
            p.set(0, f32::NAN);
        }
    });
    checkpoint::save(&desk.path("model"), &params).unwrap();
    desk.begin("rte", "broken", SHORT).fails_with(&["h.0.mlp.c_fc.bias", "NaN", "earlier checkpoint"]);
}

#[test]
fn nothing_is_written_over() {
    let desk = Desk::new();
    desk.data("rte");
    for name in ["run.json", "seed.json", "head.safetensors", "notes.txt"] {
        let out = desk.path(&format!("taken-{name}"));
        fs::create_dir(&out).unwrap();
        write(&out, name, "mine");
        desk.begin("rte", &format!("taken-{name}"), SHORT).fails_with(&["already holds", name, "another --out"]);
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(out.join(name)).unwrap(), "mine");
    }
    write(&desk.path("model"), "file", "mine");
    desk.begin("rte", "model/file", SHORT).fails_with(&["file"]);
    desk.begin("rte", "model", SHORT).fails_with(&["already holds"]);
    fs::create_dir(desk.path("empty")).unwrap();
    desk.begin("rte", "empty", SHORT).json();
}

#[test]
fn what_cannot_be_resumed_says_why() {
    let desk = Desk::new();
    let data = desk.data("rte");
    let start = || desk.begin("rte", "out", &format!("{SHORT} --stop-at 4")).json();
    start();
    let good: BTreeMap<PathBuf, Vec<u8>> = fs::read_dir(desk.path("out"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    let restore = || good.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    let damaged = |name: &str, bytes: &[u8], words: &[&str]| {
        write(&desk.path("out"), name, bytes);
        desk.resume("out", "").fails_with(words);
        assert_eq!(desk.read(&format!("out/{name}")), bytes, "{name} is as it was");
        restore();
        let _ = fs::remove_file(desk.path("out/seed.json"));
    };
    desk.resume("nothing", "").fails_with(&["cannot resume", "run.json", "--out of an earlier"]);
    damaged("run.json", b"{", &["cannot resume", "run.json", "damaged"]);
    damaged("run.json", b"{}", &["cannot resume", "run.json", "damaged"]);
    let run = String::from_utf8(desk.read("out/run.json")).unwrap();
    for (from, to, word) in [
        ("\"batch\": 4", "\"batch\": 0", "--batch 0"),
        ("\"epochs\": 2", "\"epochs\": 1", "another run"),
        ("\"aux\": 0.5", "\"aux\": 0.25", "another run"),
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
    let other = desk.begin("rte", "other", &format!("{SHORT} --seed 2 --stop-at 4"));
    assert_eq!(other.code, Some(0), "{}", other.stderr);
    damaged("trainer.safetensors", &desk.read("other/trainer.safetensors"), &["trainer.safetensors", "of another run"]);
    damaged("model.safetensors", &desk.read("out/model.safetensors")[..100], &["the best model so far", "model.safetensors"]);
    // The count of updates, in the header: more than there are, and another than the curve's.
    for updates in ["7", "2"] {
        let at = state.windows(13).position(|w| w == b"\"updates\":\"4\"").expect("in the header");
        let mut changed = state.clone();
        changed[at + 11] = updates.as_bytes()[0];
        damaged(
            "trainer.safetensors",
            &changed,
            &["trainer.safetensors", &format!("{updates} of 6 updates"), "run this seed again, delete"],
        );
    }
    for (flag, name) in [("--batch 4", "--batch"), ("--seeds 1", "--seeds"), ("--epochs 3", "--epochs")] {
        desk.resume("out", flag).misused(&[&format!("leave {name} out"), "--out"]);
    }
    fs::remove_file(desk.path("out/model.safetensors")).unwrap();
    desk.resume("out", "").fails_with(&["cannot resume", "model.safetensors", "the best model so far", "put it back"]);
    restore();
    let dev = fs::read(data.join("dev.tsv")).unwrap();
    write(&data, "dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n");
    desk.resume("out", "").fails_with(&["cannot resume", "data-rte", "not those"]);
    write(&data, "dev.tsv", dev);
    let params = checkpoint::load(&desk.path("model")).unwrap();
    let config = params.config();
    checkpoint::save(&desk.path("model"), &Model::init(&config, 6)).unwrap();
    desk.resume("out", "").fails_with(&["cannot resume", "model", "not those"]);
    let other = ModelConfig { backbone: config.backbone.clone().with_dropout(0.3), ..config.clone() };
    checkpoint::save(&desk.path("model"), &params.clone().with_config(&other)).unwrap();
    desk.resume("out", "").fails_with(&["cannot resume", "model", "not those"]);
    checkpoint::save(&desk.path("model"), &params).unwrap();
    desk.begin("rte", "out", SHORT).fails_with(&["already holds", "continued with --resume", "out"]);
    fs::remove_file(desk.path("out/trainer.safetensors")).unwrap();
    let again = desk.resume("out", "");
    assert!(again.stderr.contains("trainer.safetensors is not there: seed 1 begins again"), "{}", again.stderr);
    assert_eq!(again.json()["finished"], true);
    // A seed that is done is done with its own settings.
    write(&desk.path("out"), "run.json", run.replace("\"epochs\": 2", "\"epochs\": 3"));
    desk.resume("out", "").fails_with(&["seed.json", "of another run", "run this seed again, delete"]);
}

/// What is allowed and hardly meant is said.
#[test]
fn a_warm_up_without_an_end_is_warned_of() {
    let desk = Desk::new();
    desk.data("rte");
    let said = |name: &str, options: &str| desk.begin("rte", name, &format!("{SHORT} {options}")).stderr;
    assert!(said("long", "--warmup 7").contains("a warm-up of 7 updates, of a run of 6"));
    assert!(!said("whole", "--warmup 6").contains("warm-up"));
    assert!(!said("none", "--warmup 7 --schedule constant").contains("warm-up"));
}

/// Of a rate that no model survives, the rate is to blame, and not the checkpoint.
#[test]
fn divergence_that_the_dev_split_sees_is_called_so() {
    let desk = Desk::new();
    desk.data("rte");
    let run = desk.begin("rte", "out", "--batch 12 --epochs 1 --warmup 0 --optimizer sgd --lr 1e38 --quiet");
    run.fails_with(&["diverged", "lower --lr"]);
    assert!(!run.stderr.contains("another checkpoint"), "{}", run.stderr);
}

/// One process works in a directory; a path that is no Unicode is refused without a panic.
#[cfg(unix)]
#[test]
fn a_directory_belongs_to_one_process() {
    use std::os::unix::ffi::OsStringExt;
    let desk = Desk::new();
    desk.data("rte");
    let lock = gradus_io::files::Lock::take(&desk.path("out")).unwrap();
    desk.begin("rte", "out", SHORT).fails_with(&["out", "another gradus works there"]);
    drop(lock);
    desk.begin("rte", "out", SHORT).json();
    let odd = desk.path("odd").join(std::ffi::OsString::from_vec(vec![b'x', 0xff]));
    let found = gradus(
        &format!("finetune --task rte --model {{}} --data {{}} --out {{}} {SHORT}"),
        &[&desk.path("model"), &desk.path("data-rte"), &odd],
    );
    assert_ne!(found.code, Some(101), "{}", found.stderr);
}

/// A limit on the size of files stands in for a full disk: the trainer's state does not fit in it, the model does.
#[cfg(unix)]
#[test]
fn a_full_disk_ends_with_an_error_and_can_be_resumed() {
    let desk = Desk::new();
    desk.data("rte");
    let whole = desk.begin("rte", "whole", SHORT).json();
    let model = desk.read("whole/model.safetensors");
    let blocks = model.len() * 2 / 512;
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_gradus"), "finetune", "--task", "rte"]);
    for (flag, name) in [("--model", "model"), ("--data", "data-rte"), ("--out", "out")] {
        command.arg(flag).arg(desk.path(name));
    }
    let output = command.args(SHORT.split_whitespace()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{said}");
    assert!(said.contains("cannot write") && said.contains("trainer.safetensors"), "{said}");
    assert!(said.contains(&format!("go on with `gradus finetune --resume {}`", desk.path("out").display())), "{said}");
    assert_eq!(timeless(desk.resume("out", "").json()), timeless(whole));
    assert!(desk.read("out/model.safetensors") == model);
}

/// An update of a fine-tuning, opened: both objectives, in every form of a head; a fine-tuned model goes on with its own.
#[test]
fn a_step_of_a_fine_tuning_is_opened() {
    let desk = Desk::new();
    let (model, html) = (desk.path("model"), desk.path("step.html"));
    let line = |task: &str| {
        format!("audit step --model {{}} --task {task} --data {{}} --sequences 2 --html {{}} --overwrite --quiet --json")
    };
    for (task, sequences) in [("sst-2", 2), ("rte", 2), ("sts-b", 4), ("race", 8)] {
        let found = gradus(&line(task), &[&model, &desk.data(task), &html]).json();
        assert_eq!(found["faults"].as_array().map(Vec::len), Some(0), "{task}");
        let page = fs::read_to_string(&html).unwrap();
        for part in [
            "under a fresh head",
            "L₃ = L₂ + λ·L₁",
            "nats: L₂ an example, and λ·L₁ a token",
            "score.weight",
            format!("\"sequences\":{sequences}").as_str(),
        ] {
            assert!(page.contains(part), "{task}: {part}");
        }
    }
    let tuned = desk.path("tuned");
    gradus(&format!("finetune --model {{}} --task rte --data {{}} --out {{}} {SHORT}"), &[&model, &desk.data("rte"), &tuned])
        .json();
    gradus(&line("rte"), &[&tuned, &desk.data("rte"), &html]).json();
    assert!(fs::read_to_string(&html).unwrap().contains("with the head that it has"));
    gradus(&line("sst-2"), &[&tuned, &desk.data("sst-2"), &html]).fails_with(&["fine-tuned for another task"]);
    gradus(&line("nonsense"), &[&model, &desk.data("rte"), &html]).misused(&["nonsense"]);
}
