//! The verdict that ends a run, and the suspicions recorded before it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gradus_collective::PeerError;

/// The fault state of a process, shared by all its threads.
#[derive(Clone, Debug, Default)]
pub struct Fault(Arc<(Mutex<Seen>, Condvar)>);

#[derive(Debug, Default)]
struct Seen {
    verdict: Option<PeerError>,
    suspicions: Vec<String>,
    is_leaving: bool,
    /// The time at which this process began to wait for others.
    waits: Option<Instant>,
    /// The time at which something last arrived on each data connection.
    heard: BTreeMap<usize, Instant>,
    /// The time at which each data connection ended.
    ended: BTreeMap<usize, Instant>,
}

impl Fault {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.0.lock().expect("nothing here panics")
    }

    /// Ends the run for this process with a new verdict. Only the first verdict counts.
    pub fn raise(&self, problem: String) {
        self.end(PeerError::new(problem));
    }

    /// Ends the run for this process with an existing verdict. Only the first verdict counts.
    pub fn end(&self, verdict: PeerError) {
        self.seen().verdict.get_or_insert(verdict);
        self.0.1.notify_all();
    }

    /// Returns the verdict, if any.
    pub fn verdict(&self) -> Option<PeerError> {
        self.seen().verdict.clone()
    }

    /// Records a problem that may be the consequence of another; process 0 finds the cause.
    pub fn suspect(&self, problem: String) {
        let mut seen = self.seen();
        if !seen.is_leaving {
            seen.suspicions.push(problem);
        }
        self.0.1.notify_all();
    }

    /// Returns the suspicions recorded since the last call.
    pub fn suspicions(&self) -> Vec<String> {
        std::mem::take(&mut self.seen().suspicions)
    }

    /// Records that a whole frame has arrived from a process.
    pub fn hears(&self, process: usize) {
        self.seen().heard.insert(process, Instant::now());
    }

    /// Records that a process has sent all its data and closed its connection.
    pub fn hears_all(&self, process: usize) {
        let mut seen = self.seen();
        seen.heard.remove(&process);
        seen.ended.insert(process, Instant::now());
    }

    /// Records whether this process is waiting for others.
    pub fn waits(&self, waits: bool) {
        self.seen().waits = waits.then(Instant::now);
    }

    /// Suspects a connection that has carried nothing for `most`, or a process that left while this one has waited for `most`.
    pub fn listen(&self, most: Duration) {
        let seen = self.seen();
        let is_late = |at: &Instant| at.elapsed() > most;
        let seconds = most.as_secs_f64();
        let silent = seen.heard.iter().find(|(_, at)| is_late(at));
        let silent = silent.map(|(p, _)| (*p, format!("no data from process {p} for {seconds} s: the connection hangs")));
        let left = seen.ended.iter().find(|(_, at)| is_late(at)).filter(|_| seen.waits.as_ref().is_some_and(is_late));
        let left = left.map(|(p, _)| (*p, format!("process {p} left before the end of the run")));
        drop(seen);
        if let Some((process, problem)) = silent.or(left) {
            self.suspect(problem);
            // Report each connection only once.
            let mut seen = self.seen();
            seen.heard.remove(&process);
            seen.ended.remove(&process);
        }
    }

    /// Records that this process leaves: connections may end from now on.
    pub fn leave(&self) {
        self.seen().is_leaving = true;
    }

    /// Waits for a verdict or a suspicion, at most `most`.
    pub fn wait(&self, most: Duration) {
        let seen = self.seen();
        drop(self.0.1.wait_timeout_while(seen, most, |seen| seen.verdict.is_none() && seen.suspicions.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_verdict_is_final() {
        let fault = Fault::default();
        fault.suspect("a".into());
        assert_eq!((fault.verdict(), fault.suspicions(), fault.suspicions()), (None, vec!["a".into()], vec![]));
        fault.wait(Duration::from_millis(1));
        fault.clone().raise("b".into());
        fault.raise("c".into());
        assert_eq!(fault.verdict().unwrap().problem, "b");
        fault.wait(Duration::from_secs(1000)); // returns at once
        fault.leave();
        fault.suspect("d".into());
        assert!(fault.suspicions().is_empty(), "connections may end");
    }

    #[test]
    fn an_idle_connection_is_reported_once() {
        let (fault, long, short) = (Fault::default(), Duration::from_secs(1000), Duration::from_millis(5));
        let noted = |most: Duration| {
            fault.listen(most);
            fault.suspicions()
        };
        [2, 3].into_iter().for_each(|process| fault.hears(process));
        std::thread::sleep(2 * short);
        assert!(noted(long).is_empty());
        let expected = |process: usize| vec![format!("no data from process {process} for 0.005 s: the connection hangs")];
        assert_eq!([noted(short), noted(short), noted(short)], [expected(2), expected(3), vec![]]);
    }

    #[test]
    fn a_process_that_leaves_early_is_reported() {
        let (fault, short) = (Fault::default(), Duration::from_millis(5));
        fault.hears(2);
        fault.hears_all(2);
        std::thread::sleep(2 * short);
        fault.listen(short);
        assert!(fault.suspicions().is_empty(), "this process does not wait");
        fault.waits(true);
        std::thread::sleep(2 * short);
        fault.listen(short);
        assert_eq!(fault.suspicions(), ["process 2 left before the end of the run"]);
    }
}
