//! Tests of all-reduce and reduce-scatter. The processes share one thread, and the test delivers their messages.

use super::*;
use crate::inbox::tests::{Process, deliver};
use crate::message::tests::sent;
use crate::plan::owners;

/// Returns the shapes of three parameters: a small one, one that is not trained, and one larger than a piece.
fn shapes() -> Vec<Option<Shape>> {
    vec![Some([3].into()), None, Some([150_000].into())]
}

/// Begins a sum of `shards` shards on `some` of `n` processes.
fn begin(some: &[Process], n: usize, shards: usize, reduction: Reduction) -> Vec<Handle> {
    let tree = AdditionTree::new(shards);
    let pieces = Arc::new(Pieces::of(&shapes()));
    let plan = Arc::new(Plan::new(&tree, &owners(&tree, n).unwrap(), &pieces.sizes()));
    let new = |process: &Process| {
        let (line, tree, pieces, plan) = (Arc::clone(&process.line), tree.clone(), Arc::clone(&pieces), Arc::clone(&plan));
        Handle {
            running: process.inbox.begin(|number| Running::new(line, number, tree, pieces, plan, reduction)),
            shapes: shapes(),
        }
    };
    some.iter().map(new).collect()
}

/// Returns the gradient of a shard.
fn gradient(shard: usize, shape: Shape) -> Tensor {
    Tensor::new(shape, (0..shape.numel()).map(|i| 1.0 / (1 + i % 1000 + 7 * shard) as f32).collect())
}

fn add_gradients(handle: &Handle, shards: std::ops::Range<usize>) {
    for shard in shards {
        let trained = shapes().into_iter().enumerate().filter_map(|(parameter, shape)| Some((parameter, shape?)));
        trained.for_each(|(parameter, shape)| handle.add(shard, parameter, gradient(shard, shape)));
    }
}

/// Returns the sum of the shards' gradients in the order of the tree.
fn expected(shards: usize) -> Vec<Option<Tensor>> {
    let tree = AdditionTree::new(shards);
    let sum = |shape: Shape| {
        let mut nodes: Vec<Vec<f32>> = (0..shards).map(|shard| gradient(shard, shape).to_vec()).collect();
        for (_, [left, right]) in tree.sums() {
            nodes.push(nodes[left].iter().zip(&nodes[right]).map(|(x, y)| x + y).collect());
        }
        Tensor::new(shape, nodes.pop().unwrap())
    };
    shapes().into_iter().map(|shape| Some(sum(shape?))).collect()
}

#[test]
fn every_process_gets_the_sum_of_all_shards() {
    for (n, shards) in [(1, 1), (1, 3), (2, 2), (2, 5), (3, 8), (4, 7)] {
        let all: Vec<Process> = (0..n).map(|me| Process::new(me, n)).collect();
        let of = owners(&AdditionTree::new(shards), n).unwrap();
        for late in 0..n {
            // Messages that arrive before a process begins are buffered.
            let mut handles = begin(&all[..late], n, shards, Reduction::AllReduce);
            handles.iter().enumerate().for_each(|(me, handle)| add_gradients(handle, of[me].clone()));
            deliver(&all);
            handles.extend(begin(&all[late..], n, shards, Reduction::AllReduce));
            (late..n).for_each(|me| add_gradients(&handles[me], of[me].clone()));
            deliver(&all);
            for (process, handle) in all.iter().zip(handles) {
                assert!(Box::new(handle).all_reduce().unwrap() == expected(shards), "{n} processes, {shards} shards");
                assert_eq!(process.line.fault.suspicions(), Vec::<String>::new());
                process.inbox.end();
            }
        }
    }
}

#[test]
fn each_process_replaces_its_own_parts() {
    for (n, shards) in [(1, 2), (2, 5), (3, 8)] {
        let all: Vec<Process> = (0..n).map(|me| Process::new(me, n)).collect();
        let of = owners(&AdditionTree::new(shards), n).unwrap();
        let handles = begin(&all, n, shards, Reduction::ReduceScatter);
        assert!(
            handles
                .iter()
                .all(|handle| handle.reduce_scatter().is_err() || handle.running.plan.own(handle.running.line.me).is_empty())
        );
        handles.iter().enumerate().for_each(|(me, handle)| add_gradients(handle, of[me].clone()));
        deliver(&all);
        let halves = |x: &Tensor| Tensor::new(*x.shape(), x.to_vec().iter().map(|x| x / 2.0).collect());
        for (me, handle) in handles.iter().enumerate() {
            let own: Vec<Tensor> = handle.reduce_scatter().unwrap().iter().map(halves).collect();
            let handle = Handle { running: Arc::clone(&handle.running), shapes: shapes() };
            assert_eq!(Box::new(handle).all_gather(own).is_ok(), me + 1 == n, "the parts of later processes are missing");
            deliver(&all);
        }
        for handle in handles {
            let halved: Vec<_> = expected(shards).iter().map(|sum| sum.as_ref().map(halves)).collect();
            assert!(Box::new(handle).all_reduce().unwrap() == halved, "{n} processes, {shards} shards");
        }
    }
}

#[test]
fn parts_that_are_not_due_are_rejected() {
    // Of three processes with two shards each, one computes the total of the first piece and sends it to another.
    let all: Vec<Process> = (0..3).map(|me| Process::new(me, 3)).collect();
    let handles = begin(&all, 3, 6, Reduction::AllReduce);
    let (plan, tree) = (&handles[0].running.plan, &handles[0].running.tree);
    let root = tree.nodes() - 1;
    let pieces = handles[0].running.pieces.len();
    let (piece, holder) = (0, plan.place(0, root));
    let bytes = vec![0; 4 * handles[0].running.pieces.size(piece)];
    let other = plan.next(piece, holder).next().unwrap();
    let stranger = (0..3).find(|p| ![holder, other].contains(p)).unwrap();
    let receive = |me: usize, from: usize, head: Head, contents: &[u8]| handles[me].running.receive(from, head, contents);
    let head = |kind, node: usize| handles[0].running.head(kind, piece, node);

    let total = head(Kind::Total, root);
    let is_named = |result: Result<(), String>, problem: &str| {
        let found = result.unwrap_err();
        assert!(found.contains(problem), "{found}");
    };
    is_named(receive(other, holder, Head { piece: pieces as u32, ..total }, &bytes), &format!("of piece {pieces} of {pieces}"));
    is_named(receive(other, holder, Head { pieces: pieces as u32 + 1, ..total }, &bytes), &format!("expected {pieces} pieces"));
    is_named(receive(other, holder, Head { node: root as u32 + 1, ..total }, &bytes), &format!("node {} of piece 0", root + 1));
    is_named(receive(other, holder, total, &bytes[4..]), "bytes for piece 0; expected");
    is_named(receive(other, stranger, total, &bytes), "which was not expected from it, or came before");
    assert_eq!(receive(other, holder, total, &bytes), Ok(()));
    is_named(receive(other, holder, total, &bytes), "which was not expected from it, or came before");

    // A node whose sum is on another process.
    let (node, sum) = tree
        .sums()
        .flat_map(|(sum, summands)| summands.map(|node| (node, sum)))
        .find(|&(node, sum)| plan.place(piece, node) != plan.place(piece, sum))
        .unwrap();
    let (from, to) = (plan.place(piece, node), plan.place(piece, sum));
    let third = (0..3).find(|p| ![from, to].contains(p)).unwrap();
    is_named(receive(to, third, head(Kind::Part, node), &bytes), "which was not expected from it, or came before");
    is_named(receive(third, from, head(Kind::Part, node), &bytes), "which was not expected from it, or came before");
    is_named(receive(to, from, head(Kind::Part, root), &bytes), "which was not expected from it, or came before");
    assert_eq!(receive(to, from, head(Kind::Part, node), &bytes), Ok(()));
    is_named(receive(to, from, head(Kind::Part, node), &bytes), "which was not expected from it, or came before");
}

#[test]
fn a_sum_that_has_ended_receives_nothing() {
    let all = [Process::new(0, 1)];
    let [handle] = begin(&all, 1, 1, Reduction::AllReduce).try_into().ok().unwrap();
    add_gradients(&handle, 0..1);
    let head = handle.running.head(Kind::Part, 0, 0);
    assert!(Box::new(handle).all_reduce().is_ok());
    all[0].inbox.end();
    all[0].inbox.receive(0, sent(&Message::Bytes(head, [0; 4].into())));
    let problem = "process 0 sent invalid data: a part of sum 1, which is not in progress";
    assert_eq!(all[0].line.fault.suspicions(), [problem]);
}
