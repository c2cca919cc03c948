//! A stop request while a process waits for the others.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use gradus_cluster::rendezvous::{Hosts, RendezvousError, local_addresses, meet};
use gradus_cluster::secret::Secret;
use gradus_io::interrupt;

#[test]
fn a_stop_request_ends_the_wait_for_other_processes() {
    // A wait that is not interrupted fails with another error, after a minute.
    let (secret, long) = (Secret::random().unwrap(), Duration::from_secs(60));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let absent = local_addresses(2).unwrap();
    let addresses = |first: &str| vec![first.to_owned(), absent[1].clone()];
    thread::scope(|scope| {
        // One waits for process 1 to connect, one for process 0 to listen, and one for an answer from process 0.
        let missing = Hosts { addresses: addresses(&absent[0]), me: 0 };
        let answer = Hosts { addresses: addresses(&silent.local_addr().unwrap().to_string()), me: 1 };
        let unreached = Hosts { addresses: addresses("127.0.0.1:1"), me: 1 };
        let all = [missing, unreached, answer].map(|hosts| {
            let secret = &secret;
            scope.spawn(move || meet(&hosts, secret, long).unwrap_err())
        });
        thread::sleep(Duration::from_millis(100));
        interrupt::request();
        for process in all {
            let error = process.join().unwrap();
            assert!(matches!(error, RendezvousError::Interrupted), "{error}");
        }
    });
}
