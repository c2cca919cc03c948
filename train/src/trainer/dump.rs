//! A failed step, saved so that it can be repeated.
//!
//! ```text
//! DIR/  config.json, model.safetensors     the parameters before it, in Hugging Face's format
//!       step.json                          its number, the recipe with the seed of its dropout, its batch, and the error
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use gradus_io::checksums;
use gradus_io::disk::parent;
use gradus_io::files::FileError;
use gradus_model::checkpoint::{self, CheckpointError};
use gradus_model::{BackboneConfig, Batch, Form, HeadConfig, Labels, Model, ModelConfig, Sight};
use gradus_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::{Recipe, TrainError, Trainer};
use crate::model_dir::{self, ModelDirError};
use crate::precision::{self, Precision};

/// The name of the directory of a saved step, in a run's directory.
pub const ANOMALY: &str = "anomaly";
const STEP: &str = "step.json";

/// The reason why a saved step could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum DumpError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Model(#[from] ModelDirError),
    #[error("{path}: {problem}; give the `anomaly` directory of a run that stopped at a non-finite number")]
    Damaged { path: PathBuf, problem: String },
}

/// The contents of `step.json`.
#[derive(Serialize, Deserialize)]
struct KeptStep {
    step: u64,
    error: String,
    recipe: Recipe,
    #[serde(default, skip_serializing_if = "Precision::is_full")]
    precision: Precision,
    #[serde(flatten)]
    batch: Batch,
}

/// A saved step, to be repeated.
#[derive(Debug)]
pub struct Replay {
    /// The trainer before the step, on the CPU. Moments are not saved: they matter only after the gradient.
    pub trainer: Trainer,
    /// Its batch.
    pub batch: Batch,
    /// The precision of its products.
    pub precision: Precision,
    /// The error with which it ended.
    pub error: String,
}

impl Trainer {
    /// Saves the step that ended with this error. The directory's contents are replaced atomically.
    pub fn dump(&self, batch: &Batch, error: &TrainError, dir: &Path) -> Result<(), DumpError> {
        let (error, recipe, batch) = (error.to_string(), self.recipe.clone(), batch.clone());
        let (step, precision) = (self.done + 1, Precision::of(&self.device()));
        let text = serde_json::to_vec(&KeptStep { step, error, recipe, precision, batch }).expect("plain values");
        let mut files = checkpoint::files(&self.params).map_err(CheckpointError::from)?;
        files.push((STEP, text));
        let name = dir.file_name().and_then(OsStr::to_str).unwrap_or(ANOMALY);
        Ok(checksums::replace_within(parent(dir), name, &files)?)
    }

    /// Saves the step in a run's directory ([`Trainer::dump`]) if a number was non-finite. Returns a line that states how to repeat
    /// the step, or why it could not be saved.
    pub fn keep(&self, batch: &Batch, error: &TrainError, run: &Path) -> Option<String> {
        if !matches!(error, TrainError::NotFinite { .. } | TrainError::Anomaly { .. }) {
            return None;
        }
        let dir = run.join(ANOMALY);
        Some(match self.dump(batch, error, &dir) {
            Ok(()) => {
                let on = precision::named(&self.device()).map_or(String::new(), |device| format!(" --device '{device}'"));
                format!("the step is kept in {0}; `gradus audit replay {0}{on}` repeats it", dir.display())
            }
            Err(e) => format!("the step could not be kept: {e}"),
        })
    }

    /// Reads the step saved in a directory.
    pub fn replay(dir: &Path) -> Result<Replay, DumpError> {
        let path = dir.join(STEP);
        if !path.exists() && dir.join(ANOMALY).join(STEP).exists() {
            let problem = format!("this is the run's own directory; its step is in {}", dir.join(ANOMALY).display());
            return Err(DumpError::Damaged { path: dir.to_owned(), problem });
        }
        let text = checksums::read(dir, STEP)?;
        Self::replay_of(&path, &text, || Ok(model_dir::read(dir)?))
    }

    /// Decodes a saved step from the bytes of `step.json`, whose errors name `path`, and the parameters.
    ///
    /// # Errors
    /// Returns [`DumpError::Damaged`] if the bytes are malformed or do not fit the model, or the error of `params`.
    pub fn replay_of(
        path: &Path,
        bytes: &[u8],
        params: impl FnOnce() -> Result<Model<Tensor<f32>>, DumpError>,
    ) -> Result<Replay, DumpError> {
        let damaged = |problem: String| DumpError::Damaged { path: path.to_owned(), problem };
        let kept: KeptStep = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
        let params = params()?;
        fits(&kept.batch, &params.config()).map_err(damaged)?;
        let mut trainer = Trainer::new(kept.recipe, params);
        trainer.done = kept.step.saturating_sub(1);
        Ok(Replay { trainer, batch: kept.batch, precision: kept.precision, error: kept.error })
    }
}

/// Returns an error if this model cannot read the batch.
fn fits(batch: &Batch, config: &ModelConfig) -> Result<(), String> {
    let input = &batch.input;
    let (n, targets, weights) = (input.tokens.len(), batch.targets.len(), batch.weights.len());
    let vocab = config.backbone.vocab();
    let whole = n > 0 && n.is_multiple_of(input.sequences) && input.length() <= config.backbone.context(); // 0 divides 0 alone
    let asked = batch.asked.as_ref().map_or(n, |asked| asked.len());
    if !whole || targets != asked || weights != asked {
        return Err(format!(
            "expected sequences of one length within the context, with a target and a weight for each token that is asked; found {} sequences, {n} tokens, {asked} asked, {targets} targets and {weights} weights",
            input.sequences
        ));
    }
    let increasing = |slots: &[u32]| slots.is_sorted_by(|a, b| a < b) && slots.last().is_none_or(|&last| (last as usize) < n);
    if !batch.asked.as_deref().is_none_or(increasing) {
        return Err(format!("expected the slots that are asked in increasing order, all below {n}"));
    }
    let lengths =
        |lengths: &[usize]| lengths.len() == input.sequences && lengths.iter().all(|m| (1..=input.length()).contains(m));
    let seen = match (&input.sight, &config.backbone) {
        (Sight::Causal, _) => true,
        (Sight::Full(all), BackboneConfig::Transformer(_)) => all.as_deref().is_none_or(lengths),
        (Sight::Full(_), BackboneConfig::Lstm(_)) => false,
    };
    let known = config.transformer().map_or(0, |gpt| gpt.parts.segments);
    let told = |segments: &[u32]| segments.len() == n && segments.iter().all(|&s| (s as usize) < known);
    if !seen || !input.segments.as_deref().is_none_or(told) {
        return Err("found segments, or slots that see others, which do not belong to these sequences, or to this model".into());
    }
    if let Some(id) = batch.input.tokens.iter().chain(&batch.targets[..]).find(|&&id| id as usize >= vocab) {
        return Err(format!("expected token ids below {vocab}, the model's vocabulary, found {id}"));
    }
    let labelled = |l: &Labels, head: &HeadConfig| {
        let examples = l.weights.len();
        let extracts = l.extract.len() == input.sequences && l.extract.iter().all(|&at| (at as usize) < input.length());
        let (each, classes) = match head.form {
            Form::Classify => (1, head.classes),
            Form::Similar => (2, head.classes),
            Form::Choose => (l.per_example, l.per_example),
        };
        let whole = examples.checked_mul(l.per_example) == Some(input.sequences);
        extracts && whole && l.per_example == each && l.targets.len() == examples * classes
    };
    let one = |labels: &Labels| config.heads.get(labels.head).is_some_and(|head| labelled(labels, head));
    let once = batch.labels.windows(2).all(|two| two[0].head < two[1].head);
    if once && batch.labels.is_empty() == config.heads.is_empty() && batch.labels.iter().all(one) {
        Ok(())
    } else {
        Err("found labels that do not belong to these sequences, or to this model".into())
    }
}

#[cfg(test)]
mod tests {
    use gradus_model::Input;
    use gradus_model::check::{tiny_gpt, tiny_lstm};
    use gradus_tensor::DeviceError;
    use gradus_tensor::device::MatmulPrecision;

    use super::*;

    /// Returns four sequences of three tokens, with the given labels if any.
    fn batch(labels: impl IntoIterator<Item = Labels>) -> Batch {
        Batch { labels: labels.into_iter().collect(), ..Batch::next(4, [1; 12], [2; 12], [0.5; 12]) }
    }

    fn of_input(input: Input) -> Batch {
        Batch { input, ..batch(None) }
    }

    fn labels(per_example: usize, examples: usize, classes: usize) -> Labels {
        Labels {
            head: 0,
            per_example,
            extract: [0, 1, 2, 2].into(),
            targets: vec![0.5; examples * classes].into(),
            weights: vec![0.5; examples].into(),
        }
    }

    fn of(form: Option<Form>) -> ModelConfig {
        ModelConfig { heads: form.into_iter().map(|form| HeadConfig::new(form, 3)).collect(), ..tiny_gpt().into() }
    }

    #[test]
    fn a_batch_of_this_model_fits() {
        assert_eq!(fits(&batch(None), &of(None)), Ok(()));
        assert_eq!(fits(&batch(Some(labels(1, 4, 3))), &of(Some(Form::Classify))), Ok(()));
        assert_eq!(fits(&batch(Some(labels(2, 2, 3))), &of(Some(Form::Similar))), Ok(()));
        assert_eq!(fits(&batch(Some(labels(2, 2, 2))), &of(Some(Form::Choose))), Ok(()));
        assert_eq!(fits(&batch(Some(labels(4, 1, 4))), &of(Some(Form::Choose))), Ok(()));
        let context = tiny_gpt().context;
        let long = Batch::next(1, vec![1; context], vec![1; context], vec![1.0; context]);
        assert_eq!(fits(&long, &of(None)), Ok(()));
    }

    #[test]
    fn sequences_that_are_none_are_refused() {
        let told = |batch: Batch| fits(&batch, &of(None)).unwrap_err();
        let plain = || batch(None);
        let context = tiny_gpt().context;
        for wrong in [
            of_input(Input { sequences: 0, ..plain().input }),
            of_input(Input { sequences: 5, ..plain().input }),
            Batch::next(0, [], [], []),
            Batch::next(4, [], [], []),
            Batch { targets: [2; 11].into(), ..plain() },
            Batch { weights: [0.5; 13].into(), ..plain() },
            Batch::next(1, vec![1; context + 1], vec![1; context + 1], vec![1.0; context + 1]),
        ] {
            let (n, sequences) = (wrong.input.tokens.len(), wrong.input.sequences);
            let told = told(wrong);
            assert!(told.contains(&format!("found {sequences} sequences, {n} tokens")), "{told}");
        }
        let beyond = tiny_gpt().vocab as u32;
        assert!(told(of_input(Input::causal(4, [beyond; 12]))).contains("below 19, the model's vocabulary, found 19"));
        assert!(told(Batch { targets: [beyond; 12].into(), ..plain() }).contains("found 19"));
        assert!(fits(&of_input(Input::causal(4, [beyond - 1; 12])), &of(None)).is_ok());
    }

    #[test]
    fn what_is_asked_and_seen_must_be_there() {
        let seeing = |sight| of_input(Input { sight, ..batch(None).input });
        let asking = |slots: &[u32]| {
            let n = slots.len();
            Batch { asked: Some(slots.into()), targets: vec![2; n].into(), weights: vec![0.5; n].into(), ..batch(None) }
        };
        let (gpt, lstm) = (of(None), ModelConfig::from(tiny_lstm()));
        for fine in [seeing(Sight::Full(None)), seeing(Sight::Full(Some([3, 1, 2, 3].into()))), asking(&[]), asking(&[0, 4, 11])]
        {
            assert_eq!(fits(&fine, &gpt), Ok(()));
        }
        let segmented = of_input(Input { segments: Some([0; 12].into()), ..batch(None).input });
        for (wrong, config, told) in [
            (asking(&[4, 4]), &gpt, "in increasing order"),
            (asking(&[12]), &gpt, "all below 12"),
            (Batch { targets: [2].into(), ..asking(&[1, 2]) }, &gpt, "2 asked, 1 targets and 2 weights"),
            (seeing(Sight::Full(Some([3, 3, 3].into()))), &gpt, "slots that see others"),
            (seeing(Sight::Full(Some([3, 3, 3, 4].into()))), &gpt, "slots that see others"),
            (seeing(Sight::Full(Some([3, 3, 3, 0].into()))), &gpt, "slots that see others"),
            (seeing(Sight::Full(None)), &lstm, "or to this model"),
            (segmented, &gpt, "segments"),
        ] {
            let found = fits(&wrong, config).unwrap_err();
            assert!(found.contains(told), "{found}");
        }
    }

    #[test]
    fn labels_of_another_model_are_refused() {
        let refused = |labels, form| {
            let told = fits(&batch(labels), &of(form)).unwrap_err();
            assert_eq!(told, "found labels that do not belong to these sequences, or to this model");
        };
        refused(Some(labels(1, 4, 3)), None);
        refused(None, Some(Form::Classify));
        // Each head has labels at most once.
        let twice = Batch { labels: vec![labels(1, 4, 3); 2], ..batch(None) };
        assert!(fits(&twice, &of(Some(Form::Classify))).is_err());
        refused(Some(Labels { head: 1, ..labels(1, 4, 3) }), Some(Form::Classify));
        for (wrong, form) in [
            (labels(2, 2, 3), Form::Classify),
            (labels(1, 4, 3), Form::Similar),
            (labels(4, 1, 3), Form::Similar),
            (labels(1, 4, 2), Form::Classify),
            (labels(1, 3, 3), Form::Classify),
            (labels(2, 2, 3), Form::Choose),
            (labels(2, 1, 2), Form::Choose),
            (labels(1, 0, 3), Form::Classify),
            (Labels { extract: [0, 1, 2].into(), ..labels(1, 4, 3) }, Form::Classify),
            (Labels { extract: [0, 1, 2, 3].into(), ..labels(1, 4, 3) }, Form::Classify),
            (Labels { targets: [].into(), ..labels(1, 4, 3) }, Form::Classify),
            (Labels { per_example: usize::MAX, ..labels(2, 2, 2) }, Form::Choose),
        ] {
            refused(Some(wrong), Some(form));
        }
    }

    #[test]
    fn a_step_without_a_number_at_fault_is_not_kept() {
        let run = tempfile::tempdir().unwrap();
        let mut trainer: Trainer = Trainer::new(Recipe::new(5, 1), Model::init(&of(None), 1));
        let batch = batch(None);
        trainer.step(&batch).unwrap();
        for error in [TrainError::Device { step: 2, error: DeviceError::NotBuilt }, TrainError::Broken { name: "x".into() }] {
            assert_eq!(trainer.keep(&batch, &error, run.path()), None);
        }
        assert!(!run.path().join(ANOMALY).exists());
        let error =
            TrainError::NotFinite { step: 2, loss: f64::NAN, norm: 1.0, matmul_precision: MatmulPrecision::F32, anomaly: None };
        let told = trainer.keep(&batch, &error, run.path()).unwrap();
        let kept = run.path().join(ANOMALY);
        assert_eq!(told, format!("the step is kept in {0}; `gradus audit replay {0}` repeats it", kept.display()));
        let replay = Trainer::replay(&kept).unwrap();
        assert_eq!((replay.trainer.done(), &replay.batch, replay.error), (1, &batch, error.to_string()));
        assert!(replay.trainer.params == trainer.params);
        let own = Trainer::replay(run.path()).unwrap_err().to_string();
        assert!(own.contains("this is the run's own directory"), "{own}");
        assert!(Trainer::replay(&kept.join("none")).unwrap_err().to_string().contains("step.json"));
        // A run's directory with a step.json is read as a saved step.
        std::fs::write(run.path().join(STEP), "{").unwrap();
        let damaged = Trainer::replay(run.path()).unwrap_err().to_string();
        assert!(!damaged.contains("own directory"), "{damaged}");
        let nowhere = trainer.keep(&batch, &error, &run.path().join(STEP)).unwrap(); // a file, not a folder
        assert!(nowhere.starts_with("the step could not be kept: "), "{nowhere}");
    }
}
