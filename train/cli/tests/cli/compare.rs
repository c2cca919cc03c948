//! Tests of monitoring and comparison of runs: their pages, TensorBoard event files, `gradus compare`.

use super::*;

const LINE: &str = "pretrain --corpus corpus.txt --tokenizer char --layers 1 --width 8 --heads 2 --context 8 --batch 2 --steps 6 \
                    --eval-every 2 --threads 1";

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("corpus.txt", "the cat sat on the mat, and the dog sat on the cat. ".repeat(20));
    desk
}

#[test]
fn runs_are_compared_in_a_table_as_a_page_and_as_json() {
    let desk = desk();
    desk.gradus(&format!("{LINE} --lr 0.01 --out a --quiet")).printed();
    desk.gradus(&format!("{LINE} --lr 0.02 --out b --stop-at 4 --quiet"));
    let table = desk.gradus("compare a b --html ab.html");
    assert_holds(table.printed(), &["held-out loss", "6 of 6", "4 of 6", "optimizer.lr: 0.01 | 0.02"]);
    assert!(!table.stdout.contains("seed:") && table.stderr.is_empty(), "{}", table.stdout);
    assert_holds(&desk.text("ab.html"), &["2 runs compared", "<svg", "Held-out loss", "optimizer.lr", "4 of 6"]);
    desk.gradus("compare a b --html ab.html").fails_with(&["ab.html", "--overwrite"]);
    let json = desk.gradus("compare a b --json").json();
    assert_eq!(json["differing"]["optimizer.lr"], serde_json::json!({ "a": "0.01", "b": "0.02" }));
    let steps = |run: usize| items(&json["runs"][run]["curve"]).iter().map(|at| at[0].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!((steps(0), steps(1)), (vec![2, 4, 6], vec![2, 4]));
    assert_eq!(json["note"], Value::Null);

    // Another tokenizer; then a file instead of a run.
    desk.gradus(&format!("{LINE} --tokenizer byte --out c --quiet").replace("--tokenizer char ", "")).printed();
    assert_holds(&desk.gradus("compare a c").stderr, &["note: Their texts or tokens differ"]);
    desk.gradus("compare a corpus.txt")
        .fails_with(&["cannot compare: corpus.txt/run.json", "expected the --out directory of a `gradus pretrain`"]);
    // A log that was changed.
    desk.write("b/metrics.jsonl", desk.text("b/metrics.jsonl").replacen("\"loss\":", "\"loss\":1", 1));
    desk.gradus("compare a b").fails_with(&["b/metrics.jsonl", "it is damaged", "`gradus verify b --accept`"]);
}

/// The held-out text begins like the training text and ends in letters that are not in it. So its loss is higher than the loss of
/// its beginning, which all evaluations but the last read.
#[test]
fn the_best_model_has_the_lowest_loss_over_the_same_tokens() {
    let desk = Desk::new();
    desk.write("corpus.txt", "the cat sat on the mat. ".repeat(45) + "the cat " + &"zqxjkvw".repeat(16));
    let line = "pretrain --corpus corpus.txt --tokenizer char --layers 1 --width 8 --heads 2 --context 8 --batch 8 --dropout 0 --lr 0.01 \
                --steps 40 --eval-every 10 --eval-tokens 8 --quiet";
    desk.gradus(&format!("{line} --out run")).printed();
    desk.gradus(&format!("{line} --out half --stop-at 20"));
    let log = desk.text("run/metrics.jsonl");
    let records = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let evaluations: Vec<Value> = records.filter(|record| record["record"] == "evaluation").collect();
    let over: Vec<u64> = evaluations.iter().map(|record| record["over"].as_u64().unwrap()).collect();
    assert_eq!(over, [8, 8, 8, 119], "the last reads all");
    let (before, last) = (&evaluations[2], &evaluations[3]);
    assert!(number(&last["nll"]) > number(&before["nll"]), "{last}");
    assert!(number(&last["sampled_nll"]) < number(&before["nll"]) && before["sampled_nll"].is_null(), "{last}");
    assert!(desk.read("run/best/model.safetensors") == desk.read("run/model.safetensors"), "the last model is the best");

    let table = desk.gradus("compare run half");
    assert_holds(table.printed(), &["over tokens", "         119       40 ", "           8       20 "]);
    assert_holds(&table.stderr, &["note: Their held-out losses are means over different numbers of tokens"]);
    assert_eq!(desk.gradus("compare run half --json").json()["runs"][1]["held_out_tokens"], 8);
}

/// The path of the page is printed when the run begins. The page of an ended run shows whether it is complete, and does not reload.
#[test]
fn a_page_shows_whether_the_run_is_complete() {
    let desk = desk();
    let run = desk.gradus(&format!("{LINE} --out run --stop-at 4"));
    assert_holds(&run.stderr, &["run/report.html shows the progress"]);
    let page = desk.text("run/report.html");
    assert_holds(&page, &["Stopped at step 4 of 6; <code>gradus pretrain --resume run</code> continues."]);
    assert!(!page.contains("http-equiv=\"refresh\""));
    desk.gradus("pretrain --resume run --quiet").printed();
    let page = desk.text("run/report.html");
    assert!(!page.contains("Stopped at") && !page.contains("http-equiv=\"refresh\"") && page.contains("SHA-256"));
    desk.gradus("verify run").printed();
}

/// Each session writes one event file. `tests/golden/tensorboard_events.py` reads such a folder with TensorBoard.
#[test]
fn tensorboard_has_a_file_of_each_session() {
    let desk = desk();
    desk.gradus(&format!("{LINE} --out run --stop-at 4 --tensorboard events/a --quiet"));
    desk.gradus("pretrain --resume run --tensorboard events/a --quiet").printed();
    let files: Vec<Vec<u8>> = desk.files("events/a").into_values().collect();
    let count = |words: &str| {
        files.iter().map(|file| file.windows(words.len()).filter(|part| *part == words.as_bytes()).count()).collect::<Vec<_>>()
    };
    assert_eq!((count("loss/train"), count("loss/held-out"), count("brain.Event:2")), (vec![4, 2], vec![2, 1], vec![1, 1]));
}

/// A folder for events that is a file, or that the run would remove or read, is refused before anything is written.
#[test]
fn tensorboard_has_a_folder_of_its_own() {
    let desk = desk();
    desk.write("texts/corpus.txt", desk.text("corpus.txt"));
    desk.write("taken", "");
    for folder in ["taken", "taken/events", "run/best", "run/best/events", "run/anomaly", "texts", "texts/events"] {
        let line = LINE.replace("corpus.txt", "texts");
        let refused = desk.gradus(&format!("{line} --out run --tensorboard {folder} --quiet"));
        refused.misused(&[&format!("--tensorboard {folder}: expected a directory")]);
        assert!(!desk.exists("run/run.json") && !desk.exists("texts/events"), "{folder}");
    }
    desk.gradus(&format!("{LINE} --out run --stop-at 2 --quiet").replace("corpus.txt", "texts"));
    let before = desk.files("run");
    for folder in ["taken", "run/best", "texts/events"] {
        let resume = format!("pretrain --resume run --tensorboard {folder} --quiet");
        desk.gradus(&resume).misused(&[&format!("--tensorboard {folder}: expected a directory")]);
    }
    assert!(desk.files("run") == before, "nothing was written");
    desk.gradus("pretrain --resume run --tensorboard run/tensorboard --quiet").printed();
    assert_eq!(desk.files("run/tensorboard").len(), 1);
    desk.gradus("verify run").printed();
}
