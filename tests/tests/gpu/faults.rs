//! A GPU that fails, or has too little memory.

use gradus_io::progress::{Job, Monitor, Progress, Silent};
use gradus_model::Tree;
use gradus_tensor::device::testing::Scarce;
use gradus_tensor::{Device, DeviceError};
use gradus_train::pretrain::{self, PretrainControl, PretrainError, PretrainOptions};
use gradus_train::run::{Control, RunError};
use gradus_train::trainer::{Recipe, TRAINER_FILE, TrainError, Trainer};

use crate::models::gpt;

/// A monitor that removes a device after a number of steps.
#[derive(Clone, Debug)]
struct Thief {
    device: Device,
    after: u64,
}

impl Monitor for Thief {
    fn begin(&self, job: Job) -> Box<dyn Progress> {
        if job.unit == "steps" { Box::new(self.clone()) } else { Box::new(Silent) }
    }
    fn say(&self, _: &str) {}
}

impl Progress for Thief {
    fn reach(&mut self, position: u64) {
        if position == self.after {
            self.device.lose();
        }
    }
    fn warn(&mut self, _: &str) {}
}

/// If a model is too large for the device, nothing is begun.
#[test]
fn a_run_resumes_elsewhere_after_its_gpu_is_lost() {
    let Some(device) = Device::fresh(Scarce::default()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let [corpus, out, cache] = ["corpus.txt", "run", "cache"].map(|name| dir.path().join(name));
    std::fs::write(&corpus, "the cat sat on the mat, and the dog sat on the cat. ".repeat(30)).unwrap();
    let options = |text: &str| toml::from_str::<PretrainOptions>(text).unwrap();
    let sizes = "tokenizer = 'char'\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 12\nbatch = 4\nsteps = 6\neval_every = 2";
    let control =
        |monitor, device: &Device| PretrainControl::new(Control { device: device.clone(), ..Control::new(monitor) }, &cache);

    let small = Device::fresh(Scarce { memory_bytes: Some(1000), ..Scarce::default() }).expect("as before");
    let begin = |control| pretrain::begin(options(sizes).settle().unwrap(), Some(&corpus), &out, &control);
    let error = begin(control(&Silent, &small)).unwrap_err();
    assert!(matches!(error, PretrainError::Run(RunError::Device(DeviceError::NoRoom { .. }))), "{error:?}");
    assert!(!out.join("run.json").exists(), "nothing was begun");

    let thief = Thief { device: device.clone(), after: 3 };
    let error = begin(control(&thief, &device)).unwrap_err();
    let PretrainError::Run(RunError::Train(TrainError::Device { step: 4, error: DeviceError::Lost { name, .. } })) = &error
    else {
        panic!("the device was lost before step 4: {error:?}")
    };
    let words = error.to_string();
    assert!(words.contains(name) && words.contains("was lost") && words.contains("checkpoint, if any, is untouched"), "{words}");
    assert!(out.join(TRAINER_FILE).exists(), "the state after step 2");

    let outcome = pretrain::resume(&out, &control(&Silent, &Device::CPU)).unwrap();
    assert!(outcome.finished && outcome.steps == 6, "{outcome:?}");
    let steps = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let made = |step: u64| steps.matches(&format!("{{\"record\":\"step\",\"step\":{step},")).count();
    assert_eq!((1..=6).map(made).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1], "{steps}");
}

/// Training needs the parameters, their gradient and two moments; inference needs only the parameters.
#[test]
fn a_model_too_large_for_the_gpu_is_rejected_before_upload() {
    let mut trainer = Trainer::new(Recipe::new(1, 1), gpt());
    let mut parameters = 0;
    trainer.params.as_ref().visit(|_, p| parameters += 4 * p.len() as u64);
    let of = |memory| Device::fresh(Scarce { memory_bytes: Some(memory), ..Scarce::default() });
    let Some(device) = of(4 * parameters - 1) else { return };
    let error = trainer.place(&device).unwrap_err();
    let (there, needed) = (4 * parameters - 1, 4 * parameters);
    let what = format!("{parameters} for parameters, {parameters} for their gradient, {} for its two moments", 2 * parameters);
    assert!(matches!(&error, DeviceError::NoRoom { .. }), "{error:?}");
    let expected = format!("has {there} bytes of free memory, and {needed} are needed: {what}; intermediate results");
    assert!(error.to_string().contains(&expected), "{error}");
    let Device::Gpu(gpu) = &device else { panic!("a GPU") };
    assert_eq!((gpu.counts().sent_bytes, gpu.counts().buffers_made), (0, 0));
    assert!(trainer.params.to(&device).is_ok(), "the parameters alone");
    assert!(trainer.params.to(&of(parameters - 1).expect("as before")).is_err());
}
