//! What ends a run: the verdict that all wait for, and what was seen before there is one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use gradus_train::collective::PeerError;

/// Shared by all threads of a process.
#[derive(Clone, Debug, Default)]
pub struct Fault(Arc<(Mutex<Seen>, Condvar)>);

#[derive(Debug, Default)]
struct Seen {
    verdict: Option<PeerError>,
    suspicions: Vec<String>,
    is_leaving: bool,
}

impl Fault {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.0.lock().expect("nothing here panics")
    }

    /// Ends the run for this process. The first verdict counts.
    pub fn raise(&self, problem: String) {
        self.seen().verdict.get_or_insert(PeerError { problem });
        self.0.1.notify_all();
    }

    /// The verdict, if there is one.
    pub fn verdict(&self) -> Option<PeerError> {
        self.seen().verdict.clone()
    }

    /// Notes what may be the consequence of something else: process 0 finds the cause.
    pub fn suspect(&self, problem: String) {
        let mut seen = self.seen();
        if !seen.is_leaving {
            seen.suspicions.push(problem);
        }
        self.0.1.notify_all();
    }

    /// What was noted since.
    pub fn suspicions(&self) -> Vec<String> {
        std::mem::take(&mut self.seen().suspicions)
    }

    /// From now on connections may end.
    pub fn leave(&self) {
        self.seen().is_leaving = true;
    }

    /// Waits for something to be noted, at most this long.
    pub fn wait(&self, most: Duration) {
        let seen = self.seen();
        drop(self.0.1.wait_timeout_while(seen, most, |seen| seen.verdict.is_none() && seen.suspicions.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_verdict_counts() {
        let fault = Fault::default();
        fault.suspect("a".into());
        assert_eq!((fault.verdict(), fault.suspicions(), fault.suspicions()), (None, vec!["a".into()], vec![]));
        fault.wait(Duration::from_millis(1));
        fault.clone().raise("b".into());
        fault.raise("c".into());
        assert_eq!(fault.verdict().unwrap().problem, "b");
        fault.wait(Duration::from_secs(1000)); // at once
        fault.leave();
        fault.suspect("d".into());
        assert!(fault.suspicions().is_empty(), "connections may end");
    }
}
