//! What a study does: laid down before training, and nobody's to change.

use std::path::Path;

use gradus_io::checksums::{self, Kept};
use gradus_io::files::{FileError, Lock, json_text, occupant, quoted, remove_unfinished};
use serde::Serialize;
use serde_json::Value;

use crate::error::StudyError;

/// The file of a plan.
const PLAN: &str = "plan.json";

/// What a study does, with all that its results depend on.
pub trait Plan: Clone + PartialEq + Serialize {
    /// What such a study is called.
    const WHAT: &'static str;
    /// The command that makes one.
    const COMMAND: &'static str;
    /// From the bytes of its file; else what is wrong with them.
    ///
    /// # Errors
    /// What is not a plan that this program makes.
    fn parse(bytes: &[u8]) -> Result<Self, String>;
    /// This plan joined with one that is asked for; `None` where they do not go together.
    fn joined(&self, asked: &Self) -> Option<Self>;
    /// The whole command that makes a study of this plan.
    fn line(&self) -> String;
}

/// Lays down a plan in a directory, or joins it with the one that is there; the lock is held as long as work is done there.
///
/// # Errors
/// A directory with something else, or with a plan that does not go with this one.
pub fn begin<P: Plan>(asked: &P, out: &Path) -> Result<(P, Lock), StudyError> {
    let lock = Lock::take(out)?;
    let there = out.join(PLAN).exists();
    if !there {
        checksums::undo_first(out)?; // a beginning that a crash ended
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

/// The plan in a directory, to be continued.
///
/// # Errors
/// No such directory, no plan in it, or one that was changed.
pub fn resume<P: Plan>(out: &Path) -> Result<(P, Lock), StudyError> {
    let plan = read(out)?;
    let lock = Lock::take(out)?;
    remove_unfinished(out, None)?;
    Ok((plan, lock))
}

/// The commands that write plans, each with a field of its plans that those of later entries lack.
const KINDS: [(&str, &str); 2] = [("survey", "systems"), ("reproduce", "recipe")];

/// The command that wrote this plan, if it is another than `P`'s; `None` also if no command wrote it.
fn other_command<P: Plan>(bytes: &[u8]) -> Option<&'static str> {
    let plan: serde_json::Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    let of = KINDS.into_iter().find(|(_, field)| plan.contains_key(*field)).map(|(command, _)| command);
    of.filter(|command| *command != P::COMMAND)
}

/// A plan without the field that [`Kept`] adds.
fn without_word(bytes: &[u8]) -> Vec<u8> {
    let plan = serde_json::from_slice::<serde_json::Map<String, Value>>(bytes);
    plan.ok().and_then(|mut plan| plan.remove("checksums").map(|_| json_text(&plan))).unwrap_or_else(|| bytes.to_vec())
}

fn read<P: Plan>(out: &Path) -> Result<P, StudyError> {
    let path = out.join(PLAN);
    let problem = |problem: String| StudyError::NoPlan { command: P::COMMAND, path: path.clone(), problem };
    let blame = |e: FileError| if e.is_of_sums() { e.into() } else { problem(e.cause.to_string()) };
    let text = checksums::read(out, PLAN).map_err(blame)?;
    let kind =
        |command: &str| format!("it is the plan of another command: `gradus {command} --resume {}` continues it", quoted(out));
    let told = |e: String| problem(other_command::<P>(&text).map_or(e, kind));
    let plan = P::parse(&without_word(&text)).map_err(told)?;
    checksums::check_listed(out, PLAN)?; // what is laid down before training is nobody's to change
    Ok(plan)
}
