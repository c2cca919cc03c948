use std::sync::LazyLock;

use super::*;

#[test]
fn bad_surveys_are_rejected() {
    let desk = Desk::new();
    for (flags, words) in [
        ("--scale 0", &["--scale 0: expected", "0.01 to 100"][..]),
        ("--seeds 0", &["--seeds 0: expected", "1 to 100"]),
        ("--matmul-precision f16", &["--matmul-precision f16: expected f32 or bf16"]),
        ("--seed 1", &["--seed 1: expected", "the seed that rates are chosen on"]),
        ("--systems gpt,elmo", &["--systems elmo: expected kneser-ney, gpt, lstm, "]),
        ("--markdown x.svg", &["--markdown x.svg: expected", "a name that does not end with .svg"]),
        ("--systems gpt,bert,gpt", &["--systems gpt: expected each system once"]),
    ] {
        desk.gradus(&format!("survey --out s {flags}")).misused(words);
        assert!(!desk.exists("s"), "{flags}");
    }
    desk.gradus("survey --resume s").fails_with(&["s/plan.json", "an earlier `gradus survey`"]);
    desk.write("s/notes.txt", "mine");
    desk.gradus("survey --out s").fails_with(&["s already holds s/notes.txt, but no survey"]);
}

/// The smallest survey, made once for all tests.
pub struct Made {
    pub desk: Desk,
    /// The output of the program.
    output: Value,
}

impl Made {
    const BEGIN: &str = "survey --quick --systems gpt,bert --seeds 1 --scale 0.01 --out s --quiet --json";

    pub fn get() -> &'static Self {
        static MADE: LazyLock<Made> = LazyLock::new(|| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("survey");
            let _ = fs::remove_dir_all(&folder); // from an earlier run of the tests
            fs::create_dir_all(&folder).unwrap();
            let desk = Desk { folder, _temporary: None };
            let output = desk.gradus(Made::BEGIN).json();
            Made { desk, output }
        });
        &MADE
    }

    /// Copies the survey to a new folder.
    fn copy() -> Desk {
        let desk = Desk::new();
        desk.copy(&Self::get().desk.folder);
        desk
    }
}

#[test]
fn a_survey_in_bf16_trains_in_bf16_and_is_resumed_so() {
    let desk = Desk::new();
    let begin = "survey --quick --systems gpt --seeds 1 --scale 0.01 --out s --quiet";
    desk.gradus(&format!("{begin} --matmul-precision bf16")).printed();
    assert_eq!(desk.json("s/plan.json")["matmul_precision"], "bf16");
    let run = fs::read_dir(desk.path("s/seed-201")).unwrap().map(|entry| entry.unwrap().path());
    let run = run.map(|path| path.join("run.json")).find(|path| path.exists()).expect("a run");
    let run: Value = serde_json::from_slice(&fs::read(run).unwrap()).unwrap();
    assert_eq!(run["precision"]["products"], "bf16");
    desk.gradus("survey --resume s --quiet").printed();
    desk.gradus(begin).fails_with(&["another survey", "--scale 0.01 --matmul-precision bf16 --out DIR"]);
}

#[test]
fn a_run_of_a_survey_is_continued_by_the_survey() {
    let desk = Made::copy();
    let run = fs::read_dir(desk.path("s/seed-201")).unwrap().map(|entry| entry.unwrap().path());
    let run = run.filter(|path| path.join("run.json").exists()).min().expect("a run");
    let run = run.strip_prefix(&desk.folder).unwrap().display().to_string();
    desk.gradus(&format!("pretrain --resume {run} --quiet")).fails_with(&[&run, "`gradus survey --resume s`"]);
}

#[test]
fn a_survey_measures_each_system() {
    let Made { desk, output } = Made::get();
    let evaluated = items(&output["asked"]);
    assert!(evaluated.iter().map(|a| a["system"].as_str().unwrap()).eq(["gpt", "bert"]));
    for one in evaluated {
        let (u, g) = (number(&one["understanding"]["given_all"]["mean"]), number(&one["generation"]["before"]["mean"]));
        assert!(u > 1.0 && g > 1.0 && u.is_finite() && g.is_finite(), "three steps teach little: {one}");
        assert_eq!(one["told"], serde_json::json!([0, 2]));
    }
    // Both are measured in equal six places of two stories; BERT, which answers in one pass, also in all places.
    let places = |of: &Value| of["given_all"]["places"].as_u64();
    assert!(evaluated.iter().all(|one| places(&one["understanding"]) == Some(6)));
    assert!(evaluated[0]["everywhere"].is_null() && places(&evaluated[1]["everywhere"]).unwrap() > 50);
    let claims = items(&output["claims"]);
    assert!(claims.iter().any(|claim| claim["name"] == "both-sides" && claim["primary"] == true), "{claims:?}");
    assert!(claims.iter().all(|claim| claim["name"] != "recurrent"), "there is no LSTM");
    let results = desk.json("s/results.json");
    let trained = items(&results["trained"]);
    let work = trained.iter().map(|t| number(&t["flops"]) * number(&t["steps"])).collect::<Vec<_>>();
    assert!((work[1] / work[0] - 1.0).abs() < 0.5 / 2.5, "half a step of at least two and a half: {work:?}");
    assert!(trained.iter().all(|t| t["work"] == trained[0]["work"]));
    let page = desk.text("s/report.html");
    let axis = "KL divergence of predictions of a masked word, nats (square-root scale)";
    let reduced = ["This is the short survey (<code>--quick</code>)", "(<code>--scale 0.01</code>)"];
    assert_holds(&page, &reduced);
    assert_holds(&page, &["The plane", "<svg", axis, "BERT, 3 steps", "undecided: fewer than 6 seeds", "What is measured"]);
    assert!(!page.contains("http-equiv=\"refresh\"") && !page.contains('`'));
    assert_holds(&desk.text("s/plane.svg"), &["<svg", "bert", "gpt", "perfect"]);
}

#[test]
fn a_lost_stage_is_done_again_to_the_same_result() {
    let desk = Made::copy();
    let (lost, results) = ("s/seed-201/results/gpt-3.asked.json", desk.json("s/results.json"));
    let before = desk.json(lost);
    desk.remove(lost);
    let again = desk.gradus("survey --resume s --quiet --json --markdown PAGE.md").json();
    assert_eq!(desk.json(lost)["understanding"], before["understanding"]);
    assert_eq!(again["claims"], Made::get().output["claims"]);
    assert_eq!(desk.json("s/results.json")["trained"], results["trained"]);
    let page = desk.text("PAGE.md");
    assert!(page.starts_with("<!-- Written by `gradus survey --resume DIR --markdown FILE --overwrite`"), "{page}");
    assert!(
        page.contains("    gradus survey --quick --systems gpt,bert --seeds 1 --seed 201 --scale 0.01 --out DIR\n"),
        "{page}"
    );
    assert!(page.contains("\n\n![The plane of U and G](<PAGE.svg>)\n\n"), "{page}");
    assert!(desk.text("PAGE.svg") == desk.text("s/plane.svg"), "the plane beside it");
    desk.gradus("survey --resume s --quiet --markdown PAGE.md").fails_with(&["PAGE.md", "--overwrite"]);
}

#[test]
fn a_damaged_run_is_rejected_and_retrained_to_the_same_result() {
    let desk = Made::copy();
    let (run, evaluated, trained) =
        ("s/seed-201/gpt-3", "s/seed-201/results/gpt-3.asked.json", "s/seed-201/results/gpt-3.trained.json");
    let before = desk.json(evaluated);
    desk.remove(evaluated);
    // The previous checkpoint is whole, but of another model.
    let state = format!("{run}/trainer.safetensors");
    fs::write(desk.path(&state), b"damaged").unwrap();
    let advice = "delete s/seed-201/gpt-3 and s/seed-201/results/gpt-3.trained.json, and continue";
    let refused = || desk.gradus("survey --resume s --quiet");
    refused().fails_with(&["s/seed-201/gpt-3: expected the model after step 3, found the one after step 2", advice]);
    // The page shows the results so far, without verdicts, and does not reload.
    let page = desk.text("s/report.html");
    assert_holds(&page, &["Stopped after 4 of 5 stages; <code>gradus survey --resume s</code> continues.", "BERT, 3 steps"]);
    assert!(!page.contains("http-equiv=\"refresh\"") && !page.contains("Claims of the papers"));
    desk.remove(&state);
    desk.remove(&format!("{run}/trainer.previous.safetensors"));
    refused().fails_with(&["trainer.safetensors", "missing", advice]);
    fs::remove_dir_all(desk.path(run)).unwrap();
    refused().fails_with(&["s/seed-201/gpt-3/run.json", advice]);
    // The run of another system in its place.
    fs::rename(desk.path("s/seed-201/bert-3"), desk.path(run)).unwrap();
    refused().fails_with(&["s/seed-201/gpt-3: expected the run of this survey's seed 201: training gpt", "move it away"]);
    fs::rename(desk.path(run), desk.path("s/seed-201/bert-3")).unwrap();
    desk.remove(trained);
    // The weights of another run, without the files that identify it.
    fs::create_dir_all(desk.path(run)).unwrap();
    fs::copy(desk.path("s/seed-201/bert-3/model.safetensors"), desk.path(format!("{run}/model.safetensors"))).unwrap();
    refused().fails_with(&["s/seed-201/gpt-3/checksums.json: it is missing, though it was written", "--accept"]);
    fs::remove_dir_all(desk.path(run)).unwrap();
    refused().printed();
    assert_eq!(desk.json(evaluated)["understanding"], before["understanding"]);
}

#[test]
fn another_survey_or_another_result_is_rejected() {
    let desk = Made::copy();
    let other = Made::BEGIN.replace("--seeds 1", "--seeds 2");
    desk.gradus(&other).fails_with(&[
        "s already holds another survey",
        "--systems gpt,bert --seeds 1 --seed 201",
        "for more seeds, together with --seed",
    ]);
    desk.forget("s");
    let (gpt, bert) = ("s/seed-201/results/gpt-3.asked.json", "s/seed-201/results/bert-3.asked.json");
    let own = desk.text(gpt);
    desk.write(gpt, desk.text(bert));
    desk.gradus("verify s --accept").printed();
    desk.gradus("survey --resume s --quiet").fails_with(&["gpt-3.asked.json", "expected the result of seed 201: evaluating gpt"]);
    desk.write(gpt, own);
    // GPT's run in the place of BERT's, whose results are all gone.
    let copied = Made::copy();
    copied.remove("s/seed-201/results/bert-3.trained.json");
    fs::remove_dir_all(copied.path("s/seed-201/bert-3")).unwrap();
    fs::rename(copied.path("s/seed-201/gpt-3"), copied.path("s/seed-201/bert-3")).unwrap();
    let words = ["s/seed-201/bert-3: expected the run of this survey's seed 201: training bert", "move it away"];
    copied.gradus("survey --resume s --quiet").fails_with(&["s/seed-201/bert-3/checksums.json: it belongs to another directory"]);
    copied.gradus("verify s/seed-201/bert-3 --accept").printed();
    copied.gradus("survey --resume s --quiet").fails_with(&words);
    desk.write("s/plan.json", desk.text("s/plan.json").replace("\"places\": 6", "\"places\": 2"));
    desk.gradus("verify s --accept").printed();
    desk.gradus("survey --resume s --quiet")
        .fails_with(&["s/plan.json", "expected the plan of this version of gradus for these options, places 6, found 2"]);
}
