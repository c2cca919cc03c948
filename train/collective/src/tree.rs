//! The order in which the gradients of a step's shards are added, whichever process adds them.
//!
//! ```text
//! shards 0 … L−1          are cut, in their order, into G = min(L, 8) groups
//! within a group          g₀, (g₀ + g₁), ((g₀ + g₁) + g₂), …           one after the other
//! groups 0 … G−1          (0 + 1), (2 + 3), …, then sums of these,     level by level; an odd last one moves up unchanged
//! ```
//!
//! A sum in floating point depends on its order, so the order is a function only of the number of shards. The tree lets several
//! processes add at the same time. Its few groups keep it flat: if shards arrive in order, at most one sum per level waits.

use std::ops::Range;

/// The maximum number of groups of shards.
const GROUPS: usize = 8;

/// All additions of a step. Nodes are numbered: first the shards, then sums within groups, then sums of groups, level by level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AdditionTree {
    shards: usize,
    /// The two summands of each sum.
    sums: Vec<[usize; 2]>,
    /// The sum that each node is added into; the last node has none.
    parents: Vec<usize>,
}

/// The sum that a node is added into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The node of the sum.
    pub node: usize,
    /// The other summand.
    pub sibling: usize,
    /// Whether the sibling is the first summand.
    pub sibling_is_left: bool,
}

impl AdditionTree {
    /// Creates the tree of `shards` shards, at least one.
    pub fn new(shards: usize) -> Self {
        assert!(shards > 0, "a step has at least one shard");
        let groups = shards.min(GROUPS);
        let mut tree = AdditionTree { shards, sums: Vec::new(), parents: Vec::new() };
        let mut level: Vec<usize> = (0..groups).map(|g| tree.chain(part(g, groups, shards))).collect();
        while level.len() > 1 {
            level = level.chunks(2).map(|pair| pair[1..].iter().fold(pair[0], |left, &right| tree.push(left, right))).collect();
        }
        tree.parents = vec![usize::MAX; tree.nodes()];
        for (i, summands) in tree.sums.iter().enumerate() {
            summands.iter().for_each(|&summand| tree.parents[summand] = shards + i);
        }
        tree
    }

    fn push(&mut self, left: usize, right: usize) -> usize {
        self.sums.push([left, right]);
        self.nodes() - 1
    }

    fn chain(&mut self, mut shards: Range<usize>) -> usize {
        let first = shards.next().expect("no group is empty");
        shards.fold(first, |sum, shard| self.push(sum, shard))
    }

    /// Returns the number of nodes, shards included.
    pub fn nodes(&self) -> usize {
        self.shards + self.sums.len()
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Returns every sum with its two summands, in an order in which each sum follows its summands.
    pub fn sums(&self) -> impl Iterator<Item = (usize, [usize; 2])> {
        self.sums.iter().enumerate().map(|(i, &summands)| (self.shards + i, summands))
    }

    /// Returns the two summands of a sum, or `None` for a shard.
    pub fn summands(&self, node: usize) -> Option<[usize; 2]> {
        self.sums.get(node.checked_sub(self.shards)?).copied()
    }

    /// Returns the maximum number of gradients that one process holds if it computes `at_once` shards at a time, in order: the
    /// gradients of shards and sums without a sibling.
    pub fn most_held(&self, at_once: usize) -> usize {
        let (mut waiting, mut most) = (Vec::new(), 0);
        for first in (0..self.shards).step_by(at_once.max(1)) {
            let group = first..self.shards.min(first + at_once.max(1));
            most = most.max(waiting.len() + group.len());
            for shard in group {
                let mut node = shard;
                while let Some(parent) = self.parent(node).filter(|it| waiting.contains(&it.sibling)) {
                    waiting.retain(|&other| other != parent.sibling);
                    node = parent.node;
                }
                waiting.push(node);
            }
        }
        most
    }

    /// Returns the sum that a node is added into, or `None` for the total.
    pub fn parent(&self, node: usize) -> Option<Parent> {
        let parent = *self.parents.get(node)?;
        let [left, right] = self.summands(parent)?;
        let sibling_is_left = right == node;
        Some(Parent { node: parent, sibling: if sibling_is_left { left } else { right }, sibling_is_left })
    }
}

/// Returns the range of part `i` when `n` items are cut into `parts` parts, as equal as possible.
pub fn part(i: usize, parts: usize, n: usize) -> Range<usize> {
    i * n / parts..(i + 1) * n / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the expression of the total.
    fn written(shards: usize) -> String {
        let tree = AdditionTree::new(shards);
        let mut nodes: Vec<String> = (0..shards).map(|s| s.to_string()).collect();
        for (node, [left, right]) in tree.sums() {
            assert_eq!(node, nodes.len());
            nodes.push(format!("({}+{})", nodes[left], nodes[right]));
        }
        nodes.pop().unwrap()
    }

    #[test]
    fn the_order_is_a_function_of_the_number_of_shards() {
        assert_eq!([1, 2, 3].map(written), ["0", "(0+1)", "((0+1)+2)"]);
        assert_eq!(written(5), "(((0+1)+(2+3))+4)");
        assert_eq!(written(8), "(((0+1)+(2+3))+((4+5)+(6+7)))");
        assert_eq!(written(10), "(((0+1)+(2+(3+4)))+((5+6)+(7+(8+9))))");
        assert_eq!(written(16), "((((0+1)+(2+3))+((4+5)+(6+7)))+(((8+9)+(10+11))+((12+13)+(14+15))))");
        assert!(written(24).starts_with("(((((0+1)+2)+((3+4)+5))+"), "groups of three, in order: {}", written(24));
    }

    #[test]
    fn each_node_except_the_root_has_one_parent() {
        for shards in 1..70 {
            let tree = AdditionTree::new(shards);
            assert_eq!((tree.nodes(), tree.shards()), (2 * shards - 1, shards));
            for (sum, [left, right]) in tree.sums() {
                assert_eq!(tree.parent(left), Some(Parent { node: sum, sibling: right, sibling_is_left: false }));
                assert_eq!(tree.parent(right), Some(Parent { node: sum, sibling: left, sibling_is_left: true }));
            }
            assert_eq!(tree.parent(tree.nodes() - 1), None);
            assert_eq!(tree.parent(tree.nodes()), None);
        }
    }

    #[test]
    fn few_partial_sums_are_held_at_once() {
        let held = |shards, at_once| AdditionTree::new(shards).most_held(at_once);
        assert_eq!([held(1, 1), held(2, 2), held(2, 1), held(4, 1), held(8, 1), held(8, 2)], [1, 2, 2, 3, 4, 4]);
        assert_eq!([held(64, 1), held(64, 2), held(3, 0)], [5, 6, 2]);
    }
}
