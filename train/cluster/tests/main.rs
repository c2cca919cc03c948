//! Tests of several processes, each a thread of this one, over real sockets.

mod bits;
mod connections;
mod faults;

use std::sync::Arc;
use std::time::Duration;

use gradus_cluster::cluster::Cluster;
use gradus_cluster::control::Limits;
use gradus_cluster::rendezvous::{Hosts, local_addresses};
use gradus_cluster::secret::Secret;

/// Limits long enough for a loaded machine.
const LIMITS: Limits = Limits { silence: Duration::from_secs(20), step: Duration::from_secs(60), stuck: None };

/// Runs `work` on each of `n` processes and returns the results; all leave without a fault.
fn with_processes<R: Send>(n: usize, work: impl Fn(Arc<Cluster>) -> R + Sync) -> Vec<R> {
    with_processes_that(n, |cluster| {
        let result = work(Arc::clone(&cluster));
        assert_eq!(cluster.verdict(), None);
        cluster.leave(None);
        result
    })
}

/// Runs `work`, which also leaves the run, on each of `n` processes and returns the results.
fn with_processes_that<R: Send>(n: usize, work: impl Fn(Arc<Cluster>) -> R + Sync) -> Vec<R> {
    let (addresses, secret) = (local_addresses(n).unwrap(), Secret::random().unwrap());
    std::thread::scope(|scope| {
        let start = |me| {
            let (addresses, secret, work) = (addresses.clone(), secret.clone(), &work);
            scope.spawn(move || {
                let hosts = Hosts { addresses, me };
                let cluster = Arc::new(Cluster::join(&hosts, &secret, Duration::from_secs(20), LIMITS).unwrap());
                // A separate pool, since waiting for other processes blocks a thread.
                let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
                pool.install(|| work(cluster))
            })
        };
        let all: Vec<_> = (0..n).map(start).collect();
        all.into_iter().map(|process| process.join().unwrap()).collect()
    })
}
