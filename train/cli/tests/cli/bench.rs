use super::*;

#[test]
fn training_reports_every_figure() {
    let json = gradus("bench train --workload tiny --dropout 0.1 --steps 1 --warm-up 0 --threads 2 --json").json();
    giga(&json, "gemm_gflops");
    let peak = &json["peak_rss_mb"];
    assert!(peak.as_f64().is_some_and(|mb| mb > 4.0) || (!cfg!(target_os = "linux") && peak.is_null()), "{peak}");
    // The loss of an untrained model on random tokens.
    assert_near(&json["final_loss"], 2000f64.ln(), 0.2);
    // 72·4·128² + 6·128·2000 + 12·4·128·128 FLOPs per token
    let rate = number(&json["tokens_per_second"]);
    let flops = giga(&json, "gflops") * 1e9 / rate;
    assert!((flops / 7_041_024.0 - 1.0).abs() < 1e-9, "{flops}");
    assert_near(&json["step_ms"], 2048.0 / rate * 1e3, 1e-9 * 2048.0 / rate * 1e3);
}

/// Of 128 tokens, 19 are predicted; only they use the layer before the output and the output matrix.
#[test]
fn a_masked_step_counts_only_the_computed_operations() {
    let json = gradus("bench train --workload tiny --masked 0.15 --batch 2 --steps 1 --warm-up 0 --json").json();
    let (l, d, t, v) = (4.0, 128.0, 128.0, 2000.0);
    let flops = 72.0 * l * d * d + 12.0 * l * t * d + 19.0 / 128.0 * 6.0 * d * (v + d);
    let [rate, gflops] = ["tokens_per_second", "gflops"].map(|name| json[name].as_f64().unwrap());
    assert!((1e9 * gflops / rate / flops - 1.0).abs() < 1e-9 && json["masked"] == 0.15, "{json}");
    let plain = gradus("bench train --workload tiny --batch 2 --steps 1 --warm-up 0 --json").json();
    let [more, fewer] = [&json, &plain].map(|json| json["parameters"].as_u64().unwrap());
    // Segments, the layer norm of the embeddings, the layer before the output with its norm, the output's bias.
    assert_eq!(more - fewer, 2 * 128 + 2 * 128 + (128 + 1) * 128 + 2 * 128 + 2000);
    assert!(plain.get("masked").is_none() && json["final_loss"].as_f64().unwrap() > 7.0, "{json}");
    gradus("bench train --masked 0").misused(&["--masked 0", "a fraction of the tokens, above 0 and at most 1"]);
}

/// In four parts, a quarter of the batch's activations are kept; when recomputing, those of a block and the inputs of all.
#[test]
fn memory_is_listed_by_class() {
    let run = |more: &str, gradients: u64| {
        let json = gradus(&format!("bench train --batch 4 --steps 1 --warm-up 0 --json {more}")).json();
        let bytes = |class: &str| json["memory"][class].as_u64().unwrap_or_else(|| panic!("{class} in {json}"));
        assert_eq!(json["tokens_per_step"], 4 * 128);
        assert_eq!(bytes("parameters"), 4 * json["parameters"].as_u64().unwrap());
        assert_eq!((bytes("gradients"), bytes("moments")), (gradients * bytes("parameters"), 2 * bytes("parameters")));
        // At the peak, one shard's activations meet at least one gradient, and at most everything that is listed.
        let (kept, activations) = (3 * bytes("parameters"), bytes("activations"));
        let least = kept + bytes("parameters") + activations / json["shards"].as_u64().unwrap();
        let most = kept + bytes("gradients") + activations + bytes("scratch");
        assert!((least..=most).contains(&bytes("live_peak")), "{json}");
        assert!(bytes("scratch") >= 4096, "{json}");
        if cfg!(target_os = "linux") {
            assert!(bytes("peak_rss") > bytes("live_peak"), "{json}");
        }
        activations
    };
    // The gradients of two shards at once; with four parts, of one shard, and the sums of the first two and of the third.
    let (whole, parts, recomputed) = (run("", 2), run("--accumulate 4", 3), run("--recompute", 2));
    // All activations grow with the number of sequences, except for a few tensors of the parameters' shapes.
    assert!((3 * parts..=4 * parts).contains(&whole), "{whole} bytes for four sequences, {parts} for one");
    assert!(recomputed < whole / 2, "{whole} bytes for four blocks, {recomputed} for one and the inputs");
}

#[test]
fn generation_reports_what_it_reads() {
    let desk = Desk::new();
    let model = desk.byte_model("model", |_| {});
    let json = desk.gradus("bench generate --model model --prompt-tokens 2 --tokens 6 --json").json();
    let rate = number(&json["tokens_per_second"]);
    assert_near(&json["token_ms"], 1e3 / rate, 1e-6 / rate);
    let sizes = model.sizes();
    let read = model.config().parameters() - sizes.context * sizes.width + sizes.width;
    assert_eq!(json["weight_bytes_per_token"], 4 * read);
    let share = giga(&json, "weight_gb_per_second") / giga(&json, "bandwidth_gb_per_second");
    assert_near(&json["share_of_bandwidth"], share, 1e-9 * share);
    giga(&json, "gemm_gflops");
    // 2 layers of 24·2·12² + 2·2·3·12 FLOPs, and 2·12·256 for the last logits
    let flops = number(&json["prompt_gflops"]) * number(&json["prompt_ms"]) * 1e6;
    assert!((flops / 20_256.0 - 1.0).abs() < 1e-9, "{json}");
    desk.gradus("bench generate --model model --prompt-tokens 2 --tokens 7")
        .misused(&["--tokens 7", "from 1 to 6, the rest of the context"]);
}

#[test]
fn evaluation_reports_its_rate_beside_the_forward_pass() {
    let json = gradus("bench evaluate --workload tiny --passes 1 --threads 2 --json").json();
    giga(&json, "gemm_gflops");
    let [rate, forward, hidden] =
        ["tokens_per_second", "forward_tokens_per_second", "hidden_tokens_per_second"].map(|field| number(&json[field]));
    assert!(hidden.is_finite() && hidden != forward, "a pass of its own: {json}");
    assert_near(&json["of_forward"], rate / forward, 1e-12);
    assert_eq!(json["tokens"], 4096);
    assert_near(&json["loss"], 2000f64.ln(), 0.2);
    // (72·4·128² + 6·128·2000 + 12·4·128·128)/3 FLOPs per token
    let flops = number(&json["gflops"]) * 1e9 / rate;
    assert!((flops / 2_347_008.0 - 1.0).abs() < 1e-9, "{flops}");
}

/// `--products` is the earlier name of `--matmul-precision`.
#[test]
fn an_earlier_name_of_a_flag_is_an_alias() {
    let expected = "--matmul-precision f16 on the CPU: expected f32 or bf16, or a GPU (--device gpu";
    for flag in ["--matmul-precision", "--products"] {
        gradus(&format!("bench matmul --sizes 16 {flag} f16")).misused(&[expected]);
    }
}

#[test]
fn products_are_timed_by_size_and_by_layer() {
    let json = gradus("bench matmul --sizes 16,32 --workload tiny --threads 2 --json").json();
    assert_eq!(json["device"], "cpu");
    let rows: Vec<_> = items(&json["products"]).iter().collect();
    let of = |name: &str, layout: &str| {
        let found = rows.iter().find(|row| row["name"] == name && row["layout"] == layout).unwrap_or_else(|| panic!("{name}"));
        ["m", "k", "n"].map(|extent| found[extent].as_u64().expect("a size"))
    };
    assert_eq!([&rows[0]["n"], &rows[1]["n"]], [16, 32]);
    assert_eq!(rows.len(), 2 + 15);
    // `tiny` has 16 × 128 tokens, width 128 and 2,000 words.
    assert_eq!(of("mlp.c_fc", "forward"), [2048, 128, 512]);
    assert_eq!(of("mlp.c_fc", "input"), [2048, 512, 128]);
    assert_eq!(of("mlp.c_fc", "weights"), [128, 2048, 512]);
    assert_eq!(of("output", "weights"), [2000, 256, 128]);
    for row in rows {
        let flops = ["m", "k", "n"].map(|extent| number(&row[extent])).iter().product::<f64>() * 2.0;
        assert_near(&row["gflops"], flops / number(&row["ms"]) / 1e6, 1e-9 * number(&row["gflops"]));
    }
    let table = gradus("bench matmul --sizes 16 --quiet");
    assert_eq!(table.printed().lines().count(), 2, "{}", table.stdout);
}

#[test]
fn memory_and_flops_grow_by_the_expected_powers() {
    // On one thread, since the peak of two threads depends on their timing.
    let json = gradus("bench scaling --sweep attention --sweep depth --repeats 1 --threads 1 --json").json();
    let [attention, depth] = [0, 1].map(|i| &json["sweeps"][i]);
    assert_eq!((attention["name"].as_str(), depth["name"].as_str()), (Some("attention"), Some("depth")));
    // The memory that attention keeps and needs is linear in the context; its FLOPs are quadratic. Every block keeps equal memory
    // and has equally many parameters.
    for (sweep, power, expected) in [
        (attention, "saved", 1.0),
        (attention, "peak", 1.0),
        (attention, "flops", 2.0),
        (depth, "saved", 1.0),
        (depth, "peak", 1.0),
    ] {
        assert_near(&sweep[power], expected, 1e-6);
    }
    assert!(items(&json["sweeps"]).iter().all(|sweep| items(&sweep["points"]).len() == 5));
}

#[test]
fn scaling_prints_its_points_and_powers() {
    let run = gradus("bench scaling --sweep attention --repeats 1 --threads 1");
    assert_eq!(run.printed().lines().filter(|line| line.starts_with('|')).count(), 2 + 5 + 2 + 1, "{}", run.stdout);
    assert_holds(&run.stdout, &["| 4096 |", "| attention |"]);
}

#[test]
fn invalid_benchmark_settings_are_rejected() {
    for (line, words) in [
        ("generate --tokens 0", &["--tokens 0", "from 1 to 112, the rest of the context"][..]),
        ("train --steps 0", &["--steps 0: expected a number from 1 to 10000"]),
        ("train --steps 18446744073709551615", &["--steps 18446744073709551615", "from 1 to 10000"]),
        ("train --warm-up 18446744073709551615", &["--warm-up 18446744073709551615", "from 0 to 10000"]),
        ("train --batch 0", &["--batch 0: expected a number from 1 to 1048576"]),
        ("train --batch 2 --accumulate 3", &["--accumulate 3", "from 1 to 2, the sequences of a step"]),
        ("train --batch 4 --accumulate 2 --shards 3", &["--shards 3", "from 1 to 2, the sequences of a part"]),
        ("train --dropout 1", &["--dropout 1", "below 1"]),
        ("matmul --sizes 16,0", &["--sizes 0: expected a number from 1 to 32768"]),
        ("evaluate --passes 0", &["--passes 0: expected a number from 1 to 10000"]),
        ("scaling --repeats 0", &["--repeats 0: expected a number from 1 to 10000"]),
    ] {
        gradus(&format!("bench {line}")).misused(words);
    }
}
