//! The paper's reproduction in miniature, under faults as in `main.rs`: at one call from each place of the program, and at
//! `GRADUS_TRIALS` others. All stages but one are done before a trial, so that it takes seconds, not minutes.
#![allow(clippy::disallowed_methods)]

mod disk;
mod scene;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use gradus_io::checksums;
use gradus_io::progress::Silent;
use gradus_paper::{Sizes, Watch, begin};

use disk::Fault;
use scene::{Files, Outcome, Progress, Scene, Trials};

/// Begins the reproduction in `root/mini`, or continues it, with the same command.
fn command(root: &Path) -> Outcome {
    begin(&Sizes::new(1, 1, 0.01, false), &root.join("mini"), &Watch { monitor: &Silent, samples: false })?;
    Ok(())
}

/// A reproduction with one open stage, and the calls on files that the stage makes.
struct Open {
    /// The file or folder of the stage's result, in the seed's folder; `None` if all stages are open.
    stage: Option<String>,
    calls: Vec<String>,
}

impl Open {
    /// Removes the stage's result from the finished reproduction in the scene, as if the stage had not been run.
    fn take_out(&self, scene: &Scene<'_>) {
        let mini = scene.root.join("mini");
        let seed = mini.join("seed-1");
        let Some(stage) = &self.stage else {
            return fs::remove_dir_all(mini).unwrap();
        };
        checksums::remove(&mini, &["results.json"]).unwrap();
        fs::remove_file(mini.join("report.html")).unwrap();
        let remove = |folder: &str| {
            checksums::unlist(&mini, &format!("seed-1/{folder}")).unwrap();
            fs::remove_dir_all(seed.join(folder)).unwrap();
        };
        checksums::list(&mini, "seed-1/results", false).unwrap();
        if stage == "world" {
            return remove("world");
        }
        checksums::remove(&seed.join("results"), &[stage]).unwrap();
        if let Some(body) = stage.strip_prefix("pretrain.").and_then(|name| name.strip_suffix(".json")) {
            remove(body);
        }
    }

    /// Writes the results of the stages after the first if all stages are open, unless these stages have begun. They depend only
    /// on the first.
    fn fill(&self, scene: &Scene<'_>, finished: &Files) {
        let seed = scene.root.join("mini/seed-1");
        let later = ["gpt", "lstm", "results"].map(|name| seed.join(name));
        if self.stage.is_some() || !seed.join("world").exists() || later.iter().any(|folder| folder.exists()) {
            return;
        }
        scene::write(finished.iter().filter(|(path, _)| later.iter().any(|folder| path.starts_with(folder))));
    }

    /// Returns the place of a call: its description without the names of results, models and the files of tasks, and without
    /// numbers.
    fn place(&self, n: u64) -> String {
        let mut words = self.calls[n as usize - 1].clone();
        if let Some(stage) = self.stage.as_deref().and_then(|stage| stage.strip_suffix(".json")) {
            words = words.replace(stage, "RESULT");
        }
        let of_task = |path: &str| path.contains("world") && path.split('/').count() > 4;
        let path = |path: &str| match path.rsplit_once('.') {
            Some((_, kind)) if of_task(path) && !kind.contains('/') => format!("TASK.{kind}"),
            _ if of_task(path) => "TASK".into(),
            _ => path.replace("/lstm", "/gpt"),
        };
        words.split('"').map(path).collect::<String>().replace(|c: char| c.is_ascii_digit(), "")
    }
}

#[test]
fn a_reproduction_survives_every_failure_of_the_disk() {
    let trials = std::env::var("GRADUS_TRIALS").map_or(20, |n| n.parse().expect("GRADUS_TRIALS is a number"));
    let _alone = scene::stage();
    let folder = scene::folder();
    let root = folder.path().join("disk");
    fs::create_dir(&root).unwrap();
    let scene = Scene { root, command: &command, out: "mini" };
    let mut whole = Open { stage: None, calls: scene.undisturbed() };
    // The later calls are the same as with one open stage.
    whole.calls.truncate(whole.calls.iter().position(|call| call.contains("/seed-1/gpt")).expect("it is pre-trained"));
    let (finished, expected) = (scene.files(), scene.results());
    let stages: BTreeSet<String> = finished.keys().filter_map(|path| stage(&scene.root, path)).collect();
    assert_eq!(stages.len(), 59);

    let mut open = vec![whole];
    for stage in stages {
        scene.put_back(&finished);
        let mut one = Open { stage: Some(stage), calls: Vec::new() };
        one.take_out(&scene);
        one.calls = scene.undisturbed();
        assert!(scene.results() == expected, "{:?}: done alone, it comes out otherwise", one.stage);
        open.push(one);
    }
    let cases: Vec<(usize, u64)> =
        open.iter().enumerate().flat_map(|(i, one)| (1..=one.calls.len() as u64).map(move |n| (i, n))).collect();
    let count = cases.len();
    let (drawn, again) = Trials::of_environment().choose(cases, count);
    let mut places = BTreeSet::new();
    let (mut chosen, rest): (Vec<_>, Vec<_>) = drawn.into_iter().partition(|&(i, n)| places.insert(open[i].place(n)));
    eprintln!("{count} calls on files, {} places, {trials} trials more", chosen.len());
    chosen.extend(rest.into_iter().take(trials));
    let mut shown = Progress::of(chosen.len());
    for (t, (i, n)) in chosen.into_iter().enumerate() {
        let (one, fault) = (&open[i], Fault::ALL[t % Fault::ALL.len()]);
        let what = format!("{:?} open, {fault:?} at call {n}, {} ({again})", one.stage, one.calls[n as usize - 1]);
        scene.put_back(&finished);
        one.take_out(&scene);
        scene.disturb(n, fault, &what);
        one.fill(&scene, &finished);
        scene.goes_on_to(&expected, &what);
        shown.one_more();
    }
}

/// Returns the stage whose result is this file or contains it.
fn stage(root: &Path, path: &Path) -> Option<String> {
    let within = path.strip_prefix(root.join("mini/seed-1")).ok()?;
    let name = within.iter().nth(1)?.to_str()?;
    match within.iter().next()?.to_str()? {
        "world" => Some("world".into()),
        "results" if name != "checksums.json" => Some(name.into()),
        _ => None,
    }
}
