//! Pre-training under faults.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gradus_io::progress::Silent;
use gradus_model::{Model, Tree};
use gradus_tensor::Tensor;
use gradus_train::pretrain::{self, PretrainControl, PretrainError, PretrainOptions};
use gradus_train::run::Control;

use super::scene::{self, Outcome, Scene};

/// Begins the run in `root/run`, or continues it.
fn command(root: &Path, stop_at: Option<u64>) -> Outcome {
    let [corpus, out, cache] = ["corpus.txt", "run", "cache"].map(|name| root.join(name));
    let sizes =
        "tokenizer = 'char'\nlayers = 1\nwidth = 8\nheads = 2\ncontext = 8\nbatch = 4\nsteps = 20\neval_every = 5\ndropout = 0.1";
    let control = PretrainControl::new(Control { stop_at, ..Control::new(&Silent) }, cache);
    let control = PretrainControl { probe: Some(&probe), ..control };
    let outcome = if out.join("run.json").exists() {
        pretrain::resume(&out, &control)
    } else {
        pretrain::begin(toml::from_str::<PretrainOptions>(sizes)?.settle()?, Some(&corpus), &out, &control)
    }?;
    assert!(outcome.finished || stop_at.is_some());
    Ok(())
}

/// Measures a value that changes with the model.
fn probe(model: &Model<Tensor>) -> Result<BTreeMap<String, f64>, PretrainError> {
    let mut sum = 0.0;
    model.as_ref().visit(|_, p| sum += p.to_vec().iter().map(|&x| f64::from(x)).sum::<f64>());
    Ok(BTreeMap::from([("sum".into(), sum)]))
}

/// Runs a test on the scene before the run, or `begun` steps into it.
fn scene(begun: Option<u64>, test: impl FnOnce(&Scene<'_>)) {
    let _alone = scene::stage();
    let folder = scene::folder();
    let root = folder.path().join("disk");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("corpus.txt"), "the cat sat on the mat, and the dog sat on the cat. ".repeat(30)).unwrap();
    if begun.is_some() {
        command(&root, begun).unwrap();
    }
    test(&Scene { root, command: &|root| command(root, None), out: "run" });
}

#[test]
fn a_run_survives_every_failure_of_the_disk() {
    scene(None, |scene| scene.every_call_may_fail(250));
}

#[test]
fn a_resumed_run_survives_every_failure_of_the_disk() {
    scene(Some(10), |scene| scene.every_call_may_fail(150));
}

#[test]
fn a_run_survives_a_lack_of_memory() {
    scene(None, |scene| scene.every_buffer_may_be_refused(60));
}
