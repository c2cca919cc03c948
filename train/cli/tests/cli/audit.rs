//! Tests of `gradus audit`, which run the program.

use gradus_audit::step::StepInputs;
use gradus_io::progress::Silent;
use gradus_model::{Activation, ModelConfig, Sizes};
use gradus_report::metrics::{self, Record};
use gradus_train::pretrain::Stored;
use gradus_train::systems;

use super::*;

/// A pre-training of a small model of characters.
const PRETRAIN: &str =
    "pretrain --corpus text.txt --tokenizer char --context 8 --width 8 --layers 1 --heads 2 --held-out 0 --quiet";

impl Desk {
    /// Returns the JSON of an audit that found no fault.
    #[track_caller]
    fn audit(&self, line: &str) -> Value {
        let found = self.gradus(&format!("audit {line} --json")).json();
        assert_eq!(found["faults"], Value::Array(Vec::new()));
        found
    }
}

#[test]
fn ops_are_audited_and_pages_are_not_overwritten() {
    let desk = Desk::new();
    let line = "ops --draws 2 --quiet --markdown OPS.md --html ops.html";
    let found = desk.audit(line);
    assert_eq!(found["draws"], 2);
    let gelu = items(&found["ops"]).iter().find(|op| op["name"] == "gelu").unwrap();
    assert!(number(&gelu["golden"]["gradient"]) < 1e-13 && gelu["teeth"] == true && gelu["fused"] == true);
    let evidence = items(&gelu["evidence"]);
    assert_eq!((evidence.len(), &evidence[0]["witness"], &evidence[0]["samples"]), (8, &"forward_mode".into(), &6.into()));
    let (text, shown) = (desk.text("OPS.md"), desk.text("ops.html"));
    for op in items(&found["ops"]) {
        let name = op["name"].as_str().unwrap();
        assert_holds(&text, &[&format!("\n## {name}\n")]);
        assert_holds(&shown, &[&format!("<h2>{name}</h2>")]);
    }
    desk.write("OPS.md", "mine");
    desk.gradus(&format!("audit {line}")).fails_with(&["OPS.md", "--overwrite"]);
    assert_eq!(desk.text("OPS.md"), "mine");
    let summary = desk.gradus(&format!("audit {line} --overwrite"));
    assert_eq!(summary.printed().lines().count(), 10, "{}", summary.stdout);
    assert_holds(&summary.stdout, &["No witness rejects an op"]);
    assert_eq!(desk.text("OPS.md"), text);
    desk.gradus("audit ops --draws 0").misused(&["--draws 0", "from 1"]);
    desk.gradus("audit ops --draws 1 --html one --markdown one").misused(&["--markdown and --html", "same file"]);
    desk.gradus("audit ops --draws 1 --html . --overwrite").misused(&["not a plain file", "another path"]);
}

#[test]
fn the_ledger_reads_a_checkout_and_test_results() {
    let desk = Desk::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let ledger = |flags: &str| {
        let mut command = command("audit ledger --root");
        command.arg(&root).args(flags.split_whitespace());
        Run::from(desk.prepare(command).output().unwrap())
    };
    let printed = |outcome: &str| {
        let binary = "     Running unittests src/lib.rs (target/debug/deps/gradus_train-0123456789abcdef)";
        desk.write("tests.log", format!("{binary}\ntest optim::clip::tests::one_norm_covers_all_tensors ... {outcome}\n"));
    };
    printed("ok");
    let found = ledger("--results tests.log --html ledger.html --json").json();
    assert_eq!(found["faults"], Value::Array(Vec::new()));
    let tests = || items(&found["rows"]).iter().flat_map(|row| items(&row["tests"]));
    let passed: Vec<_> = tests().filter(|test| test["status"] == "passed").map(|test| &test["name"]).collect();
    assert_eq!(passed, ["one_norm_covers_all_tensors"]);
    assert!(tests().all(|test| test["line"].as_u64().is_some()));
    assert_holds(&desk.text("ledger.html").replace('\u{200b}', ""), &["one_norm_covers_all_tensors (train/src/optim/clip.rs:"]);
    printed("FAILED");
    let failed = ledger("--results tests.log");
    assert_eq!(failed.code, Some(1));
    assert_holds(&failed.stderr, &["`one_norm_covers_all_tensors` failed"]);
    desk.write("tests.log", "nothing");
    ledger("--results tests.log").misused(&["tests.log", "cargo test"]);
    desk.gradus("audit ledger --root .").misused(&["--root", "checkout"]);
}

#[test]
fn systems_are_compared_with_their_cards() {
    let desk = Desk::new();
    let found = desk.audit("systems gpt bert --quiet");
    let [gpt, bert] = items(&found["systems"]) else { panic!("{found}") };
    assert_eq!(gpt["sight"][3], serde_json::json!(["d", "abc···", "abc···"]));
    assert!((number(&gpt["learnt"]) - 1.0).abs() < 1e-9 && (number(&bert["learnt"]) - 2.0).abs() < 0.05, "{found}");
    assert!(desk.gradus("audit systems lstm --quiet").printed().contains("f ← abcde·"));
    desk.gradus("audit systems elmo").misused(&["elmo", &format!("expected a system: {}", systems::names())]);
}

#[test]
fn whole_models_are_audited_parameter_by_parameter() {
    let desk = Desk::new();
    let found = desk.audit("model --coordinates 2 --quiet --html model.html");
    assert_eq!(items(&found["models"]).len(), 19);
    for model in items(&found["models"]) {
        let name = &model["name"];
        assert_near(&model["taylor_slope"], 2.0, 0.05);
        assert!(number(&model["witnesses"]["adjoint"]) <= 1e-12, "{name}");
        assert!(model["properties"].as_object().unwrap().values().all(|held| held == true), "{name}");
        for tensor in items(&model["tensors"]) {
            let of = |field: &str| number(&tensor[field]);
            assert!(of("directional_error") <= 1e-8 && of("element_error") <= 1e-8, "{name}: {tensor}");
            // No derivative of these models is so small that a relative error of 1e-3 would vanish in the rounding of the loss.
            assert!(of("zeros") == 1.0 || of("sees") < 1e-3, "{name}: {tensor}");
        }
    }
    let parts = ["h.1.attn.c_attn.weight", "Every derivative holds, and every property", "SHA-256 of the parameters"];
    assert_holds(&desk.text("model.html"), &parts);
    desk.gradus("audit model --quiet --html model.html").fails_with(&["model.html", "--overwrite"]);
}

#[test]
fn a_checkpoint_is_audited_and_a_broken_one_rejected() {
    let desk = Desk::new();
    let config = ModelConfig::gpt(Sizes { vocab: 23, context: 12, width: 8 }, 1, 2);
    desk.save(".", &Model::init(&config, 1));
    let line = "model --model . --sequences 2 --tokens 6 --dropout --quiet";
    assert_eq!(desk.audit(line)["models"][0]["parameters"], 1152);
    for wrong in ["--tokens 13", "--tokens 1", "--sequences 3", "--coordinates 1001"] {
        desk.gradus(&format!("audit model --model . {wrong} --quiet")).misused(&[wrong]);
    }
    desk.spoil(".", "h.0.mlp.c_fc.weight", f32::NAN);
    let broken = desk.gradus(&format!("audit {line} --json"));
    assert_eq!(broken.code, Some(1));
    assert_holds(&broken.stderr, &["parameter h.0.mlp.c_fc.weight holds a NaN or an infinity; the loss is NaN"]);
}

/// A correct gradient passes: with relu, whose kinks some lines cross, for parameters that no token reaches, and in a deep and
/// narrow model, whose curvature is too large for a step size that suits other models.
#[test]
fn correct_gradients_of_unusual_models_pass() {
    let desk = Desk::new();
    let sized =
        |width| ModelConfig::gpt(Sizes { vocab: 23, context: 12, width }, 2, 1).with_transformer(|c| c.initializer_range = 0.3);
    for (config, seeds) in [
        (sized(8).with_transformer(|c| c.activation = Activation::Relu), 8),
        (sized(1), 1),
        (sized(3).with_transformer(|c| (c.layers, c.initializer_range) = (8, 0.6)), 2),
    ] {
        desk.save(".", &Model::init(&config, 1));
        for seed in 1..=seeds {
            desk.audit(&format!("model --model . --sequences 4 --tokens 6 --seed {seed} --quiet"));
        }
    }
}

#[test]
fn a_step_is_opened_as_one_file() {
    let desk = Desk::new();
    let found = desk.audit("step --by-hand --html step.html");
    assert_eq!(found["nodes"], 29);
    assert_eq!(found["proved"], 108);
    assert!(["parameters_sha256", "batch_sha256"].iter().all(|hash| found[hash].as_str().unwrap().len() == 64), "{found}");
    let (page, batch) = (desk.text("step.html"), found["batch_sha256"].as_str().unwrap());
    assert_holds(&page, &["h.0.attn.c_attn.weight", batch, "audit step --by-hand", "\"softmax\"", "default-src 'none'"]);
    assert!(!page.contains("src=") && !page.contains("@import"));
    desk.gradus("audit step --by-hand --html step.html").fails_with(&["step.html", "--overwrite"]);

    desk.write("text.txt", "a rose is a rose is a rose");
    desk.gradus(&format!("{PRETRAIN} --batch 2 --steps 2 --out model")).printed();
    desk.audit("step --model model --corpus text.txt --tokens 8 --sequences 2 --html step.html --overwrite --quiet");
    assert_holds(&desk.text("step.html"), &["the beginning of"]);
    let step = |flags: &str| desk.gradus(&format!("audit step --html step.html --overwrite {flags}"));
    step("--model model").misused(&["give --text, --corpus, or --task"]);
    step("--model model --text rose --json").json();
    step("--model model --text r").fails_with(&["1 token", "2 are needed"]);
    for wrong in ["--tokens 9", "--tokens 0", "--sequences 0"] {
        step(&format!("--model model --corpus text.txt {wrong}")).misused(&[wrong]);
    }
    desk.gradus("audit step --html none/step.html").fails_with(&["none", "folders above it"]);
    step("--by-hand --sequences 2").misused(&["--by-hand", "--sequences"]);
    step("--by-hand --text rose").misused(&["--by-hand", "--text"]);
    step("--text rose").misused(&["--model"]);
}

/// The step on the page is the next step of the run: its loss, its rate, and with its moments the new value of each parameter.
#[test]
fn the_next_step_of_a_run_is_opened() {
    let desk = Desk::new();
    desk.write("text.txt", "a rose is a rose is a rose, said the poet to the rose");
    let line = format!("{PRETRAIN} --batch 4 --steps 6 --stop-at 3");
    desk.gradus(&format!("{line} --lr 1e-2 --out run")).printed();
    let step = |flags: &str| desk.gradus(&format!("audit step --run run {flags}"));
    let found = desk.audit("step --run run --html step.html");
    let part = desk.audit("step --run run --sequences 3 --html step.html --overwrite");
    assert_holds(&desk.text("step.html"), &["the first 3 of the 4 sequences of its batch"]);
    assert!(part["loss"] != found["loss"] && part["batch_sha256"] != found["batch_sha256"]);
    step("--sequences 5 --html step.html --overwrite").misused(&["--sequences 5", "from 1 to 4"]);

    let stored = || Stored::read(&desk.path("run"), &desk.path("cache/gradus"), &Silent).unwrap();
    let inputs = StepInputs::of_run(&stored(), None).unwrap();
    let mut opened = inputs.trainer.clone();
    let made = opened.step(&inputs.batch).unwrap();
    assert_eq!(found["loss"].as_f64(), Some(made.loss));
    desk.gradus("pretrain --resume run --stop-at 4 --quiet").printed();
    let run_s = stored().trainer;
    let records = metrics::read(&desk.path("run/metrics.jsonl")).unwrap();
    let step_4 = records.iter().find_map(|r| if let Record::Step(s) = r { (s.step == 4).then_some(s) } else { None }).unwrap();
    // The run is in f32, the page in f64: 1e-5 is about a hundred rounding errors, and a thousandth of a step's change.
    assert!((step_4.loss - made.loss).abs() < 1e-5 && step_4.lr == made.rate, "{step_4:?} of the run, {made:?} on the page");
    assert!((step_4.grad_norm / made.gradient_norm - 1.0).abs() < 1e-4);
    opened.params.as_ref().zip(run_s.params.as_ref()).visit(|name, (page, run)| {
        let off = page.to_vec().iter().zip(run.to_vec()).map(|(a, b)| (a - f64::from(b)).abs()).fold(0.0, f64::max);
        assert!(off < 1e-5, "{name} differs by {off:e}");
    });

    for refused in ["--seed 2", "--tokens 4", "--text rose"] {
        step(refused).misused(&[&refused[..6]]);
    }

    // With a state of another run, or without one, no command continues, and no file is replaced.
    desk.gradus(&format!("{line} --lr 2e-2 --out other")).printed();
    let (own, model) = (desk.read("run/trainer.safetensors"), desk.read("run/model.safetensors"));
    desk.forget("run");
    desk.write("run/trainer.safetensors", desk.read("other/trainer.safetensors"));
    step("--html step.html --overwrite").fails_with(&["trainer.safetensors", "does not belong to the run.json"]);
    desk.remove("run/trainer.safetensors");
    step("--html step.html --overwrite").fails_with(&["trainer.safetensors", "is missing"]);
    desk.gradus("pretrain --resume run --quiet").fails_with(&["trainer.safetensors", "is missing"]);
    assert_eq!(desk.read("run/model.safetensors"), model);
    desk.write("run/trainer.safetensors", own);

    desk.gradus("pretrain --resume run --quiet").printed();
    step("--html step.html --overwrite").fails_with(&["all 6 steps", "--stop-at"]);
}

#[test]
fn a_missing_or_invalid_dump_cannot_be_replayed() {
    let desk = Desk::new();
    desk.gradus("audit replay .").fails_with(&["./step.json: it is missing", "`anomaly` directory"]);
    desk.write("step.json", "{}");
    desk.gradus("audit replay .").fails_with(&["step.json", "missing field", "`anomaly` directory"]);
}

#[test]
fn the_cost_of_a_step_is_shown_op_by_op() {
    let desk = Desk::new();
    let found = desk.gradus("audit cost --steps 1 --quiet --html cost.html --json").json();
    let sum = |lines: &str, field: &str| items(&found[lines]).iter().map(|line| number(&line[field])).sum::<f64>();
    // The times of the ops and the rest add up to the step. The sums by place equal the sums by op.
    let made = sum("ops", "forward_ms") + sum("ops", "backward_ms") + number(&found["rest_ms"]);
    assert_near(&found["step_ms"], made, 1e-6 * made);
    for field in ["calls", "flops", "bytes"] {
        assert_eq!(sum("ops", field), sum("places", field), "{field}");
    }
    let attention = items(&found["ops"]).iter().find(|op| op["name"] == "self_attention").unwrap();
    assert_eq!(attention["calls"], 4, "one in each block");
    giga(&found, "gemm_gflops");
    giga(&found, "bandwidth_gb_per_second");
    assert_holds(&desk.text("cost.html"), &["Ops under the roof", "Memory over the step"]);
    desk.gradus("audit cost --quiet --html cost.html").fails_with(&["cost.html", "--overwrite"]);
    desk.gradus("audit cost --batch 0").misused(&["--batch 0"]);
    desk.gradus("audit cost --steps 0").misused(&["--steps 0"]);
}
