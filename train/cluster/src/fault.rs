//! What ends a run: the verdict that all wait for, and what was seen before there is one.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gradus_train::collective::PeerError;

/// Shared by all threads of a process.
#[derive(Clone, Debug, Default)]
pub struct Fault(Arc<(Mutex<Seen>, Condvar)>);

#[derive(Debug, Default)]
struct Seen {
    verdict: Option<PeerError>,
    suspicions: Vec<String>,
    is_leaving: bool,
    /// Since when this process has been waiting for others.
    waits: Option<Instant>,
    /// When something last came on each connection for data, and when it ended.
    heard: BTreeMap<usize, Instant>,
    ended: BTreeMap<usize, Instant>,
}

impl Fault {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.0.lock().expect("nothing here panics")
    }

    /// Ends the run for this process. The first verdict counts.
    pub fn raise(&self, problem: String) {
        self.end(PeerError::new(problem));
    }

    /// The same by a verdict that is there.
    pub fn end(&self, verdict: PeerError) {
        self.seen().verdict.get_or_insert(verdict);
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

    /// Something whole has come from a process.
    pub fn hears(&self, process: usize) {
        self.seen().heard.insert(process, Instant::now());
    }

    /// All has come from a process.
    pub fn hears_all(&self, process: usize) {
        let mut seen = self.seen();
        seen.heard.remove(&process);
        seen.ended.insert(process, Instant::now());
    }

    /// This process begins to wait for others, or waits no more.
    pub fn waits(&self, waits: bool) {
        self.seen().waits = waits.then(Instant::now);
    }

    /// Looks for connections that have carried nothing for so long, and for who has left though this process waits for so long.
    pub fn listen(&self, most: Duration) {
        let seen = self.seen();
        let is_late = |at: &Instant| at.elapsed() > most;
        let seconds = most.as_secs_f64();
        let silent = seen.heard.iter().find(|(_, at)| is_late(at));
        let silent =
            silent.map(|(p, _)| (*p, format!("nothing has come from process {p} in {seconds} s: their connection hangs")));
        let left = seen.ended.iter().find(|(_, at)| is_late(at)).filter(|_| seen.waits.as_ref().is_some_and(is_late));
        let left = left.map(|(p, _)| (*p, format!("process {p} has left before the end of the run")));
        drop(seen);
        if let Some((process, problem)) = silent.or(left) {
            self.suspect(problem);
            // Once is enough.
            let mut seen = self.seen();
            seen.heard.remove(&process);
            seen.ended.remove(&process);
        }
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

    #[test]
    fn a_connection_that_carries_nothing_is_noted_once() {
        let (fault, long, short) = (Fault::default(), Duration::from_secs(1000), Duration::from_millis(5));
        let noted = |most: Duration| {
            fault.listen(most);
            fault.suspicions()
        };
        [2, 3].into_iter().for_each(|process| fault.hears(process));
        std::thread::sleep(2 * short);
        assert!(noted(long).is_empty());
        let expected =
            |process: usize| vec![format!("nothing has come from process {process} in 0.005 s: their connection hangs")];
        assert_eq!([noted(short), noted(short), noted(short)], [expected(2), expected(3), vec![]]);
    }

    #[test]
    fn who_leaves_while_others_wait_for_him_is_noted() {
        let (fault, short) = (Fault::default(), Duration::from_millis(5));
        fault.hears(2);
        fault.hears_all(2);
        std::thread::sleep(2 * short);
        fault.listen(short);
        assert!(fault.suspicions().is_empty(), "this process does not wait");
        fault.waits(true);
        std::thread::sleep(2 * short);
        fault.listen(short);
        assert_eq!(fault.suspicions(), ["process 2 has left before the end of the run"]);
    }
}
