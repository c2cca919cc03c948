//! One stage: done once, its result kept in a file, never run again.

use std::path::{Path, PathBuf};
use std::time::Instant;

use gradus_io::files::quoted;
use gradus_io::interrupt;
use gradus_io::progress::{Job, Monitor, Progress, Silent};
use gradus_study::plan::Plan;
use gradus_study::{StudyError, records};
use gradus_train::pretrain::{self, PretrainControl, PretrainError};
use gradus_train::run::{Control, RunError};
use gradus_train::systems::Card;
use gradus_train::trainer::TrainError;

use crate::error::SurveyError;
use crate::level;
use crate::measure::{generation, told, understanding};
use crate::plan::{SEARCH_SEED, Stage, Survey, usual_rate};
use crate::results::{Asked, Counted, Trained};
use crate::subject::Subject;

/// The directory of a survey.
///
/// ```text
/// OUT/  plan.json, results.json, report.html, plane.svg
///       search/SYSTEM-BUDGET-RATE/               runs that rates are chosen by
///       seed-K/SYSTEM-BUDGET/                    runs of a seed
///       search/results/…, seed-K/results/…       what each came to
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

    /// The file of a stage's result.
    pub fn result(&self, stage: &Stage) -> PathBuf {
        let of_seed = |seed, name: String| self.seed(seed).join("results").join(name);
        match stage {
            Stage::Rate { card, budget, rate } => {
                self.search().join("results").join(format!("{}-{budget}-{rate}.json", card.name))
            }
            Stage::Train { card, budget, seed } => of_seed(*seed, format!("{}-{budget}.trained.json", card.name)),
            Stage::Ask { card, budget, seed } => of_seed(*seed, format!("{}-{budget}.asked.json", card.name)),
            Stage::Count { seed } => of_seed(*seed, "counted.json".into()),
        }
    }

    /// That it was stopped.
    pub fn interrupted(&self) -> SurveyError {
        StudyError::Interrupted { command: Survey::COMMAND, out: self.0.clone() }.into()
    }
}

/// Runs a stage; returns a line on its outcome.
pub fn run(paths: &Paths, survey: &Survey, stage: &Stage, monitor: &dyn Monitor) -> Result<String, SurveyError> {
    let file = paths.result(stage);
    match *stage {
        Stage::Rate { card, budget, rate } => {
            let run = paths.search().join(format!("{}-{budget}-{rate}", card.name));
            let lr = rate * usual_rate(card);
            let trained = match train(paths, survey, card, (budget, SEARCH_SEED, lr), &run, monitor) {
                Err(SurveyError::Pretrain(e)) if is_divergence(&e) => diverged(survey, card, budget, lr),
                trained => trained?,
            };
            records::write(&file, &trained)?;
            Ok(outcome(&trained))
        }
        Stage::Train { card, budget, seed } => {
            let rate = best_rate(paths, survey, card, budget)?;
            let trained = train(paths, survey, card, (budget, seed, rate), &paths.run(card, budget, seed), monitor)?;
            records::write(&file, &trained)?;
            Ok(outcome(&trained))
        }
        Stage::Ask { card, budget, seed } => {
            let asked = ask(paths, survey, card, (budget, seed), monitor)?;
            records::write(&file, &asked)?;
            let (u, g, (stories, of)) = (asked.understanding.given_all.mean, asked.generation.before.mean, asked.told);
            Ok(format!("U {u:.3}, G {g:.3} nats, {stories} of {of} stories told are stories"))
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
    format!("{parameters} parameters, {steps} steps at {lr}: {loss:.4} nats per token asked")
}

/// Did the training end because its rate was too high?
fn is_divergence(error: &PretrainError) -> bool {
    let is_not_finite = |e: &RunError| matches!(e, RunError::Train(TrainError::NotFinite { .. }));
    matches!(error, PretrainError::Diverged { .. }) || matches!(error, PretrainError::Run(e) if is_not_finite(e))
}

/// What such a training came to: a rate that is not chosen.
fn diverged(survey: &Survey, card: &Card, budget: u64, lr: f64) -> Trained {
    let (system, world) = (card.name.into(), survey.world.clone());
    Trained { system, world, seed: SEARCH_SEED, budget, lr, parameters: 0, steps: 0, flops: 0.0, loss: f64::NAN, seconds: 0.0 }
}

/// The rate with the lowest loss on held-out stories; one that diverged has none.
fn best_rate(paths: &Paths, survey: &Survey, card: &'static Card, budget: u64) -> Result<f64, SurveyError> {
    if let [rate] = survey.rates[..] {
        return Ok(rate * usual_rate(card));
    }
    let of = |&rate: &f64| records::read(&paths.result(&Stage::Rate { card, budget, rate }));
    let tried: Vec<Trained> = survey.rates.iter().map(of).collect::<Result<_, _>>()?;
    Ok(tried.iter().min_by(|a, b| a.loss.total_cmp(&b.loss)).expect("one at least").lr)
}

fn train(
    paths: &Paths,
    survey: &Survey,
    card: &Card,
    (budget, seed, lr): (u64, u64, f64),
    run: &Path,
    monitor: &dyn Monitor,
) -> Result<Trained, SurveyError> {
    let settings = level::settings(card, seed, lr)?;
    let (steps, flops) = level::steps(&settings, budget)?;
    let command = format!("gradus survey --resume {}", quoted(&paths.0));
    let control = PretrainControl {
        run: Control { command, ..Control::new(monitor) },
        samples: false,
        cache: run.to_owned(),
        probe: None,
        recompute: None,
    };
    let made = match run.join("run.json").exists() {
        true => pretrain::resume(run, &control),
        false => pretrain::begin(level::with_steps(settings, steps), None, run, &control),
    };
    let made = made.map_err(|e| match e {
        PretrainError::Interrupted => paths.interrupted(),
        e => e.into(),
    })?;
    if made.steps < made.total_steps {
        return Err(paths.interrupted());
    }
    Ok(Trained {
        system: card.name.into(),
        world: survey.world.clone(),
        seed,
        budget,
        lr,
        parameters: made.parameters,
        steps,
        flops,
        loss: made.validation.map_or(f64::NAN, |v| v.nll),
        seconds: made.seconds,
    })
}

fn ask(
    paths: &Paths,
    survey: &Survey,
    card: &Card,
    (budget, seed): (u64, u64),
    monitor: &dyn Monitor,
) -> Result<Asked, SurveyError> {
    let begin = Instant::now();
    let subject = Subject::read(&paths.run(card, budget, seed), survey.stories, monitor)?;
    let (stories, model) = (&subject.stories, subject.model());
    let places = subject.places(subject.is_by_bayes().then_some(survey.places), seed);
    let mut watched =
        Watched { progress: monitor.begin(Job::new("asking", 2 * stories.len() as u64, "stories")), done: 0, paths };
    let generation = generation(stories, |story| watched.next(|| model.along(story)))?;
    let understanding = understanding(stories, &places, |story, at| watched.next(|| model.cloze(story, at)))?;
    watched.progress.finish();
    Ok(Asked {
        system: card.name.into(),
        world: survey.world.clone(),
        seed,
        budget,
        understanding,
        generation,
        told: (told(&*model, &subject.world, &subject.lexicon, survey.told, seed), survey.told),
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// Stories that are asked about one by one, until Ctrl-C.
struct Watched<'p> {
    progress: Box<dyn Progress>,
    done: u64,
    paths: &'p Paths,
}

impl Watched<'_> {
    fn next<A>(&mut self, answer: impl FnOnce() -> A) -> Result<A, SurveyError> {
        if interrupt::requested() {
            return Err(self.paths.interrupted());
        }
        let answers = answer();
        self.done += 1;
        self.progress.reach(self.done);
        Ok(answers)
    }
}

/// What neighbours tell in all places; any run of the seed has its stories.
fn count(paths: &Paths, survey: &Survey, seed: u64) -> Result<Counted, SurveyError> {
    let card = survey.cards().next().expect("a system");
    let subject = Subject::read(&paths.run(card, survey.most(), seed), survey.stories, &Silent)?;
    Ok(Counted { world: survey.world.clone(), seed, by_reach: subject.counted() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_train::systems::ALL;

    #[test]
    fn a_rate_that_diverges_is_not_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let (paths, card) = (Paths(folder.path().to_owned()), ALL[0]);
        let survey = Survey::new(vec![card.name.into()], 1, 101, false, 1.0);
        let of = |rate: f64, loss| Trained {
            system: card.name.into(),
            world: survey.world.clone(),
            seed: SEARCH_SEED,
            budget: 1000,
            lr: rate * usual_rate(card),
            parameters: 1,
            steps: 1,
            flops: 1.0,
            loss,
            seconds: 0.0,
        };
        let chosen = |losses: [f64; 3]| {
            for (&rate, loss) in survey.rates.iter().zip(losses) {
                records::write(&paths.result(&Stage::Rate { card, budget: 1000, rate }), &of(rate, loss)).unwrap();
            }
            best_rate(&paths, &survey, card, 1000).unwrap() / usual_rate(card)
        };
        assert_eq!(chosen([1.5, 1.2, 1.3]), 1.0);
        assert_eq!(chosen([1.5, f64::NAN, f64::NAN]), 0.5);
        assert_eq!(chosen([f64::NAN, 1.2, 1.1]), 2.0);

        let at = PretrainError::Diverged { step: 3, loss: f64::NAN };
        assert!(is_divergence(&at) && !is_divergence(&PretrainError::Interrupted));
    }
}
