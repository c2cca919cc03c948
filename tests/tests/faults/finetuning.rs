//! Fine-tuning under faults.

use std::fs;
use std::path::Path;

use gradus_data::sets::Task;
use gradus_io::progress::Silent;
use gradus_model::{Model, ModelConfig, Sizes, checkpoint};
use gradus_text::Tokenizer;
use gradus_train::finetune::{self, FinetuneSettings};
use gradus_train::run::Control;

use super::scene::{self, Outcome, Scene};

/// Begins the run of two seeds in `root/run`, or continues it.
fn command(root: &Path, stop_at: Option<u64>) -> Outcome {
    let [model, data, out] = ["model", "data", "run"].map(|name| root.join(name));
    let control = Control { stop_at, ..Control::new(&Silent) };
    let outcome = if out.join("run.json").exists() {
        finetune::resume(&out, &control)
    } else {
        let settings = FinetuneSettings { batch: 4, epochs: 3, lr: 0.01, ..FinetuneSettings::default() };
        finetune::begin(&model, Task::named("race")?, &data, &out, &settings, 2, &control)
    }?;
    assert!(outcome.finished || stop_at.is_some());
    Ok(())
}

/// Runs a test on questions in RACE's form, which uses a head of its own beside the backbone.
fn scene(begun: Option<u64>, test: impl FnOnce(&Scene<'_>)) {
    let _alone = scene::stage();
    let folder = scene::folder();
    let root = folder.path().join("disk");
    for (split, rows) in [("train", 12), ("dev", 6)] {
        for i in 0..rows {
            let (letters, right) = (["A", "B", "C", "D"], i % 4);
            let options: Vec<String> = (0..4).map(|j| if j == right { "a".into() } else { format!("b{j}") }).collect();
            let passage = serde_json::json!({
                "answers": [letters[right]], "options": [options], "questions": [format!("q{i}?")],
                "article": format!("c{i}"), "id": format!("{i}.txt"),
            });
            for school in ["middle", "high"] {
                let path = root.join(format!("data/{split}/{school}/{i}.txt"));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, passage.to_string()).unwrap();
            }
        }
    }
    let config = ModelConfig::gpt(Sizes { vocab: 256, context: 24, width: 8 }, 1, 2);
    fs::create_dir(root.join("model")).unwrap();
    checkpoint::save(&root.join("model"), &Model::init(&config, 5)).unwrap();
    Tokenizer::bytes().save(&root.join("model")).unwrap();
    if begun.is_some() {
        command(&root, begun).unwrap();
    }
    test(&Scene { root, command: &|root| command(root, None), out: "run" });
}

#[test]
fn two_seeds_survive_every_failure_of_the_disk() {
    scene(None, |scene| scene.every_call_may_fail(60));
}

#[test]
fn two_resumed_seeds_survive_every_failure_of_the_disk() {
    scene(Some(10), |scene| scene.every_call_may_fail(40));
}

#[test]
fn two_seeds_survive_a_lack_of_memory() {
    scene(None, |scene| scene.every_buffer_may_be_refused(20));
}
