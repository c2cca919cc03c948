//! The all-reduce of a step's gradients: each piece moves up the addition tree as its summands become available, locally or from
//! other processes.

use std::sync::{Arc, Mutex, MutexGuard};

use gradus_collective::{AdditionTree, PeerError, Reduction, Sum};
use gradus_tensor::{Shape, Tensor};

use crate::line::Line;
use crate::message::{Head, Kind, Message, numbers};
use crate::pieces::Pieces;
use crate::plan::Plan;

/// An all-reduce in progress.
pub struct Running {
    line: Arc<Line>,
    number: u64,
    tree: AdditionTree,
    pieces: Arc<Pieces>,
    plan: Arc<Plan>,
    reduction: Reduction,
    slots: Vec<Mutex<Slot>>,
    left: Mutex<Left>,
}

/// The number of missing pieces.
struct Left {
    /// The number of pieces whose final value, the total or the new parameters, is missing.
    all: usize,
    /// The number of pieces whose total this process computes and has not finished.
    own: usize,
}

/// The state of a piece.
#[derive(Default)]
struct Slot {
    /// Nodes whose sibling is still missing.
    waiting: Vec<(usize, Vec<f32>)>,
    /// Nodes received from other processes.
    came: Vec<usize>,
    /// The total, if this process computes it and does not send it on.
    own: Option<Vec<f32>>,
    /// The final value on all processes: the total, or the new parameters computed from it.
    total: Option<Arc<Vec<f32>>>,
}

impl Running {
    pub fn new(
        line: Arc<Line>,
        number: u64,
        tree: AdditionTree,
        pieces: Arc<Pieces>,
        plan: Arc<Plan>,
        reduction: Reduction,
    ) -> Self {
        let slots = (0..pieces.len()).map(|_| Mutex::default()).collect();
        let left = Mutex::new(Left { all: pieces.len(), own: plan.own(line.me).len() });
        Running { line, number, tree, pieces, plan, reduction, slots, left }
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().expect("nothing here panics")
    }

    fn slot(&self, piece: usize) -> MutexGuard<'_, Slot> {
        self.slots[piece].lock().expect("nothing here panics")
    }

    fn head(&self, kind: Kind, piece: usize, node: usize) -> Head {
        let (node, piece, pieces) = (node as u32, piece as u32, self.pieces.len() as u32);
        Head { node, piece, pieces, ..self.line.head(self.number, kind) }
    }

    /// Handles a received part. Returns an error that describes it if it is invalid.
    pub fn receive(&self, from: usize, head: Head, contents: &[u8]) -> Result<(), String> {
        let (piece, node, n) = (head.piece as usize, head.node as usize, self.pieces.len());
        if piece >= n || head.pieces as usize != n || node >= self.tree.nodes() {
            return Err(format!("node {node} of piece {piece} of {}; expected {n} pieces", head.pieces));
        }
        let length = self.pieces.size(piece);
        let unfit = || format!("{} bytes for piece {piece}; expected {length} numbers", contents.len());
        let values = numbers(contents, length).ok_or_else(unfit)?;
        let unasked = || format!("node {node} of piece {piece}, which was not expected from it, or came before");
        let mut slot = self.slot(piece);
        match head.kind {
            Kind::Total => {
                if self.plan.source(piece, self.line.me) != Some(from) || slot.total.is_some() {
                    return Err(unasked());
                }
                drop(slot);
                self.end(piece, values);
            }
            _ => {
                let parent = self.tree.parent(node).ok_or_else(unasked)?;
                let places = [node, parent.node].map(|node| self.plan.place(piece, node));
                if places != [from, self.line.me] || slot.came.contains(&node) {
                    return Err(unasked());
                }
                slot.came.push(node);
                drop(slot);
                self.add(piece, node, values);
            }
        }
        Ok(())
    }

    /// Handles a node's value: sends it to the process of its sum, adds it to its sibling, or keeps it until the sibling arrives.
    fn add(&self, piece: usize, mut node: usize, mut values: Vec<f32>) {
        while let Some(parent) = self.tree.parent(node) {
            let at = self.plan.place(piece, parent.node);
            if at != self.line.me {
                let message = Message::Numbers(self.head(Kind::Part, piece, node), Arc::new(values));
                return self.line.send([(at, message)]);
            }
            let mut slot = self.slot(piece);
            let Some(i) = slot.waiting.iter().position(|(other, _)| *other == parent.sibling) else {
                return slot.waiting.push((node, values));
            };
            let other = slot.waiting.swap_remove(i).1;
            drop(slot);
            let (mut left, right) = if parent.sibling_is_left { (other, values) } else { (values, other) };
            left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
            (node, values) = (parent.node, left);
        }
        self.summed(piece, values);
    }

    /// Handles the total of a piece: forwards it (all-reduce) or keeps it (reduce-scatter).
    fn summed(&self, piece: usize, values: Vec<f32>) {
        if self.reduction == Reduction::AllReduce {
            return self.end(piece, values);
        }
        self.slot(piece).own = Some(values);
        self.left().own -= 1;
        self.line.wake();
    }

    /// Handles the final value of a piece: forwards and stores it.
    fn end(&self, piece: usize, values: Vec<f32>) {
        let values = Arc::new(values);
        let message = Message::Numbers(self.head(Kind::Total, piece, self.tree.nodes() - 1), Arc::clone(&values));
        self.line.send(self.plan.next(piece, self.line.me).map(|to| (to, message.clone())));
        self.slot(piece).total = Some(values);
        self.left().all -= 1;
        self.line.wake();
    }

    fn total(&self, parameter: usize, shape: Shape) -> Tensor {
        #[expect(clippy::disallowed_methods, reason = "it came over the wire")]
        Tensor::write(shape, |out| {
            for piece in self.pieces.of_parameter(parameter) {
                let slot = self.slot(piece);
                let total = slot.total.as_ref().expect("all have come");
                out[self.pieces.place(piece).range].copy_from_slice(total);
            }
        })
    }
}

/// The handle of a training step on its all-reduce.
pub struct Handle {
    pub running: Arc<Running>,
    pub shapes: Vec<Option<Shape>>,
}

impl Sum<f32> for Handle {
    fn add(&self, shard: usize, parameter: usize, gradient: Tensor) {
        let sum = &self.running;
        #[expect(clippy::disallowed_methods, reason = "it goes over the wire")]
        let values = gradient.as_slice();
        for piece in sum.pieces.of_parameter(parameter) {
            sum.add(piece, shard, values[sum.pieces.place(piece).range].to_vec());
        }
    }

    fn all_reduce(self: Box<Self>) -> Result<Vec<Option<Tensor>>, PeerError> {
        let Handle { running: sum, shapes } = *self;
        sum.line.wait(|| (sum.left().all == 0).then_some(()))?;
        Ok(shapes.into_iter().enumerate().map(|(parameter, shape)| Some(sum.total(parameter, shape?))).collect())
    }

    fn reduce_scatter(&self) -> Result<Vec<Tensor>, PeerError> {
        let sum = &self.running;
        sum.line.wait(|| (sum.left().own == 0).then_some(()))?;
        let take = |piece| {
            let values = sum.slot(piece).own.take().expect("all own parts are there");
            Tensor::new([values.len()], values)
        };
        Ok(sum.plan.own(sum.line.me).into_iter().map(take).collect())
    }

    fn all_gather(self: Box<Self>, own: Vec<Tensor>) -> Result<Vec<Option<Tensor>>, PeerError> {
        let sum = &self.running;
        sum.plan.own(sum.line.me).into_iter().zip(own).for_each(|(piece, values)| sum.end(piece, values.to_vec()));
        self.all_reduce()
    }
}

#[cfg(test)]
mod tests;
