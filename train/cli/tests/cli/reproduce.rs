use std::fs;
use std::sync::LazyLock;

use gradus_paper::plan::RECIPE;

use super::*;

#[test]
fn bad_sizes_and_places_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("mini");
    for (flags, words) in [
        ("--scale 0", ["--scale 0", "0.01 to 100"]),
        ("--scale NaN", ["--scale NaN", "0.01 to 100"]),
        ("--seeds 0", ["--seeds 0", "1 to 100"]),
        ("--seed 18446744073709551615", ["--seed 18446744073709551615", "leaves room"]),
    ] {
        gradus(&format!("reproduce --out {{}} {flags}"), &[&out]).misused(&words);
        assert!(!out.exists(), "{flags}");
    }
    gradus("reproduce --resume {}", &[&out]).fails_with(&["plan.json"]);
    assert_eq!(gradus("reproduce --resume {} --seeds 2", &[&out]).code, Some(2));

    fs::create_dir(&out).unwrap();
    let plan = write(&out, "plan.json", "{ \"seeds\": 1, ");
    for flags in ["--out", "--resume"] {
        gradus(&format!("reproduce {flags} {{}}"), &[&out]).fails_with(&["plan.json"]);
    }
    assert_eq!(fs::read_to_string(&plan).unwrap(), "{ \"seeds\": 1, ");

    // Sizes that no flag gives, in the plan of a finished reproduction.
    write(&out, "report.html", "mine");
    let plan = |change: (&str, u64)| {
        let mut plan = serde_json::json!({"recipe": RECIPE, "seeds": 1, "first_seed": 1, "updates": 4000, "rows": 1000, "epochs": 7, "scale": 1.0,
            "lr": 7e-4, "layers": 4, "full": false});
        plan[change.0] = change.1.into();
        write(&out, "plan.json", plan.to_string());
    };
    for change in [
        ("seeds", 0),
        ("first_seed", u64::MAX),
        ("updates", 0),
        ("rows", 1 << 40),
        ("epochs", 0),
        ("layers", 4_000_000),
        ("scale", 2),
    ] {
        plan(change);
        gradus("reproduce --resume {}", &[&out]).fails_with(&["plan.json", "expected"]);
    }
    fs::remove_file(out.join("plan.json")).unwrap();
    gradus("reproduce --out {}", &[&out]).fails_with(&["report.html", "--out"]);
    assert_eq!(fs::read_to_string(out.join("report.html")).unwrap(), "mine");
}

/// The smallest miniature, made once for all tests: from the first stage to the report, then with the experiments.
struct Miniature {
    out: PathBuf,
    /// What the program printed of the first run, and of the one with the experiments.
    plain: Value,
    full: Value,
}

impl Miniature {
    const SIZES: &str = "--scale 0.01 --seed 3";

    fn get() -> &'static Self {
        static MADE: LazyLock<Miniature> = LazyLock::new(|| {
            let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("miniature");
            let _ = fs::remove_dir_all(&out); // of an earlier run of the tests
            let run =
                |more: &str| gradus(&format!("reproduce {} {more} --quiet --json --out {{}}", Miniature::SIZES), &[&out]).json();
            let (plain, full) = (run(""), run("--full"));
            Miniature { out, plain, full }
        });
        &MADE
    }

    /// A copy in a folder of its own.
    fn copy(&self) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("mini");
        fs::create_dir(&out).unwrap();
        copy(&self.out, &out);
        (dir, out)
    }

    fn results(out: &Path) -> Vec<u8> {
        fs::read(out.join("results.json")).unwrap()
    }
}

/// Stages that were there already, and stages that were run.
fn stages(outcome: &Value) -> (Option<u64>, Option<u64>) {
    (outcome["skipped"].as_u64(), outcome["done"].as_u64())
}

#[test]
fn the_experiments_add_to_what_is_there() {
    let made = Miniature::get();
    assert_eq!(stages(&made.plain), (Some(0), Some(59)));
    assert_eq!(stages(&made.full), (Some(59), Some(21)), "only what is new");
}

#[test]
fn the_report_has_the_papers_tables_and_statements() {
    let report = fs::read_to_string(Miniature::get().out.join("report.html")).unwrap();
    for told in [
        "Table 2",
        "Table 3",
        "Table 4",
        "Table 5",
        "<svg",
        "We observe a 5.6 average score drop",
        "frozen features",
        "mnli, 2",
        "… and 3 blocks",
        "shown where its mean",
        "Convergence and generalisation",
    ] {
        assert!(report.contains(told), "{told} is missing in the report");
    }
}

/// Not of the dev rows that chose the model: 16 · 3/5 rows, not 16 · 3/10.
#[test]
fn scores_are_of_the_test_rows() {
    let results: Value = serde_json::from_slice(&Miniature::results(&Miniature::get().out)).unwrap();
    let tasks = results["tasks"].as_array().unwrap();
    assert!(tasks.len() > 56, "those of the plain run, and the experiments: {}", tasks.len());
    for task in tasks {
        assert_eq!(task["test"]["examples"], 9, "{}", task["task"]);
    }
}

#[test]
fn a_reproduction_of_other_sizes_is_refused() {
    let (_dir, out) = Miniature::get().copy();
    for other in ["--scale 0.02 --seed 3 --full", "--scale 0.01 --seed 2 --seeds 2"] {
        let said = ["mini", "other sizes", "--seed 3 --scale 0.01 --full"];
        gradus(&format!("reproduce {other} --out {{}}"), &[&out]).fails_with(&said);
    }
}

#[test]
fn what_is_done_is_not_done_again() {
    let made = Miniature::get();
    let (_dir, out) = made.copy();
    let less = gradus(&format!("reproduce {} --quiet --json --out {{}}", Miniature::SIZES), &[&out]).json();
    assert_eq!(stages(&less), (Some(80), Some(0)), "what is there stays");
    let again = gradus("reproduce --resume {} --quiet --json", &[&out]).json();
    assert_eq!(stages(&again), (Some(80), Some(0)));
    assert_eq!(again["claims"], made.full["claims"]);
    assert!(Miniature::results(&out) == Miniature::results(&made.out), "the same results");
}

#[test]
fn a_lost_stage_is_run_again_to_the_same_result() {
    let (_dir, out) = Miniature::get().copy();
    let lost = out.join("seed-3/results/rte.full.json");
    let read = || -> Value { serde_json::from_slice(&fs::read(&lost).unwrap()).unwrap() };
    let kept = read();
    fs::remove_file(&lost).unwrap();
    let mended = gradus("reproduce --resume {} --quiet --json", &[&out]).json();
    assert_eq!(stages(&mended), (Some(79), Some(1)));
    assert_eq!(read()["test"], kept["test"]);
}

#[test]
fn results_of_another_recipe_and_damaged_ones_are_refused() {
    let (_dir, out) = Miniature::get().copy();
    let plan = fs::read_to_string(out.join("plan.json")).unwrap();
    write(&out, "plan.json", plan.replace(&format!("\"recipe\": {RECIPE}"), "\"recipe\": 0"));
    gradus("reproduce --resume {} --quiet", &[&out]).fails_with(&["recipe 0", "plan.json"]);
    write(&out, "plan.json", &plan);
    fs::write(out.join("seed-3/results/rte.full.json"), "{").unwrap();
    gradus("reproduce --resume {} --quiet", &[&out]).fails_with(&["rte.full.json"]);
}
