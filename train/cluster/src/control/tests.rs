//! Tests of failure detection over real connections. Each test holds the other ends of the connections.

use std::sync::Mutex;

use gradus_tests::loopback;

use super::*;

const DEADLINE: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

/// A process under test and the other ends of its control connections.
struct Watched {
    control: Control,
    fault: Fault,
    doing: Arc<Doing>,
    others: Vec<TcpStream>,
}

impl Watched {
    fn start(me: usize, others: &[usize], limits: Limits) -> Self {
        let pair = |number: &usize| {
            let (near, far) = loopback();
            ((*number, near), far)
        };
        let (near, others): (Vec<_>, Vec<_>) = others.iter().map(pair).unzip();
        let (fault, doing) = (Fault::default(), Arc::<Doing>::default());
        let control = Control::start(me, near, fault.clone(), limits, Arc::clone(&doing)).unwrap();
        others.iter().for_each(|other| other.set_read_timeout(Some(DEADLINE)).unwrap());
        Watched { control, fault, doing, others }
    }

    /// Sends a message from another process, given by the index of its connection.
    fn sends(&mut self, other: usize, word: &Word) {
        self.others[other].write_all(&word.to_bytes()).unwrap();
    }

    /// Reads the next message to another process that is not a heartbeat.
    fn sent(&mut self, other: usize) -> Word {
        next_word(&mut self.others[other])
    }

    /// Waits for the verdict.
    fn verdict(&self) -> PeerError {
        let until = Instant::now() + DEADLINE;
        while Instant::now() < until {
            if let Some(verdict) = self.fault.verdict() {
                return verdict;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("no verdict within {DEADLINE:?}")
    }

    /// Sends `word` from every process every 20 ms for `time`, and asserts that there is no verdict meanwhile.
    fn lives_with(&mut self, time: Duration, mut word: impl FnMut() -> Word) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let word = word();
            (0..self.others.len()).for_each(|other| self.sends(other, &word));
            std::thread::sleep(TICK);
            assert_eq!(self.fault.verdict(), None);
        }
    }

    /// Sends `word` from process `other` every 20 ms until there is a verdict, and returns it.
    fn verdict_with(&mut self, other: usize, word: &Word) -> PeerError {
        let until = Instant::now() + DEADLINE;
        while self.fault.verdict().is_none() && Instant::now() < until {
            self.sends(other, word);
            std::thread::sleep(TICK);
        }
        self.verdict()
    }
}

/// Reads the next message that is not a heartbeat.
fn next_word(from: &mut TcpStream) -> Word {
    let mut words = std::iter::repeat_with(|| Word::read(from).unwrap());
    words.find(|word| !matches!(word, Word::Beat { .. })).expect("the messages do not end")
}

fn limits(silence: Duration, step: Duration) -> Limits {
    Limits { silence, step, stuck: None }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const IDLE: Word = Word::Beat { steps: 0, computes: false };
const COMPUTES: Word = Word::Beat { steps: 0, computes: true };

#[test]
fn control_messages_survive_serialization_and_long_texts_are_cut() {
    let verdict = |is_told| Word::Last(PeerError { problem: "é".into(), is_told });
    let beat = |computes| Word::Beat { steps: 1 << 40, computes };
    for word in [beat(true), beat(false), Word::Noted("a".into()), Word::Failed("b".into()), verdict(true), verdict(false)] {
        assert_eq!(Word::read(&mut &word.to_bytes()[..]).unwrap(), word);
    }
    assert_eq!(Word::read(&mut &Word::Farewell.to_bytes()[..]).unwrap(), Word::Farewell);

    let long = "x".repeat(2 * MOST_TEXT);
    let cut = long[..MOST_TEXT - 1].to_owned();
    let read = |word: Word| Word::read(&mut &word.to_bytes()[..]).unwrap();
    assert_eq!(read(Word::Noted(long.clone())), Word::Noted(cut.clone()));
    let verdict = |problem| Word::Last(PeerError { problem, is_told: true });
    assert_eq!(read(verdict(long)), verdict(cut), "the longest message");
}

#[test]
fn damaged_messages_are_rejected() {
    let refused = |bytes: &[u8]| Word::read(&mut &bytes[..]).unwrap_err().kind();
    let bytes = Word::Noted("a connection ends".into()).to_bytes();
    // Bytes 5 and 6 hold the length; a larger length ends in the middle of a message.
    for bit in (0..bytes.len() * 8).filter(|bit| !(40..56).contains(bit)) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(refused(&damaged), io::ErrorKind::InvalidData, "bit {bit}");
    }
    let message = |kind: u8, length: usize| {
        let body = [&[kind][..], &(length as u16).to_le_bytes(), &vec![0; length]].concat();
        [&crc32fast::hash(&body).to_le_bytes()[..], &body].concat()
    };
    assert_eq!(refused(&message(5, 0)), io::ErrorKind::InvalidData, "a kind that there is not");
    assert_eq!(refused(&message(0, 7)), io::ErrorKind::InvalidData, "a heartbeat that is too short");
    assert_eq!(refused(&message(1, MOST_TEXT + 1)), io::ErrorKind::InvalidData, "a text that is too long");
}

#[test]
fn heartbeats_report_progress_at_their_interval() {
    assert_eq!(limits(Duration::from_secs(10), LONG).beats(), Duration::from_secs(2));
    let (limits, started, mut beats) = (limits(ms(1000), LONG), Instant::now(), 0);
    let mut watched = Watched::start(1, &[0], limits);
    let mut reports = |watched: &mut Watched, steps, computes| {
        let expected = Word::Beat { steps, computes };
        beats += 1;
        while Word::read(&mut watched.others[0]).unwrap() != expected {
            beats += 1;
            assert!(beats < 20, "{expected:?}");
        }
    };
    reports(&mut watched, 0, false);
    watched.doing.step(true);
    reports(&mut watched, 0, true);
    watched.doing.step(false);
    reports(&mut watched, 1, false);
    // One heartbeat at the start, and one per interval.
    assert!(f64::from(beats) <= 2.0 + started.elapsed().div_duration_f64(limits.beats()), "{beats} heartbeats");
}

#[test]
fn a_silent_process_is_named() {
    let mut watched = Watched::start(0, &[1], limits(ms(1000), LONG));
    watched.lives_with(ms(1500), || IDLE);
    let problem = "process 1 sent nothing for 1 s (--timeout): it hangs, or its machine or network failed";
    let verdict = watched.verdict();
    assert_eq!(verdict.problem, problem);
    assert_eq!(watched.sent(0), Word::Last(verdict));
}

#[test]
fn a_process_that_does_not_finish_a_step_is_named() {
    let mut watched = Watched::start(0, &[1], limits(LONG, ms(1000)));
    watched.lives_with(ms(1500), || IDLE);
    let mut steps = 0;
    let mut progress = || {
        steps += 1;
        Word::Beat { steps, computes: true }
    };
    watched.lives_with(ms(1500), &mut progress);
    let last = progress();
    assert_eq!(
        watched.verdict_with(0, &last).problem,
        "process 1 has not finished a step in 1 s (--step-timeout), though it still responds"
    );
}

#[test]
fn a_pause_of_this_process_is_not_taken_for_silence_of_the_others() {
    let limit = Duration::from_secs(2);
    assert_eq!([paused(3, limit, limit), paused(3, ms(1), limit)], [None, None]);
    let problem = "process 3 itself was suspended, or its machine slept, for 2.5 s (--timeout)";
    assert_eq!(paused(3, ms(2500), limit).as_deref(), Some(problem));
}

#[test]
fn process_0_delays_a_suspicion_in_favour_of_a_better_cause() {
    // Process 0 turns the suspicion into a verdict after half the silence limit, before it detects a silent process.
    let mut watched = Watched::start(0, &[1, 2], limits(ms(1800), LONG));
    watched.sends(0, &Word::Noted("a".into()));
    assert_eq!(watched.verdict().problem, "process 1 reported: a");
    assert!(matches!(watched.sent(1), Word::Last(_)), "suspicions of process 0 are its own");

    let mut watched = Watched::start(0, &[1, 2], limits(LONG, LONG));
    watched.sends(0, &Word::Noted("a".into()));
    watched.lives_with(ms(100), || IDLE);
    watched.others.pop();
    let problem = "process 2 ended without reporting an error: it was killed, or its machine or network failed";
    assert_eq!(watched.verdict().problem, problem);

    let mut watched = Watched::start(0, &[1], limits(ms(1000), LONG));
    watched.fault.hears(1);
    assert_eq!(watched.verdict_with(0, &IDLE).problem, "no data from process 1 for 1.5 s: the connection hangs");
}

#[test]
fn the_first_suspicion_is_sent_to_process_0_which_decides() {
    let mut watched = Watched::start(1, &[0], limits(Duration::from_secs(3), LONG));
    watched.fault.suspect("a".into());
    assert_eq!(watched.sent(0), Word::Noted("a".into()));
    watched.fault.suspect("b".into());
    watched.lives_with(ms(2000), || IDLE); // longer than process 0 would wait
    let verdict = PeerError { problem: "c".into(), is_told: true };
    watched.sends(0, &Word::Last(verdict.clone()));
    assert_eq!(watched.verdict(), verdict);
    let Watched { control, mut others, .. } = watched;
    let mut other = others.pop().unwrap();
    let leaving = std::thread::spawn(move || control.leave(None));
    assert_eq!(next_word(&mut other), Word::Farewell, "one suspicion is sent, and the verdict is not sent back");
    drop(other);
    leaving.join().unwrap();
}

#[test]
fn messages_out_of_turn_are_rejected() {
    let verdict = || Word::Last(PeerError { problem: "a".into(), is_told: false });
    for (me, other, word) in [(1, 0, Word::Noted("a".into())), (0, 1, verdict())] {
        let mut watched = Watched::start(me, &[other], limits(LONG, LONG));
        watched.sends(0, &word);
        assert_eq!(watched.verdict().problem, format!("process {other} sent an unexpected message"));
    }
    let mut watched = Watched::start(1, &[0], limits(LONG, LONG));
    watched.others[0].write_all(&[0xff; 100]).unwrap();
    assert_eq!(watched.verdict().problem, "process 0 sent invalid data, or the data was damaged in transit");
}

#[test]
fn a_failure_of_another_process_is_the_verdict() {
    let mut watched = Watched::start(0, &[1], limits(LONG, LONG));
    watched.sends(0, &Word::Failed("the disk is full".into()));
    assert_eq!(watched.verdict(), PeerError { problem: "process 1 stopped: the disk is full".into(), is_told: true });
}

/// Leaves as process `me`. Returns the message that it sends, and the time that it takes.
fn left(me: usize, verdict: Option<&str>, failed: Option<&str>, closes_after: Option<Duration>) -> (Word, Duration) {
    let mut watched = Watched::start(me, &[1 - me], limits(ms(600), LONG));
    if let Some(verdict) = verdict {
        watched.fault.raise(verdict.into());
        let sent = (me == 0).then(|| watched.sent(0));
        assert!(sent.is_none_or(|word| matches!(word, Word::Last(_))));
    }
    let Watched { control, mut others, .. } = watched;
    let (mut other, failed, started) = (others.pop().unwrap(), failed.map(str::to_owned), Instant::now());
    let leaving = std::thread::spawn(move || control.leave(failed));
    let sent = next_word(&mut other);
    if let Some(after) = closes_after {
        std::thread::sleep(after);
        drop(other);
    }
    leaving.join().unwrap();
    (sent, started.elapsed())
}

#[test]
fn a_process_sends_its_reason_and_leaves_after_the_others() {
    let at_once = Some(Duration::ZERO);
    let last = |problem: &str| Word::Last(PeerError { problem: problem.into(), is_told: true });
    assert_eq!(left(0, None, Some("a"), at_once).0, last("process 0 stopped: a"));
    assert_eq!(left(1, None, Some("a"), at_once).0, Word::Failed("a".into()));
    assert_eq!(left(1, None, None, at_once).0, Word::Farewell);
    assert_eq!(left(0, None, None, at_once).0, Word::Farewell);
    assert_eq!(left(0, Some("a"), Some("b"), at_once).0, Word::Farewell, "the verdict is known");
    let (_, stayed) = left(1, None, None, Some(ms(300)));
    assert!(stayed >= ms(300), "{stayed:?}");
    let (_, stayed) = left(1, None, None, None);
    assert!(stayed >= ms(600), "{stayed:?}");
}

#[test]
fn a_farewell_is_no_failure() {
    let mut watched = Watched::start(0, &[1, 2], limits(ms(1000), ms(1000)));
    watched.sends(0, &COMPUTES);
    watched.sends(0, &Word::Farewell);
    watched.others.remove(0);
    watched.lives_with(ms(1500), || IDLE);
    watched.others.pop();
    assert!(watched.verdict().problem.starts_with("process 2 ended without reporting an error"));
}

#[test]
fn a_process_that_does_not_end_is_reported() {
    static STUCK: Mutex<Option<(Instant, String)>> = Mutex::new(None);
    let stuck = |verdict: &PeerError| {
        STUCK.lock().unwrap().get_or_insert((Instant::now(), verdict.problem.clone()));
    };
    let watched = Watched::start(0, &[1], Limits { stuck: Some(stuck), ..limits(ms(300), LONG) });
    let raised = Instant::now();
    watched.fault.raise("a".into());
    while STUCK.lock().unwrap().is_none() && raised.elapsed() < DEADLINE {
        std::thread::sleep(TICK);
    }
    let (at, problem) = STUCK.lock().unwrap().clone().expect("it is called");
    assert!(problem == "a" && at - raised >= ms(300), "{problem} after {:?}", at - raised);
}
