//! Execution of the incomplete stages, and the report on all results.

use std::path::{Path, PathBuf};
use std::time::Instant;

use gradus_io::checksums;
use gradus_io::files::{json_text, quoted};
use gradus_io::numbers::{count_of, duration};
use gradus_io::progress::Monitor;
use gradus_report::svg::Plot;
use gradus_report::{Block, Document};
use gradus_study::plan::Plan;
use gradus_study::{Claim, Stages, StudyError, plan, records};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::SurveyError;
use crate::level;
use crate::measure::Understanding;
use crate::plan::{Stage, Survey, stages};
use crate::results::{Asked, Counted, Results, Searched, Trained};
use crate::search;
use crate::stage::{self, Paths};
use crate::subject::REACH;
use crate::{claims, report};

/// The name of the report in the survey's directory.
const REPORT: &str = "report.html";
/// The number of seconds between reloads of the page of a survey in progress.
const RELOAD: u32 = 30;

/// The outcome of a survey.
#[derive(Clone, Debug, Serialize)]
pub struct Surveyed {
    /// The directory of the survey.
    pub out: PathBuf,
    /// The path of the report.
    pub report: PathBuf,
    /// The content of the report.
    #[serde(skip)]
    pub page: Document,
    /// The plane of U and G.
    #[serde(skip)]
    pub plane: Plot,
    /// The number of seeds.
    pub seeds: u64,
    /// The duration of this session, in seconds.
    pub seconds: f64,
    /// The results of each system, seed by seed.
    pub asked: Vec<Asked>,
    /// The papers' claims, with the results of the survey.
    pub claims: Vec<Claim>,
}

impl Surveyed {
    /// Renders the report as Markdown that shows the plane from the file `picture`.
    pub fn markdown(&self, picture: &str) -> String {
        report::markdown(&self.page, picture)
    }
}

/// Begins or continues a survey.
///
/// # Errors
/// Returns an error for a directory with another survey, the error of a stage, or an interruption by Ctrl-C.
pub fn begin(survey: &Survey, out: &Path, monitor: &dyn Monitor) -> Result<Surveyed, SurveyError> {
    survey.check()?;
    let (survey, _lock) = plan::begin(survey, out)?;
    run(&survey, out, monitor)
}

/// Continues the survey in a directory.
///
/// # Errors
/// Returns an error for a missing directory, the error of a stage, or an interruption by Ctrl-C.
pub fn resume(out: &Path, monitor: &dyn Monitor) -> Result<Surveyed, SurveyError> {
    let (survey, _lock) = plan::resume::<Survey>(out)?;
    run(&survey, out, monitor)
}

fn run(survey: &Survey, out: &Path, monitor: &dyn Monitor) -> Result<Surveyed, SurveyError> {
    let (begin, paths) = (Instant::now(), Paths(out.to_owned()));
    let all = stages(survey);
    let result = |stage: &Stage| paths.result(stage);
    let all_stages = Stages { all: &all, command: Survey::COMMAND, out, result: &result };
    let done = all_stages.done().len();
    let ready = if done > 0 { format!(", {done} of them done") } else { String::new() };
    monitor.say(&format!("The survey: {survey}; {}{ready}. Ctrl-C stops, and --resume continues", count_of(all.len(), "stage")));
    if done < all.len() {
        show(&paths, survey, &all, true, monitor);
        monitor.say(&format!("{} is rewritten after each stage, and reloads itself", out.join(REPORT).display()));
    }
    let worked = all_stages.run(
        monitor,
        |_| false,
        |stage, _| {
            let (number, start) = (1 + all.iter().position(|it| it == stage).unwrap_or(0), Instant::now());
            let found = stage::run(&paths, survey, stage, monitor)?;
            let took = duration(start.elapsed().as_secs_f64());
            monitor.say(&format!("[{number:>3}/{}] {stage}: {found} ({took})", all.len()));
            show(&paths, survey, &all, true, monitor);
            Ok::<(), SurveyError>(())
        },
    );
    worked.inspect_err(|_| show(&paths, survey, &all, false, monitor))?;
    let results = collect(&paths, survey, &all)?;
    let claims = claims::all(&results, survey);
    let page = report::report(&results, survey, &claims);
    let report = out.join(REPORT);
    page.write(&report)?;
    let plane = report::plane(&results, survey);
    plane.write(&out.join("plane.svg"))?;
    checksums::write(out, &[("results.json", json_text(&results))])?;
    Ok(Surveyed {
        out: out.to_owned(),
        report,
        page,
        plane,
        seeds: survey.seeds,
        seconds: begin.elapsed().as_secs_f64(),
        asked: results.asked,
        claims,
    })
}

/// Writes the page with the results so far, of a survey that is in progress (`lasts`) or stopped. It has no verdicts, since
/// stopping at a favourable verdict would bias the result. If the page cannot be written, it prints a warning; damaged results
/// are reported at the end.
fn show(paths: &Paths, survey: &Survey, all: &[Stage], lasts: bool, monitor: &dyn Monitor) {
    let done: Vec<Stage> = all.iter().filter(|stage| paths.result(stage).exists()).copied().collect();
    let Ok(results) = collect(paths, survey, &done) else { return };
    let mut page = report::report(&results, survey, &[]);
    let (done, all) = (done.len(), count_of(all.len(), "stage"));
    let stands = if lasts {
        page.reload = Some(RELOAD);
        format!("{done} of {all} done. This page is rewritten after each, and reloads itself while the survey lasts.")
    } else {
        format!("Stopped after {done} of {all}; `gradus survey --resume {}` continues.", quoted(&paths.0))
    };
    page.sections.insert(0, (String::new(), vec![Block::Text(stands)]));
    if let Err(error) = page.write(&paths.0.join(REPORT)) {
        monitor.warn(&format!("warning: {error}"));
    }
}

/// Reads the results of the stages.
fn collect(paths: &Paths, survey: &Survey, all: &[Stage]) -> Result<Results, SurveyError> {
    let mut results = Results::default();
    for stage in all {
        match *stage {
            Stage::Search { card, budget } => {
                let own = |s: &Searched| (&*s.system, s.budget, &s.world) == (card.name, budget, &survey.world);
                results.searched.push(read(paths, stage, own)?);
            }
            Stage::Train { card, budget, seed } => {
                let lr = search::rate(survey, card, results.searched(card.name, budget))?;
                let own = |t: &Trained| {
                    (&*t.system, t.budget, t.seed, t.lr, &t.world) == (card.name, budget, seed, lr, &survey.world)
                        && t.steps == level::nearest(t.work / t.flops)
                };
                results.trained.push(read(paths, stage, own)?);
            }
            Stage::Ask { card, budget, seed } => {
                let own = |a: &Asked| {
                    (&*a.system, a.budget, a.seed, &a.world) == (card.name, budget, seed, &survey.world)
                        && a.understanding.is_whole()
                        && a.everywhere.as_ref().is_none_or(Understanding::is_whole)
                };
                results.asked.push(read(paths, stage, own)?);
            }
            Stage::Count { seed } => {
                results.counted.push(read(paths, stage, |c: &Counted| {
                    let whole = c.by_reach.len() == REACH + 1 && c.by_reach.iter().all(Understanding::is_whole);
                    (c.seed, &c.world) == (seed, &survey.world) && whole
                })?);
            }
        }
    }
    Ok(results)
}

/// Reads a result; rejects a result of another stage or world.
fn read<R: DeserializeOwned>(paths: &Paths, stage: &Stage, own: impl Fn(&R) -> bool) -> Result<R, StudyError> {
    let path = paths.result(stage);
    let result = records::read(&path)?;
    let problem = || format!("expected the result of {stage}, in this plan's world, found another's");
    if own(&result) { Ok(result) } else { Err(StudyError::Damaged { path: path.clone(), problem: problem() }) }
}

#[cfg(test)]
mod tests {
    use gradus_train::systems::SURVEYED;

    use super::*;
    use crate::measure::Generation;
    use crate::plan::usual_rate;

    /// Returns complete results of a survey's stages.
    fn results(survey: &Survey) -> (Trained, Asked, Counted) {
        let (system, world, seed, budget) = (SURVEYED[0].name.to_owned(), survey.world.clone(), 201, survey.most());
        let trained = Trained {
            system: system.clone(),
            world: world.clone(),
            seed,
            budget,
            lr: usual_rate(SURVEYED[0]),
            parameters: 9,
            steps: 3,
            flops: 10.0,
            work: 31.0,
            loss: 1.0,
            seconds: 1.0,
        };
        let evaluated = Asked {
            system,
            world: world.clone(),
            seed,
            budget,
            understanding: Understanding::none(),
            everywhere: Some(Understanding::none()),
            generation: Generation::none(),
            told: (0, 1),
            seconds: 1.0,
        };
        (trained, evaluated, Counted { world, seed, by_reach: vec![Understanding::none(); REACH + 1] })
    }

    #[test]
    fn only_complete_results_of_matching_stages_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths(folder.path().to_owned());
        let survey = Survey::new(vec![SURVEYED[0].name.into()], 1, 201, true, 1.0);
        let all = stages(&survey);
        let [train, ask, count] = &all[..] else { panic!("{all:?}") };
        let read = |(trained, evaluated, counted): (Trained, Asked, Counted)| {
            records::write(&paths.result(train), &trained).unwrap();
            records::write(&paths.result(ask), &evaluated).unwrap();
            records::write(&paths.result(count), &counted).unwrap();
            collect(&paths, &survey, &all).map_err(|e| e.to_string())
        };
        read(results(&survey)).unwrap();
        let refused = |change: fn(&mut (Trained, Asked, Counted)), stage: &Stage| {
            let mut all = results(&survey);
            change(&mut all);
            let error = read(all).unwrap_err();
            assert!(error.contains(&format!("expected the result of {stage}, in this plan's world")), "{error}");
        };
        refused(|all| all.0.lr *= 2.0, train);
        refused(|all| all.0.steps += 1, train);
        refused(|all| all.0.world = "another".into(), train);
        refused(|all| all.1.seed += 1, ask);
        refused(|all| _ = all.1.understanding.by_distance.pop(), ask);
        refused(|all| _ = all.1.everywhere.as_mut().unwrap().by_distance.pop(), ask);
        refused(|all| _ = all.2.by_reach.pop(), count);
        refused(|all| _ = all.2.by_reach[1].by_distance.pop(), count);
    }
}
