//! The stages: each runs once and writes its result to a file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use gradus_io::files::quoted;
use gradus_io::interrupt;
use gradus_io::numbers::count_of;
use gradus_io::progress::{Job, Monitor, Progress, Silent};
use gradus_study::plan::Plan;
use gradus_study::{StudyError, records};
use gradus_tensor::Device;
use gradus_train::pretrain::{self, PretrainControl, PretrainError, PretrainManifest, PretrainSettings};
use gradus_train::run::{Control, Manifest, RunError};
use gradus_train::systems::Card;
use gradus_train::trainer::TrainError;

use crate::error::SurveyError;
use crate::level::{self, Work};
use crate::measure::{Generation, Understanding, divergences, generation, told, understanding};
use crate::plan::{SEARCH_SEED, Stage, Survey, usual_rate};
use crate::results::{Asked, Counted, Searched, Trained};
use crate::search;
use crate::subject::{REACH, Subject};

/// The directory of a survey.
///
/// ```text
/// OUT/  plan.json, results.json, report.html, plane.svg
///       search/SYSTEM-BUDGET-RATE/               runs that rates are chosen by, each a multiple of the usual one
///       seed-K/SYSTEM-BUDGET/                    runs of a seed
///       search/results/…, seed-K/results/…       the result of each
/// ```
#[derive(Clone, Debug)]
pub struct Paths(pub PathBuf);

impl Paths {
    fn seed(&self, seed: u64) -> PathBuf {
        self.0.join(format!("seed-{seed}"))
    }

    fn search(&self) -> PathBuf {
        self.0.join("search")
    }

    fn run(&self, card: &Card, budget: u64, seed: u64) -> PathBuf {
        self.seed(seed).join(format!("{}-{budget}", card.name))
    }

    /// Returns the file of a stage's result.
    pub fn result(&self, stage: &Stage) -> PathBuf {
        let of_seed = |seed, name: String| self.seed(seed).join("results").join(name);
        match stage {
            Stage::Search { card, budget } => self.search().join("results").join(format!("{}-{budget}.json", card.name)),
            Stage::Train { card, budget, seed } => of_seed(*seed, format!("{}-{budget}.trained.json", card.name)),
            Stage::Ask { card, budget, seed } => of_seed(*seed, format!("{}-{budget}.asked.json", card.name)),
            Stage::Count { seed } => of_seed(*seed, "counted.json".into()),
        }
    }

    /// Returns an answer, or an error after Ctrl-C.
    fn unless_stopped<A>(&self, answer: impl FnOnce() -> A) -> Result<A, SurveyError> {
        if interrupt::requested() { Err(self.interrupted()) } else { Ok(answer()) }
    }

    /// Returns the error for an interrupted survey.
    pub fn interrupted(&self) -> SurveyError {
        StudyError::Interrupted { command: Survey::COMMAND, out: self.0.clone() }.into()
    }
}

/// Runs a stage, and returns a line on its outcome.
pub fn run(paths: &Paths, survey: &Survey, stage: &Stage, monitor: &dyn Monitor) -> Result<String, SurveyError> {
    let file = paths.result(stage);
    match *stage {
        Stage::Search { card, budget } => {
            let searched = search(paths, survey, stage, (card, budget), monitor)?;
            records::write(&file, &searched)?;
            let Trained { lr, loss, .. } = search::best(&searched)?;
            Ok(format!("{} tried, best {lr}: {loss:.4} nats per token", count_of(searched.tried.len(), "rate")))
        }
        Stage::Train { card, budget, seed } => {
            let rate = search::rate(survey, card, searched(paths, survey, card, budget)?.as_ref())?;
            let run = (&*paths.run(card, budget, seed), rate);
            let trained = train(paths, survey, stage, (card, budget, seed), run, monitor)?;
            records::write(&file, &trained)?;
            Ok(outcome(&trained))
        }
        Stage::Ask { card, budget, seed } => {
            let asked = ask(paths, survey, card, (budget, seed), monitor)?;
            records::write(&file, &asked)?;
            if !asked.understanding.given_all.mean.is_finite() {
                return Ok("nothing to evaluate: its training diverged".into());
            }
            let (u, g, (stories, of)) = (asked.understanding.given_all.mean, asked.generation.before.mean, asked.told);
            Ok(format!("U {u:.3}, G {g:.3} nats, {stories} of {of} generated stories are valid"))
        }
        Stage::Count { seed } => {
            let counted = count(paths, survey, seed)?;
            records::write(&file, &counted)?;
            Ok(format!(
                "U {:.3} nats between two words on each side",
                counted.by_reach.last().expect("every reach").given_all.mean
            ))
        }
    }
}

fn outcome(trained: &Trained) -> String {
    let Trained { parameters, steps, loss, lr, .. } = trained;
    let loss = if loss.is_finite() { format!("{loss:.4} nats per token") } else { "it diverged".into() };
    if *steps == 0 {
        return format!("{parameters} n-grams: {loss}");
    }
    format!("{parameters} parameters, {steps} steps at {lr}: {loss}")
}

/// Returns whether the training ended because its rate was too high.
fn is_divergence(error: &PretrainError) -> bool {
    let is_not_finite = |e: &RunError| matches!(e, RunError::Train(TrainError::NotFinite { .. }));
    matches!(error, PretrainError::Diverged { .. }) || matches!(error, PretrainError::Run(e) if is_not_finite(e))
}

/// Tries rates until the best of them has neighbours on both sides or is at a limit. Finished runs are reused.
fn search(
    paths: &Paths,
    survey: &Survey,
    stage: &Stage,
    (card, budget): (&'static Card, u64),
    monitor: &dyn Monitor,
) -> Result<Searched, SurveyError> {
    let (mut tried, mut losses) = (Vec::new(), Vec::new());
    while let Some(rate) = search::next(&survey.rates, &losses) {
        let run = (&*paths.search().join(format!("{}-{budget}-{rate}", card.name)), rate * usual_rate(card));
        let trained = train(paths, survey, stage, (card, budget, SEARCH_SEED), run, monitor)?;
        monitor.say(&format!("    {}", outcome(&trained)));
        losses.push((rate, trained.loss));
        tried.push(trained);
    }
    Ok(Searched { system: card.name.into(), world: survey.world.clone(), budget, tried })
}

/// Reads the result of a search; `None` if there is none.
fn searched(paths: &Paths, survey: &Survey, card: &'static Card, budget: u64) -> Result<Option<Searched>, StudyError> {
    let result = || records::read(&paths.result(&Stage::Search { card, budget }));
    survey.searches(card).then(result).transpose()
}

/// Trains a system or continues its training, and returns the result; a divergence is also a result.
fn train(
    paths: &Paths,
    survey: &Survey,
    stage: &Stage,
    (card, budget, seed): (&Card, u64, u64),
    (run, lr): (&Path, f64),
    monitor: &dyn Monitor,
) -> Result<Trained, SurveyError> {
    let settings = level::settings(card, seed, lr)?;
    let Work { steps, flops, all: work } = level::work(&settings, budget)?;
    let settings = level::with_steps(settings, steps);
    let another = || SurveyError::AnotherRun { run: run.to_owned(), stage: stage.to_string() };
    let command = format!("gradus survey --resume {}", quoted(&paths.0));
    let device = Device::Cpu(survey.matmul_precision);
    let control = PretrainControl::new(Control { next: Some(command.clone()), command, device, ..Control::new(monitor) }, run);
    let made = match run.join("run.json").exists() {
        true => {
            let found = PretrainManifest::read(run).map_err(PretrainError::from)?;
            if !is_of(&found, &settings) {
                return Err(another());
            }
            pretrain::resume(run, &control)
        }
        false => pretrain::begin(settings, None, run, &control),
    };
    let (loss, seconds, parameters) = match made {
        Ok(made) if made.steps < made.total_steps => return Err(paths.interrupted()),
        Ok(made) => (made.validation.map_or(f64::NAN, |v| v.nll), made.seconds, made.parameters),
        Err(PretrainError::Interrupted) => return Err(paths.interrupted()),
        Err(PretrainError::Run(RunError::Taken { .. })) => return Err(another()),
        Err(e) if is_divergence(&e) => {
            let of_run = PretrainManifest::read(run).map_err(PretrainError::from)?.settings;
            (f64::NAN, 0.0, of_run.model.parameters())
        }
        Err(e) => return Err(e.into()),
    };
    let (system, world) = (card.name.into(), survey.world.clone());
    Ok(Trained { system, world, seed, budget, lr, parameters, steps, flops, work, loss, seconds })
}

/// Reads the result of a training; `None` if it diverged.
fn trained(paths: &Paths, (card, budget, seed): (&'static Card, u64, u64)) -> Result<Option<Trained>, SurveyError> {
    let trained: Trained = records::read(&paths.result(&Stage::Train { card, budget, seed }))?;
    Ok(Some(trained).filter(|trained| trained.loss.is_finite()))
}

/// Reads the trained run for evaluation, after its last step.
fn subject(
    paths: &Paths,
    survey: &Survey,
    (card, budget, seed): (&'static Card, u64, u64),
    trained: &Trained,
    monitor: &dyn Monitor,
) -> Result<Subject, SurveyError> {
    let (run, stage) = (paths.run(card, budget, seed), Stage::Train { card, budget, seed });
    let lost = |problem| StudyError::Lost { run: run.clone(), result: paths.result(&stage), problem };
    let damaged = |e: PretrainError| SurveyError::from(lost(e.to_string()));
    let found = PretrainManifest::read(&run).map_err(|e| damaged(e.into()))?;
    if !is_of(&found, &level::with_steps(level::settings(card, seed, trained.lr)?, trained.steps)) {
        return Err(SurveyError::AnotherRun { run, stage: stage.to_string() });
    }
    let subject = Subject::read(&run, survey.stories, monitor).map_err(|e| match e {
        SurveyError::Pretrain(e) => damaged(e),
        e => e,
    })?;
    let (done, steps) = (subject.done(), trained.steps);
    if done < steps {
        let problem = format!("{}: expected the model after step {steps}, found the one after step {done}", run.display());
        return Err(lost(problem).into());
    }
    Ok(subject)
}

/// Returns whether a run has these settings.
fn is_of(found: &PretrainManifest, settings: &PretrainSettings) -> bool {
    level::are_same(&found.settings, settings) && found.corpus.is_none()
}

fn ask(
    paths: &Paths,
    survey: &Survey,
    card: &'static Card,
    (budget, seed): (u64, u64),
    monitor: &dyn Monitor,
) -> Result<Asked, SurveyError> {
    let begin = Instant::now();
    let asked = |understanding, everywhere, generation, told| Asked {
        system: card.name.into(),
        world: survey.world.clone(),
        seed,
        budget,
        understanding,
        everywhere,
        generation,
        told,
        seconds: begin.elapsed().as_secs_f64(),
    };
    let Some(trained) = trained(paths, (card, budget, seed))? else {
        return Ok(asked(Understanding::none(), None, Generation::none(), (0, 0)));
    };
    let subject = subject(paths, survey, (card, budget, seed), &trained, monitor)?;
    let (stories, model, by_bayes) = (&subject.stories, subject.model(), subject.is_by_bayes());
    let passes = if by_bayes { 2 } else { 3 };
    let job = Job::new("predicting words", passes * stories.len() as u64, "stories");
    let mut watched = Watched { progress: monitor.begin(job), done: 0, paths };
    let places = subject.drawn(survey.places, seed);
    let generation = generation(stories, &places, |story| watched.next(|| model.along(story)))?;
    let mut understood = |places: &[Vec<usize>]| {
        let found = divergences(stories, places, |story, at| watched.next(|| model.cloze(story, at)));
        found.map(|found| understanding(stories, places, &found))
    };
    let drawn = understood(&places)?;
    let everywhere = if by_bayes { None } else { Some(understood(&subject.everywhere())?) };
    watched.progress.complete();
    watched.progress.finish();
    let whole = told(&subject.world, &subject.lexicon, (survey.told, seed), |beginnings| {
        paths.unless_stopped(|| model.next(beginnings))
    })?;
    Ok(asked(drawn, everywhere, generation, (whole, survey.told)))
}

/// The progress of an evaluation, story by story, until Ctrl-C.
struct Watched<'p> {
    progress: Box<dyn Progress>,
    done: u64,
    paths: &'p Paths,
}

impl Watched<'_> {
    fn next<A>(&mut self, answer: impl FnOnce() -> A) -> Result<A, SurveyError> {
        let answers = self.paths.unless_stopped(answer)?;
        self.done += 1;
        self.progress.reach(self.done);
        Ok(answers)
    }
}

/// Measures the counts of neighbours at all positions; any run of the seed contains the stories.
fn count(paths: &Paths, survey: &Survey, seed: u64) -> Result<Counted, SurveyError> {
    let counted = |by_reach| Counted { world: survey.world.clone(), seed, by_reach };
    for &budget in survey.budgets.iter().rev() {
        for card in survey.cards() {
            if let Some(trained) = trained(paths, (card, budget, seed))? {
                return Ok(counted(subject(paths, survey, (card, budget, seed), &trained, &Silent)?.counted()));
            }
        }
    }
    Ok(counted(vec![Understanding::none(); REACH + 1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_train::systems::DEFAULT;

    /// Returns a system's results at these multiples of its usual rate.
    fn outcomes(losses: &[(f64, f64)]) -> Searched {
        let card = DEFAULT;
        let of = |&(rate, loss): &(f64, f64)| Trained {
            system: card.name.into(),
            world: "a world".into(),
            seed: SEARCH_SEED,
            budget: 1000,
            lr: rate * usual_rate(card),
            parameters: 1,
            steps: 1,
            flops: 1.0,
            work: 1.0,
            loss,
            seconds: 0.0,
        };
        Searched { system: card.name.into(), world: "a world".into(), budget: 1000, tried: losses.iter().map(of).collect() }
    }

    #[test]
    fn a_diverging_rate_is_not_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let (paths, card) = (Paths(folder.path().to_owned()), DEFAULT);
        let survey = Survey::new(vec![card.name.into()], 1, 201, false, 1.0);
        let chosen = |losses: [f64; 3]| {
            let left = outcomes(&[(0.5, losses[0]), (1.0, losses[1]), (2.0, losses[2])]);
            records::write(&paths.result(&Stage::Search { card, budget: 1000 }), &left).unwrap();
            let found = searched(&paths, &survey, card, 1000).unwrap();
            search::rate(&survey, card, found.as_ref()).map(|rate| rate / usual_rate(card))
        };
        assert_eq!(chosen([1.5, 1.2, 1.3]).unwrap(), 1.0);
        assert_eq!(chosen([1.5, f64::NAN, f64::NAN]).unwrap(), 0.5);
        assert_eq!(chosen([f64::NAN, 1.2, 1.1]).unwrap(), 2.0);
        let none = chosen([f64::NAN; 3]).unwrap_err().to_string();
        assert!(none.starts_with("gpt: expected a rate") && none.contains("0.0005, 0.001, 0.002"), "{none}");

        let at = PretrainError::Diverged { step: 3, loss: f64::NAN };
        assert!(is_divergence(&at) && !is_divergence(&PretrainError::Interrupted));
    }

    #[test]
    fn a_diverged_model_is_not_evaluated() {
        let folder = tempfile::tempdir().unwrap();
        let (paths, card) = (Paths(folder.path().to_owned()), DEFAULT);
        let survey = Survey::new(vec![card.name.into()], 1, 201, true, 1.0);
        let (budget, seed) = (survey.most(), 201);
        let trained = outcomes(&[(1.0, f64::NAN)]).tried.remove(0);
        records::write(&paths.result(&Stage::Train { card, budget, seed }), &trained).unwrap();
        for stage in [Stage::Ask { card, budget, seed }, Stage::Count { seed }] {
            run(&paths, &survey, &stage, &Silent).unwrap();
        }
        let evaluated: Asked = records::read(&paths.result(&Stage::Ask { card, budget, seed })).unwrap();
        assert!(evaluated.understanding.is_whole() && evaluated.understanding.given_all.mean.is_nan());
        assert!(evaluated.generation.before.mean.is_nan() && evaluated.everywhere.is_none());
    }
}
