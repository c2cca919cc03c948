//! Parsers of a run's own files: its state, its log, and the checksums of its files.

use std::path::Path;

use gradus_io::checksums::{Checksums, Sum};
use gradus_io::files::json_text;
use gradus_io::hex;
use gradus_model::{Model, ModelConfig, Sizes};
use gradus_report::PretrainReport;
use gradus_report::metrics;
use gradus_train::trainer::{Recipe, Trainer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{MIB, Parser};

/// The parser of `trainer.safetensors`, read for a known configuration.
pub static TRAINER_STATE: Parser = Parser { name: "trainer_state", read: read_state, seeds: states, always: MIB, per_byte: 200 };

/// The parser of `metrics.jsonl`, with the report and the pictures that are made from the log.
pub static METRICS: Parser = Parser { name: "metrics", read: read_metrics, seeds: logs, always: 4 * MIB, per_byte: 1000 };

/// The parser of `checksums.json`.
pub static CHECKSUMS: Parser = Parser { name: "checksums", read: read_sums, seeds: sums, always: MIB, per_byte: 200 };

fn config() -> ModelConfig {
    ModelConfig::gpt(Sizes { vocab: 3, context: 2, width: 2 }, 1, 1)
}

fn read_state(input: &[u8]) {
    if let Ok((trainer, extra)) = Trainer::<f32>::from_state(Path::new("state"), input, config(), Recipe::new(10, 1)) {
        trainer.state(&extra).expect("on the CPU");
    }
}

fn states() -> Vec<Vec<u8>> {
    let trainer: Trainer = Trainer::new(Recipe::new(10, 1), Model::init(&config(), 1));
    let state = |_| trainer.state(r#"{"run":"a","seconds":1.5,"log":70,"best":3.5}"#).expect("on the CPU");
    (0..64).map(state).min().into_iter().collect() // the order of the two metadata entries is random
}

fn read_metrics(input: &[u8]) {
    let Ok(records) = metrics::parse(Path::new("metrics.jsonl"), input) else { return };
    for mark in [None, Some(0.1)] {
        let report = PretrainReport { records: records.clone(), mark, parameters: 5, ..PretrainReport::default() };
        let document = report.document();
        assert!(!document.render().is_empty() && !document.markdown().is_empty());
        report.loss_plot().standalone();
    }
}

fn logs() -> Vec<Vec<u8>> {
    let step = |n: u32| {
        format!(
            r#"{{"record":"step","step":{n},"tokens":{n}00,"loss":{},"lr":0.001,"grad_norm":0.7,"tokens_per_second":200.0,"elapsed":{n}.5}}"#,
            9.5 / f64::from(n)
        )
    };
    let others = [
        r#"{"record":"evaluation","step":2,"tokens":200,"elapsed":2.5,"split":"validation","nll":3.5,"perplexity":33.1,"bits_per_byte":2.2,"limit":3.0,"excess":0.1,"unigram":5.25}"#,
        r#"{"record":"sample","step":2,"tokens":200,"elapsed":2.5,"prompt":"Once","text":" upon <a> \"time\"\nü"}"#,
        r#"{"record":"checkpoint","step":2,"elapsed":2.5,"path":"runs/last"}"#,
        r#"{"record":"probe","step":2,"tokens":200,"elapsed":2.5,"scores":{"agreement":0.5}}"#,
        r#"{"record":"device","step":2,"elapsed":2.5,"device":"gpu:0","arithmetic":"fused","products":"f16"}"#,
        r#"{"record":"kernels","step":2,"elapsed":2.5,"kernels":{"a":"b"}}"#,
        r#"{"record":"warning","step":2,"elapsed":2.5,"text":"the loss is not finite"}"#,
    ];
    let mut lines: Vec<String> = (1..4).map(step).collect();
    lines.extend(others.map(str::to_owned));
    lines.extend((4..7).map(step));
    lines.push(step(7).replace("0.7", "8.7e307").replace("200.0", "null"));
    let evaluation = others[0].replace("200,", "400,").replace("3.5", "3.25");
    vec![lines.join("\n").into_bytes(), [&lines[0], "\n", &evaluation, "\n", &step(9), "\n"].concat().into_bytes()]
}

/// Reads the input unchanged, and with its correct checksum.
fn read_sums(input: &[u8]) {
    let parse = |bytes: &[u8]| Checksums::parse(Path::new("run"), bytes).is_ok();
    if !parse(input)
        && let Ok(mut document) = serde_json::from_slice::<Value>(input)
        && document.get("files").is_some()
    {
        let parts = ["files", "folders", "links"].into_iter().filter_map(|name| document.get(name));
        let parts: String = parts.filter(|part| **part != json!({}) && **part != json!([])).map(Value::to_string).collect();
        document["sha256"] = hex::encode(Sha256::digest(parts)).into();
        parse(&json_text(&document));
    }
}

fn sums() -> Vec<Vec<u8>> {
    let [old, new] = ["old", "new"].map(|text| Sum::of(text.as_bytes()).sha256);
    let files = format!(
        r#"{{
    "metrics.jsonl": {{
      "bytes": 3,
      "sha256": "{old}"
    }},
    "run.json": {{
      "bytes": 3,
      "sha256": "{new}",
      "before": [
        {{
          "bytes": 3,
          "sha256": "{old}"
        }},
        null
      ]
    }}
  }}"#
    );
    let folders = format!(
        r#"{{
    "best": [
      "{new}",
      null
    ],
    "seed-2": []
  }}"#
    );
    let links = r#"[
    "best"
  ]"#;
    let compact = |text: &str| text.replace(|c: char| c.is_whitespace(), "");
    let own = hex::encode(Sha256::digest([compact(&files), compact(&folders), compact(links)].concat()));
    let whole =
        format!("{{\n  \"files\": {files},\n  \"folders\": {folders},\n  \"links\": {links},\n  \"sha256\": \"{own}\"\n}}\n");
    assert!(Checksums::parse(Path::new("run"), whole.as_bytes()).is_ok(), "a seed that is sound");
    vec![whole.into_bytes()]
}
