//! The messages that a process sends on its connections: heartbeats, and at the end a farewell or its error.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use gradus_cluster::cluster::Cluster;
use gradus_cluster::control::Limits;
use gradus_collective::Collective;
use gradus_tests::loopback;

use crate::faults::stream::{Fault, Faulty, Flow};
use crate::{LIMITS, with_processes_that};

/// The kind of the message with which a process leaves a run.
const FAREWELL: u8 = 4;
/// An upper bound on the bytes of a heartbeat on a data connection.
const BEAT: u64 = 128;

/// Starts process 1 of two; the test acts as process 0. Returns the test's ends of the control and data connections.
fn process_1(silence: Duration, written: &Arc<Flow>) -> (Cluster, TcpStream, TcpStream) {
    let ((control, far_control), (socket, far_data)) = (loopback(), loopback());
    let data = vec![Some(Faulty { socket, written: Arc::clone(written), read: Arc::default() }), None];
    let cluster = Cluster::over(1, vec![(0, control)], data, [7; 32], Limits { silence, ..LIMITS }).unwrap();
    (cluster, far_control, far_data)
}

#[test]
fn an_idle_connection_carries_a_heartbeat_per_interval() {
    let (written, started) = (Arc::<Flow>::default(), Instant::now());
    let _process = process_1(Duration::from_secs(5), &written);
    std::thread::sleep(Duration::from_millis(1500));
    let (bytes, beats) = (written.bytes.load(Relaxed), started.elapsed().as_secs());
    assert!((1..=beats * BEAT).contains(&bytes), "{bytes} bytes in {beats} s");
}

#[test]
fn a_process_sends_its_farewell_last() {
    let written = Arc::new(Flow { breaks: Some((Fault::Delays, 100)), ..Flow::default() });
    // The test never ends its side of the data connection in order, so the process leaves after the silence limit.
    let (cluster, mut far_control, mut far_data) = process_1(Duration::from_secs(2), &written);
    let leaving = std::thread::spawn(move || {
        drop(cluster.all_gather(vec![1; 1 << 20]));
        cluster.leave(None);
    });
    let reading = std::thread::spawn(move || far_data.read_exact(&mut vec![0; 1 << 20]));
    let mut head = [0; 7];
    while head[4] != FAREWELL {
        far_control.read_exact(&mut head).unwrap();
        let length = u16::from_le_bytes([head[5], head[6]]);
        far_control.read_exact(&mut vec![0; length.into()]).unwrap();
    }
    assert!(written.bytes.load(Relaxed) >= 1 << 20, "{written:?}");
    assert_eq!(far_control.read_exact(&mut head).unwrap_err().kind(), ErrorKind::UnexpectedEof, "nothing follows");
    drop(far_control);
    reading.join().unwrap().unwrap();
    leaving.join().unwrap();
}

#[test]
fn a_failure_ends_the_others_with_its_error() {
    let problems = with_processes_that(3, |cluster| {
        if Collective::process(&*cluster) == 1 {
            cluster.leave(Some("the disk is full".into()));
            return None;
        }
        let error = cluster.all_gather(vec![1]).wait().unwrap_err();
        assert_eq!(cluster.verdict(), Some(error.clone()));
        cluster.leave(Some(error.to_string()));
        Some(error.problem)
    });
    let problem = Some("process 1 stopped: the disk is full".to_owned());
    assert_eq!(problems, [problem.clone(), None, problem]);
}
