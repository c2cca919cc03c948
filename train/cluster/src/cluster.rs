//! The implementation of [`Collective`] over the processes of a run.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gradus_collective::{AdditionTree, AllGather, Collective, ParamRange, PeerError, Reduction, Sum};
use gradus_tensor::{Shape, Tensor};
use timely_communication::allocator::zero_copy::stream::Stream;

use crate::control::{Control, Doing, Limits};
use crate::engine;
use crate::fault::Fault;
use crate::inbox::Inbox;
use crate::line::Line;
use crate::pieces::Pieces;
use crate::plan::{Plan, owners};
use crate::rendezvous::{Hosts, Met, RendezvousError, meet};
use crate::secret::Secret;
use crate::sums::{Handle, Running};

type Added = (Vec<Option<Shape>>, AdditionTree);
type Ways = (Arc<Pieces>, Arc<Plan>);

/// This process's membership in a cluster of processes that train one model.
pub struct Cluster {
    line: Arc<Line>,
    inbox: Arc<Inbox>,
    doing: Arc<Doing>,
    limits: Limits,
    /// The pieces and the plan of each all-reduce, by the shapes of the gradients and the addition tree.
    ways: Mutex<HashMap<Added, Ways>>,
    threads: Mutex<Option<(Control, JoinHandle<()>)>>,
}

impl Cluster {
    /// Connects to the other processes, waiting at most `within` for them.
    ///
    /// # Errors
    /// Returns an error if a process is absent when `within` has passed, or belongs to another run.
    pub fn join(hosts: &Hosts, secret: &Secret, within: Duration, limits: Limits) -> Result<Self, RendezvousError> {
        let Met { control, data, session } = meet(hosts, secret, within)?;
        Ok(Self::over(hosts.me, control, data, session, limits)?)
    }

    /// Starts on existing, authenticated connections: `control`, and one connection in `data` to each other process.
    ///
    /// # Errors
    /// Returns an error if the system cannot start the threads.
    pub fn over<S: Stream + 'static>(
        me: usize,
        control: Vec<(usize, TcpStream)>,
        data: Vec<Option<S>>,
        session: [u8; 32],
        limits: Limits,
    ) -> io::Result<Self> {
        let (fault, doing, (sender, outbox)) = (Fault::default(), Arc::<Doing>::default(), mpsc::channel());
        let run = u64::from_le_bytes(*session.first_chunk().expect("32 bytes"));
        let line = Arc::new(Line::new(me, data.len(), run, fault.clone(), sender));
        let inbox = Arc::new(Inbox::new(Arc::clone(&line)));
        let control = Control::start(me, control, fault, limits, Arc::clone(&doing))?;
        let engine = engine::start(data, Arc::clone(&line), Arc::clone(&inbox), outbox, limits.beats())?;
        Ok(Cluster { line, inbox, doing, limits, ways: Mutex::default(), threads: Mutex::new(Some((control, engine))) })
    }

    /// Leaves the run: with a farewell, or by sending the error `failed` to the other processes.
    pub fn leave(&self, failed: Option<String>) {
        let Some((control, engine)) = self.threads.lock().expect("nothing here panics").take() else { return };
        self.line.fault.leave();
        if failed.is_none() {
            self.line.close();
            let until = Instant::now() + self.limits.silence;
            while !engine.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        control.leave(failed);
    }

    /// Returns the verdict that ended the run early, if any.
    pub fn verdict(&self) -> Option<PeerError> {
        self.line.fault.verdict()
    }

    /// Returns the pieces of gradients of these shapes, and the plan that adds them.
    fn ways(&self, tree: &AdditionTree, shapes: &[Option<Shape>]) -> Result<Ways, PeerError> {
        let mut ways = self.ways.lock().expect("nothing here panics");
        let of = (shapes.to_vec(), tree.clone());
        if let Some(known) = ways.get(&of) {
            return Ok(known.clone());
        }
        let pieces = Pieces::of(shapes);
        let plan = Plan::new(tree, &self.owners(tree)?, &pieces.sizes());
        Ok(ways.entry(of).or_insert((Arc::new(pieces), Arc::new(plan))).clone())
    }

    fn owners(&self, tree: &AdditionTree) -> Result<Vec<Range<usize>>, PeerError> {
        let (n, shards) = (self.line.processes, tree.shards());
        owners(tree, n).ok_or_else(|| {
            PeerError::new(format!(
                "{shards} shards are too few for {n} processes; give --shards at least {n}, or fewer processes"
            ))
        })
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of {}", self.line.me, self.line.processes)
    }
}

/// A `Cluster` dropped without [`leave`](Cluster::leave) sends no farewell: the other processes consider this process lost.
impl Collective<f32> for Cluster {
    fn process(&self) -> usize {
        self.line.me
    }

    fn processes(&self) -> usize {
        self.line.processes
    }

    fn shards(&self, tree: &AdditionTree) -> Result<Range<usize>, PeerError> {
        Ok(self.owners(tree)?[self.line.me].clone())
    }

    fn parts(&self, tree: &AdditionTree, shapes: &[Option<Shape>]) -> Result<Vec<Vec<ParamRange>>, PeerError> {
        let (pieces, plan) = self.ways(tree, shapes)?;
        let of = |process| plan.own(process).into_iter().map(|piece| pieces.place(piece)).collect();
        Ok((0..self.line.processes).map(of).collect())
    }

    fn sum(&self, tree: AdditionTree, shapes: Vec<Option<Shape>>, reduction: Reduction) -> Box<dyn Sum<f32> + '_> {
        self.doing.step(true);
        let (pieces, plan) = self.ways(&tree, &shapes).expect("the requested number of shards");
        let line = Arc::clone(&self.line);
        let running = self.inbox.begin(|number| Running::new(line, number, tree, pieces, plan, reduction));
        Box::new(Step { handle: Handle { running, shapes }, doing: &self.doing, inbox: &self.inbox })
    }

    fn all_gather(&self, bytes: Vec<u8>) -> Box<dyn AllGather + '_> {
        Box::new(Gathering { number: self.inbox.all_gather(bytes), inbox: &self.inbox })
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>, PeerError> {
        self.inbox.broadcast(bytes)
    }

    fn gather(&self, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, PeerError> {
        self.inbox.gather(bytes)
    }
}

struct Step<'c> {
    handle: Handle,
    doing: &'c Doing,
    inbox: &'c Inbox,
}

impl Sum<f32> for Step<'_> {
    fn add(&self, shard: usize, parameter: usize, gradient: Tensor) {
        self.handle.add(shard, parameter, gradient);
    }

    fn all_reduce(self: Box<Self>) -> Result<Vec<Option<Tensor>>, PeerError> {
        self.doing.step(false);
        let result = Box::new(self.handle).all_reduce();
        self.inbox.end();
        result
    }

    fn reduce_scatter(&self) -> Result<Vec<Tensor>, PeerError> {
        self.doing.step(false);
        self.handle.reduce_scatter()
    }

    fn all_gather(self: Box<Self>, own: Vec<Tensor>) -> Result<Vec<Option<Tensor>>, PeerError> {
        let result = Box::new(self.handle).all_gather(own);
        self.inbox.end();
        result
    }
}

struct Gathering<'c> {
    number: u64,
    inbox: &'c Inbox,
}

impl AllGather for Gathering<'_> {
    fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, PeerError> {
        self.inbox.gathered(self.number)
    }
}
