//! Tests of `--matmul-precision bf16`: the bits of a run, its files, and its errors.

use super::*;

const SIZES: &str = "--tokenizer char --preset tiny --layers 1 --width 64 --heads 2 --context 64 --batch 8 --eval-tokens 300 \
                     --seed 3 --steps 12 --quiet --json";

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("corpus.txt", "the cat sat on the mat, and the dog sat on the cat. ".repeat(60));
    desk
}

fn begin(desk: &Desk, out: &str, more: &str) -> Value {
    desk.gradus(&format!("pretrain --corpus corpus.txt --out {out} {SIZES} --shards 2 {more}")).json()
}

#[test]
fn a_run_in_bf16_has_the_same_bits_on_threads_after_stops_and_recomputed() {
    let desk = desk();
    let whole = begin(&desk, "whole", "--matmul-precision bf16 --threads 1");
    let sha = &whole["parameters_sha256"];
    let full = begin(&desk, "full", "");
    assert_ne!(&full["parameters_sha256"], sha, "it is another precision");
    assert_near(&whole["final_loss"], number(&full["final_loss"]), 0.02);
    assert_eq!(&begin(&desk, "three", "--matmul-precision bf16 --threads 3")["parameters_sha256"], sha);
    begin(&desk, "half", "--matmul-precision bf16 --stop-at 5");
    assert_eq!(desk.json("half/run.json")["precision"]["products"], "bf16");
    desk.gradus("pretrain --resume half --matmul-precision f32")
        .misused(&["--resume reads everything else from its directory: leave --matmul-precision out"]);
    let resumed = desk.gradus("pretrain --resume half --recompute --threads 2 --quiet --json").json();
    assert_eq!(&resumed["parameters_sha256"], sha, "the run keeps its precision");
}

#[test]
fn a_step_in_bf16_is_audited_and_its_model_answers() {
    let desk = desk();
    begin(&desk, "run", "--matmul-precision bf16 --stop-at 5");
    let opened = desk.gradus("audit step --run run --html step.html --json").json();
    assert_eq!(opened["faults"], serde_json::json!([]));
    assert!(desk.text("step.html").contains("f32 on cpu, with products in bf16; differences are computed in f64"));
    let score = |more: &str| desk.gradus(&format!("evaluate --model run --corpus corpus.txt --json {more}")).json();
    let [full, rounded] = ["", "--matmul-precision bf16"].map(score);
    assert_ne!(full["nll"], rounded["nll"]);
    assert_near(&rounded["nll"], number(&full["nll"]), 0.01);
    let text = |more: &str| desk.gradus(&format!("generate --model run --prompt the --tokens 20 --seed 5 {more}"));
    assert!(!text("--matmul-precision bf16").printed().is_empty());
}

#[test]
fn a_step_in_bf16_that_failed_is_replayed_in_bf16() {
    let desk = desk();
    let wild = "--lr 1e30 --clip 0 --optimizer sgd --matmul-precision bf16";
    let run = desk.gradus(&format!("pretrain --corpus corpus.txt --out run {SIZES} --anomaly {wild}"));
    run.fails_with(&["--anomaly found a non-finite number", "in the forward pass,", "gradus audit replay"]);
    let found = desk.gradus("audit replay run/anomaly --quiet --json").json();
    assert_holds(&run.stderr, &[found["op"].as_str().expect("a name"), found["source"].as_str().expect("a place")]);
    desk.gradus("audit replay run/anomaly --matmul-precision f32")
        .misused(&["--matmul-precision f32: the saved run or step multiplies in bf16; leave --matmul-precision out"]);
}

#[test]
fn bf16_is_an_error_where_it_does_not_exist() {
    let desk = desk();
    begin(&desk, "run", "--stop-at 1");
    desk.gradus("evaluate --model run --corpus no-such-file --dtype f64 --matmul-precision bf16")
        .misused(&["products of f64 in bf16: expected products in f64; only f32 has others"]);
    desk.gradus("evaluate --model run --corpus no-such-file --device gpu --matmul-precision bf16")
        .misused(&["--matmul-precision bf16 on a GPU: expected f32 or f16, or the CPU (--device cpu)"]);
    desk.gradus("evaluate --model run --corpus no-such-file --matmul-precision f16")
        .misused(&["--matmul-precision f16 on the CPU: expected f32 or bf16, or a GPU"]);
    desk.gradus("evaluate --model run --corpus no-such-file --matmul-precision bf8")
        .misused(&["expected f32, f16 or bf16, found \"bf8\""]);
}
