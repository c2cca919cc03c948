//! The collective operations of a single process.

use std::ops::Range;
use std::sync::Mutex;

use gradus_tensor::{Real, Shape, Tensor};

use crate::operations::{AllGather, Collective, ParamRange, PeerError, Reduction, Sum};
use crate::tree::AdditionTree;

/// A process that trains without others.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleProcess;

impl<T: Real> Collective<T> for SingleProcess {
    fn process(&self) -> usize {
        0
    }

    fn processes(&self) -> usize {
        1
    }

    fn shards(&self, tree: &AdditionTree) -> Result<Range<usize>, PeerError> {
        Ok(0..tree.shards())
    }

    fn parts(&self, _: &AdditionTree, shapes: &[Option<Shape>]) -> Result<Vec<Vec<ParamRange>>, PeerError> {
        let whole =
            |(parameter, shape): (usize, &Option<Shape>)| Some(ParamRange { parameter, range: 0..shape.as_ref()?.numel() });
        Ok(vec![shapes.iter().enumerate().filter_map(whole).collect()])
    }

    fn sum(&self, tree: AdditionTree, shapes: Vec<Option<Shape>>, _: Reduction) -> Box<dyn Sum<T> + '_> {
        Box::new(PartialSums::new(tree, shapes))
    }

    fn all_gather(&self, bytes: Vec<u8>) -> Box<dyn AllGather + '_> {
        Box::new(Own(bytes))
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>, PeerError> {
        Ok(bytes)
    }

    fn gather(&self, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, PeerError> {
        Ok(vec![bytes])
    }
}

struct Own(Vec<u8>);

impl AllGather for Own {
    fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, PeerError> {
        Ok(vec![self.0])
    }
}

/// A node of the tree, and its value.
type Node<T> = (usize, Tensor<T>);

/// The sums of a step, added as soon as both summands are available.
pub(crate) struct PartialSums<T: Real> {
    tree: AdditionTree,
    /// By parameter: the nodes whose sibling is missing; once all shards are added, only the total.
    pub(crate) waiting: Vec<Mutex<Vec<Node<T>>>>,
    shapes: Vec<Option<Shape>>,
}

impl<T: Real> PartialSums<T> {
    pub(crate) fn new(tree: AdditionTree, shapes: Vec<Option<Shape>>) -> Self {
        let waiting = shapes.iter().map(|_| Mutex::default()).collect();
        PartialSums { tree, waiting, shapes }
    }

    /// Takes a node's sibling if it is available; otherwise stores the node.
    fn meet(&self, parameter: usize, sibling: Option<usize>, (node, value): Node<T>) -> Option<[Tensor<T>; 2]> {
        let mut waiting = self.waiting[parameter].lock().expect("no thread panicked with it");
        match waiting.iter().position(|(other, _)| Some(*other) == sibling) {
            Some(at) => Some([value, waiting.swap_remove(at).1]),
            None => {
                waiting.push((node, value));
                None
            }
        }
    }
}

impl<T: Real> Sum<T> for PartialSums<T> {
    /// Adds without holding a lock: while the kernel waits for its threads it may run other work, which may call this function.
    fn add(&self, shard: usize, parameter: usize, gradient: Tensor<T>) {
        let (mut node, mut value) = (shard, gradient);
        loop {
            let parent = self.tree.parent(node);
            let Some([own, other]) = self.meet(parameter, parent.map(|it| it.sibling), (node, value)) else { return };
            let parent = parent.expect("only a node with a parent has a sibling");
            let (mut left, right) = if parent.sibling_is_left { (other, own) } else { (own, other) };
            left.add_assign(&right);
            (node, value) = (parent.node, left);
        }
    }

    fn all_reduce(self: Box<Self>) -> Result<Vec<Option<Tensor<T>>>, PeerError> {
        Ok(self.waiting.iter().map(|nodes| total(nodes)).collect())
    }

    fn reduce_scatter(&self) -> Result<Vec<Tensor<T>>, PeerError> {
        let flat = |sum: Tensor<T>| sum.reshape([sum.len()]);
        Ok(self.waiting.iter().filter_map(total).map(flat).collect())
    }

    fn all_gather(self: Box<Self>, own: Vec<Tensor<T>>) -> Result<Vec<Option<Tensor<T>>>, PeerError> {
        let mut own = own.into_iter();
        let shaped = |shape: Option<Shape>| shape.map(|shape| own.next().expect("one for each").reshape(shape));
        Ok(self.shapes.into_iter().map(shaped).collect())
    }
}

/// Takes the total out of the nodes.
fn total<T: Real>(nodes: &Mutex<Vec<Node<T>>>) -> Option<Tensor<T>> {
    let mut nodes = nodes.lock().expect("no thread panicked with it");
    assert!(nodes.len() <= 1, "a shard lacks a gradient that other shards have");
    nodes.pop().map(|(_, total)| total)
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    /// Returns f32 values whose sum depends on the order.
    fn gradient(shard: usize, parameter: usize) -> Tensor {
        Tensor::new([3], (0..3).map(|i| 1.0 / (1 + 7 * shard + 3 * parameter + i) as f32).collect())
    }

    fn sums(order: &[usize], tree: &AdditionTree) -> Vec<Option<Tensor>> {
        let shape = Some(*gradient(0, 0).shape());
        let single: &dyn Collective<f32> = &SingleProcess;
        let sum = single.sum(tree.clone(), vec![shape, None, shape], Reduction::AllReduce);
        order.par_iter().for_each(|&shard| [0, 2].into_iter().for_each(|p| sum.add(shard, p, gradient(shard, p))));
        sum.all_reduce().unwrap()
    }

    #[test]
    fn the_sum_follows_the_tree_for_any_order_of_shards() {
        for shards in [11, 1] {
            let tree = AdditionTree::new(shards);
            let mut nodes: Vec<Tensor> = (0..shards).map(|s| gradient(s, 2)).collect();
            for (_, [left, right]) in tree.sums() {
                let sum = nodes[left].add(&nodes[right]);
                nodes.push(sum);
            }
            for turn in 0..shards {
                let order: Vec<usize> = (0..shards).map(|i| (i * 4 + turn) % shards).collect();
                let found = sums(&order, &tree);
                assert!(found[1].is_none());
                assert_eq!(found[2].as_ref().unwrap().to_vec(), nodes.last().unwrap().to_vec(), "{order:?}");
            }
        }
    }

    /// Shards arrive in order; if two are computed together and the second arrives first, a fifth gradient may wait.
    #[test]
    fn no_more_than_four_gradients_are_held() {
        for shards in [1, 8, 9, 16, 24, 64, 100] {
            for reversed in [false, true] {
                let sum: PartialSums<f32> = PartialSums::new(AdditionTree::new(shards), vec![None]);
                let mut order: Vec<usize> = (0..shards).collect();
                if reversed {
                    order.chunks_mut(2).for_each(<[usize]>::reverse);
                }
                let held = order.into_iter().map(|shard| {
                    sum.add(shard, 0, gradient(shard, 0));
                    sum.waiting[0].lock().unwrap().len()
                });
                let most = held.max().unwrap();
                assert!(most <= 4 + usize::from(reversed), "{most} of {shards} shards");
                assert!(most >= 4 || shards <= 8, "{most} of {shards} shards");
            }
        }
    }

    #[test]
    #[should_panic(expected = "a shard lacks a gradient that other shards have")]
    fn a_gradient_missing_in_some_shards_panics() {
        let tree = AdditionTree::new(4);
        sums(&[0, 2], &tree);
    }

    #[test]
    fn single_process_collectives_are_identity() {
        let single: &dyn Collective<f32> = &SingleProcess;
        assert_eq!((single.process(), single.processes()), (0, 1));
        assert_eq!(single.shards(&AdditionTree::new(5)), Ok(0..5));
        assert_eq!(single.all_gather(vec![1, 2]).wait().unwrap(), [[1, 2]]);
        assert_eq!(single.broadcast(vec![3]).unwrap(), [3]);
        assert_eq!(single.gather(vec![4]).unwrap(), [[4]]);
    }

    #[test]
    fn a_single_process_has_all_parts() {
        let (single, tree): (&dyn Collective<f32>, _) = (&SingleProcess, AdditionTree::new(2));
        let shapes = vec![None, Some(Shape::from([1, 3]))];
        assert_eq!(single.parts(&tree, &shapes).unwrap(), [[ParamRange { parameter: 1, range: 0..3 }]]);
        let sum = single.sum(tree, shapes, Reduction::ReduceScatter);
        [0, 1].iter().for_each(|&shard| sum.add(shard, 1, gradient(shard, 1).reshape([1, 3])));
        let own = sum.reduce_scatter().unwrap();
        assert_eq!(own, [gradient(0, 1).add(&gradient(1, 1))]);
        let all = sum.all_gather(vec![own[0].affine(2.0, 0.0)]).unwrap();
        assert!(all[0].is_none());
        assert_eq!(all[1].as_ref().unwrap(), &own[0].affine(2.0, 0.0).reshape([1, 3]));
    }
}
