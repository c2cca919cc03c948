//! Tests of `--device` and `gradus devices`.

use super::*;

#[test]
fn an_unknown_device_is_rejected_with_the_available_ones() {
    let desk = Desk::new();
    desk.byte_model("model", |_| {});
    let generate = |device: &str| desk.gradus(&format!("generate --model model --prompt a --tokens 1 --device {device}"));
    generate("tpu").misused(&["a device is cpu, gpu or gpu:NAME, got \"tpu\""]);
    generate("gpu:").misused(&["a device is cpu, gpu or gpu:NAME, got \"gpu:\""]);
    let expected = if cfg!(feature = "wgpu") { "no GPU is named" } else { "cargo build --release --features wgpu" };
    generate("gpu:no-such-name").misused(&[expected]);
    assert!(generate("cpu").printed().starts_with('a'));
}

#[test]
fn the_cpu_is_always_listed() {
    assert!(gradus("devices").printed().starts_with("cpu\n"));
    let listed = gradus("devices --json").json();
    assert_eq!(listed["devices"][0], serde_json::json!({ "device": "cpu" }));
    let why = gradus("devices").stderr;
    assert!(cfg!(feature = "wgpu") || why.contains("this build supports only the CPU"), "{why}");
}

#[cfg(all(unix, feature = "wgpu"))]
mod on_a_gpu {
    use super::*;
    use crate::finetune::SHORT;

    /// Returns the first GPU, as `--device` takes it.
    fn gpu() -> Option<String> {
        let listed = gradus("devices --json").json();
        match items(&listed["devices"]).get(1) {
            Some(gpu) => {
                let name = gpu["device"].as_str().expect("a name");
                assert!(gpu["rounds_fma"].is_string() && gpu["keeps_denormals"].is_boolean(), "{gpu}");
                // Only up to the first space, since the program's arguments are split at spaces.
                Some(name.split_whitespace().next().expect("a word").to_owned())
            }
            None if std::env::var_os("GRADUS_GPU_REQUIRED").is_some() => panic!("no GPU was found"),
            None => {
                eprintln!("\n    SKIPPED, NOTHING WAS TESTED: no GPU was found\n");
                None
            }
        }
    }

    /// The workload is `tiny` with one sequence, whose step takes about a second.
    #[test]
    fn a_training_benchmark_runs_on_a_gpu_as_on_the_cpu() {
        let Some(gpu) = gpu() else { return };
        let train = |device: &str| {
            let json = gradus(&format!("bench train --batch 1 --steps 1 --warm-up 3 --device {device} --quiet --json")).json();
            assert_eq!(json["shards"], 1);
            assert!(giga(&json, "gemm_gflops") > 0.0);
            json
        };
        let (here, there) = (train("cpu"), train(&gpu));
        assert_near(&there["final_loss"], number(&here["final_loss"]), 1e-3);
        let bytes = |json: &Value, class: &str| json["memory"][class].as_u64().unwrap_or_else(|| panic!("{class} in {json}"));
        for class in ["parameters", "gradients", "moments"] {
            assert_eq!(bytes(&there, class), bytes(&here, class), "{class}");
        }
        // A step keeps equal tensors on both devices. A GPU has a separate buffer for each, which may be an eighth larger.
        let (kept, kept_here) = (bytes(&there, "activations"), bytes(&here, "activations"));
        assert!(kept > kept_here / 2 && kept < kept_here * 3 / 2, "{kept} bytes, {kept_here} on the CPU");
        assert!(bytes(&there, "live_peak") > 4 * bytes(&there, "parameters"), "{there}");
        assert_eq!((&here["gpu"], &there["memory"]["scratch"]), (&Value::Null, &Value::Null));
        let step = |field: &str| number(&there["gpu"][field]);
        assert!(step("dispatches") > 100.0 && step("sent_bytes") > 0.0 && step("read_bytes") > 0.0, "{there}");
        assert!(step("waits") == 1.0 && step("submissions") <= 6.0 && step("buffers_made") == 0.0, "{there}");
        // One more step runs as many shaders as the mean step. A VJP that adds to a sum, such as a slice's, also runs separately.
        if let Some(dispatches) = profiled(&there["gpu"]["shaders"]) {
            assert_eq!(dispatches, step("dispatches") + 2.0, "{there}");
            let ops = items(&there["gpu"]["ops"]);
            let of_ops: f64 = ops.iter().map(|op| number(&op["dispatches"])).sum();
            assert!(of_ops > dispatches / 3.0 && of_ops < dispatches, "the norm and Adam are in no op: {there}");
            let linear = ops.iter().find(|op| op["name"] == "linear").unwrap_or_else(|| panic!("{there}"));
            assert!(number(&linear["forward_ms"]) > 0.0 && number(&linear["backward_ms"]) > 0.0, "{linear}");
        }
        gradus(&format!("bench train --warm-up 0 --device {gpu}"))
            .misused(&["--warm-up 0: expected at least 1 on a GPU, which compiles and measures its kernels in the first step"]);
    }

    #[test]
    fn benchmarks_on_a_gpu_report_shaders() {
        let Some(gpu) = gpu() else { return };
        let json = gradus(&format!("bench matmul --sizes 16 --device {gpu} --quiet --json")).json();
        let product = &items(&json["products"])[0];
        assert!(number(&product["gflops"]) > 0.0, "{json}");
        assert_ne!(json["device"], "cpu");
        if let Some(dispatches) = profiled(&product["gpu"]["shaders"]) {
            assert_eq!(dispatches, 1.0, "{product}");
        }
        let desk = Desk::new();
        desk.byte_model("model", |_| {});
        // The last token fills the context.
        let line = format!("bench generate --model model --prompt-tokens 2 --tokens 6 --device {gpu}");
        let json = desk.gradus(&format!("{line} --json")).json();
        if let Some(dispatches) = profiled(&json["gpu"]["shaders"]) {
            assert!(dispatches > 20.0, "two blocks: {json}");
            assert_eq!(desk.gradus(&line).printed().matches(" dispatches").count(), 3);
        }
        assert_eq!(desk.gradus("bench generate --model model --prompt-tokens 2 --tokens 6 --json").json()["gpu"], Value::Null);
    }

    /// Returns the dispatches of these shaders, each timed, the longest first; `None` if the GPU has no timestamps.
    fn profiled(shaders: &Value) -> Option<f64> {
        if shaders.is_null() {
            return None;
        }
        let ms: Vec<f64> = items(shaders).iter().map(|shader| number(&shader["ms"])).collect();
        assert!(ms[0] > 0.0 && ms.is_sorted_by(|a, b| a >= b), "{shaders}");
        assert!(items(shaders).iter().all(|shader| number(&shader["bytes"]) > 0.0), "{shaders}");
        Some(items(shaders).iter().map(|shader| number(&shader["dispatches"])).sum())
    }

    #[test]
    fn the_cost_of_a_step_reports_gpu_times_and_shaders() {
        let Some(gpu) = gpu() else { return };
        let desk = Desk::new();
        let cost = desk.gradus(&format!("audit cost --batch 1 --steps 1 --device {gpu} --quiet --html cost.html --json")).json();
        let sum = |field: &str| items(&cost["ops"]).iter().map(|op| number(&op[field])).sum::<f64>();
        let (forward, backward) = (sum("forward_ms"), sum("backward_ms"));
        assert!(forward > 0.0 && backward > 0.0, "{cost}");
        let linear = items(&cost["ops"]).iter().find(|op| op["name"] == "linear").expect("in every block");
        assert!(linear["calls"] == 12 && number(&linear["forward_ms"]) > 0.0 && number(&linear["backward_ms"]) > 0.0, "{linear}");
        let shaders = items(&cost["shaders"]);
        let adam = shaders.iter().find(|shader| shader["name"] == "adam").unwrap_or_else(|| panic!("{cost}"));
        // θ, m and v are written, and the gradient is read.
        assert!(number(&adam["bytes"]) >= 4.0 * 4.26e6, "{adam}");
        assert!(shaders.iter().all(|shader| number(&shader["dispatches"]) >= 1.0), "{cost}");
        match cost["clock"].as_str() {
            Some("timestamps") => {
                // A linear layer is one product; its VJP is two products, and a sum for the bias.
                let dispatches = number(&linear["dispatches"]);
                assert!((4.0 * 12.0..=8.0 * 12.0).contains(&dispatches), "{linear}");
                assert!(number(&linear["bound_bytes"]) >= number(&linear["bytes"]), "{linear}");
                assert!(sum("dispatches") < items(&cost["shaders"]).iter().map(|s| number(&s["dispatches"])).sum());
                assert_holds(&desk.text("cost.html"), &["MB bound"]);
                let all: f64 = shaders.iter().map(|shader| number(&shader["ms"])).sum();
                assert!(all > forward + backward, "ops, and what is around them: {cost}");
            }
            Some("waits") => {
                assert!(linear["dispatches"].is_null() && shaders.iter().all(|shader| shader["ms"].is_null()), "{cost}")
            }
            _ => panic!("{cost}"),
        }
        assert_holds(&desk.text("cost.html"), &["Shader by shader", "adam"]);
    }

    #[test]
    fn a_step_on_a_gpu_is_opened_as_on_the_cpu() {
        let Some(gpu) = gpu() else { return };
        let desk = Desk::new();
        let open = |device: &str, page: &str| {
            let found = desk.gradus(&format!("audit step --by-hand --device {device} --html {page} --json")).json();
            assert_eq!(found["faults"], Value::Array(Vec::new()));
            found
        };
        let (here, there) = (open("cpu", "here.html"), open(&gpu, "there.html"));
        assert_eq!((&there["nodes"], &there["proved"]), (&here["nodes"], &here["proved"]));
        assert_eq!(there["parameters_sha256"], here["parameters_sha256"], "eighths are the same in f32");
        assert_near(&there["loss"], number(&here["loss"]), 1e-6);
        assert_ne!(there["loss"], here["loss"], "in f32");
        assert_holds(&desk.text("there.html"), &["f32 on gpu:", "differences are computed in f64"]);
        // A model with dropout, fused ops and several rows.
        desk.byte_model("model", |_| {});
        let line = "audit step --model model --text abcdefgh --html page.html --overwrite --json";
        desk.gradus(&format!("{line} --device {gpu}")).json();
    }

    #[test]
    fn a_failed_step_is_replayed_on_the_gpu() {
        let Some(gpu) = gpu() else { return };
        let desk = Desk::new();
        desk.write("corpus.txt", "the cat sat on the mat, and the dog sat on the cat. ".repeat(30));
        let wild = "--lr 1e30 --clip 0 --optimizer sgd";
        let run = desk.gradus(&format!("pretrain --corpus corpus.txt --out run {SIZES} {wild} --device {gpu}"));
        run.fails_with(&["diverged", "The first non-finite number: in the forward pass,", "gradus audit replay"]);
        let found = desk.gradus(&format!("audit replay run/anomaly --device {gpu} --quiet --json")).json();
        assert_holds(&run.stderr, &[found["op"].as_str().expect("a name"), found["source"].as_str().expect("a place")]);
    }

    const SIZES: &str =
        "--tokenizer char --layers 1 --width 16 --heads 2 --context 12 --batch 4 --steps 6 --eval-every 6 --quiet --json";

    #[test]
    fn a_half_precision_run_resumes_in_half_precision() {
        let Some(gpu) = gpu() else { return };
        let desk = Desk::new();
        desk.write("corpus.txt", "the cat sat on the mat, and the dog sat on the cat. ".repeat(30));
        let begin = |out: &str, more: &str| {
            desk.gradus(&format!("pretrain --corpus corpus.txt --out {out} {SIZES} --device {gpu} --matmul-precision f16 {more}"))
                .json()
        };
        let whole = begin("whole", "");
        begin("half", "--stop-at 3");
        assert_eq!(desk.json("half/run.json")["precision"]["products"], "f16");
        let open = |more: &str| desk.gradus(&format!("audit step --run half --device {gpu} --html {more}"));
        let opened = open("half.html --json").json();
        open("not.html --matmul-precision f32")
            .misused(&["--matmul-precision f32: the saved run or step multiplies in f16; leave --matmul-precision out"]);
        let resumed = desk.gradus("pretrain --resume half --quiet --json").json();
        assert_eq!(resumed["parameters_sha256"], whole["parameters_sha256"], "the run keeps device, precision, and its bits");
        let losses = |run: &str| {
            let steps = desk.records(run).into_iter().filter(|record| record["record"] == "step" && record["step"] == 4);
            steps.map(|record| number(&record["loss"])).collect::<Vec<_>>()
        };
        let [half] = losses("half")[..] else { panic!("step 4 is recorded once") };
        assert_near(&opened["loss"], half, 1e-6);
        let full = desk.gradus(&format!("pretrain --corpus corpus.txt --out full {SIZES} --device {gpu}")).json();
        assert_ne!(full["parameters_sha256"], whole["parameters_sha256"]);
        assert!((losses("full")[0] - half).abs() > 1e-6, "{half} in f32 too");
        assert_near(&full["final_loss"], number(&whole["final_loss"]), 0.01);
        let elsewhere = begin("elsewhere", "--stop-at 3");
        assert_eq!(elsewhere["finished"], false);
        let on_cpu = desk.gradus("pretrain --resume elsewhere --device cpu --stop-at 4 --quiet --json");
        let note = "on cpu, with products in f32 instead of f16, its results will differ in the last bits";
        assert!(on_cpu.stderr.contains("warning: this run began on gpu:") && on_cpu.stderr.contains(note), "{}", on_cpu.stderr);
        desk.forget("elsewhere");
        let mut run = desk.json("elsewhere/run.json");
        run["device"] = "gpu:of another machine\u{1b}[31m".into();
        desk.write("elsewhere/run.json", run.to_string());
        desk.gradus("pretrain --resume elsewhere")
            .fails_with(&["of another machine", "the run was begun there: --device cpu continues it on the CPU"]);
        let on_cpu = desk.gradus("pretrain --resume elsewhere --device cpu --quiet --json");
        assert!(!on_cpu.stderr.contains('\u{1b}'), "{:?}", on_cpu.stderr);
        let on_cpu = on_cpu.json();
        let devices = desk.records("elsewhere").into_iter().filter(|record| record["record"] == "device");
        let names: Vec<String> = devices.map(|record| record["device"].as_str().unwrap()[..3].to_owned()).collect();
        assert_eq!(names, ["gpu", "cpu", "cpu"], "the log says where each session computed");
        assert_near(&on_cpu["final_loss"], number(&whole["final_loss"]), 0.01);
        desk.gradus(&format!("pretrain --corpus corpus.txt --out cpu {SIZES} --matmul-precision f16"))
            .misused(&["--matmul-precision f16 on the CPU: expected f32 or bf16, or a GPU (--device gpu"]);
        desk.gradus(&format!("pretrain --corpus corpus.txt --out cpu {SIZES} --device {gpu} --matmul-precision f8"))
            .misused(&["expected f32, f16 or bf16, found \"f8\""]);
    }

    #[test]
    fn missing_kernels_of_a_gpu_are_reported_once() {
        let Some(gpu) = gpu() else { return };
        let desk = Desk::new();
        desk.write("corpus.txt", "the cat sat on the mat, and the dog sat on the cat. ".repeat(90));
        let sizes = "--tokenizer char --layers 1 --width 32 --heads 2 --context 12 --batch 128 --steps 2 --stop-at 1";
        desk.gradus(&format!("pretrain --corpus corpus.txt --out run {sizes} --device {gpu} --matmul-precision f16")).printed();
        desk.forget("run");
        let mut run = desk.json("run/run.json");
        // The kernel of the block's wide product, 128·12 rows by 32 and 4·32 columns.
        let kind = "f16, 1 of (2048, 32)·(32, 128), k4·4";
        run["precision"]["kernels"] = serde_json::json!({ kind: "a kernel of another GPU" });
        desk.write("run/run.json", run.to_string());
        let resumed = desk.gradus(&format!("pretrain --resume run --device {gpu}"));
        assert!(resumed.stderr.contains("lacks 1 kernel chosen before; others take its place"), "{}", resumed.stderr);
        assert!(desk.text("run/metrics.jsonl").contains("lacks 1 kernel"));
        assert_eq!(resumed.stderr.matches("lacks").count(), 1, "once");
    }

    #[test]
    fn a_run_resumes_on_the_other_device() {
        let Some(gpu) = gpu() else { return };
        let desk = Desk::new();
        desk.write("corpus.txt", "the cat sat on the mat, and the dog sat on the cat. ".repeat(30));
        let begin =
            |out: &str, more: &str| desk.gradus(&format!("pretrain --corpus corpus.txt --out {out} {SIZES} {more}")).json();
        let here = begin("here", "--shards 1");
        let half = begin("there", &format!("--device {gpu} --stop-at 3"));
        assert_eq!((&half["steps"], &half["finished"]), (&3.into(), &false.into()));
        assert_eq!(desk.json("there/run.json")["settings"]["shards"], 1, "a GPU is busy with one");
        let there = desk.gradus(&format!("pretrain --resume there --device {gpu} --quiet --json")).json();
        assert_near(&there["final_loss"], number(&here["final_loss"]), 1e-3);
        assert_near(&there["validation"]["nll"], number(&here["validation"]["nll"]), 1e-3);
        let devices = desk.records("there").into_iter().filter(|record| record["record"] == "device");
        let steps: Vec<Value> = devices.map(|record| record["step"].clone()).collect();
        assert_eq!(steps, [0, 3], "{:?}", desk.records("there")[0]);

        let score =
            |device: &str| desk.gradus(&format!("evaluate --model there --corpus corpus.txt --device {device} --json")).json();
        assert_near(&score(&gpu)["nll"], number(&score("cpu")["nll"]), 1e-4);
        let written =
            |device: &str| desk.gradus(&format!("generate --model there --prompt the --tokens 20 --greedy --device {device}"));
        assert_eq!(written(&gpu).printed(), written("cpu").printed());
        desk.gradus(&format!("evaluate --model there --corpus no-such-file --dtype f64 --device {gpu}"))
            .misused(&["a GPU computes in f32"]);
    }

    /// The dev split is scored after each epoch.
    #[test]
    fn fine_tuning_on_a_gpu_matches_the_cpu() {
        let Some(gpu) = gpu() else { return };
        let desk = Desk::with_data(&["rte"]);
        let on_gpu = format!("--device {gpu}");
        let here = desk.begin("rte", "here", &format!("{SHORT} --shards 1")).json();
        let half = desk.begin("rte", "there", &format!("{SHORT} {on_gpu} --stop-at 3")).json();
        assert_eq!(half["finished"], false);
        assert_eq!(desk.json("there/run.json")["settings"]["shards"], 1, "a GPU is busy with one");
        let there = desk.resume("there", &on_gpu).json();
        assert_eq!((&there["score"], &there["metrics"]), (&here["score"], &here["metrics"]));
        let points = |run: &Value| items(&run["seeds"][0]["curve"]).to_vec();
        assert_eq!((points(&here).len(), points(&there).len()), (2, 2));
        for (here, there) in points(&here).iter().zip(&points(&there)) {
            assert_near(&there["train_loss"], number(&here["train_loss"]), 1e-3);
            assert_near(&there["dev"]["loss"], number(&here["dev"]["loss"]), 1e-3);
        }
        desk.begin("rte", "cut", &format!("{SHORT} {on_gpu} --shards 2 --stop-at 1")).json();
        assert_eq!(desk.json("cut/run.json")["settings"]["shards"], 2, "a number that is asked for");

        let ask = |command: &str, device: &str| {
            desk.ask(command, "there", "rte", &format!("--split dev --json --device {device}")).json()
        };
        let [[scored, here], [answered, answered_here]] =
            ["evaluate", "predict"].map(|command| [ask(command, &gpu), ask(command, "cpu")]);
        assert_eq!((&scored["score"], &scored["metrics"]), (&here["score"], &here["metrics"]));
        assert_near(&scored["loss"], number(&here["loss"]), 1e-4);
        assert_eq!(items(&answered["answers"]).len(), 6);
        for (found, expected) in items(&answered["answers"]).iter().zip(items(&answered_here["answers"])) {
            assert_eq!((&found["id"], &found["answer"]), (&expected["id"], &expected["answer"]));
            for (found, expected) in numbers(&found["logits"]).into_iter().zip(numbers(&expected["logits"])) {
                assert!((found - expected).abs() < 1e-4, "a logit {found}, {expected} on the CPU");
            }
        }
    }
}
