//! Several processes as threads of this one, for tests. Their messages are kept on a shared board.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};

use gradus_tensor::{Shape, Tensor, halves};

use super::alone::Growing;
use super::{AdditionTree, Answers, Collective, Goes, PeerError, Place, Sum, part};

/// The messages of all processes, by number and process, and the sums in progress.
#[derive(Default)]
struct Board {
    told: Mutex<BTreeMap<(usize, usize), Vec<u8>>>,
    came: Condvar,
    sums: Mutex<BTreeMap<usize, Arc<Growing<f32>>>>,
}

/// One of `all` processes.
pub(crate) struct Member {
    me: usize,
    all: usize,
    board: Arc<Board>,
    /// The number of all-gathers it has begun.
    told: Mutex<usize>,
    /// The number of sums it has begun.
    begun: Mutex<usize>,
}

/// Runs `work` in each of `all` processes, each a thread with a separate pool, and returns the results.
pub(crate) fn processes<R: Send>(all: usize, work: impl Fn(Arc<Member>) -> R + Sync) -> Vec<R> {
    let board = Arc::<Board>::default();
    std::thread::scope(|scope| {
        let start = |me| {
            let member = Member { me, all, board: Arc::clone(&board), told: Mutex::default(), begun: Mutex::default() };
            let work = &work;
            scope.spawn(move || {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
                pool.install(|| work(Arc::new(member)))
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

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} of {}", self.me, self.all)
    }
}

/// The all-gather with this number.
struct Told<'m>(&'m Member, usize);

impl Answers for Told<'_> {
    fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, PeerError> {
        let Told(member, number) = *self;
        let mut told = member.board.told.lock().unwrap();
        loop {
            let all: Option<Vec<Vec<u8>>> = (0..member.all).map(|p| told.get(&(number, p)).cloned()).collect();
            match all {
                Some(all) => return Ok(all),
                None => told = member.board.came.wait(told).unwrap(),
            }
        }
    }
}

impl Collective<f32> for Member {
    fn process(&self) -> usize {
        self.me
    }

    fn processes(&self) -> usize {
        self.all
    }

    fn own(&self, tree: &AdditionTree) -> Result<Range<usize>, PeerError> {
        Ok(part(self.me, self.all, tree.shards()))
    }

    /// Assigns the two halves of a parameter to different processes.
    fn parts(&self, _: &AdditionTree, shapes: &[Option<Shape>]) -> Result<Vec<Vec<Place>>, PeerError> {
        let mut parts = vec![Vec::new(); self.all];
        for (parameter, shape) in shapes.iter().enumerate() {
            let Some(shape) = shape else { continue };
            let (n, middle) = (shape.numel(), halves(shape.numel()).unwrap_or(shape.numel()));
            for (i, range) in [0..middle, middle..n].into_iter().enumerate().filter(|(_, range)| !range.is_empty()) {
                parts[(parameter + i) % self.all].push(Place { parameter, range });
            }
        }
        Ok(parts)
    }

    fn sum(&self, tree: AdditionTree, shapes: Vec<Option<Shape>>, _: Goes) -> Box<dyn Sum<f32> + '_> {
        let (number, own) = (next(&self.begun), self.parts(&tree, &shapes).unwrap());
        let growing =
            self.board.sums.lock().unwrap().entry(number).or_insert_with(|| Arc::new(Growing::new(tree, shapes.clone()))).clone();
        Box::new(OnBoard { member: self, growing, shapes, parts: own })
    }

    fn tell(&self, words: Vec<u8>) -> Box<dyn Answers + '_> {
        let number = next(&self.told);
        self.board.told.lock().unwrap().insert((number, self.me), words);
        self.board.came.notify_all();
        Box::new(Told(self, number))
    }

    fn broadcast(&self, words: Vec<u8>) -> Result<Vec<u8>, PeerError> {
        Ok(self.tell(words).wait()?.swap_remove(0))
    }

    fn collect(&self, words: Vec<u8>) -> Result<Vec<Vec<u8>>, PeerError> {
        let all = self.tell(words).wait()?;
        Ok(if self.me == 0 { all } else { Vec::new() })
    }
}

struct OnBoard<'m> {
    member: &'m Member,
    growing: Arc<Growing<f32>>,
    shapes: Vec<Option<Shape>>,
    parts: Vec<Vec<Place>>,
}

impl OnBoard<'_> {
    /// Waits until all processes have added their gradients and returns the sums.
    fn totals(&self) -> Result<Vec<Option<Tensor>>, PeerError> {
        self.member.tell(Vec::new()).wait()?;
        Ok(self.growing.totals())
    }
}

impl Sum<f32> for OnBoard<'_> {
    fn give(&self, shard: usize, parameter: usize, gradient: Tensor) {
        self.growing.give(shard, parameter, gradient);
    }

    fn finish(self: Box<Self>) -> Result<Vec<Option<Tensor>>, PeerError> {
        self.totals()
    }

    fn own(&self) -> Result<Vec<Tensor>, PeerError> {
        let totals = self.totals()?;
        let cut = |place: &Place| {
            let whole = totals[place.parameter].as_ref().unwrap();
            whole.reshape([whole.len()]).slice(0, place.range.clone()).dense()
        };
        Ok(self.parts[self.member.me].iter().map(cut).collect())
    }

    fn replace(self: Box<Self>, own: Vec<Tensor>) -> Result<Vec<Option<Tensor>>, PeerError> {
        let words = own.iter().flat_map(Tensor::to_vec).flat_map(f32::to_le_bytes).collect();
        let told = self.member.tell(words).wait()?;
        let mut all: Vec<_> = self.shapes.iter().map(|shape| shape.map(|shape| vec![0.0; shape.numel()])).collect();
        for (places, words) in self.parts.iter().zip(told) {
            let mut numbers = words.as_chunks::<4>().0.iter().map(|&x| f32::from_le_bytes(x));
            for place in places {
                let whole = all[place.parameter].as_mut().unwrap();
                whole[place.range.clone()].iter_mut().for_each(|x| *x = numbers.next().unwrap());
            }
        }
        Ok(all.into_iter().zip(self.shapes).map(|(numbers, shape)| Some(Tensor::new(shape?, numbers?))).collect())
    }
}
