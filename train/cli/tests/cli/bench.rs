use super::*;

#[test]
fn training_reports_every_figure() {
    let json = gradus("bench train --workload tiny --dropout 0.1 --steps 1 --warm-up 0 --threads 2 --json", &[]).json();
    giga(&json, "gemm_gflops");
    let peak = &json["peak_rss_mb"];
    assert!(peak.as_f64().is_some_and(|mb| mb > 4.0) || (!cfg!(target_os = "linux") && peak.is_null()), "{peak}");
    // ln 2000 = 7.601: the loss of random tokens before anything is learned.
    assert!((json["final_loss"].as_f64().unwrap() - 2000f64.ln()).abs() < 0.2, "{json}");
    // 72·4·128² + 6·128·2000 + 12·4·128·128 FLOPs a token
    let flops = giga(&json, "gflops") * 1e9 / json["tokens_per_second"].as_f64().unwrap();
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
        // Two shards at once, or a shard's and the sum so far.
        assert_eq!((bytes("gradients"), bytes("moments")), (2 * bytes("parameters"), 2 * bytes("parameters")));
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
    let model = byte_model(dir.path(), |_| {});
    let json = gradus("bench generate --model {} --prompt-tokens 2 --tokens 6 --json", &[dir.path()]).json();
    let seconds = json["tokens_per_second"].as_f64().unwrap() * json["token_ms"].as_f64().unwrap() / 1e3;
    assert!((seconds - 1.0).abs() < 1e-9, "{json}");
    let sizes = model.gpt().expect("a Transformer").config();
    let read = sizes.parameters() - sizes.context * sizes.width + sizes.width;
    assert_eq!(json["weight_bytes_per_token"], 4 * read);
    let (rate, bandwidth) = (giga(&json, "weight_gb_per_second"), giga(&json, "bandwidth_gb_per_second"));
    assert!((rate / bandwidth / json["share_of_bandwidth"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{json}");
    giga(&json, "gemm_gflops");
    // 2 layers of 24·2·12² + 2·2·3·12 FLOPs, and 2·12·256 for the last logits
    let flops = json["prompt_gflops"].as_f64().unwrap() * json["prompt_ms"].as_f64().unwrap() * 1e6;
    assert!((flops / 20_256.0 - 1.0).abs() < 1e-9, "{json}");
    gradus("bench generate --model {} --prompt-tokens 2 --tokens 7", &[dir.path()]).misused(&["at most 6"]);
    gradus("bench generate --model {} --tokens 0", &[dir.path()]).misused(&["--tokens 0"]);
    gradus("bench train --steps 0", &[]).misused(&["--steps 0"]);
    gradus("bench train --batch 0", &[]).misused(&["--batch 0"]);
    gradus("bench train --batch 2 --accumulate 3", &[]).misused(&["--accumulate 3", "1 to the 2 sequences"]);
    gradus("bench train --batch 4 --accumulate 2 --shards 3", &[]).misused(&["--shards 3", "1 to the 2 sequences"]);
    gradus("bench train --dropout 1", &[]).misused(&["--dropout 1", "below 1"]);
}

#[test]
fn evaluation_reports_its_rate_beside_the_forward_pass() {
    let json = gradus("bench evaluate --workload tiny --passes 1 --threads 2 --json", &[]).json();
    giga(&json, "gemm_gflops");
    let [rate, forward, hidden] =
        ["tokens_per_second", "forward_tokens_per_second", "hidden_tokens_per_second"].map(|field| json[field].as_f64().unwrap());
    assert!(hidden.is_finite() && hidden != forward, "a pass of its own: {json}");
    assert!((json["of_forward"].as_f64().unwrap() - rate / forward).abs() < 1e-12);
    assert_eq!(json["tokens"], 4096);
    assert!((json["loss"].as_f64().unwrap() - 2000f64.ln()).abs() < 0.2, "{json}");
    // (72·4·128² + 6·128·2000 + 12·4·128·128)/3 FLOPs a token
    let flops = json["gflops"].as_f64().unwrap() * 1e9 / rate;
    assert!((flops / 2_347_008.0 - 1.0).abs() < 1e-9, "{flops}");
    gradus("bench evaluate --passes 0", &[]).misused(&["--passes 0"]);
}

#[test]
fn memory_grows_as_it_must() {
    let json = gradus("bench scaling --sweep attention --sweep depth --repeats 1 --threads 1 --json", &[]).json();
    let [attention, depth] = [0, 1].map(|i| &json["sweeps"][i]);
    assert_eq!((attention["name"].as_str(), depth["name"].as_str()), (Some("attention"), Some("depth")));
    // On one thread, since the peak of two depends on who is ahead.
    // What attention keeps and needs is linear in the context; its FLOPs are quadratic.
    for (power, expected, within) in [("saved", 1.0, 1e-6), ("peak", 1.0, 1e-6), ("flops", 2.0, 1e-6)] {
        assert!((attention[power].as_f64().unwrap() - expected).abs() < within, "{power} in {attention}");
    }
    // Each block keeps as much as the one before, and has as many parameters.
    assert!((depth["saved"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{depth}");
    assert!((depth["peak"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{depth}");
    assert!(json["sweeps"].as_array().unwrap().iter().all(|s| s["points"].as_array().unwrap().len() == 5));
    gradus("bench scaling --repeats 0", &[]).misused(&["--repeats 0"]);
}

#[test]
fn scaling_prints_its_points_and_powers() {
    let run = gradus("bench scaling --sweep attention --repeats 1 --threads 1", &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let rows = run.stdout.lines().filter(|line| line.starts_with('|')).count();
    assert_eq!(rows, 2 + 5 + 2 + 1, "{}", run.stdout);
    assert!(run.stdout.contains("| 4096 |") && run.stdout.contains("| attention |"), "{}", run.stdout);
}
