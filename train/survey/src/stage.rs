//! One stage: done once, its result kept in a file, never run again.

use std::path::{Path, PathBuf};
use std::time::Instant;

use gradus_io::files::quoted;
use gradus_io::interrupt;
use gradus_io::progress::{Job, Monitor, Progress};
use gradus_study::plan::Plan;
use gradus_study::{StudyError, records};
use gradus_tensor::rng::Philox;
use gradus_train::pretrain::{self, Part, PretrainControl, PretrainError, SEPARATOR, Stored};
use gradus_train::run::Control;
use gradus_train::systems::Card;
use gradus_world::World;

use crate::answers::{Answers, Causal, Masked};
use crate::counts::Window;
use crate::error::SurveyError;
use crate::level;
use crate::lexicon::Lexicon;
use crate::measure::{generation, told, understanding};
use crate::plan::{SEARCH_SEED, Stage, Survey, usual_rate};
use crate::results::{Asked, Counted, Trained};
use crate::story::Story;

/// Words on each side that are counted, at most.
const REACH: usize = 2;

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
            let trained = train(paths, survey, card, (budget, SEARCH_SEED, rate * usual_rate(card)), &run, monitor)?;
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
            let asked = ask(paths, survey, card, budget, seed, monitor)?;
            records::write(&file, &asked)?;
            let (u, g, (stories, of)) = (asked.understanding.given_all.mean, asked.generation.before.mean, asked.told);
            Ok(format!("U {u:.3}, G {g:.3} nats, {stories} of {of} stories told are stories"))
        }
        Stage::Count { seed } => {
            let counted = count(paths, survey, seed)?;
            records::write(&file, &counted)?;
            Ok(format!("U {:.3} nats between two words on each side", counted.by_reach[REACH].given_all.mean))
        }
    }
}

fn outcome(trained: &Trained) -> String {
    let Trained { parameters, steps, loss, lr, .. } = trained;
    format!("{parameters} parameters, {steps} steps at {lr}: {loss:.4} nats per token asked")
}

/// The rate with the lowest loss on held-out stories.
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

/// Some places of each story, or all: a function of the seed.
fn places(stories: &[Story], each: Option<usize>, seed: u64) -> Vec<Vec<usize>> {
    let mut rng = Philox::new(seed);
    let mut some = |story: &Story| {
        let mut at: Vec<usize> = (0..story.words.len()).collect();
        if let Some(each) = each {
            rng.shuffle(&mut at);
            at.truncate(each);
        }
        at
    };
    stories.iter().map(&mut some).collect()
}

/// What a stage that asks needs of a run.
struct Asker {
    run: Stored,
    world: World,
    lexicon: Lexicon,
    stories: Vec<Story>,
}

impl Asker {
    fn new(run: &Path, survey: &Survey, monitor: &dyn Monitor) -> Result<Self, SurveyError> {
        let run = Stored::read(run, run, monitor)?;
        let world = World::default();
        let lexicon = Lexicon::of(&*run.source)?;
        let stories = Story::held_out(&*run.source, &world, &lexicon, survey.stories)?;
        Ok(Asker { run, world, lexicon, stories })
    }
}

fn ask(paths: &Paths, survey: &Survey, card: &Card, budget: u64, seed: u64, monitor: &dyn Monitor) -> Result<Asked, SurveyError> {
    let begin = Instant::now();
    let Asker { run, world, lexicon, stories } = Asker::new(&paths.run(card, budget, seed), survey, monitor)?;
    let model = &run.trainer.params;
    let (masked, causal);
    let (model, each): (&dyn Answers, _) = match &run.viewer {
        Some(viewer) => {
            let length = world.properties().mean_tokens.round() as usize;
            masked = Masked { model, viewer, lexicon: &lexicon, length };
            (&masked, None)
        }
        None => {
            let separator = run.source.tokenizer().token_id(SEPARATOR).expect("its stories are opened by it");
            causal = Causal { model, separator, lexicon: &lexicon };
            (&causal, Some(survey.places))
        }
    };
    let places = places(&stories, each, seed);
    let mut watched =
        Watched { progress: monitor.begin(Job::new("asking", 2 * stories.len() as u64, "stories")), done: 0, paths };
    let generation = generation(&stories, |story| watched.next(|| model.along(story)))?;
    let understanding = understanding(&stories, &places, |story, at| watched.next(|| model.cloze(story, at)))?;
    watched.progress.finish();
    Ok(Asked {
        system: card.name.into(),
        world: survey.world.clone(),
        seed,
        budget,
        understanding,
        generation,
        told: (told(model, &world, &lexicon, survey.told, seed), survey.told),
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
    let run = paths.run(card, survey.most(), seed);
    let Asker { run, lexicon, stories, .. } = Asker::new(&run, survey, &gradus_io::progress::Silent)?;
    let all = places(&stories, None, seed);
    let train: Vec<Vec<usize>> = (0..run.source.texts(Part::Train))
        .map(|number| run.source.text(Part::Train, number).into_iter().map(|token| lexicon.of_token(token)).collect())
        .collect();
    let of_reach = |reach| {
        let window = Window::count(train.iter().map(Vec::as_slice), lexicon.len(), reach);
        understanding(&stories, &all, |story, at| Ok(at.iter().map(|&at| window.answer(story, at)).collect()))
    };
    let by_reach = (0..=REACH).map(of_reach).collect::<Result<_, SurveyError>>()?;
    Ok(Counted { world: survey.world.clone(), seed, by_reach })
}
