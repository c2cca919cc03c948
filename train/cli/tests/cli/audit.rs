//! `gradus audit` from outside.

use std::fs;
use std::path::Path;

use gradus_audit::step::Scene;
use gradus_io::progress::Silent;
use gradus_model::{Activation, GptConfig, Model, ModelConfig, Tree, checkpoint};
use gradus_report::metrics::{self, Record};
use gradus_tensor::Tensor;
use gradus_train::pretrain::Stored;

use super::{giga, gradus};

#[test]
fn ops_are_audited_and_nothing_is_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let (page, html) = (dir.path().join("OPS.md"), dir.path().join("ops.html"));
    let line = "audit ops --draws 2 --quiet --markdown {} --html {} --json";
    let found = gradus(line, &[&page, &html]).json();
    assert_eq!((found["draws"].as_u64(), found["faults"].as_array().map(Vec::len)), (Some(2), Some(0)));
    let ops = found["ops"].as_array().unwrap();
    let gelu = ops.iter().find(|op| op["name"] == "gelu").unwrap();
    assert!(gelu["golden"]["gradient"].as_f64().unwrap() < 1e-13 && gelu["teeth"] == true && gelu["fused"] == true);
    let evidence = gelu["evidence"].as_array().unwrap();
    assert_eq!(
        (evidence.len(), evidence[0]["witness"].as_str(), evidence[0]["samples"].as_u64()),
        (8, Some("forward_mode"), Some(6))
    );
    let (text, shown) = (fs::read_to_string(&page).unwrap(), fs::read_to_string(&html).unwrap());
    for op in ops {
        let name = op["name"].as_str().unwrap();
        assert!(text.contains(&format!("\n## {name}\n")) && shown.contains(&format!("<h2>{name}</h2>")), "{name}");
    }
    fs::write(&page, "mine").unwrap();
    gradus(line, &[&page, &html]).fails_with(&["OPS.md", "--overwrite"]);
    assert_eq!(fs::read_to_string(&page).unwrap(), "mine");
    let summary = gradus(&format!("{} --overwrite", line.replace(" --json", "")), &[&page, &html]);
    assert!(summary.code == Some(0) && summary.stdout.lines().count() == 10, "{}", summary.stdout);
    assert!(summary.stdout.contains("No witness refuses an op"), "{}", summary.stdout);
    assert_eq!(fs::read_to_string(&page).unwrap(), text);
    gradus("audit ops --draws 0", &[]).misused(&["--draws 0", "from 1"]);
    let one = dir.path().join("one");
    gradus("audit ops --draws 1 --html {} --markdown {}", &[&one, &one]).misused(&["--markdown and --html", "same file"]);
    gradus("audit ops --draws 1 --html {} --overwrite", &[dir.path()]).misused(&["no plain file", "another place"]);
}

#[test]
fn the_ledger_knows_a_checkout_and_what_became_of_tests() {
    let dir = tempfile::tempdir().unwrap();
    let root = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (html, log) = (dir.path().join("ledger.html"), dir.path().join("tests.log"));
    let printed = |outcome: &str| {
        let binary = "     Running unittests src/lib.rs (target/debug/deps/gradus_train-0123456789abcdef)";
        format!("{binary}\ntest optim::clip::tests::one_norm_for_all ... {outcome}\n")
    };
    fs::write(&log, printed("ok")).unwrap();
    let found = gradus("audit ledger --root {} --results {} --html {} --json", &[root, &log, &html]).json();
    assert_eq!(found["faults"].as_array().map(Vec::len), Some(0));
    let tests = || found["rows"].as_array().unwrap().iter().flat_map(|row| row["tests"].as_array().unwrap());
    let passed: Vec<_> = tests().filter(|test| test["status"] == "passed").map(|test| test["name"].as_str().unwrap()).collect();
    assert_eq!(passed, ["one_norm_for_all"]);
    assert!(tests().all(|test| test["line"].as_u64().is_some()));
    let page = fs::read_to_string(&html).unwrap().replace('\u{200b}', "");
    assert!(page.contains("one_norm_for_all (train/src/optim/clip.rs:"));
    fs::write(&log, printed("FAILED")).unwrap();
    let failed = gradus("audit ledger --root {} --results {}", &[root, &log]);
    assert!(failed.code == Some(1) && failed.stderr.contains("`one_norm_for_all` failed"), "{}", failed.stderr);
    fs::write(&log, "nothing").unwrap();
    gradus("audit ledger --root {} --results {}", &[root, &log]).misused(&["tests.log", "cargo test"]);
    gradus("audit ledger --root {}", &[dir.path()]).misused(&["--root", "checkout"]);
}

#[test]
fn whole_models_are_audited_parameter_by_parameter() {
    let dir = tempfile::tempdir().unwrap();
    let html = dir.path().join("model.html");
    let found = gradus("audit model --coordinates 2 --quiet --html {} --json", &[&html]).json();
    let models = found["models"].as_array().unwrap();
    assert_eq!((models.len(), found["faults"].as_array().map(Vec::len)), (11, Some(0)));
    for model in models {
        let name = &model["name"];
        assert!((model["taylor_slope"].as_f64().unwrap() - 2.0).abs() <= 0.05, "{name}");
        assert!(model["witnesses"]["adjoint"].as_f64().unwrap() <= 1e-12, "{name}");
        assert!(model["properties"].as_object().unwrap().values().all(|held| held == true), "{name}");
        for tensor in model["tensors"].as_array().unwrap() {
            assert!(tensor["directional_error"].as_f64().unwrap() <= 1e-8, "{name}, {}", tensor["name"]);
            assert!(tensor["element_error"].as_f64().unwrap() <= 1e-8, "{name}, {}", tensor["name"]);
            // None of these models has a derivative so small that an error of a thousandth would be lost in the loss.
            let zero = tensor["zeros"].as_f64() == Some(1.0);
            assert!(zero || tensor["sees"].as_f64().unwrap() < 1e-3, "{name}, {}", tensor["name"]);
        }
    }
    let page = fs::read_to_string(&html).unwrap();
    for part in ["h.1.attn.c_attn.weight", "Every derivative holds, and every property", "SHA-256 of the parameters"] {
        assert!(page.contains(part), "{part}");
    }
    gradus("audit model --quiet --html {}", &[&html]).fails_with(&["model.html", "--overwrite"]);
}

#[test]
fn a_checkpoint_is_audited_and_a_broken_one_refused() {
    let dir = tempfile::tempdir().unwrap();
    let config = ModelConfig::from(GptConfig { vocab: 23, context: 12, width: 8, layers: 1, heads: 2, ..GptConfig::default() });
    let mut params: Model<Tensor<f32>> = Model::init(&config, 1);
    checkpoint::save(dir.path(), &params).unwrap();
    let line = "audit model --model {} --sequences 2 --tokens 6 --dropout --quiet --json";
    let found = gradus(line, &[dir.path()]).json();
    assert_eq!((found["models"][0]["parameters"].as_u64(), found["faults"].as_array().map(Vec::len)), (Some(1152), Some(0)));
    for wrong in ["--tokens 13", "--tokens 1", "--sequences 3", "--coordinates 1001"] {
        gradus(&format!("audit model --model {{}} {wrong} --quiet"), &[dir.path()]).misused(&[wrong]);
    }
    params.as_mut().visit(|name, p| {
        if name == "h.0.mlp.c_fc.weight" {
            p.set(0, f32::NAN);
        }
    });
    checkpoint::save(dir.path(), &params).unwrap();
    let broken = gradus(line, &[dir.path()]);
    assert!(
        broken.code == Some(1)
            && broken.stderr.contains("parameter h.0.mlp.c_fc.weight holds numbers that are not finite; the loss is NaN"),
        "{}",
        broken.stderr
    );
}

/// A right gradient is not accused: not of relu, whose kinks some lines cross, nor of parameters in which no token shows, nor of a
/// deep and narrow model, whose loss bends too sharply for a step that is right elsewhere.
#[test]
fn what_is_right_in_unusual_models_is_not_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sized =
        |width| GptConfig { vocab: 23, context: 12, width, layers: 2, heads: 1, initializer_range: 0.3, ..GptConfig::default() };
    let models = [
        (GptConfig { activation: Activation::Relu, ..sized(8) }, 8),
        (sized(1), 1),
        (GptConfig { layers: 8, initializer_range: 0.6, ..sized(3) }, 2),
    ];
    for (config, seeds) in models {
        let config = ModelConfig::from(config);
        checkpoint::save(dir.path(), &Model::<Tensor<f32>>::init(&config, 1)).unwrap();
        for seed in 1..=seeds {
            let line = format!("audit model --model {{}} --sequences 4 --tokens 6 --seed {seed} --quiet --json");
            let found = gradus(&line, &[dir.path()]);
            assert_eq!(found.code, Some(0), "seed {seed}: {}", found.stderr);
        }
    }
}

#[test]
fn a_step_is_opened_as_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let html = dir.path().join("step.html");
    let found = gradus("audit step --by-hand --html {} --json", &[&html]).json();
    assert_eq!((found["faults"].as_array().map(Vec::len), found["nodes"].as_u64()), (Some(0), Some(30)));
    assert!(found["proved"].as_u64().unwrap() > 80 && found["parameters_sha256"].as_str().unwrap().len() == 64);
    let page = fs::read_to_string(&html).unwrap();
    for part in ["h.0.attn.c_attn.weight", found["batch_sha256"].as_str().unwrap(), "audit step --by-hand", "\"softmax\""] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("src=") && !page.contains("@import") && page.contains("default-src 'none'"));
    gradus("audit step --by-hand --html {}", &[&html]).fails_with(&["step.html", "--overwrite"]);

    let (model, text) = (dir.path().join("model"), dir.path().join("text.txt"));
    fs::write(&text, "a rose is a rose is a rose").unwrap();
    let line = "pretrain --corpus {} --tokenizer char --context 8 --width 8 --layers 1 --heads 2 --batch 2 --steps 2 --held-out 0 --quiet --out {}";
    let made = gradus(line, &[&text, &model]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let line = "audit step --model {} --corpus {} --tokens 8 --sequences 2 --html {} --overwrite --quiet --json";
    let found = gradus(line, &[&model, &text, &html]).json();
    assert_eq!(found["faults"].as_array().map(Vec::len), Some(0));
    assert!(fs::read_to_string(&html).unwrap().contains("the beginning of"));
    let model = model.as_path();
    let nothing = gradus("audit step --model {} --html {} --overwrite", &[model, &html]);
    assert!(nothing.code == Some(2) && nothing.stderr.contains("give --text, --corpus, or --task"), "{}", nothing.stderr);
    gradus("audit step --model {} --text rose --html {} --overwrite --json", &[model, &html]).json();
    gradus("audit step --model {} --text r --html {} --overwrite", &[model, &html]).fails_with(&["1 token", "2 are needed"]);
    for wrong in ["--tokens 9", "--tokens 0", "--sequences 0"] {
        gradus(&format!("audit step --model {{}} --corpus {{}} --html {{}} --overwrite {wrong}"), &[model, &text, &html])
            .misused(&[wrong]);
    }
    gradus("audit step --html {}", &[&dir.path().join("none/step.html")]).fails_with(&["none", "folders above it"]);
    gradus("audit step --by-hand --sequences 2", &[]).misused(&["--by-hand", "--sequences"]);
    gradus("audit step --by-hand --text rose", &[]).misused(&["--by-hand", "--text"]);
    let of_no_model = gradus("audit step --text rose", &[]);
    assert!(of_no_model.code == Some(2) && of_no_model.stderr.contains("--model"), "{}", of_no_model.stderr);
}

/// The update on the page is the one that the run then makes: its loss, its rate, and with its moments what becomes of each
/// parameter.
#[test]
fn a_runs_own_next_update_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let (run, text, html) = (dir.path().join("run"), dir.path().join("text.txt"), dir.path().join("step.html"));
    fs::write(&text, "a rose is a rose is a rose, said the poet to the rose").unwrap();
    let line = "pretrain --corpus {} --tokenizer char --context 8 --width 8 --layers 1 --heads 2 --batch 4 --lr 1e-2 --steps 6 \
                --stop-at 3 --held-out 0 --quiet --out {}";
    gradus(line, &[&text, &run]);
    let found = gradus("audit step --run {} --html {} --json", &[&run, &html]).json();
    assert_eq!(found["faults"].as_array().map(Vec::len), Some(0));
    let part = gradus("audit step --run {} --sequences 3 --html {} --overwrite --json", &[&run, &html]).json();
    assert!(fs::read_to_string(&html).unwrap().contains("the first 3 of the 4 sequences of its batch"));
    assert!(part["loss"] != found["loss"] && part["batch_sha256"] != found["batch_sha256"]);
    gradus("audit step --run {} --sequences 5 --html {} --overwrite", &[&run, &html]).misused(&["--sequences 5", "from 1 to 4"]);

    let stored = || Stored::read(&run, dir.path(), &Silent).unwrap();
    let scene = Scene::of_run(&stored(), None).unwrap();
    let mut opened = scene.trainer.clone();
    let made = opened.update(&scene.batch).unwrap();
    assert_eq!(found["loss"].as_f64(), Some(made.loss));
    gradus("pretrain --resume {} --stop-at 4 --quiet", &[&run]);
    let run_s = stored().trainer;
    let records = metrics::read(&run.join("metrics.jsonl")).unwrap();
    let step = records.iter().find_map(|r| if let Record::Step(s) = r { (s.step == 4).then_some(s) } else { None }).unwrap();
    // The run is in f32, the page in f64: 1e-5 is a hundred roundings, and a thousandth of what an update moves.
    assert!((step.loss - made.loss).abs() < 1e-5 && step.lr == made.rate, "{step:?} of the run, {made:?} on the page");
    assert!((step.grad_norm / made.gradient_norm - 1.0).abs() < 1e-4);
    opened.params.as_ref().zip(run_s.params.as_ref()).visit(|name, (page, run)| {
        let off = page.to_vec().iter().zip(run.to_vec()).map(|(a, b)| (a - f64::from(b)).abs()).fold(0.0, f64::max);
        assert!(off < 1e-5, "{name} differs by {off:e}");
    });

    for refused in ["--seed 2", "--tokens 4", "--text rose"] {
        let found = gradus(&format!("audit step --run {{}} {refused}"), &[&run]);
        assert!(found.code == Some(2) && found.stderr.contains(&refused[..6]), "{refused}: {}", found.stderr);
    }

    // A state of another run, or none where there was one: nothing goes on, and nothing is written over.
    let other = dir.path().join("other");
    gradus(&line.replace("--lr 1e-2", "--lr 2e-2"), &[&text, &other]);
    let (state, model) = (run.join("trainer.safetensors"), fs::read(run.join("model.safetensors")).unwrap());
    let own = fs::read(&state).unwrap();
    fs::copy(other.join("trainer.safetensors"), &state).unwrap();
    gradus("audit step --run {} --html {} --overwrite", &[&run, &html]).fails_with(&["trainer.safetensors", "of another run"]);
    fs::remove_file(&state).unwrap();
    gradus("audit step --run {} --html {} --overwrite", &[&run, &html]).fails_with(&["trainer.safetensors", "not there"]);
    gradus("pretrain --resume {} --quiet", &[&run]).fails_with(&["trainer.safetensors", "not there"]);
    assert_eq!(fs::read(run.join("model.safetensors")).unwrap(), model);
    fs::write(&state, own).unwrap();

    gradus("pretrain --resume {} --quiet", &[&run]);
    gradus("audit step --run {} --html {} --overwrite", &[&run, &html]).fails_with(&["all 6 updates", "--stop-at"]);
}

#[test]
fn what_was_never_kept_is_not_made_again() {
    let dir = tempfile::tempdir().unwrap();
    gradus("audit replay {}", &[dir.path()]).fails_with(&["step.json", "cannot read"]);
    fs::write(dir.path().join("step.json"), "{}").unwrap();
    gradus("audit replay {}", &[dir.path()]).fails_with(&["step.json", "missing field", "`anomaly` directory"]);
}

#[test]
fn the_cost_of_a_step_is_shown_op_by_op() {
    let dir = tempfile::tempdir().unwrap();
    let html = dir.path().join("cost.html");
    let found = gradus("audit cost --steps 1 --quiet --html {} --json", &[&html]).json();
    let sum = |lines: &str, field: &str| found[lines].as_array().unwrap().iter().map(|l| l[field].as_f64().unwrap()).sum::<f64>();
    // Ops and the rest make the step; by place it is the same work.
    let (step, rest) = (found["step_ms"].as_f64().unwrap(), found["rest_ms"].as_f64().unwrap());
    assert!((sum("ops", "forward_ms") + sum("ops", "backward_ms") + rest - step).abs() < 1e-6 * step, "{found}");
    for field in ["calls", "flops", "bytes"] {
        assert_eq!(sum("ops", field), sum("places", field), "{field}");
    }
    let attention = found["ops"].as_array().unwrap().iter().find(|op| op["name"] == "self_attention").unwrap();
    assert_eq!(attention["calls"], 4, "one in each block");
    giga(&found, "gemm_gflops");
    giga(&found, "bandwidth_gb_per_second");
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains("Ops under the roof") && page.contains("Memory over the step"));
    gradus("audit cost --quiet --html {}", &[&html]).fails_with(&["cost.html", "--overwrite"]);
    gradus("audit cost --steps 0", &[]).misused(&["--steps 0"]);
}
