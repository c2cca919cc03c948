//! The plan of a study, fixed before training.

use std::path::Path;

use gradus_io::checksums::{self, Kept};
use gradus_io::files::{FileError, Lock, json_text, occupant, quoted, remove_unfinished};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::StudyError;

/// The file name of a plan.
const PLAN: &str = "plan.json";

/// The plan of a study, with everything that determines its results.
pub trait Plan: Clone + PartialEq + Serialize {
    /// The name of this kind of study.
    const WHAT: &'static str;
    /// The command that runs such a study.
    const COMMAND: &'static str;
    /// Reads the fields of a plan file; the error is a description of the problem.
    ///
    /// # Errors
    /// Returns an error if the fields are not a plan of this version.
    fn parse(fields: Map<String, Value>) -> Result<Self, String>;
    /// Merges this plan with a requested one; `None` if they are incompatible.
    fn joined(&self, asked: &Self) -> Option<Self>;
    /// Returns the complete command line for a study with this plan.
    fn line(&self) -> String;
}

/// Writes a plan into a directory, or merges it with the existing plan. The returned lock must be held during work in the
/// directory.
///
/// # Errors
/// Returns an error if the directory contains other files, or a plan that is incompatible with this one.
pub fn begin<P: Plan>(asked: &P, out: &Path) -> Result<(P, Lock), StudyError> {
    let lock = Lock::take(out)?;
    let there = out.join(PLAN).exists();
    if !there {
        checksums::undo_first(out)?; // removes a first write that a crash interrupted
    }
    if let (false, Some(found)) = (there, occupant(out)) {
        return Err(StudyError::Foreign { what: P::WHAT, out: out.to_owned(), found });
    }
    remove_unfinished(out, None)?;
    let before = there.then(|| read::<P>(out)).transpose()?;
    let taken = |there: &P| StudyError::Taken { what: P::WHAT, out: out.to_owned(), there: there.line() };
    let plan = match &before {
        Some(there) => there.joined(asked).ok_or_else(|| taken(there))?,
        None => asked.clone(),
    };
    if before.as_ref() != Some(&plan) {
        checksums::write(out, &[(PLAN, json_text(&Kept::with(&plan)))])?;
    }
    Ok((plan, lock))
}

/// Returns the plan in a directory, to resume the study.
///
/// # Errors
/// Returns an error if the directory or its plan is missing, or if the plan was changed.
pub fn resume<P: Plan>(out: &Path) -> Result<(P, Lock), StudyError> {
    let plan = read(out)?;
    let lock = Lock::take(out)?;
    remove_unfinished(out, None)?;
    Ok((plan, lock))
}

/// The commands that write plans, each with a field that distinguishes its plans from those of later entries.
const KINDS: [(&str, &str); 2] = [("survey", "systems"), ("reproduce", "recipe")];

/// Returns the command that wrote this plan if it is not `P`'s; `None` also if no command wrote it.
fn other_command<P: Plan>(plan: &Map<String, Value>) -> Option<&'static str> {
    let of = KINDS.into_iter().find(|(_, field)| plan.contains_key(*field)).map(|(command, _)| command);
    of.filter(|command| *command != P::COMMAND)
}

/// Returns the command that continues the study that the run in `dir` is a stage of; `None` for a run outside of a study. `begun`
/// is the command that began the run.
pub fn continuing(dir: &Path, begun: &str) -> Option<String> {
    let (command, _) = KINDS.into_iter().find(|(command, _)| begun.starts_with(&format!("gradus {command} ")))?;
    let whole = dir.canonicalize().unwrap_or_default();
    let mut above = dir.ancestors().skip(1).chain(whole.ancestors().skip(1)).filter(|folder| *folder != Path::new(""));
    let out = above.find(|folder| folder.join(PLAN).exists())?;
    Some(format!("gradus {command} --resume {}", quoted(out)))
}

fn read<P: Plan>(out: &Path) -> Result<P, StudyError> {
    let path = out.join(PLAN);
    let problem = |problem: String| StudyError::NoPlan { command: P::COMMAND, path: path.clone(), problem };
    let blame = |e: FileError| if e.is_of_sums() { e.into() } else { problem(e.cause.to_string()) };
    let text = checksums::read(out, PLAN).map_err(blame)?;
    let kind =
        |command: &str| format!("it is the plan of another command: `gradus {command} --resume {}` continues it", quoted(out));
    let fields = checksums::settings(&text).map_err(problem)?;
    let other = other_command::<P>(&fields);
    let plan = P::parse(fields).map_err(|e| problem(other.map_or(e, kind)))?;
    checksums::check_listed(out, PLAN)?; // a plan must not change after training began
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_run_of_a_study_is_continued_by_that_study() {
        let folder = tempfile::tempdir().unwrap();
        let study = folder.path().join("mini");
        let run = study.join("seed-1/gpt");
        fs::create_dir_all(&run).unwrap();
        let begun = "gradus reproduce --resume elsewhere";
        assert_eq!(continuing(&run, begun), None, "no plan above");
        fs::write(study.join(PLAN), "{}").unwrap();
        assert_eq!(continuing(&run, begun), Some(format!("gradus reproduce --resume {}", quoted(&study))));
        assert_eq!(continuing(&run, "gradus pretrain --out mini/seed-1/gpt"), None, "a run of the user's own");
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&run, &link).unwrap();
            let study = study.canonicalize().unwrap();
            assert_eq!(continuing(&link, begun), Some(format!("gradus reproduce --resume {}", quoted(&study))));
        }
    }
}
