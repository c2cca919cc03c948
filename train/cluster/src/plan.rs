//! Who computes which shards, and who adds what: chosen so that no link carries more than twice the gradient.
//!
//! A sum may be made where one of its summands is; the other one then travels. The sum of all goes back the way its summands came.
//! With P processes a gradient so makes P − 1 journeys there and P − 1 back, if each process computes shards that lie together in
//! the tree; and each piece of it may take other ways, so that each link carries a P-th of these: 2(P − 1)/P gradients out and as
//! many in. Where shares of equal size do not lie together (three processes), there is one journey more, and the bound still holds.

use std::collections::BTreeSet;
use std::ops::Range;

use gradus_train::collective::{AdditionTree, part};

/// Most processes of a run.
pub const MOST_PROCESSES: usize = 256;

/// A journey of a piece between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journey {
    /// Who sends.
    pub from: usize,
    /// Who receives.
    pub to: usize,
}

/// The ways of all pieces of a gradient. Every process computes the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    nodes: usize,
    /// By piece and node, the process where it is.
    places: Vec<u16>,
    /// By piece, how the sum of all gets to everybody, in this order.
    back: Vec<Vec<Journey>>,
    /// Numbers that each process sends and receives.
    traffic: Vec<[usize; 2]>,
}

impl Plan {
    /// For pieces of these sizes, of gradients made by processes that compute these shards.
    pub fn new(tree: &AdditionTree, owners: &[Range<usize>], sizes: &[usize]) -> Self {
        let nodes = tree.nodes();
        let possible = possible_places(tree, owners);
        let mut plan = Plan { nodes, places: Vec::new(), back: Vec::new(), traffic: vec![[0, 0]; owners.len()] };
        for (piece, &size) in sizes.iter().enumerate() {
            plan.add_piece(tree, &possible, piece, size);
        }
        plan
    }

    /// From the sum of all down to the shards, a node is where its sum is if it can be, else where traffic is least.
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

    /// Where a node of a piece is: a shard's where it was computed, a sum where it is made.
    pub fn place(&self, piece: usize, node: usize) -> usize {
        self.places[piece * self.nodes + node].into()
    }

    /// The pieces whose sum of all a process makes, in order.
    pub fn own(&self, process: usize) -> Vec<usize> {
        (0..self.back.len()).filter(|&piece| self.place(piece, self.nodes - 1) == process).collect()
    }

    /// To whom a process passes on the sum of all of a piece.
    pub fn next(&self, piece: usize, process: usize) -> impl Iterator<Item = usize> {
        self.back[piece].iter().filter(move |way| way.from == process).map(|way| way.to)
    }

    /// From whom a process gets the sum of all of a piece; `None`: it makes it.
    pub fn source(&self, piece: usize, process: usize) -> Option<usize> {
        self.back[piece].iter().find(|way| way.to == process).map(|way| way.from)
    }

    /// The most numbers that a process sends, or receives.
    pub fn most(&self) -> usize {
        self.traffic.iter().flatten().copied().max().unwrap_or(0)
    }
}

/// By node, where it may be without a journey more than it takes (Fitch 1971, "Toward defining the course of evolution").
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

/// The shards of each process, no fewer than one: shared as equally as the bound on traffic allows. `None`: there are not enough.
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

/// Shares the shards below a node among so many processes, each with shards that lie together.
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

/// The shards that a node is the sum of; they are neighbours.
fn shards_below(tree: &AdditionTree, node: usize) -> Range<usize> {
    match tree.summands(node) {
        None => node..node + 1,
        Some([left, right]) => shards_below(tree, left).start..shards_below(tree, right).end,
    }
}

#[cfg(test)]
mod tests {
    use gradus_train::collective::Addition;

    use super::*;

    fn tree(shards: usize) -> AdditionTree {
        AdditionTree::new(Addition::Tree, shards)
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
        // By groups of the tree, where equal shares would cut them: 8, 4, 4 is what lies together.
        assert_eq!([sizes(16, 3).unwrap(), sizes(12, 3).unwrap()], [[4, 6, 6], [3, 4, 5]]);
        assert_eq!(sizes(64, 7).unwrap().iter().max(), Some(&16));
        // Shares that lie together: each side of a sum has as many processes as suit its shards.
        assert_eq!([sizes(4, 3).unwrap(), sizes(6, 4).unwrap()], [vec![2, 1, 1], vec![2, 1, 1, 2]]);
        assert_eq!(sizes(7, 5).unwrap(), [2, 1, 1, 2, 1]);
        assert_eq!(sizes(9, 7).unwrap(), [2, 1, 1, 1, 1, 1, 2]);
    }

    /// The numbers that each process sends and receives, counted journey by journey.
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

    /// With shares that lie together, each gradient makes P − 1 journeys there and as many back, and each link has an equal part of them.
    /// Of three processes' shares one does not, and its links have two gradients.
    #[test]
    fn links_carry_alike() {
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
    fn each_piece_has_one_process_that_makes_its_sum() {
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

    /// The shards of all processes, in order, and no link with more than twice the gradient, whatever the sizes of pieces.
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

    /// Every piece gets to everybody, from somebody who has it.
    #[test]
    fn the_sum_of_all_comes_to_all() {
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
