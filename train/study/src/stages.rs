//! The stages of a study: each runs once, and its result is stored in a file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gradus_io::interrupt;
use gradus_io::progress::Monitor;

use crate::error::StudyError;
use crate::records;

/// The stages of a study in the order of execution.
pub struct Stages<'s, S> {
    /// All stages.
    pub all: &'s [S],
    /// The command that runs the study.
    pub command: &'static str,
    /// The directory of the study.
    pub out: &'s Path,
    /// The file of a stage's result.
    pub result: &'s (dyn Fn(&S) -> PathBuf + Sync),
}

impl<S: Sync> Stages<'_, S> {
    /// Returns the stages that have a result.
    pub fn done(&self) -> Vec<&S> {
        self.all.iter().filter(|stage| (self.result)(stage).exists()).collect()
    }

    /// Runs each stage that has no result, until the first error or an interruption. Neighbours that are `independent` run side by
    /// side, on one thread each; `one` receives a stage and the number of stages that run at once.
    ///
    /// # Errors
    /// Returns the first error of a stage, [`StudyError::Interrupted`], or an error if a subfolder differs from its checksum.
    pub fn run<E: From<StudyError> + Send>(
        &self,
        monitor: &dyn Monitor,
        independent: fn(&S) -> bool,
        one: impl Fn(&S, usize) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let list_folders = || records::list_folders(self.out, self.all.iter().map(self.result), monitor);
        list_folders()?;
        let unless_stopped = |stage: &&S, workers: usize| match interrupt::requested() {
            true => Err(StudyError::Interrupted { command: self.command, out: self.out.to_owned() }.into()),
            false => one(stage, workers),
        };
        let open: Vec<&S> = self.all.iter().filter(|stage| !(self.result)(stage).exists()).collect();
        let worked = open.chunk_by(|a, b| independent(a) && independent(b)).try_for_each(|group| match group {
            [alone] => unless_stopped(alone, 1),
            group => side_by_side(group, unless_stopped),
        });
        let listed = list_folders();
        worked?;
        Ok(listed?)
    }
}

/// Runs independent pieces of work in parallel, one thread for each. No step waits for another thread, and no bit of a result
/// depends on the number of threads.
fn side_by_side<W: Sync, E: Send>(work: &[W], each: impl Fn(&W, usize) -> Result<(), E> + Sync) -> Result<(), E> {
    let threads = rayon::current_num_threads().min(work.len());
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let worker = || {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one more thread");
        pool.install(|| {
            while let (false, Some(piece)) = (failed.load(Ordering::Relaxed), work.get(next.fetch_add(1, Ordering::Relaxed))) {
                each(piece, threads).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            }
            Ok(())
        })
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_processed_once_and_a_failure_stops_the_rest() {
        let pieces: Vec<usize> = (0..100).collect();
        let done: Vec<AtomicUsize> = pieces.iter().map(|_| AtomicUsize::new(0)).collect();
        let once = |&piece: &usize, _| {
            assert_eq!(rayon::current_num_threads(), 1);
            done[piece].fetch_add(1, Ordering::Relaxed);
            Ok::<(), ()>(())
        };
        side_by_side(&pieces, once).unwrap();
        assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1));
        let tried = AtomicUsize::new(0);
        let fails = |_: &usize, _| {
            tried.fetch_add(1, Ordering::Relaxed);
            Err(7)
        };
        assert_eq!(side_by_side(&pieces, fails), Err(7));
        assert!(tried.into_inner() <= rayon::current_num_threads());
    }
}
