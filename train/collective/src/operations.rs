//! The interface of the operations.

use std::fmt::Debug;
use std::ops::Range;

use gradus_tensor::{Real, Shape, Tensor};

use crate::tree::AdditionTree;

/// The reason why the processes cannot continue: the process at fault, and its fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; the run has ended in all processes, and its last checkpoint, if any, is untouched")]
pub struct PeerError {
    /// The problem, with the number of the process.
    pub problem: String,
    /// Whether the process reported this as its own error. A retry would then likely fail with it again.
    pub is_told: bool,
}

impl PeerError {
    /// The exit code of a process that ends because another one was lost. A restart may succeed.
    pub const EXIT_CODE: u8 = 75;

    /// Creates an error that was not reported by the process at fault.
    pub fn new(problem: String) -> Self {
        PeerError { problem, is_told: false }
    }
}

/// The processes of a run. Each calls the same methods in the same order.
pub trait Collective<T: Real>: Debug + Send + Sync {
    /// Returns the number of this process, from 0.
    fn process(&self) -> usize;
    /// Returns the number of processes.
    fn processes(&self) -> usize;

    /// Returns the shards of a step that this process computes.
    ///
    /// # Errors
    /// Returns an error if there are fewer shards than processes.
    fn shards(&self, tree: &AdditionTree) -> Result<Range<usize>, PeerError>;

    /// Returns the parts of the sum of gradients of these shapes that each process owns, in order. They cover all gradients.
    ///
    /// # Errors
    /// Returns an error if there are fewer shards than processes.
    fn parts(&self, tree: &AdditionTree, shapes: &[Option<Shape>]) -> Result<Vec<Vec<ParamRange>>, PeerError>;

    /// Begins the sum of a step's gradients. `shapes` has one entry per parameter, `None` if it has no gradient.
    fn sum(&self, tree: AdditionTree, shapes: Vec<Option<Shape>>, reduction: Reduction) -> Box<dyn Sum<T> + '_>;

    /// Begins an all-gather of bytes. [`AllGather::wait`] returns the result.
    fn all_gather(&self, bytes: Vec<u8>) -> Box<dyn AllGather + '_>;

    /// Broadcasts the bytes of process 0, of any length, and returns them. The argument of the other processes is ignored.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>, PeerError>;

    /// Gathers the bytes of all processes, of any length, on process 0, which gets them in order. The others get an empty vector
    /// and do not wait.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    fn gather(&self, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, PeerError>;
}

/// The result of an all-gather in progress.
pub trait AllGather: Send {
    /// Waits for the bytes of all processes and returns them, in order.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, PeerError>;
}

/// The destination of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Every process (all-reduce).
    AllReduce,
    /// Each process gets only its [own](Sum::reduce_scatter) parts (reduce-scatter), and later sends values computed from them.
    ReduceScatter,
}

/// A range of the elements of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamRange {
    /// The index of the parameter.
    pub parameter: usize,
    /// The range of elements.
    pub range: Range<usize>,
}

/// The sum of a step's gradients in progress.
pub trait Sum<T: Real>: Sync {
    /// Adds a shard's completed gradient of a parameter, given by its index.
    fn add(&self, shard: usize, parameter: usize, gradient: Tensor<T>);

    /// Waits for the gradients of all shards of all processes and returns the sums.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    fn all_reduce(self: Box<Self>) -> Result<Vec<Option<Tensor<T>>>, PeerError>;

    /// Waits for this process's own [parts](Collective::parts) of a [reduce-scatter](Reduction::ReduceScatter), each flattened.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    fn reduce_scatter(&self) -> Result<Vec<Tensor<T>>, PeerError>;

    /// Sends the values computed from this process's own parts to all processes and returns the whole parameters (all-gather).
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    fn all_gather(self: Box<Self>, own: Vec<Tensor<T>>) -> Result<Vec<Option<Tensor<T>>>, PeerError>;
}
