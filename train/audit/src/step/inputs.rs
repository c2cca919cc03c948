//! The inputs of the opened step: a model, a batch, and all settings that the step depends on.

use std::path::{Path, PathBuf};

use gradus_data::sets::{Answer, Split, Task};
use gradus_data::{DataError, Rows, TokenBatch};
use gradus_io::exit::{self, Exit};
use gradus_io::hex;
use gradus_io::numbers::{count, count_of};
use gradus_model::{Batch, ClassLoss, GradientMode, Init, Model, ModelConfig, Objective, Param, Sight, Sizes, TokenLoss, Tree};
use gradus_tensor::Tensor;
use gradus_tensor::rng::Philox;
use gradus_text::{BpeTrainer, TextError};
use gradus_train::answers::evaluate::fills_masks;
use gradus_train::answers::{self, AnswersError};
use gradus_train::finetune::{FinetuneError, FinetuneSettings, Session, TaskModel};
use gradus_train::hyperparameters::{RangeError, require};
use gradus_train::model_dir::{ModelDir, ModelDirError};
use gradus_train::optim::{Optimizer, Schedule, ScheduleKind, Warmup};
use gradus_train::pretrain::{Stored, VOCABULARY, weighted};
use gradus_train::trainer::{Recipe, TrainError, Trainer};
use gradus_train::views::{self, Corrupt, Draw, Redraw, SpecialTokens, Text, ViewPlan};
use gradus_world::{Story, World};
use sha2::{Digest, Sha256};

use super::tokens::Tokens;
use crate::model::digest;

/// The inputs of a step to be opened.
#[derive(Clone, Debug)]
pub struct StepInputs {
    /// The title of the page.
    pub title: String,
    /// The introduction of the page.
    pub lead: String,
    /// The model, its optimizer and its moments, before the step.
    pub trainer: Trainer<f64>,
    /// The batch of the step.
    pub batch: Batch,
    /// The batch as text.
    pub tokens: Tokens,
    /// The source of the data.
    pub data: String,
    /// The quantities drawn with the seed.
    pub drawn: &'static str,
}

/// The number of tokens per sequence of the standard step.
const LENGTH: usize = 16;
/// The number of stories in the standard training before the opened step.
const STORIES: usize = 2000;
/// The number of sequences per step of the standard training.
const ROWS: usize = 16;
/// The default number of tokens of a run's batch that are opened.
const TOKENS: usize = 512;

impl StepInputs {
    /// The number of steps of the standard training before the opened step.
    pub const STEPS: u64 = 400;

    /// Returns a step whose every number can be computed with pen and paper: two tokens, three dimensions, one head, one block.
    pub fn by_hand() -> Self {
        let config = ModelConfig::gpt(Sizes { vocab: 4, context: 2, width: 3 }, 1, 1).with_dropout(0.0);
        // The weights are eighths, so that products are short; gains are 1 and biases 0, as in a new model.
        let mut number = 0;
        let mut eighth = || {
            number = (number * 5 + 3) % 16;
            f64::from(number - 8) / 8.0
        };
        let model = Model::declare(&config).map(|_, p| match p {
            Param { init: Init::Normal(_), shape, .. } => Tensor::new(shape, (0..shape.numel()).map(|_| eighth()).collect()),
            constant => constant.draw(0, 0),
        });
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let batch = Batch::next(1, [0, 1], [1, 2], [0.5, 0.5]);
        let recipe = Recipe { steps: 1, ..recipe(Optimizer { lr: 0.01, ..Optimizer::default() }, 0) };
        StepInputs {
            title: "Two tokens, by hand".into(),
            lead: "A GPT of one block, one head and three dimensions reads “the cat” and is trained to predict “cat sat”. Every \
                   number is shown with all its digits; the weights are multiples of 1/8. Each number can be recomputed with pen \
                   and paper."
                .into(),
            trainer: Trainer::new(recipe, model),
            tokens: Tokens::new(&batch, words(&["the", "cat"]), words(&["cat", "sat"])),
            batch,
            data: "“the cat” → “cat sat”; the vocabulary is the, cat, sat, down".into(),
            drawn: "of the directions in which derivatives are compared; nothing else is random",
        }
    }

    /// Trains a small GPT on the micro-world and returns its next step. `done` receives the number of steps so far.
    pub fn standard(seed: u64, mut done: impl FnMut(usize)) -> Result<Self, StepInputsError> {
        let stories = World::default().corpus(&mut Philox::with_stream(seed, 1), STORIES);
        let mut words = BpeTrainer::new(VOCABULARY);
        words.specials.push(START.into());
        let mut counts = words.word_counts();
        stories.iter().for_each(|story| counts.add(&story.text));
        let tokenizer = words.train(&counts, |_, _| {})?;
        let start = tokenizer.token_id(START).expect("just made");
        let beginning = |story: &Story| Ok(tokenizer.encode(&story.text)?.into_iter().take(LENGTH).collect());
        let rows = stories.iter().map(beginning).collect::<Result<Vec<_>, TextError>>()?;
        let vocab = tokenizer.vocab_size();
        let rows = Rows::new(rows, start, false, LENGTH, vocab)?;
        let sizes = ModelConfig::gpt(Sizes { vocab, context: LENGTH, width: 32 }, 2, 4);
        let model = Model::init(&sizes.with_transformer(|c| c.initializer_range = 0.1), seed);
        let mut trainer = Trainer::new(recipe(Optimizer { lr: 3e-3, ..Optimizer::default() }, seed), model);
        let mut rng = Philox::with_stream(seed, 2);
        let mut draw = |n: usize| {
            let chosen = (0..n).map(|_| rng.below(rows.len() as u64) as usize);
            weighted(rows.batch(chosen), Objective::TokenMean)
        };
        for t in 1..=Self::STEPS as usize {
            trainer.step(&draw(ROWS))?;
            done(t);
        }
        let batch = draw(1);
        Ok(StepInputs {
            title: "One training step of a GPT".into(),
            lead: format!(
                "The next training step of a GPT that has read the beginnings of {} stories of the micro-world: the value of \
                 each op, its gradient and where it comes from, and the update of each parameter.",
                count(Self::STEPS * ROWS as u64)
            ),
            trainer,
            tokens: Tokens::all(&tokenizer, &batch),
            batch,
            data: format!("the micro-world of seed {seed}: the beginning of a story"),
            drawn: "of stories, parameters, dropouts, and the directions in which derivatives are compared",
        })
    }

    /// Returns the first training step of a checkpoint on windows of this text. For a model that fills masks, tokens are masked as
    /// in BERT's views.
    pub fn of_model(dir: &ModelDir, text: &str, data: String, size: Size, seed: u64) -> Result<Self, StepInputsError> {
        let mut model = dir.read()?;
        let tokenizer = dir.required_tokenizer(model.sizes().vocab)?;
        let special = if fills_masks(&model) { Some(answers::special_tokens(&model, Some(&tokenizer))?) } else { None };
        let headless = !std::mem::take(&mut model.heads.0).is_empty();
        let ids = tokenizer.encode(text)?;
        let (context, sequences) = (model.sizes().context, size.sequences.max(1));
        // A masked row has special tokens at both ends; a causal row needs one more token as the last target.
        let (around, ahead) = if special.is_some() { (Corrupt::SPECIAL_SLOTS, 0) } else { (0, 1) };
        let most = context.saturating_sub(around);
        let fits = (ids.len().saturating_sub(ahead) / sequences).min(LENGTH).min(most).max(1);
        let tokens = size.tokens.unwrap_or(fits);
        let expected = format!(
            "a number from 1 to {most}, the model's context{}",
            if around > 0 { " without its special tokens" } else { "" }
        );
        require("tokens", tokens, (1..=most).contains(&tokens), expected)?;
        let needed = sequences * tokens + ahead;
        if ids.len() < needed {
            return Err(StepInputsError::Short { found: ids.len(), needed });
        }
        let windows: Vec<&[u32]> = (0..sequences).map(|i| &ids[i * tokens..(i + 1) * tokens + ahead]).collect();
        let batch = match special {
            Some(special) => masked(&windows, special, model.body.config().segments() > 0, seed),
            None => weighted(TokenBatch::of_windows(&windows), Objective::TokenMean),
        };
        let kind = match (special, model.transformer()) {
            (Some(_), _) => "a Transformer that fills masks",
            (None, Some(_)) => "a GPT",
            (None, None) => model.body.config().words(),
        };
        let dropped = if headless { " Its head is left out: the step is the language model's." } else { "" };
        Ok(StepInputs {
            title: format!("One training step of {kind}"),
            lead: format!(
                "{}, at the first step of further training: moments begin at 0.{dropped} The value of each op, its gradient and \
                 where it comes from, and the update of each parameter.",
                dir.path().display()
            ),
            trainer: Trainer::new(recipe(Optimizer::default(), seed), model.cast()),
            tokens: Tokens::all(&tokenizer, &batch),
            batch,
            data,
            drawn: match special {
                Some(_) => "of masks, of dropouts, and the directions in which derivatives are compared",
                None => "of dropouts, and the directions in which derivatives are compared",
            },
        })
    }

    /// Returns the next step of a pre-training that was stopped early: its batch, rate, moments and dropout. `sequences` is the
    /// number of sequences of the batch, from the first; `None` means all, or as many as make 512 tokens.
    ///
    /// # Errors
    /// Returns an error if the run is complete, or if the batch has fewer sequences.
    pub fn of_run(stored: &Stored, sequences: Option<usize>) -> Result<Self, StepInputsError> {
        let (settings, steps) = (&stored.manifest.settings, stored.manifest.steps);
        let (step, path) = (stored.trainer.done() + 1, stored.dir.as_path());
        if step > steps {
            return Err(StepInputsError::Finished { dir: path.to_owned(), steps });
        }
        let all = settings.batch;
        let opened = sequences.unwrap_or_else(|| (TOKENS / settings.model.sizes.context).clamp(1, all));
        let expected = format!("a number from 1 to {all}, the sequences of the run's batch");
        require("sequences", opened, (1..=all).contains(&opened), expected)?;
        let batch = stored.batch(step, opened);
        let mut trainer = stored.trainer.cast();
        // One tape, so that the step is one graph.
        trainer.recipe = Recipe { shards: 1, concurrent_shards: 1, backward: GradientMode::Whole, ..trainer.recipe };
        let which = match opened == all {
            true => format!("the {} of its batch", count_of(all, "sequence")),
            false => format!("the first {opened} of the {all} sequences of its batch"),
        };
        let corpus = stored.manifest.corpus.as_ref().map_or("the micro-world".into(), |path| path.display().to_string());
        Ok(StepInputs {
            title: format!("Step {step} of a pre-training"),
            lead: format!(
                "{}, stopped after {} of its {steps} steps; the next step, on {which}, with the run's own rate, moments and \
                 dropout: the value of each op, its gradient and where it comes from, and the update of each parameter.",
                path.display(),
                step - 1
            ),
            trainer,
            tokens: Tokens::all(stored.source.tokenizer(), &batch),
            batch,
            data: format!("{corpus}, {which} of step {step}"),
            drawn: "the run's, and of the directions in which derivatives are compared",
        })
    }

    /// Returns a step of a fine-tuning (§3.2, §3.3) on the first examples of a task's training rows: the first step of a
    /// pre-trained model under a new head, or a further step of a model fine-tuned for the task.
    ///
    /// # Errors
    /// Returns an error if the model or a file cannot be read, if the model was fine-tuned for another task, or if there are fewer
    /// rows.
    pub fn of_task(path: &Path, task: &'static Task, folder: &Path, examples: usize, seed: u64) -> Result<Self, StepInputsError> {
        let dir = ModelDir::open(path)?;
        let headed = dir.read()?.task_head().is_some();
        let task_model = if headed { TaskModel::finetuned(path, task)? } else { TaskModel::pretrained(path, seed)? };
        let mut train = task_model.read(task, folder, Split::Train)?;
        let rows = train.rows.len();
        let expected = format!("a number from 1 to {rows}, the task's training rows");
        require("sequences", examples, (1..=rows).contains(&examples), expected)?;
        train.rows.truncate(examples);
        let settings = FinetuneSettings { seed, batch: examples, ..FinetuneSettings::default() };
        let fresh = Session::new(&task_model, task, &train, &train, &settings)?;
        let batch = fresh.batch(1);
        let model = if headed { &task_model.model } else { &fresh.trainer.params };
        let recipe = recipe(fresh.trainer.recipe.optimizer, seed);
        let (length, classes) = (batch.input.length(), batch.classes().next().expect("a fine-tuning has classes").clone());
        let right = answers(&classes, task);
        let read = |i: usize| match &batch.input.sight {
            Sight::Full(Some(lengths)) => i % length < lengths[i / length],
            _ => i <= classes.slots[i / length] as usize,
        };
        let counts = |tokens: &TokenLoss, i: usize| tokens.slots.is_some() || tokens.weights[i] != 0.0;
        let asked = |i: usize| batch.tokens().any(|tokens| counts(tokens, i));
        let head = if headed { "with the head that it has" } else { "under a fresh head" };
        Ok(StepInputs {
            title: format!("One step of a fine-tuning: {}", task.title),
            lead: format!(
                "{} {head}, at a step on {} of the training rows: L₃ = L₂ + λ·L₁ with λ = {}, moments at 0, at the full rate. \
                 The value of each op, its gradient and where it comes from, and the update of each parameter.",
                path.display(),
                classes.examples(),
                settings.lambda(model.predicts())
            ),
            trainer: Trainer::new(recipe, model.cast()),
            tokens: Tokens::of(&task_model.tokenizer, &batch, [&read, &asked]),
            batch,
            data: format!(
                "{}, the first rows of its training split, the shortest first, {} cut to the context; the right answers: {right}",
                task.title,
                train.truncated()
            ),
            drawn: match headed {
                true => "of dropouts, the order of rows, and the directions in which derivatives are compared",
                false => "of the head, dropouts, the order of rows, and the directions in which derivatives are compared",
            },
        })
    }

    /// Returns the [`digest`] of the parameters.
    pub fn parameters_digest(&self) -> String {
        digest(&self.trainer.params)
    }

    /// Returns the digests of Adam's first and second moments before the step.
    pub fn moments_digest(&self) -> String {
        let begins = |x: &Tensor<f64>| !x.any_nonzero();
        let (m, v) = self.trainer.moments();
        let mut zero = true;
        m.as_ref().zip(v.as_ref()).visit(|_, (m, v)| zero &= begins(m) && begins(v));
        let digests = [m, v].map(digest).join(" ");
        if zero { format!("{digests} (all of them 0)") } else { digests }
    }

    /// Returns the SHA-256 of the batch, little-endian. Tokens, targets, segments, predicted slots and the positions of extract
    /// tokens take 4 bytes each; weights, the targets and weights of labels, and lengths take 8.
    pub fn data_digest(&self) -> String {
        let (mut hash, batch) = (Sha256::new(), &self.batch);
        let targets = batch.tokens().flat_map(|tokens| tokens.targets.iter());
        batch.input.tokens.iter().chain(targets).for_each(|id| hash.update(id.to_le_bytes()));
        batch.tokens().flat_map(|tokens| tokens.weights.iter()).for_each(|w| hash.update(w.to_le_bytes()));
        let slots = batch.input.segments.iter().chain(batch.tokens().filter_map(|tokens| tokens.slots.as_ref()));
        let slots: Vec<u8> = slots.flat_map(|of| of.iter().flat_map(|x| x.to_le_bytes())).collect();
        let lengths = if let Sight::Full(Some(lengths)) = &batch.input.sight { &lengths[..] } else { &[] };
        for classes in batch.classes() {
            hash.update(vec![1; classes.head]);
            let extract = classes.slots.iter().map(|slot| slot % batch.input.length() as u32);
            extract.for_each(|at| hash.update(at.to_le_bytes()));
            classes.targets.iter().chain(&classes.weights[..]).for_each(|x| hash.update(x.to_le_bytes()));
        }
        hash.update(slots);
        lengths.iter().for_each(|&length| hash.update((length as u64).to_le_bytes()));
        hex::encode(hash.finalize())
    }
}

/// The token at the beginning of a story.
const START: &str = "<start>";

/// The amount of text that a step reads.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of sequences.
    pub sequences: usize,
    /// The number of tokens per sequence; `None` for as many as text and context allow, at most 16.
    pub tokens: Option<usize>,
}

/// The reason why a step cannot be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum StepInputsError {
    #[error(transparent)]
    Model(#[from] ModelDirError),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Answers(#[from] AnswersError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Finetune(#[from] FinetuneError),
    #[error(transparent)]
    Trainer(#[from] TrainError),
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error(
        "{}: all {steps} steps of this run are done, so there is no next step to show; stop a run early with --stop-at, or show \
         a step of the finished model with --model and --text",
        dir.display()
    )]
    Finished { dir: PathBuf, steps: u64 },
    #[error(
        "the text has {}, but {needed} are needed: those of each sequence, and one more as the last target; give more text, or a \
         smaller --tokens or --sequences",
        count_of(*.found, "token")
    )]
    Short { found: usize, needed: usize },
}

impl Exit for StepInputsError {
    fn exit_code(&self) -> u8 {
        match self {
            StepInputsError::Range(_) => exit::USAGE,
            StepInputsError::Finetune(e) => e.exit_code(),
            _ => exit::FAILED,
        }
    }
}

/// Returns windows as BERT's views of single texts, with masks drawn from a seed.
fn masked(windows: &[&[u32]], special: SpecialTokens, segmented: bool, seed: u64) -> Batch {
    let view = |(number, tokens): (u64, &&[u32])| {
        let text = Text { number, epoch: 0, tokens: tokens.to_vec(), sentences: vec![tokens.len()] };
        let mut draw = Draw { rng: Redraw::Static.rng(seed, &text, 0, 0), other: &|_| text.clone() };
        ViewPlan::Masked(Corrupt::BERT).scheme(None, Some(special), tokens.len()).train_view(&text, &mut draw)
    };
    views::batch(&(0..).zip(windows).map(view).collect::<Vec<_>>(), 0, segmented, Objective::TokenMean)
}

/// Returns the correct answers as text: a class by its name, an answer by its letter, a score as a number.
fn answers(classes: &ClassLoss, task: &Task) -> String {
    let each = classes.targets.len() / classes.examples();
    let answer = |shares: &[f64]| {
        let score: f64 = shares.iter().enumerate().map(|(k, share)| k as f64 * share).sum();
        match task.answer {
            Answer::Classes(names) => names[score as usize].to_owned(),
            Answer::Score { .. } => format!("{score:.3}"),
            _ => char::from(b'A' + score as u8).to_string(),
        }
    };
    classes.targets.chunks(each).map(answer).collect::<Vec<_>>().join(", ")
}

fn recipe(optimizer: Optimizer, seed: u64) -> Recipe {
    // One shard, so that the step is one graph. A constant rate, since the step is one of many.
    let schedule = Schedule { kind: ScheduleKind::Constant, warmup: Warmup::Steps(0) };
    Recipe { optimizer, schedule, seed, ..Recipe::new(StepInputs::STEPS + 1, 1) }
}
