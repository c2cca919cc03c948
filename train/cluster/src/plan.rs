//! The assignment of shards and of additions to processes, chosen so that no link carries more than twice the gradient.
//!
//! A sum is computed on a process that holds one of its summands, and the other summand is sent there. The total returns along
//! the same paths. If each process computes shards that form subtrees of the addition tree, a gradient takes P − 1 transfers to
//! the total and P − 1 back, with P processes. The pieces take different paths, so that each link carries 1/P of these transfers:
//! 2(P − 1)/P gradients out and as many in. If equal shares do not form subtrees (three processes), there is one transfer more,
//! and the bound still holds.

use std::collections::BTreeSet;
use std::ops::Range;

use gradus_collective::{AdditionTree, part};

/// The maximum number of processes of a run.
pub const MOST_PROCESSES: usize = 256;

/// A transfer of a piece between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journey {
    /// The sending process.
    pub from: usize,
    /// The receiving process.
    pub to: usize,
}

/// The paths of all pieces of a gradient. Every process computes the same plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    nodes: usize,
    /// The process that holds each node, by piece and node.
    places: Vec<u16>,
    /// The transfers of the total to all processes, in order, by piece.
    back: Vec<Vec<Journey>>,
    /// The number of elements that each process sends and receives.
    traffic: Vec<[usize; 2]>,
}

impl Plan {
    /// Creates the plan for pieces of these sizes, if process `p` computes the shards `owners[p]`.
    pub fn new(tree: &AdditionTree, owners: &[Range<usize>], sizes: &[usize]) -> Self {
        let nodes = tree.nodes();
        let possible = possible_places(tree, owners);
        let mut plan = Plan { nodes, places: Vec::new(), back: Vec::new(), traffic: vec![[0, 0]; owners.len()] };
        for (piece, &size) in sizes.iter().enumerate() {
            plan.add_piece(tree, &possible, piece, size);
        }
        plan
    }

    /// Places the nodes of a piece from the total down to the shards: each on the process of its sum if possible, else on the
    /// process with the least traffic.
    fn add_piece(&mut self, tree: &AdditionTree, possible: &[BTreeSet<usize>], piece: usize, size: usize) {
        let processes = self.traffic.len();
        let least = |traffic: &[[usize; 2]], of: &BTreeSet<usize>| {
            let load = |&p: &usize| (traffic[p][0].max(traffic[p][1]), traffic[p][0] + traffic[p][1], (p + piece) % processes);
            *of.iter().min_by_key(|p| load(p)).expect("a node is somewhere")
        };
        let mut places = vec![0; self.nodes];
        places[self.nodes - 1] = least(&self.traffic, &possible[self.nodes - 1]);
        let mut there = Vec::new();
        for (sum, summands) in tree.sums().collect::<Vec<_>>().into_iter().rev() {
            for node in summands {
                let at = places[sum];
                places[node] = if possible[node].contains(&at) { at } else { least(&self.traffic, &possible[node]) };
                if places[node] != at {
                    there.push(Journey { from: places[node], to: at });
                    self.travels(places[node], at, size);
                }
            }
        }
        let mut has = BTreeSet::from([places[self.nodes - 1]]);
        let back: Vec<Journey> =
            there.iter().filter(|way| has.insert(way.from)).map(|way| Journey { from: way.to, to: way.from }).collect();
        back.iter().for_each(|way| self.travels(way.from, way.to, size));
        self.places.extend(places.iter().map(|&p| p as u16));
        self.back.push(back);
    }

    fn travels(&mut self, from: usize, to: usize, size: usize) {
        self.traffic[from][0] += size;
        self.traffic[to][1] += size;
    }

    /// Returns the process that holds a node of a piece: a shard's gradient where it is computed, a sum where it is added.
    pub fn place(&self, piece: usize, node: usize) -> usize {
        self.places[piece * self.nodes + node].into()
    }

    /// Returns the pieces whose total a process computes, in order.
    pub fn own(&self, process: usize) -> Vec<usize> {
        (0..self.back.len()).filter(|&piece| self.place(piece, self.nodes - 1) == process).collect()
    }

    /// Returns the processes to which a process forwards the total of a piece.
    pub fn next(&self, piece: usize, process: usize) -> impl Iterator<Item = usize> {
        self.back[piece].iter().filter(move |way| way.from == process).map(|way| way.to)
    }

    /// Returns the process from which a process receives the total of a piece, or `None` if it computes the total itself.
    pub fn source(&self, piece: usize, process: usize) -> Option<usize> {
        self.back[piece].iter().find(|way| way.to == process).map(|way| way.from)
    }

    /// Returns the largest number of elements that any process sends, or that any receives.
    pub fn most(&self) -> usize {
        self.traffic.iter().flatten().copied().max().unwrap_or(0)
    }
}

/// Returns the processes that may hold each node without extra transfers (Fitch 1971, "Toward defining the course of evolution").
fn possible_places(tree: &AdditionTree, owners: &[Range<usize>]) -> Vec<BTreeSet<usize>> {
    let owner = |shard: usize| owners.iter().position(|own| own.contains(&shard)).expect("each shard has its process");
    let mut possible: Vec<BTreeSet<usize>> = (0..tree.shards()).map(|shard| BTreeSet::from([owner(shard)])).collect();
    for (_, [left, right]) in tree.sums() {
        let both: BTreeSet<usize> = possible[left].intersection(&possible[right]).copied().collect();
        let either = || possible[left].union(&possible[right]).copied().collect();
        let sum = if both.is_empty() { either() } else { both };
        possible.push(sum);
    }
    possible
}

/// Returns the shards of each process, at least one each, shared as equally as the bound on traffic allows. Returns `None` if
/// there are fewer shards than processes.
pub fn owners(tree: &AdditionTree, processes: usize) -> Option<Vec<Range<usize>>> {
    const TRIED: usize = 256;
    let shards = tree.shards();
    if processes > shards {
        return None;
    }
    let equal: Vec<_> = (0..processes).map(|p| part(p, processes, shards)).collect();
    let mut together = Vec::new();
    share(tree, tree.nodes() - 1, processes, &mut together);
    let groups = shards.min(8);
    let by_groups = || {
        let start = |g: usize| part(g, groups, shards).start;
        let of = |p: usize| part(p, processes, groups);
        (0..processes).map(|p| start(of(p).start)..if of(p).end == groups { shards } else { start(of(p).end) }).collect()
    };
    let mut all = vec![together.clone(), equal];
    if processes <= groups {
        all.push(by_groups());
    }
    let most = |owners: &Vec<Range<usize>>| owners.iter().map(Range::len).max();
    all.sort_by_key(most);
    let fits = |owners: &Vec<Range<usize>>| Plan::new(tree, owners, &[1; TRIED]).most() <= 2 * TRIED + 1;
    Some(all.into_iter().find(fits).unwrap_or(together))
}

/// Shares the shards below a node among `processes` processes, so that each one's shards form subtrees.
fn share(tree: &AdditionTree, node: usize, processes: usize, owners: &mut Vec<Range<usize>>) {
    let own = shards_below(tree, node);
    if processes == 1 {
        return owners.push(own);
    }
    let [left, right] = tree.summands(node).expect("no more processes than shards");
    let [n, m] = [left, right].map(|node| shards_below(tree, node).len());
    let most = |k: usize| n.div_ceil(k).max(m.div_ceil(processes - k));
    let possible = (1..processes).filter(|&k| k <= n && processes - k <= m);
    let k = possible.min_by_key(|&k| (most(k), (k * m).abs_diff((processes - k) * n))).expect("no more processes than shards");
    share(tree, left, k, owners);
    share(tree, right, processes - k, owners);
}

/// Returns the shards whose gradients a node sums; they are consecutive.
fn shards_below(tree: &AdditionTree, node: usize) -> Range<usize> {
    match tree.summands(node) {
        None => node..node + 1,
        Some([left, right]) => shards_below(tree, left).start..shards_below(tree, right).end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(shards: usize) -> AdditionTree {
        AdditionTree::new(shards)
    }

    fn sizes(shards: usize, processes: usize) -> Option<Vec<usize>> {
        Some(owners(&tree(shards), processes)?.iter().map(Range::len).collect())
    }

    #[test]
    fn work_is_shared_as_equally_as_traffic_allows() {
        assert_eq!(sizes(8, 1).unwrap(), [8]);
        assert_eq!(sizes(8, 3).unwrap(), [2, 3, 3]);
        assert_eq!(sizes(8, 4).unwrap(), [2; 4]);
        assert_eq!(sizes(8, 5).unwrap(), [2, 2, 2, 1, 1]);
        assert_eq!(sizes(16, 16).unwrap(), [1; 16]);
        assert_eq!(sizes(64, 4).unwrap(), [16; 4]);
        assert_eq!(sizes(2, 3), None);
        // Equal shares would cut groups of the tree, so whole groups are shared. Subtrees alone would give 8, 4, 4 of 16 shards.
        assert_eq!([sizes(16, 3).unwrap(), sizes(12, 3).unwrap()], [[4, 6, 6], [3, 4, 5]]);
        assert_eq!(sizes(64, 7).unwrap().iter().max(), Some(&16));
        // Shares that form subtrees: each side of a sum gets processes in proportion to its shards.
        assert_eq!([sizes(4, 3).unwrap(), sizes(6, 4).unwrap()], [vec![2, 1, 1], vec![2, 1, 1, 2]]);
        assert_eq!(sizes(7, 5).unwrap(), [2, 1, 1, 2, 1]);
        assert_eq!(sizes(9, 7).unwrap(), [2, 1, 1, 1, 1, 1, 2]);
    }

    /// Returns the number of elements that each process sends and receives, counted transfer by transfer.
    fn carried(plan: &Plan, tree: &AdditionTree, processes: usize, sizes: &[usize]) -> Vec<[usize; 2]> {
        let mut carried = vec![[0; 2]; processes];
        let mut goes = |from: usize, to: usize, size: usize| {
            carried[from][0] += size;
            carried[to][1] += size;
        };
        for (piece, &size) in sizes.iter().enumerate() {
            for (sum, summands) in tree.sums() {
                let at = plan.place(piece, sum);
                summands
                    .map(|node| plan.place(piece, node))
                    .into_iter()
                    .filter(|&from| from != at)
                    .for_each(|from| goes(from, at, size));
            }
            (0..processes).for_each(|from| plan.next(piece, from).for_each(|to| goes(from, to, size)));
        }
        carried
    }

    /// If shares form subtrees, each gradient takes P − 1 transfers to the total and P − 1 back, and the links share them
    /// equally. With three processes, one share does not form a subtree, and the links carry two gradients.
    #[test]
    fn links_carry_equal_traffic() {
        for (processes, shards, journeys) in
            [(2, 2, 2), (2, 8, 2), (4, 8, 6), (8, 8, 14), (8, 24, 14), (3, 8, 5), (5, 16, 8), (16, 16, 30)]
        {
            let (tree, sizes) = (tree(shards), vec![10; 8 * processes]);
            let plan = Plan::new(&tree, &owners(&tree, processes).unwrap(), &sizes);
            let carried = carried(&plan, &tree, processes, &sizes);
            let whole: usize = sizes.iter().sum();
            assert_eq!(carried.iter().map(|way| way[0]).sum::<usize>(), journeys * whole, "{processes} of {shards}");
            let most = carried.iter().flatten().max().unwrap();
            let least = if processes == 3 { 2 * whole } else { (journeys * whole).div_ceil(processes) };
            assert!(*most <= least + 30, "{processes} of {shards}: {carried:?}");
        }
    }

    #[test]
    fn each_piece_is_summed_by_one_process() {
        let tree = tree(8);
        let plan = Plan::new(&tree, &owners(&tree, 4).unwrap(), &[7; 50]);
        let mut all = Vec::new();
        for process in 0..4 {
            let own = plan.own(process);
            assert!(own.is_sorted() && own.iter().all(|&piece| plan.place(piece, tree.nodes() - 1) == process));
            assert!((10..=15).contains(&own.len()), "about as many as the others: {}", own.len());
            all.extend(own);
        }
        all.sort();
        assert!(all.into_iter().eq(0..50));
    }

    /// The shares cover all shards in order, and no link carries more than twice the gradient, for any sizes of pieces.
    #[test]
    fn no_link_carries_more_than_twice_the_gradient() {
        let uneven = (0..700).map(|i| if i % 3 == 0 { 1 + 40 * i % 997 } else { 65_536 }).collect();
        let even = vec![65_536; 300];
        for sizes in [even, uneven] {
            let (whole, largest) = (sizes.iter().sum::<usize>(), *sizes.iter().max().unwrap());
            for processes in 1..=64 {
                for shards in [processes, processes + 1, 8, 12, 16, 24, 64, 100, 128] {
                    let tree = tree(shards);
                    let Some(owners) = owners(&tree, processes) else { continue };
                    assert_eq!(owners.len(), processes);
                    let end = owners.iter().fold(0, |end, own| {
                        assert!(own.start == end && !own.is_empty());
                        own.end
                    });
                    assert_eq!(end, shards);
                    let plan = Plan::new(&tree, &owners, &sizes);
                    let most = *carried(&plan, &tree, processes, &sizes).iter().flatten().max().unwrap();
                    assert_eq!(plan.most(), most);
                    assert!(
                        most <= 2 * whole + largest,
                        "{processes} processes, {shards} shards: {}",
                        most as f64 / whole as f64
                    );
                }
            }
        }
    }

    /// Every piece reaches every process, from a process that has it.
    #[test]
    fn every_piece_of_the_sum_reaches_every_process() {
        for (processes, shards) in [(1, 3), (2, 2), (3, 8), (5, 9), (8, 8), (12, 40)] {
            let tree = tree(shards);
            let owners = owners(&tree, processes).unwrap();
            let plan = Plan::new(&tree, &owners, &[7; 50]);
            for piece in 0..50 {
                for (shard, own) in (0..shards).map(|s| (s, owners.iter().position(|own| own.contains(&s)).unwrap())) {
                    assert_eq!(plan.place(piece, shard), own, "a shard is where it is computed");
                }
                for (sum, summands) in tree.sums() {
                    assert!(summands.iter().any(|&node| plan.place(piece, node) == plan.place(piece, sum)));
                }
                let root = plan.place(piece, tree.nodes() - 1);
                let mut has = BTreeSet::from([root]);
                while has.len() < processes {
                    let before = has.len();
                    has.extend(has.clone().into_iter().flat_map(|p| plan.next(piece, p)));
                    assert!(has.len() > before);
                }
                for p in 0..processes {
                    let source = plan.source(piece, p);
                    assert_eq!(source.is_none(), p == root);
                    assert!(source.is_none_or(|from| plan.next(piece, from).any(|to| to == p)));
                }
            }
        }
    }
}
