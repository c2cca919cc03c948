//! A group of processes that are threads of one process, for tests. Messages are exchanged in memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};

use gradus_tensor::{Shape, Tensor, halves};

use crate::operations::{AllGather, Collective, ParamRange, PeerError, Reduction, Sum};
use crate::single::PartialSums;
use crate::tree::{AdditionTree, part};

/// The messages of all processes, by number of the all-gather and process, and the sums in progress.
#[derive(Default)]
struct InMemoryGroup {
    messages: Mutex<BTreeMap<(usize, usize), Vec<u8>>>,
    arrived: Condvar,
    sums: Mutex<BTreeMap<usize, Arc<PartialSums<f32>>>>,
}

/// One of `all` processes.
pub struct Rank {
    me: usize,
    all: usize,
    group: Arc<InMemoryGroup>,
    /// The number of all-gathers that this process has begun.
    gathers: Mutex<usize>,
    /// The number of sums that this process has begun.
    sums: Mutex<usize>,
}

/// Runs `work` in each of `all` processes, each a thread with a separate pool, and returns the results.
pub fn processes<R: Send>(all: usize, work: impl Fn(Arc<Rank>) -> R + Sync) -> Vec<R> {
    let group = Arc::<InMemoryGroup>::default();
    std::thread::scope(|scope| {
        let start = |me| {
            let rank = Rank { me, all, group: Arc::clone(&group), gathers: Mutex::default(), sums: Mutex::default() };
            let work = &work;
            scope.spawn(move || {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
                pool.install(|| work(Arc::new(rank)))
            })
        };
        let threads: Vec<_> = (0..all).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn next(count: &Mutex<usize>) -> usize {
    let mut count = count.lock().unwrap();
    *count += 1;
    *count
}

impl std::fmt::Debug for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} of {}", self.me, self.all)
    }
}

/// The all-gather with this number.
struct Gathering<'m>(&'m Rank, usize);

impl AllGather for Gathering<'_> {
    fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, PeerError> {
        let Gathering(rank, number) = *self;
        let mut messages = rank.group.messages.lock().unwrap();
        loop {
            let all: Option<Vec<Vec<u8>>> = (0..rank.all).map(|p| messages.get(&(number, p)).cloned()).collect();
            match all {
                Some(all) => return Ok(all),
                None => messages = rank.group.arrived.wait(messages).unwrap(),
            }
        }
    }
}

impl Collective<f32> for Rank {
    fn process(&self) -> usize {
        self.me
    }

    fn processes(&self) -> usize {
        self.all
    }

    fn shards(&self, tree: &AdditionTree) -> Result<Range<usize>, PeerError> {
        Ok(part(self.me, self.all, tree.shards()))
    }

    /// Assigns the two halves of a parameter to different processes.
    fn parts(&self, _: &AdditionTree, shapes: &[Option<Shape>]) -> Result<Vec<Vec<ParamRange>>, PeerError> {
        let mut parts = vec![Vec::new(); self.all];
        for (parameter, shape) in shapes.iter().enumerate() {
            let Some(shape) = shape else { continue };
            let (n, middle) = (shape.numel(), halves(shape.numel()).unwrap_or(shape.numel()));
            for (i, range) in [0..middle, middle..n].into_iter().enumerate().filter(|(_, range)| !range.is_empty()) {
                parts[(parameter + i) % self.all].push(ParamRange { parameter, range });
            }
        }
        Ok(parts)
    }

    fn sum(&self, tree: AdditionTree, shapes: Vec<Option<Shape>>, _: Reduction) -> Box<dyn Sum<f32> + '_> {
        let (number, own) = (next(&self.sums), self.parts(&tree, &shapes).unwrap());
        let partial = self
            .group
            .sums
            .lock()
            .unwrap()
            .entry(number)
            .or_insert_with(|| Arc::new(PartialSums::new(tree, shapes.clone())))
            .clone();
        Box::new(SumInMemory { rank: self, partial, shapes, parts: own })
    }

    fn all_gather(&self, bytes: Vec<u8>) -> Box<dyn AllGather + '_> {
        let number = next(&self.gathers);
        self.group.messages.lock().unwrap().insert((number, self.me), bytes);
        self.group.arrived.notify_all();
        Box::new(Gathering(self, number))
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>, PeerError> {
        Ok(self.all_gather(bytes).wait()?.swap_remove(0))
    }

    fn gather(&self, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, PeerError> {
        let all = self.all_gather(bytes).wait()?;
        Ok(if self.me == 0 { all } else { Vec::new() })
    }
}

struct SumInMemory<'m> {
    rank: &'m Rank,
    partial: Arc<PartialSums<f32>>,
    shapes: Vec<Option<Shape>>,
    parts: Vec<Vec<ParamRange>>,
}

impl SumInMemory<'_> {
    /// Waits until all processes have added their gradients and returns the sums.
    fn totals(&self) -> Result<Vec<Option<Tensor>>, PeerError> {
        self.rank.all_gather(Vec::new()).wait()?;
        let first = |nodes: &Mutex<Vec<(usize, Tensor)>>| Some(nodes.lock().unwrap().first()?.1.clone());
        Ok(self.partial.waiting.iter().map(first).collect())
    }
}

impl Sum<f32> for SumInMemory<'_> {
    fn add(&self, shard: usize, parameter: usize, gradient: Tensor) {
        self.partial.add(shard, parameter, gradient);
    }

    fn all_reduce(self: Box<Self>) -> Result<Vec<Option<Tensor>>, PeerError> {
        self.totals()
    }

    fn reduce_scatter(&self) -> Result<Vec<Tensor>, PeerError> {
        let totals = self.totals()?;
        let cut = |place: &ParamRange| {
            let whole = totals[place.parameter].as_ref().unwrap();
            whole.reshape([whole.len()]).slice(0, place.range.clone()).dense()
        };
        Ok(self.parts[self.rank.me].iter().map(cut).collect())
    }

    fn all_gather(self: Box<Self>, own: Vec<Tensor>) -> Result<Vec<Option<Tensor>>, PeerError> {
        let bytes = own.iter().flat_map(Tensor::to_vec).flat_map(f32::to_le_bytes).collect();
        let received = self.rank.all_gather(bytes).wait()?;
        let mut all: Vec<_> = self.shapes.iter().map(|shape| shape.map(|shape| vec![0.0; shape.numel()])).collect();
        for (places, bytes) in self.parts.iter().zip(received) {
            let mut numbers = bytes.as_chunks::<4>().0.iter().map(|&x| f32::from_le_bytes(x));
            for place in places {
                let whole = all[place.parameter].as_mut().unwrap();
                whole[place.range.clone()].iter_mut().for_each(|x| *x = numbers.next().unwrap());
            }
        }
        Ok(all.into_iter().zip(self.shapes).map(|(numbers, shape)| Some(Tensor::new(shape?, numbers?))).collect())
    }
}
