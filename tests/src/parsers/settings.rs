//! Parsers of the settings of a run, and of a saved step.

use std::path::Path;

use gradus_io::checksums::{self, Kept};
use gradus_io::files::json_text;
use gradus_model::{Batch, ClassLoss, Form, HeadConfig, Model, ModelConfig};
use gradus_paper::Sizes;
use gradus_study::plan::Plan;
use gradus_survey::Survey;
use gradus_train::finetune::FinetuneManifest;
use gradus_train::pretrain::{PretrainManifest, PretrainOptions, PretrainSettings};
use gradus_train::run::Manifest;
use gradus_train::trainer::{Recipe, Trainer};
use serde_json::json;

use super::{MIB, Parser, files};

/// The parser of `run.json` of both kinds, `plan.json` and `config.toml`.
pub static SETTINGS: Parser = Parser { name: "settings", read: read_settings, seeds: settings, always: MIB, per_byte: 400 };

/// The parser of `step.json`, a failed step that is made again.
pub static KEPT_STEP: Parser = Parser { name: "kept_step", read: read_step, seeds: steps, always: 4 * MIB, per_byte: 400 };

fn read_settings(input: &[u8]) {
    for (name, bytes) in files::split(input) {
        let path = Path::new(&name);
        match name.as_str() {
            "run.json" => {
                if let Ok(run) = PretrainManifest::parse(path, bytes) {
                    check(&run.settings, run.steps);
                }
                if let Ok(run) = FinetuneManifest::parse(path, bytes) {
                    let _ = run.settings.check(&ModelConfig::default());
                }
            }
            "plan.json" => {
                let Ok(fields) = checksums::settings(bytes) else { continue };
                if let Ok(sizes) = Sizes::parse(fields.clone()) {
                    assert!(!sizes.line().is_empty());
                }
                if let Ok(survey) = Survey::parse(fields) {
                    assert!(!survey.line().is_empty());
                }
            }
            "config.toml" => {
                let Ok(text) = std::str::from_utf8(bytes) else { continue };
                if let Ok(settings) = PretrainOptions::parse(path, text).map(|options| options.settle()).unwrap_or_else(Err) {
                    check(&settings, 100);
                }
            }
            _ => {}
        }
    }
}

fn check(settings: &PretrainSettings, steps: u64) {
    if settings.check().is_ok() {
        let recipe = settings.recipe(settings.steps(1000, 64.0).min(steps));
        for t in [0, 1, steps / 2, steps] {
            recipe.factors(t);
        }
    }
}

fn settings() -> Vec<Vec<u8>> {
    let config = "preset = \"small\"\nlr = 0.01\nepochs = 3.0\nactivation = \"relu\"\nwarmup = \"2%\"\nmode = \"spacy\"\n";
    let options = PretrainOptions { steps: Some(30), ..PretrainOptions::micro_world() };
    let manifest = PretrainManifest {
        settings: options.settle().expect("a run"),
        corpus: None,
        world: Some("micro-world-1".into()),
        steps: 30,
        digest: "ab".into(),
        command: "gradus pretrain".into(),
        device: None,
        precision: Default::default(),
    };
    let finetune = FinetuneManifest {
        task: "rte".into(),
        data: "glue/RTE".into(),
        model: "runs/novels".into(),
        settings: Default::default(),
        seeds: 3,
        digest: "ab".into(),
        command: "gradus finetune".into(),
        device: Some("gpu:0".into()),
        precision: Default::default(),
    };
    let plan = json_text(&Kept::with(Sizes::new(3, 1, 1.0, true)));
    let survey = json_text(&Kept::with(Survey::new(vec!["gpt".into(), "bert".into()], 3, 101, false, 1.0)));
    [
        ("config.toml", config.into()),
        ("run.json", json_text(&Kept::with(manifest))),
        ("run.json", json_text(&Kept::with(finetune))),
        ("plan.json", plan),
        ("plan.json", survey),
    ]
    .map(|file| files::join(&[file]))
    .into()
}

fn config() -> ModelConfig {
    ModelConfig::gpt(gradus_model::Sizes { vocab: 5, context: 3, width: 2 }, 1, 1)
}

/// Reads a step of a language model, and of one with heads.
fn read_step(input: &[u8]) {
    let head = || HeadConfig::new(Form::Classify, 2);
    for heads in [vec![], vec![head()], vec![head(), head()]] {
        let config = ModelConfig { heads, ..config() };
        if let Ok(mut kept) = Trainer::replay_of(Path::new("step.json"), input, || Ok(Model::init(&config, 1))) {
            let _ = kept.trainer.step(&kept.batch);
        }
    }
}

fn steps() -> Vec<Vec<u8>> {
    let batch = || Batch::next(2, [0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 1], [0.25; 6]);
    let classes = |head| {
        let (targets, weights) = ([1.0, 0.0, 0.0, 1.0].into(), [0.5; 2].into());
        ClassLoss { head, slots: [2, 4].into(), group: 1, targets, weights }
    };
    let kept = |heads: &[usize]| {
        let batch = heads.iter().fold(batch(), |batch, &head| batch.with_classes(classes(head)));
        let mut document = json!({ "step": 4, "error": "a NaN", "recipe": Recipe::new(10, 2) });
        let batch = serde_json::to_value(batch).expect("plain values");
        document.as_object_mut().expect("an object").extend(batch.as_object().expect("an object").clone());
        document.to_string().into_bytes()
    };
    vec![kept(&[]), kept(&[0]), kept(&[0, 1])]
}
