use std::fs;

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

/// The smallest miniature from the first stage to the report, then with the experiments; then every stage is there and none is
/// run again.
#[test]
fn a_reproduction_is_done_once() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("mini");
    let plain = gradus("reproduce --scale 0.01 --seed 3 --quiet --json --out {}", &[&out]).json();
    assert_eq!((plain["skipped"].as_u64(), plain["done"].as_u64()), (Some(0), Some(59)));
    let first = gradus("reproduce --scale 0.01 --seed 3 --full --quiet --json --out {}", &[&out]).json();
    assert_eq!((first["skipped"].as_u64(), first["done"].as_u64()), (Some(59), Some(21)), "only what is new");
    let report = fs::read_to_string(out.join("report.html")).unwrap();
    for told in ["Table 2", "Table 3", "Table 4", "Table 5", "<svg"] {
        assert!(report.contains(told), "{told} is missing in the report");
    }
    for told in [
        "We observe a 5.6 average score drop",
        "frozen features",
        "mnli, 2",
        "… and 3 blocks",
        "shown where its mean",
        "Convergence and generalisation",
    ] {
        assert!(report.contains(told), "{told} is missing in the report");
    }
    let results = fs::read(out.join("results.json")).unwrap();
    // Scores are of the test rows, not of the dev rows that chose the model: 16 · 3/5 of them, not 16 · 3/10.
    let scored: serde_json::Value = serde_json::from_slice(&results).unwrap();
    for task in scored["tasks"].as_array().unwrap() {
        assert_eq!(task["test"]["examples"], 9, "{}", task["task"]);
    }

    for other in ["--scale 0.02 --seed 3 --full", "--scale 0.01 --seed 2 --seeds 2"] {
        gradus(&format!("reproduce {other} --out {{}}"), &[&out]).fails_with(&[
            "mini",
            "other sizes",
            "--seed 3 --scale 0.01 --full",
        ]);
    }
    let less = gradus("reproduce --scale 0.01 --seed 3 --quiet --json --out {}", &[&out]).json();
    assert_eq!((less["skipped"].as_u64(), less["done"].as_u64()), (Some(80), Some(0)), "what is there stays");
    let again = gradus("reproduce --resume {} --quiet --json", &[&out]).json();
    assert_eq!((again["skipped"].as_u64(), again["done"].as_u64()), (Some(80), Some(0)));
    assert_eq!(again["claims"], first["claims"]);
    assert_eq!(fs::read(out.join("results.json")).unwrap(), results);

    // A stage that was lost is run again, to the same result; one that cannot be read is an error.
    let lost = out.join("seed-3/results/rte.full.json");
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(&lost).unwrap()).unwrap();
    fs::remove_file(&lost).unwrap();
    let mended = gradus("reproduce --resume {} --quiet --json", &[&out]).json();
    assert_eq!((mended["skipped"].as_u64(), mended["done"].as_u64()), (Some(79), Some(1)));
    let found: serde_json::Value = serde_json::from_slice(&fs::read(&lost).unwrap()).unwrap();
    assert_eq!(found["test"], kept["test"]);
    // Results of another recipe do not mix with this one's.
    let plan = fs::read_to_string(out.join("plan.json")).unwrap();
    write(&out, "plan.json", plan.replace(&format!("\"recipe\": {RECIPE}"), "\"recipe\": 0"));
    gradus("reproduce --resume {} --quiet", &[&out]).fails_with(&["recipe 0", "plan.json"]);
    write(&out, "plan.json", &plan);
    fs::write(&lost, "{").unwrap();
    gradus("reproduce --resume {} --quiet", &[&out]).fails_with(&["rte.full.json"]);
}
