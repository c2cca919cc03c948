//! Execution of the stages in order, and collection of their results.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gradus_io::checksums;
use gradus_io::files::{FileError, Lock, json_text, remove_unfinished};
use gradus_io::numbers::{count_of, duration};
use gradus_model::{Batch, Model};
use gradus_study::plan::Plan;
use gradus_study::{Claim, Stages, StudyError, records};
use gradus_train::pretrain::{PretrainError, PretrainOptions};
use gradus_train::run::RunError;
use gradus_train::trainer::Trainer;

use crate::error::ReproduceError;
use crate::opening::Opening;
use crate::plan::{Planned, Sizes, Stage};
use crate::results::{PretrainResult, Results, TaskResult};
use crate::stage::{Paths, Watch};
use crate::{claims, plan, report, stage};

/// The outcome of a reproduction.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Reproduction {
    /// The directory of the reproduction.
    pub out: PathBuf,
    /// The path of the report.
    pub report: PathBuf,
    /// The report as Markdown.
    #[serde(skip)]
    pub markdown: String,
    /// The main results in a few lines.
    #[serde(skip)]
    pub summary: Vec<String>,
    /// The number of seeds.
    pub seeds: u64,
    /// The duration of this session, in seconds.
    pub seconds: f64,
    /// The number of stages that were complete before.
    pub skipped: usize,
    /// The number of stages of this session.
    pub done: usize,
    /// The paper's claims, with the results of the reproduction.
    pub claims: Vec<Claim>,
}

/// Begins or continues a reproduction; the experiments are added to the existing results.
///
/// # Errors
/// Returns an error for a directory with another reproduction, the error of a stage, or an interruption by Ctrl-C.
pub fn begin(sizes: &Sizes, out: &Path, watch: &Watch<'_>) -> Result<Reproduction, ReproduceError> {
    sizes.check()?;
    let (sizes, _lock) = gradus_study::plan::begin(sizes, out)?;
    run(&sizes, out, watch)
}

/// Continues the reproduction in a directory.
///
/// # Errors
/// Returns an error for a missing directory, the error of a stage, or an interruption by Ctrl-C.
pub fn resume(out: &Path, watch: &Watch<'_>) -> Result<Reproduction, ReproduceError> {
    let (sizes, _lock) = gradus_study::plan::resume::<Sizes>(out)?;
    run(&sizes, out, watch)
}

fn run(sizes: &Sizes, out: &Path, watch: &Watch<'_>) -> Result<Reproduction, ReproduceError> {
    let (begin, paths) = (Instant::now(), Paths(out.to_owned()));
    let stages = plan::plan(sizes);
    let seeds = stages.iter().map(|planned| planned.seed).collect::<BTreeSet<_>>();
    seeds.into_iter().try_for_each(|seed| clear(&paths, seed))?;
    let result = |planned: &Planned| paths.result(planned);
    let all = Stages { all: &stages, command: Sizes::COMMAND, out, result: &result };
    let skipped = all.done().len();
    work(&all, sizes, &paths, watch)?;
    let results = collect(&paths, sizes, &stages)?;
    let claims = claims::all(&results, sizes);
    let opening = Opening::read(&paths, sizes);
    let page = report::report(&results, sizes, &claims, &opening);
    let report = out.join("report.html");
    page.write(&report)?;
    checksums::write(out, &[("results.json", json_text(&results))])?;
    Ok(Reproduction {
        out: out.to_owned(),
        report,
        markdown: report::markdown(&page),
        summary: report::summary(&results, sizes, &claims, &opening),
        seeds: sizes.seeds,
        seconds: begin.elapsed().as_secs_f64(),
        skipped,
        done: stages.len() - skipped,
        claims,
    })
}

/// Removes the unfinished files of a crash from a seed's folders, unless another process works in one of its runs.
fn clear(paths: &Paths, seed: u64) -> Result<(), FileError> {
    paths.folders(seed).iter().try_for_each(|folder| remove_unfinished(folder, None))?;
    paths.bodies(seed).try_for_each(|run| Lock::take(&run).and_then(|_alone| remove_unfinished(&run, None)))
}

/// Runs the incomplete stages.
fn work(stages: &Stages<'_, Planned>, sizes: &Sizes, paths: &Paths, watch: &Watch<'_>) -> Result<(), ReproduceError> {
    let (all, done) = (stages.all, stages.done());
    let tokens = |planned: &mut dyn Iterator<Item = &Planned>| planned.map(|p| p.tokens).sum::<f64>();
    let left = tokens(&mut all.iter()) - tokens(&mut done.iter().copied());
    let speed = if done.len() < all.len() { measure()? } else { 1.0 };
    if done.len() < all.len() {
        watch.monitor.say(&announce(all, &done, sizes, speed));
    }
    // The number of complete stages, and the cost of the others.
    let state = Mutex::new((done.len(), left));
    stages.run(
        watch.monitor,
        |p| p.stage.is_fine_tuning(),
        |planned, workers| {
            let start = Instant::now();
            let found = stage::run(paths, sizes, planned, watch)?;
            let (took, expected) = (start.elapsed().as_secs_f64(), planned.tokens / speed * workers as f64);
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            *state = (state.0 + 1, (state.1 - planned.tokens).max(0.0));
            let (done, all, left) = (state.0, all.len(), duration(state.1 / speed));
            let Planned { seed, stage, .. } = planned;
            watch.monitor.say(&format!(
                "[{done:>3}/{all}] seed {seed}: {stage}: {found} ({took:.0} s, {expected:.0} s expected); about {left} left"
            ));
            Ok(())
        },
    )
}

/// Describes the plan in words, kind by kind.
fn announce(stages: &[Planned], done: &[&Planned], sizes: &Sizes, speed: f64) -> String {
    let mut text = format!("The plan: {sizes}\n");
    let mut kinds: Vec<&str> = stages.iter().filter(|p| p.seed == sizes.first_seed).map(|p| p.stage.kind()).collect();
    kinds.dedup();
    for kind in kinds {
        let of: Vec<&Planned> = stages.iter().filter(|p| p.stage.kind() == kind).collect();
        let ready = done.iter().filter(|p| p.stage.kind() == kind).count();
        let time = duration(of.iter().map(|p| p.tokens).sum::<f64>() / speed);
        let note = if ready > 0 { format!(", {ready} of them done") } else { String::new() };
        text += &format!("  {kind:<42} {:>10}, about {time}{note}\n", count_of(of.len(), "stage"));
    }
    let left = stages.iter().map(|p| p.tokens).sum::<f64>() - done.iter().map(|p| p.tokens).sum::<f64>();
    text + &format!("  in all about {}; Ctrl-C stops, and --resume continues", duration(left / speed))
}

/// Measures the speed of pre-training on this machine in tokens per second, as the median of a few discarded steps.
fn measure() -> Result<f64, ReproduceError> {
    let settings = PretrainOptions::micro_world().settle().map_err(PretrainError::from)?;
    let (rows, length, vocab) = (plan::STORIES, plan::STORY, gradus_train::pretrain::VOCABULARY);
    let config = settings.model.clone().with_vocab(vocab);
    let recipe = settings.recipe(100);
    let mut trainer: Trainer = Trainer::new(recipe, Model::init(&config, 0));
    let ids: std::sync::Arc<[u32]> = (0..rows * length).map(|i| (i * 7919 % vocab) as u32).collect();
    let weights = vec![1.0 / ids.len() as f64; ids.len()];
    let batch = Batch::next(rows, ids.clone(), ids, weights);
    let seconds = trainer.seconds_per_step(&batch, 9).map_err(|e| PretrainError::from(RunError::from(e)))?;
    Ok((rows * length) as f64 / seconds)
}

/// Reads the results of the stages.
fn collect(paths: &Paths, sizes: &Sizes, stages: &[Planned]) -> Result<Results, ReproduceError> {
    let mut results = Results::default();
    for planned in stages {
        let path = paths.result(planned);
        match planned.stage {
            Stage::World => {}
            Stage::Pretrain(body) => {
                let result: PretrainResult = records::read(&path)?;
                let last = result.zero_shot.last().map(|point| point.step);
                let expected = (planned.seed, body, Some(sizes.steps));
                own(&path, planned, (result.seed, result.body, last) == expected && result.world == sizes.world)?;
                results.pretrained.push(result);
            }
            Stage::Finetune { task, variant } => {
                let result: TaskResult = records::read(&path)?;
                let expected = (planned.seed, task, variant, sizes.rows_of(task, variant));
                let found = (result.seed, &*result.task, result.variant, result.rows);
                own(&path, planned, found == expected && result.world == sizes.world)?;
                if !result.is_possible() {
                    let problem = "expected scores from −1 to 1 and losses from 0, found others".into();
                    return Err(StudyError::Damaged { path, problem }.into());
                }
                results.tasks.push(result);
            }
        }
    }
    Ok(results)
}

/// Rejects a result of another stage, seed, size or world.
fn own(path: &Path, planned: &Planned, is_own: bool) -> Result<(), ReproduceError> {
    let problem = || {
        format!("expected the result of seed {}, {}, in this plan's size and world, found another's", planned.seed, planned.stage)
    };
    if is_own { Ok(()) } else { Err(StudyError::Damaged { path: path.to_owned(), problem: problem() }.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Body, ZeroShotPoint};
    use std::collections::BTreeMap;
    use std::fs;
    use std::io::ErrorKind;

    /// Each result has valid checksums.
    #[test]
    fn a_result_of_another_seed_size_or_world_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths(folder.path().to_owned());
        let planned = |seed| Planned { seed, stage: Stage::Pretrain(Body::Lstm), tokens: 1.0 };
        let sizes = Sizes::new(2, 1, 1.0, false);
        let last = ZeroShotPoint { step: sizes.steps, tokens: 1, scores: BTreeMap::new() };
        let result = PretrainResult {
            world: sizes.world.clone(),
            seed: 1,
            body: Body::Lstm,
            parameters: 1,
            loss: 1.0,
            limit: 0.5,
            zero_shot: vec![last],
            seconds: 1.0,
        };
        for seed in [1, 2] {
            let path = paths.result(&planned(seed));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            checksums::write(path.parent().unwrap(), &[("pretrain.lstm.json", json_text(&result))]).unwrap();
        }
        assert_eq!(collect(&paths, &sizes, &[planned(1)]).unwrap().pretrained, std::slice::from_ref(&result));
        let refused = [(sizes.clone(), 2), (sizes.clone().retold(true), 1), (Sizes::new(2, 1, 0.5, false), 1)];
        for (sizes, seed) in refused {
            let error = collect(&paths, &sizes, &[planned(seed)]).unwrap_err().to_string();
            let expected =
                format!("pretrain.lstm.json: expected the result of seed {seed}, pre-training the LSTM, in this plan's");
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn leftovers_of_a_crash_are_removed_unless_the_folder_is_locked() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let paths = Paths(folder.path().to_owned());
        let gpt = folder.path().join("seed-1/gpt");
        let left = [folder.path().join("seed-1/.world.tmp-7"), gpt.join(".best.tmp-7")];
        left.iter().for_each(|path| fs::create_dir_all(path).unwrap());
        let running = Lock::take(&gpt).unwrap();
        assert_eq!(clear(&paths, 1).unwrap_err().cause.kind(), ErrorKind::ResourceBusy);
        assert!(left[1].exists());
        drop(running);
        #[cfg(unix)]
        {
            fs::create_dir(elsewhere.path().join(".best.tmp-7")).unwrap();
            std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("seed-1/lstm")).unwrap();
        }
        clear(&paths, 1).unwrap();
        assert!(gpt.exists() && left.iter().all(|path| !path.exists()));
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), usize::from(cfg!(unix)), "not through a link");
    }
}
