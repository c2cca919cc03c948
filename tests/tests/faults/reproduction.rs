//! The paper in miniature, disturbed as in `main.rs`; from each place of the program, and
//! `GRADUS_TRIALS` times more.
#![allow(clippy::disallowed_methods)]

mod disk;
mod scene;

use std::fs;
use std::path::Path;

use gradus_io::progress::Silent;
use gradus_paper::{Sizes, Watch, begin};

use scene::{Outcome, Scene};

/// Begins the reproduction in `root/mini`, or continues it: the command is the same.
fn command(root: &Path) -> Outcome {
    begin(&Sizes::new(1, 1, 0.01, false), &root.join("mini"), &Watch { monitor: &Silent, samples: false })?;
    Ok(())
}

#[test]
fn a_reproduction_survives_every_failure_of_the_disk() {
    let trials = std::env::var("GRADUS_TRIALS").map_or(20, |n| n.parse().expect("GRADUS_TRIALS is a number"));
    let _alone = scene::stage();
    let folder = scene::folder();
    let root = folder.path().join("disk");
    fs::create_dir(&root).unwrap();
    Scene { root, command: &command, out: "mini" }.each_place_may_fail(trials);
}
