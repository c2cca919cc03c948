//! Pre-training in progress: the evaluations, checkpoints and samples between its steps.

use std::time::{Duration, Instant};

use gradus_io::checksums::{self, Lost};
use gradus_io::numbers::{count, count_of};
use gradus_io::progress::Job;
use gradus_model::{Batch, checkpoint};
use gradus_report::metrics::{self, EvaluationRecord, Moment, Record, SampleRecord, VALIDATION};
use gradus_tensor::Device;
use gradus_tensor::rng::Philox;

use super::stored::Progress;
use super::{PretrainControl, PretrainError, PretrainOutcome, Stored, Validation, digest, report};
use crate::answers::Causal;
use crate::answers::generate::{Choice, Continuation, Overflow, generate};
use crate::model_dir::BEST;
use crate::run::{self, Journal, Manifest, Run, RunError};
use crate::trainer::Trainer;

/// The maximum number of tokens of a sample.
const SAMPLE_TOKENS: usize = 160;
/// The choice of the tokens of samples: from the model's distribution, unchanged.
const FREELY: Choice = Choice::Sample { temperature: 1.0, top_k: None, top_p: 1.0 };
/// The time before the first sample.
const FIRST_SAMPLE: Duration = Duration::from_secs(8);
/// The time between later samples.
const NEXT_SAMPLE: Duration = Duration::from_secs(45);
/// The least time from a sample to another at an evaluation.
const SAMPLE_BESIDE: Duration = Duration::from_secs(15);
/// The time to write the pages above which they are not written at every evaluation.
const SLOW_PAGE: Duration = Duration::from_millis(500);

pub(super) struct Pretraining<'c> {
    run: Stored,
    control: &'c PretrainControl<'c>,
    /// The last evaluation, if no step was made since.
    last: Option<EvaluationRecord>,
    /// Whether the model has been probed before its first step.
    is_probed: bool,
    /// Whether the current state is saved.
    is_saved: bool,
    /// The time of the last sample, and the time until the next.
    sampled: (Instant, Duration),
    /// The time when the pages were last written, and the time that it took.
    page: Option<(Instant, Duration)>,
}

impl<'c> Pretraining<'c> {
    pub fn new(run: Stored, control: &'c PretrainControl<'c>) -> Self {
        Pretraining {
            run,
            control,
            last: None,
            is_probed: false,
            is_saved: false,
            sampled: (Instant::now(), FIRST_SAMPLE),
            page: None,
        }
    }

    /// Runs to the end, a stop or an interruption.
    pub fn run(mut self) -> Result<PretrainOutcome, PretrainError> {
        let (total, tokens, done) = (self.run.manifest.steps, self.tokens_per_step(), self.run.trainer.done());
        let job = Job::new("pre-training", total, "steps").counting("tokens", tokens).starting_at(done);
        let (mut journal, records) = Journal::open(&self.run.dir, job, self.run.past, self.control.run.monitor)?;
        if let Some(Lost(best)) = checksums::check_folder(&self.run.dir, BEST).map_err(RunError::from)? {
            journal.progress.warn(&format!(
                "{} is missing, though it was written: put back a copy of it; the next model with a lower held-out loss takes its place",
                best.display()
            ));
        }
        let mut evaluations = metrics::evaluations(&records, VALIDATION);
        // If the state has no best loss, the log has it.
        self.run.best = evaluations.clone().map(EvaluationRecord::compared).fold(self.run.best, f64::min);
        self.last = evaluations.next_back().filter(|e| e.at.step == done).cloned();
        self.is_probed = records.iter().any(|record| matches!(record, Record::Probe { .. }));
        self.is_saved = records.iter().any(|record| matches!(record, Record::Checkpoint { step, .. } if *step == done));
        let last_loss = metrics::steps(&records).next_back().map(|step| step.loss);
        let rates_before: Vec<f64> = metrics::steps(&records).map(|step| step.tokens_per_second).collect();
        let (parameters, corpus) = (self.run.manifest.settings.model.parameters(), self.run.source.tokens());
        let collective = match self.control.run.collective.processes() {
            1 => String::new(),
            n => format!(", in {n} processes"),
        };
        let steps = count_of(total as usize, "step");
        let [model, text, step] = [parameters as u64, corpus, tokens as u64].map(count);
        let words = format!("{model} parameters, {text} tokens to learn from, {steps} of {step} tokens{collective}");
        journal.progress.say(&words);
        if let Some(folder) = &self.control.run.tensorboard {
            journal.write_events(folder, done)?;
        }
        if done < self.control.run.stop(total) {
            self.write_page(&mut journal);
            let page = self.run.dir.join(report::PAGE);
            journal.progress.say(&format!("{} shows the progress and reloads itself", page.display()));
        }
        let trained = self.train(&mut journal);
        let parameters_sha256 = digest(&self.run.trainer.params).map_err(RunError::from);
        // The parameters of a lost device cannot be read.
        let written =
            report::write(&self.run, false, self.control.run.next.as_deref(), parameters_sha256.as_deref().unwrap_or_default());
        trained?;
        written?;
        let parameters_sha256 = parameters_sha256?;
        let (steps, seconds) = (self.run.trainer.done(), journal.seconds());
        journal.progress.finish();
        // A session without steps reports the rates of earlier ones.
        let mut rates = if journal.rates.is_empty() { rates_before } else { journal.rates };
        rates.sort_by(f64::total_cmp);
        Ok(PretrainOutcome {
            out: self.run.dir,
            steps,
            total_steps: total,
            finished: steps == total,
            final_loss: journal.loss.or(last_loss),
            tokens_per_second: rates.get(rates.len() / 2).copied(),
            parameters_sha256,
            parameters,
            validation: self.last,
            seconds,
        })
    }

    /// Runs the loop and saves the last checkpoint.
    fn train(&mut self, journal: &mut Journal) -> Result<(), PretrainError> {
        if self.run.trainer.done() == 0 && !self.is_probed {
            self.probe(journal)?;
        }
        run::train(self, journal, &self.control.run)?;
        if self.run.trainer.done() < self.control.run.stop(self.run.manifest.steps) {
            journal.progress.say("interrupted: saving a checkpoint");
            self.refuse_diverged(journal, None)?; // the last checkpoint is good
            self.save(journal)?;
        } else if self.last.is_none() {
            self.evaluate(journal)?;
            if !self.is_saved || self.last.is_some() {
                self.save(journal)?;
            }
        }
        Ok(())
    }

    /// Rewrites the pages of the run in progress. If they cannot be written, it prints a warning. Slow pages, which have a long
    /// log, are written less often, so that they take at most 2 % of the time.
    fn write_page(&mut self, journal: &mut Journal) {
        let begin = Instant::now();
        if self.page.is_some_and(|(last, took)| took > SLOW_PAGE && last.elapsed() < 50 * took) {
            return;
        }
        if let Err(error) = report::write(&self.run, true, None, "") {
            journal.progress.warn(&format!("warning: {error}"));
        }
        self.page = Some((Instant::now(), begin.elapsed()));
    }

    fn tokens_per_step(&self) -> f64 {
        self.run.source.tokens_per_step(self.run.manifest.settings.batch)
    }

    fn moment(&self, journal: &Journal) -> Moment {
        let step = self.run.trainer.done();
        Moment { step, tokens: (step as f64 * self.tokens_per_step()) as u64, elapsed: journal.seconds() }
    }

    fn probe(&self, journal: &mut Journal) -> Result<(), PretrainError> {
        let Some(probe) = self.control.probe else { return Ok(()) };
        let scores = probe(&self.run.trainer.params)?;
        Ok(journal.write(&Record::Probe { at: self.moment(journal), scores })?)
    }

    /// Returns an error if the model's loss is non-finite, so that the last checkpoint is kept: the step that ruined the
    /// parameters computed its loss before. Without held-out text, the loss is that of one training sequence.
    fn refuse_diverged(&self, journal: &mut Journal, validation: Option<&Validation>) -> Result<(), PretrainError> {
        let trainer = &self.run.trainer;
        let step = trainer.done();
        let loss = match validation {
            Some(v) => v.nll,
            None => {
                let losses = trainer.params.token_losses(&self.run.batch(step, 1)).to_vec();
                losses.iter().map(|&l| f64::from(l)).sum::<f64>() / losses.len() as f64
            }
        };
        if loss.is_finite() {
            return Ok(());
        }
        let error = PretrainError::Diverged { step, loss };
        journal.warn(step, error.to_string())?;
        // The next step would fail: its error names the op, and the step is saved.
        let next = self.batch(step + 1);
        if let Err(met) = trainer.clone().step(&next) {
            journal.progress.warn(&met.to_string());
            journal.keep(trainer, &next, &met);
        }
        Err(error)
    }

    /// Displays a text that the model generated or completed.
    fn sample(&self, journal: &mut Journal) -> Result<(), PretrainError> {
        let (source, model) = (&self.run.source, &self.run.trainer.params);
        let text = match self.run.manifest.settings.view.is_next() {
            true => self.written()?,
            false => match self.run.viewer.sample(&**source, model) {
                Some(ids) => source.tokenizer().decode(&ids)?,
                None => return Ok(()),
            },
        };
        let at = self.moment(journal);
        journal.progress.say(&format!("— step {}: {text}", at.step));
        Ok(journal.write(&Record::Sample(SampleRecord { at, prompt: String::new(), text }))?)
    }

    /// Generates a text from the model's distribution, with separate random numbers.
    fn written(&self) -> Result<String, PretrainError> {
        let (trainer, source, settings) = (&self.run.trainer, &self.run.source, &self.run.manifest.settings);
        let context = settings.model.sizes.context;
        let mut rng = Philox::with_stream(settings.seed ^ 0x5341_4d50_4c45, trainer.done());
        let mut ids = source.prompt();
        ids.truncate(context - 1);
        let (length, end) = (SAMPLE_TOKENS.min(context - ids.len()), source.separator());
        let vocab = source.tokenizer().vocab_size();
        let how = Continuation { vocab, tokens: length, choice: FREELY, overflow: Overflow::Refuse };
        generate(&Causal::new(&trainer.params), &mut ids, how, &mut rng, &mut |ids| ids.last().copied() != end)?;
        if ids.len() > 1 && ids.last().copied() == end {
            ids.pop();
        }
        Ok(source.tokenizer().decode(if end.is_some() { &ids[1..] } else { &ids[..] })?)
    }
}

impl Run for Pretraining<'_> {
    type Error = PretrainError;

    fn trainer(&mut self) -> &mut Trainer {
        &mut self.run.trainer
    }

    fn batch(&self, t: u64) -> Batch {
        self.run.batch(t, self.run.manifest.settings.batch)
    }

    fn made(&mut self, _: &Batch, _: f64) -> (f64, u64) {
        (self.last, self.is_saved) = (None, false);
        let tokens = self.tokens_per_step();
        (tokens, (self.run.trainer.done() as f64 * tokens) as u64)
    }

    fn is_due(&self, t: u64, stop: u64) -> bool {
        t == stop || t.is_multiple_of(self.run.manifest.settings.evaluates_every(self.run.manifest.steps))
    }

    fn evaluate(&mut self, journal: &mut Journal) -> Result<(), PretrainError> {
        let (at, run) = (self.moment(journal), &self.run);
        let limit = |is_last| run.manifest.settings.evaluated_tokens(is_last);
        let (own, sample) = (limit(at.step == run.manifest.steps), limit(false));
        let validation = run.validate(own);
        self.refuse_diverged(journal, validation.as_ref())?;
        if let Some(v) = validation {
            // The best model has the lowest loss over the same tokens.
            let differs = run.best.is_finite() && run.validated(own) != run.validated(sample);
            let sampled_nll = if differs { run.validate(sample).map(|sampled| sampled.nll) } else { None };
            let record = EvaluationRecord { sampled_nll, ..v.record(at) };
            let excess = record.excess.map_or(String::new(), |e| format!(", {:.1} % above the limit", 100.0 * e));
            let predicted = if self.run.manifest.settings.view.is_next() { "" } else { "predicted " };
            let bits = record.bits_per_byte.map_or(String::new(), |bits| format!(", {bits:.4} bits per byte"));
            let loss = format!("held-out loss {:.4} nats per {predicted}token{bits}{excess}", record.nll);
            let follows = record.follows.map_or(String::new(), |follows| format!("; {follows}"));
            journal.progress.say(&format!("step {}: {loss}{follows}", at.step));
            journal.write(&Record::Evaluation(record.clone()))?;
            if record.compared() < self.run.best {
                self.run.best = record.compared();
                let mut files = self.run.source.tokenizer().files();
                files.extend(checkpoint::files(&self.run.trainer.params).map_err(RunError::from)?);
                checksums::replace_within(&self.run.dir, BEST, &files).map_err(RunError::from)?;
            }
            self.last = Some(record);
        }
        self.probe(journal)
    }

    fn keep_kernels(&mut self, device: &Device) -> Result<(), PretrainError> {
        Ok(self.run.manifest.keep_kernels(device, &self.run.dir)?)
    }

    fn save(&mut self, journal: &mut Journal) -> Result<(), PretrainError> {
        let Moment { step, elapsed, .. } = self.moment(journal);
        journal.write(&Record::Checkpoint { step, elapsed, path: self.run.dir.display().to_string() })?;
        let model = checkpoint::files(&self.run.trainer.params).map_err(RunError::from)?;
        let progress = Progress { best: self.run.best.is_finite().then_some(self.run.best) };
        Ok(journal.save(&self.run.trainer, self.run.manifest.identity(), progress, &model)?)
    }

    fn show(&mut self, journal: &mut Journal, evaluated: bool) -> Result<(), PretrainError> {
        let (last, next) = self.sampled;
        if self.control.samples && last.elapsed() >= if evaluated { SAMPLE_BESIDE.min(next) } else { next } {
            self.sample(journal)?;
            self.sampled = (Instant::now(), NEXT_SAMPLE);
        }
        if evaluated && self.run.trainer.done() < self.run.manifest.steps {
            self.write_page(journal);
        }
        Ok(())
    }
}
