use std::sync::LazyLock;

use gradus_io::checksums::Kept;
use gradus_paper::{RECIPE, Sizes};

use super::*;

#[test]
fn bad_sizes_are_rejected() {
    let desk = Desk::new();
    for (flags, words) in [
        ("--scale 0", ["--scale 0: expected", "0.01 to 100"]),
        ("--scale NaN", ["--scale NaN: expected", "0.01 to 100"]),
        ("--matmul-precision f16", ["--matmul-precision f16: expected", "f32 or bf16"]),
        ("--seeds 0", ["--seeds 0: expected", "1 to 100"]),
        ("--seed 18446744073709551615", ["--seed 18446744073709551615", "leaves room"]),
    ] {
        desk.gradus(&format!("reproduce --out mini {flags}")).misused(&words);
        assert!(!desk.exists("mini"), "{flags}");
    }
}

#[test]
fn a_bad_plan_is_rejected_and_left_as_it_is() {
    let desk = Desk::new();
    desk.gradus("reproduce --resume mini").fails_with(&["mini/plan.json", "expected the plan", "name another directory"]);
    let torn = "{ \"seeds\": 1, ";
    desk.write("mini/plan.json", torn);
    for flags in ["--out", "--resume"] {
        desk.gradus(&format!("reproduce {flags} mini")).fails_with(&["mini/plan.json"]);
    }
    assert_eq!(desk.text("mini/plan.json"), torn);

    // Plans of another command.
    for (own, other, plan) in [
        ("reproduce", "survey", r#"{"format": 1, "recipe": 3, "systems": ["gpt"]}"#),
        ("survey", "reproduce", r#"{"format": 1, "recipe": 5}"#),
    ] {
        desk.write("other/plan.json", plan);
        let words = format!("it is the plan of another command: `gradus {other} --resume other` continues it");
        desk.gradus(&format!("{own} --resume other")).fails_with(&["other/plan.json", &words]);
    }

    // Sizes that no flag can produce, in the plan of a finished reproduction.
    desk.write("mini/report.html", "mine");
    for (name, size) in [
        ("seeds", 0),
        ("first_seed", u64::MAX),
        ("steps", 0),
        ("rows", 1 << 40),
        ("epochs", 0),
        ("layers", 4_000_000),
        ("scale", 2),
    ] {
        let mut plan = plan_without_checksums();
        plan[name] = size.into();
        desk.write("mini/plan.json", plan.to_string());
        desk.gradus("reproduce --resume mini").fails_with(&["plan.json", "expected"]);
    }
    desk.remove("mini/plan.json");
    desk.gradus("reproduce --out mini").fails_with(&["mini already holds mini/report.html", "another --out"]);
    assert_eq!(desk.text("mini/report.html"), "mine");
}

/// Returns the plan of the smallest reproduction, for a folder without checksums.
fn plan_without_checksums() -> Value {
    let mut plan = serde_json::to_value(Kept::with(Sizes::new(1, 1, 1.0, false))).unwrap();
    plan.as_object_mut().unwrap().remove("checksums");
    plan
}

/// The smallest miniature, made once for all tests: from the first stage to the report, then with the experiments.
pub struct Miniature {
    pub desk: Desk,
    /// The output of the first run, without experiments, and of the run with them.
    plain: Value,
    full: Value,
}

impl Miniature {
    const BEGIN: &str = "reproduce --out mini --scale 0.01 --seed 3 --quiet --json";

    pub fn get() -> &'static Self {
        static MADE: LazyLock<Miniature> = LazyLock::new(|| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("miniature");
            let _ = fs::remove_dir_all(&folder); // from an earlier run of the tests
            fs::create_dir_all(&folder).unwrap();
            let desk = Desk { folder, _temporary: None };
            let run = |more: &str| desk.gradus(&format!("{} {more}", Miniature::BEGIN)).json();
            let (plain, full) = (run(""), run("--full"));
            Miniature { desk, plain, full }
        });
        &MADE
    }

    /// Copies the miniature to a new folder.
    fn copy() -> Desk {
        let desk = Desk::new();
        desk.copy(&Self::get().desk.folder);
        desk
    }
}

/// Returns the numbers of skipped stages and of stages that were run.
fn stages(outcome: &Value) -> (Option<u64>, Option<u64>) {
    (outcome["skipped"].as_u64(), outcome["done"].as_u64())
}

#[test]
fn experiments_extend_an_existing_reproduction() {
    let made = Miniature::get();
    assert_eq!(stages(&made.plain), (Some(0), Some(59)));
    assert_eq!(stages(&made.full), (Some(59), Some(21)), "only what is new");
}

#[test]
fn the_report_has_the_papers_tables_and_statements() {
    let expected = [
        "Table 2",
        "Table 3",
        "Table 4",
        "Table 5",
        "<svg",
        "We observe a 5.6 average score drop",
        "frozen features",
        "mnli, 2",
        "… and 3 blocks",
        "A story, and a question about another",
        "<th scope=\"row\">right</th>",
        "exact limit: ",
        "<a href=\"seed-3/gpt/report.html\">",
        "points the paper&#39;s way: ",
        "<td>the other way</td>",
        "KL from the exact answer",
        "Convergence and generalisation",
    ];
    let page = Miniature::get().desk.text("mini/report.html");
    assert_holds(&page, &expected);
    assert!(!page.contains('`') && !page.contains("not reached") && !page.contains("undecided"));
    let places = [
        "This reproduction was made with <code>--scale 0.01</code>: 40 steps of pre-training instead of 4,000",
        "A story, and a question",
        "exact limit: ",
        "Zero-shot, mean of four",
        "<h2>Table 5",
        "<h2>Table 2",
        "points the paper&#39;s way",
    ];
    let places = places.map(|words| page.find(words).unwrap());
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn the_terminal_output_ends_with_the_results() {
    let desk = Miniature::copy();
    let run = desk.gradus("reproduce --resume mini");
    let words = [
        "made with `--scale 0.01`: 40 steps of pre-training instead of 4,000",
        "loss above the exact limit, %: Transformer ",
        "zero-shot, % of the way",
        "table 5's average: ",
        "1 seed cannot decide them, 6 or more can: --seeds 6",
    ];
    assert_holds(run.printed(), &words);
    assert_holds(run.printed(), &["points the paper's way: ", "seed-3/gpt/report.html", "the report: mini/report.html"]);
    assert!(!run.stdout.contains("undecided"), "{}", run.stdout);
}

#[test]
fn the_report_is_written_as_markdown_from_the_records() {
    let desk = Miniature::copy();
    let write = |more: &str| desk.gradus(&format!("reproduce --resume mini --markdown PAGE.md --quiet --json {more}"));
    let made = write("").json();
    let page = desk.text("PAGE.md");
    assert!(page.starts_with("<!-- Written by `gradus reproduce --resume DIR --markdown FILE --overwrite`"), "{page}");
    assert!(page.contains("    gradus reproduce --seeds 1 --seed 3 --scale 0.01 --full --out DIR\n"), "{page}");
    for claim in items(&made["claims"]) {
        let [statement, paper, ours] = ["statement", "paper", "ours"].map(|key| claim[key].as_str().unwrap());
        let head = if claim["primary"] == true { format!("| **{statement}** |") } else { format!("| {statement} |") };
        let is_row = |line: &str| line.starts_with(&head) && line.contains(&format!("| {paper} | {ours} |"));
        assert!(page.lines().any(is_row), "{statement}: {ours} is not in {page}");
    }
    let results = desk.json("mini/results.json");
    let score = |variant: &str| {
        let result = items(&results["tasks"]).iter().find(|t| t["task"] == "rte" && t["variant"] == variant).unwrap();
        format!("{:.1}", 100.0 * number(&result["test"]["score"]))
    };
    let row = ["full", "no-pretraining", "no-aux", "lstm"].map(score).join(" | ");
    assert!(page.contains(&format!("| RTE, accuracy | 50.0 | {row} | 100.0 |")), "{row} is not in {page}");

    write("").fails_with(&["PAGE.md", "--overwrite"]);
    desk.write("PAGE.md", "old");
    assert_eq!(write("--overwrite").json()["done"], 0);
    assert_eq!(desk.text("PAGE.md"), page, "the same from the same records");
    desk.gradus("reproduce --scale 0.01 --out new --markdown PAGE.md").fails_with(&["--overwrite"]);
    assert!(!desk.exists("new"), "refused before the work");
}

/// Scores use the test rows, 16 · 3/5, not the 16 · 3/10 dev rows that chose the model.
#[test]
fn scores_are_of_the_test_rows() {
    let results = Miniature::get().desk.json("mini/results.json");
    let tasks = items(&results["tasks"]);
    assert_eq!(tasks.len(), 76, "of 59 + 21 stages, without the world and three pre-trainings");
    for task in tasks {
        assert_eq!(task["test"]["examples"], 9, "{}", task["task"]);
    }
}

#[test]
fn a_reproduction_of_other_sizes_is_rejected() {
    let desk = Miniature::copy();
    let others = [
        "--scale 0.02 --seed 3",
        "--scale 0.01 --seed 2 --seeds 2",
        "--scale 0.01 --seed 3 --seeds 2",
        "--scale 0.01 --seed 3 --retold",
        "--scale 0.01 --seed 3 --matmul-precision bf16",
    ];
    for other in others {
        let expected = ["mini", "another reproduction", "--seed 3 --scale 0.01 --full", "for more seeds, together with --seed"];
        desk.gradus(&format!("reproduce {other} --full --out mini")).fails_with(&expected);
    }
}

#[test]
fn finished_stages_are_not_repeated() {
    let desk = Miniature::copy();
    let less = desk.gradus(Miniature::BEGIN).json();
    assert_eq!(stages(&less), (Some(80), Some(0)), "what is there stays");
    let again = desk.gradus("reproduce --resume mini --quiet --json").json();
    assert_eq!(stages(&again), (Some(80), Some(0)));
    let made = Miniature::get();
    assert_eq!(again["claims"], made.full["claims"]);
    assert!(desk.read("mini/results.json") == made.desk.read("mini/results.json"), "the same results");
}

#[test]
fn a_lost_stage_is_run_again_to_the_same_result() {
    let desk = Miniature::copy();
    let lost = "mini/seed-3/results/rte.full.json";
    let kept = desk.json(lost);
    desk.remove(lost);
    let mended = desk.gradus("reproduce --resume mini --quiet --json").json();
    assert_eq!(stages(&mended), (Some(79), Some(1)));
    assert_eq!(desk.json(lost)["test"], kept["test"]);
}

#[test]
fn results_of_another_recipe_and_damaged_ones_are_rejected() {
    let desk = Miniature::copy();
    desk.forget("mini");
    let plan = desk.text("mini/plan.json");
    desk.write("mini/plan.json", plan.replace(&format!("\"recipe\": {RECIPE}"), "\"recipe\": 0"));
    desk.gradus("reproduce --resume mini --quiet").fails_with(&["recipe 0", "plan.json"]);
    desk.write("mini/plan.json", &plan);
    desk.gradus("reproduce --resume mini --quiet").fails_with(&["mini/plan.json", "its checksum", "gradus verify mini --accept"]);
    desk.gradus("verify mini --accept").printed();
    desk.write("mini/seed-3/results/rte.full.json", "{");
    desk.gradus("reproduce --resume mini --quiet").fails_with(&["rte.full.json"]);
}

#[test]
fn a_plan_of_another_world_or_rule_is_rejected() {
    let desk = Desk::new();
    let plan = plan_without_checksums();
    let refused = |change: fn(&mut Value), words: &[&str]| {
        let mut plan = plan.clone();
        change(&mut plan);
        desk.write("mini/plan.json", plan.to_string());
        desk.gradus("reproduce --resume mini").fails_with(words);
    };
    refused(|plan| plan["world"] = "micro-world-9".into(), &["expected the world micro-world-1", "found micro-world-9"]);
    refused(|plan| plan["ruler"]["delta"]["score"] = 0.001.into(), &["expected the decision rule of this version of gradus"]);
    refused(|plan| plan["ruler"]["least_seeds"] = 3.into(), &["expected the decision rule of this version of gradus"]);
    refused(|plan| plan["layers"] = 5.into(), &["expected the sizes that the recipe has at scale 1"]);
}

/// Without the measurements of the study, its figures would have permanent gaps.
#[test]
fn a_run_of_a_study_is_continued_by_the_study() {
    let desk = Miniature::copy();
    let before = desk.files("mini");
    let refused = desk.gradus("pretrain --resume mini/seed-3/gpt --quiet");
    refused.fails_with(&["mini/seed-3/gpt: expected a run outside of a study", "`gradus reproduce --resume mini`"]);
    assert!(desk.files("mini") == before, "nothing was written");
    fs::rename(desk.path("mini/seed-3/gpt"), desk.path("alone")).unwrap();
    desk.gradus("pretrain --resume alone --quiet").printed();
}

#[test]
fn a_lost_or_damaged_model_is_an_error_with_a_remedy() {
    let desk = Miniature::copy();
    let (run, result) = ("mini/seed-3/lstm", "mini/seed-3/results/pretrain.lstm.json");
    let refused = |what: &str| {
        let advice = format!("delete {run} and {result}, and continue");
        desk.gradus("reproduce --resume mini --quiet").fails_with(&[what, &advice]);
    };
    desk.remove("mini/seed-3/results/rte.lstm.json");
    desk.forget(run);
    fs::write(desk.path(format!("{run}/model.safetensors")), b"damaged").unwrap();
    refused("mini/seed-3/lstm/model.safetensors");
    fs::remove_dir_all(desk.path(run)).unwrap();
    refused("mini/seed-3/lstm: expected a run with its best model");
}

#[test]
fn a_page_does_not_overwrite_files_of_the_reproduction() {
    let desk = Miniature::copy();
    for kept in [
        "plan.json",
        "results.json",
        "checksums.json",
        "seed-3/results/rte.full.json",
        "seed-3/gpt/run.json",
        "seed-3/world/rte/train.tsv",
    ] {
        let before = desk.read(&format!("mini/{kept}"));
        let expected = ["gradus needs this file", "name another path"];
        desk.gradus(&format!("reproduce --resume mini --quiet --markdown mini/{kept} --overwrite")).misused(&expected);
        assert!(desk.read(&format!("mini/{kept}")) == before, "{kept}");
    }
    desk.gradus("reproduce --resume mini --quiet --markdown mini/page.md").printed();
}
