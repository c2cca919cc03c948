use super::*;

#[test]
fn training_reports_every_figure() {
    let json = gradus("bench train --workload tiny --dropout 0.1 --steps 1 --warm-up 0 --threads 2 --json", &[]).json();
    for field in ["tokens_per_second", "step_ms", "gflops", "gemm_gflops"] {
        assert!(json[field].as_f64().unwrap() > 0.0, "{field} in {json}");
    }
    let peak = &json["peak_rss_mb"];
    assert!(peak.as_f64().is_some_and(|mb| mb > 4.0) || (!cfg!(target_os = "linux") && peak.is_null()), "{peak}");
    // ln 2000 = 7.601: the loss of random tokens before anything is learned.
    assert!((json["final_loss"].as_f64().unwrap() - 2000f64.ln()).abs() < 0.2, "{json}");
    // 72·4·128² + 6·128·2000 + 12·4·128·128 FLOPs a token
    let flops = json["gflops"].as_f64().unwrap() * 1e9 / json["tokens_per_second"].as_f64().unwrap();
    assert!((flops / 7_041_024.0 - 1.0).abs() < 1e-9, "{flops}");
    let tokens = json["tokens_per_second"].as_f64().unwrap() * json["step_ms"].as_f64().unwrap() / 1e3;
    assert!((tokens - 2048.0).abs() < 1e-6);
}

/// Four parts hold the activations of a quarter of the batch; recomputing, those of a block and the inputs of all.
#[test]
fn memory_is_listed_by_class() {
    let run = |more: &str| {
        let json = gradus(&format!("bench train --batch 4 --steps 1 --warm-up 0 --json{more}"), &[]).json();
        let memory = json["memory"].clone();
        let bytes = move |class: &str| memory[class].as_u64().unwrap_or_else(|| panic!("{class} in {memory}"));
        assert_eq!(json["tokens_per_step"], 4 * 128);
        assert_eq!(bytes("parameters"), 4 * json["parameters"].as_u64().unwrap());
        assert_eq!((bytes("gradients"), bytes("moments")), (bytes("parameters"), 2 * bytes("parameters")));
        assert!(bytes("live_peak") > 4 * bytes("parameters"));
        assert!(bytes("scratch") > 0);
        if cfg!(target_os = "linux") {
            assert!(bytes("peak_rss") > bytes("live_peak"));
        }
        bytes("activations")
    };
    let whole = run("");
    let parts = run(" --accumulate 4");
    // All grows with the sequences but the few tensors of the parameters' shapes.
    assert!((3 * parts..=4 * parts).contains(&whole), "{whole} bytes for four sequences, {parts} for one");
    let recomputed = run(" --recompute");
    assert!(recomputed < whole / 2, "{whole} bytes for four blocks, {recomputed} for one and the inputs");
}

#[test]
fn generation_reports_what_it_reads() {
    let dir = tempfile::tempdir().unwrap();
    let (config, _) = byte_model(dir.path(), |_| {});
    let json = gradus("bench generate --model {} --prompt-tokens 2 --tokens 6 --json", &[dir.path()]).json();
    assert!(json["tokens_per_second"].as_f64().unwrap() > 0.0);
    let read = config.parameters() - config.context * config.width + config.width;
    assert_eq!(json["weight_bytes_per_token"], 4 * read);
    gradus("bench generate --model {} --prompt-tokens 2 --tokens 7", &[dir.path()]).fails_with(&["at most 6"]);
    gradus("bench generate --model {} --tokens 0", &[dir.path()]).fails_with(&["--tokens 0"]);
    gradus("bench train --steps 0", &[]).fails_with(&["--steps 0"]);
    gradus("bench train --batch 0", &[]).fails_with(&["--batch 0"]);
    gradus("bench train --batch 2 --accumulate 3", &[]).fails_with(&["--accumulate 3", "1 to the 2 sequences"]);
    gradus("bench train --dropout 1", &[]).fails_with(&["--dropout 1", "below 1"]);
}
