//! What the processes that train one model do together: add gradients, tell one another, wait for one another.
//!
//! ```text
//! process p   its shards → a gradient each ─┐
//!                                           ├─ sums, by the tree of the shards → each process has the sum of all
//! process q   its shards → a gradient each ─┘
//! ```
//!
//! The order of addition is the [tree](AdditionTree)'s, whoever adds, so a run has the same bits in any number of processes.
//! One process is [`Alone`].

mod alone;
#[cfg(test)]
pub(crate) mod board;
mod tree;

use std::fmt::Debug;
use std::ops::Range;

use gradus_tensor::{Real, Shape, Tensor};

pub use alone::Alone;
pub use tree::{Addition, AdditionTree, Parent, part};

/// Why the processes cannot go on together: who is at fault, and how.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; the run has ended in all processes, and its last checkpoint, if any, is untouched")]
pub struct PeerError {
    /// Names the process.
    pub problem: String,
    /// Has the process told it as its own error? Another attempt would likely end with it, too.
    pub is_told: bool,
}

impl PeerError {
    /// What was seen of a process.
    pub fn new(problem: String) -> Self {
        PeerError { problem, is_told: false }
    }
}

/// The processes of a run. Each calls the same methods in the same order.
pub trait Collective<T: Real>: Debug + Send + Sync {
    /// The number of this process, from 0.
    fn process(&self) -> usize;
    /// How many there are.
    fn processes(&self) -> usize;

    /// Which of a step's shards are computed here.
    ///
    /// # Errors
    /// There are fewer shards than processes.
    fn own(&self, tree: &AdditionTree) -> Result<Range<usize>, PeerError>;

    /// The parts of the sum of such gradients that each process ends up with, each in order; all of them together are all.
    ///
    /// # Errors
    /// There are fewer shards than processes.
    fn parts(&self, tree: &AdditionTree, shapes: &[Option<Shape>]) -> Result<Vec<Vec<Place>>, PeerError>;

    /// Begins the sum of a step's gradients, with the shapes of those that there are, parameter by parameter.
    fn sum(&self, tree: AdditionTree, shapes: Vec<Option<Shape>>, goes: Goes) -> Box<dyn Sum<T> + '_>;

    /// Tells all processes these bytes, at once; what they have told is then [received](Answers::wait).
    fn tell(&self, words: Vec<u8>) -> Box<dyn Answers + '_>;

    /// What process 0 says to all others, of any length; theirs is ignored.
    ///
    /// # Errors
    /// A process is lost.
    fn broadcast(&self, words: Vec<u8>) -> Result<Vec<u8>, PeerError>;

    /// Gives process 0 the words of each, in their order, of any length; the others get none, and do not wait.
    ///
    /// # Errors
    /// A process is lost.
    fn collect(&self, words: Vec<u8>) -> Result<Vec<Vec<u8>>, PeerError>;
}

/// What the processes tell one another.
pub trait Answers: Send {
    /// The words of each, in their order; none comes before all have told theirs.
    ///
    /// # Errors
    /// A process is lost.
    fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, PeerError>;
}

/// Where a sum goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// To every process.
    Everywhere,
    /// Nowhere: each process keeps its [own](Sum::own) parts, and passes on what it makes of them.
    InParts,
}

/// Where a part of a parameter lies among its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the parameter.
    pub parameter: usize,
    /// Which of its numbers.
    pub range: Range<usize>,
}

/// The sum of a step's gradients, as they come.
pub trait Sum<T: Real>: Sync {
    /// Adds the gradient of a parameter, by number, which a shard has completed.
    fn give(&self, shard: usize, parameter: usize, gradient: Tensor<T>);

    /// The sums, once all shards of all processes have given theirs.
    ///
    /// # Errors
    /// A process is lost.
    fn finish(self: Box<Self>) -> Result<Vec<Option<Tensor<T>>>, PeerError>;

    /// This process's own [parts](Collective::parts) of the sum, each with one axis, where it [goes nowhere](Goes::InParts).
    ///
    /// # Errors
    /// A process is lost.
    fn own(&self) -> Result<Vec<Tensor<T>>, PeerError>;

    /// Passes on what was made of the own parts; what all have made, put together.
    ///
    /// # Errors
    /// A process is lost.
    fn replace(self: Box<Self>, own: Vec<Tensor<T>>) -> Result<Vec<Option<Tensor<T>>>, PeerError>;
}
