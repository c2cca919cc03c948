//! The tiles of matrix products, and the candidates among them.

use std::fmt;

use crate::device::{MatmulPrecision, Units};

/// A division of a product into tiles. All tiles except cooperative ones give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// The rows that a workgroup computes, a multiple of 4.
    pub m: usize,
    /// The columns that a workgroup computes, a multiple of 4.
    pub n: usize,
    /// The positions along k in a stage, a multiple of 8.
    pub k: usize,
    /// The rows that a unit computes: for a thread 1, 2, or a multiple of 4.
    pub rows: usize,
    /// The columns that a unit computes, a multiple of 4.
    pub columns: usize,
    /// The threads of a workgroup. All of them read; some may not compute.
    pub threads: usize,
    /// The unit that computes.
    pub unit: Unit,
}

/// The unit that computes a part of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A thread.
    Thread,
    /// A thread. The threads of a subgroup compute the same rows, and one of them reads for all.
    Subgroup,
    /// A subgroup of `threads`, which multiplies square matrices of `size`.
    Cooperative { size: usize, threads: usize },
}

const fn tile([m, n, k]: [usize; 3], [rows, columns]: [usize; 2], threads: usize) -> Tile {
    Tile { m, n, k, rows, columns, threads, unit: Unit::Thread }
}

/// The tiles that are worth a measurement: large ones first, in which few reads serve many multiplications; then those for few
/// columns and for few rows, as in decoding, which are limited by memory and read much of k at once.
pub(super) const TILES: [Tile; 9] = [
    tile([128, 128, 8], [8, 8], 256),
    tile([128, 64, 8], [8, 8], 128),
    tile([64, 128, 8], [8, 8], 128),
    tile([64, 64, 16], [8, 4], 128),
    tile([64, 64, 16], [4, 4], 256),
    tile([32, 64, 16], [4, 4], 128),
    tile([32, 32, 32], [2, 4], 128),
    tile([64, 8, 16], [1, 4], 128),
    tile([8, 8, 128], [1, 4], 128),
];
pub(super) const LARGE: Tile = TILES[0];
pub(super) const MEDIUM: Tile = TILES[4];
pub(super) const SMALL: Tile = TILES[6];
pub(super) const FEW_COLUMNS: Tile = TILES[7];
pub(super) const FEW_ROWS: Tile = TILES[8];

/// The number of workgroups that keep a device busy.
const ENOUGH: usize = 192;

impl Tile {
    /// Returns the tile for products (m, k)·(k, n): the largest one that has enough workgroups and computes little beyond the
    /// edges.
    pub(super) fn of(batches: usize, m: usize, n: usize) -> Self {
        let fits = |tile: &&Tile| 4 * tile.padded(m, n) <= 5 * SMALL.padded(m, n);
        let makes_enough = |tile: &&Tile| batches * m.div_ceil(tile.m) * n.div_ceil(tile.n) >= ENOUGH;
        match (m, n) {
            (..=8, _) => FEW_ROWS,
            (_, ..=8) => FEW_COLUMNS,
            _ => *[LARGE, MEDIUM].iter().filter(fits).find(makes_enough).unwrap_or(&SMALL),
        }
    }

    /// Returns the tiles that may be faster than [`Tile::of`] on a device with these units. Each computes at most 1.5 times as
    /// many elements as the tile that computes the fewest.
    pub(super) fn candidates(units: Units, precision: MatmulPrecision, m: usize, n: usize) -> Vec<Self> {
        let with_subgroups = match precision {
            MatmulPrecision::F32 => TILES.iter().filter_map(|tile| tile.by_subgroups(units)).collect(),
            MatmulPrecision::BF16 => vec![],
            MatmulPrecision::F16 => Self::cooperative(units), // a broadcast of halves aborts LLVM 15, in llvmpipe
        };
        let all: Vec<Tile> = TILES.into_iter().chain(with_subgroups).collect();
        let least = all.iter().map(|tile| tile.padded(m, n)).min().unwrap_or(0);
        all.into_iter().filter(|tile| 2 * tile.padded(m, n) <= 3 * least).collect()
    }

    /// Returns the number of elements that are computed for (m, n).
    fn padded(&self, m: usize, n: usize) -> usize {
        m.next_multiple_of(self.m) * n.next_multiple_of(self.n)
    }

    /// Returns this tile with each row of A read once per subgroup, if every subgroup lies in one row of threads.
    pub(super) fn by_subgroups(&self, units: Units) -> Option<Self> {
        let across = self.n / self.columns;
        units.subgroup.filter(|size| across.is_multiple_of(*size)).map(|_| Tile { unit: Unit::Subgroup, ..*self })
    }

    /// Returns the tiles of cooperative matrices, of which a subgroup computes 2 × 2 or 4 × 4.
    pub(super) fn cooperative(units: Units) -> Vec<Self> {
        let (Some(size), Some(threads)) = (units.cooperative, units.subgroup) else { return vec![] };
        let fits = |tile: &Tile| tile.threads <= 256 && tile.memory() <= units.workgroup_memory;
        let unit = Unit::Cooperative { size, threads };
        let of = |by: usize, down: usize, across: usize| Tile {
            m: by * size * down,
            n: by * size * across,
            k: 2 * size.max(8),
            rows: by * size,
            columns: by * size,
            threads: down * across * threads,
            unit,
        };
        [of(2, 2, 2), of(2, 2, 4), of(4, 2, 2)].into_iter().filter(fits).collect()
    }

    /// Returns the bytes of memory that the workgroup shares.
    fn memory(&self) -> usize {
        let (of_stages, of_results) = match self.unit {
            Unit::Thread | Unit::Subgroup => (4, 0),
            Unit::Cooperative { size, threads } => (2, 4 * size * size * (self.threads / threads)),
        };
        2 * of_stages * self.k * (self.m + self.n) + of_results
    }
}

/// Formats the name of the tile, which is unique.
impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tile { m, n, k, rows, columns, threads, .. } = self;
        write!(f, "{m}×{n}×{k} by {threads} of {rows}×{columns}")?;
        match self.unit {
            Unit::Thread => Ok(()),
            Unit::Subgroup => f.write_str(", rows by subgroup"),
            Unit::Cooperative { size, .. } => write!(f, ", cooperative {size}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tile_suits_the_shape() {
        assert_eq!(Tile::of(1, 8192, 768), LARGE);
        assert_eq!([Tile::of(1, 1024, 768), Tile::of(1, 100, 100)], [MEDIUM, SMALL]);
        assert_eq!([Tile::of(1, 1, 40478), Tile::of(96, 512, 2)], [FEW_ROWS, FEW_COLUMNS]);
        assert_eq!(Tile::of(96, 512, 64), MEDIUM, "a head's width");
    }

    #[test]
    fn tiles_meet_the_limits_of_the_shader() {
        for tile in TILES {
            let Tile { m, n, k, rows, columns, threads, .. } = tile;
            assert!(m % rows.max(4) == 0 && n % columns == 0 && columns % 4 == 0 && k % 8 == 0 && (rows < 4 || rows % 4 == 0));
            assert!(m / rows * (n / columns) <= threads && threads <= 256, "{tile}");
            assert!(tile.memory() <= 16 << 10, "{tile}: the least workgroup memory that a device has");
        }
        for [size, subgroup] in [[8, 8], [16, 32], [16, 64]] {
            let units = Units { subgroup: Some(subgroup), cooperative: Some(size), workgroup_memory: 32 << 10 };
            let tiles = Tile::cooperative(units);
            assert!(!tiles.is_empty());
            assert_eq!(Tile::cooperative(Units { workgroup_memory: 1 << 10, ..units }), [], "too large for so little");
            for tile in tiles {
                let Tile { m, n, k, rows, columns, threads, .. } = tile;
                assert!([m, n, rows, columns, k].iter().all(|extent| extent % size == 0) && m % 4 == 0 && n % 4 == 0, "{tile}");
                assert_eq!(threads / subgroup, m / rows * (n / columns), "{tile}");
            }
        }
    }

    #[test]
    fn candidates_are_those_that_the_device_and_the_shape_permit() {
        let bare = Units::default();
        let all = Units { subgroup: Some(32), cooperative: Some(16), workgroup_memory: 32 << 10 };
        assert!(Tile::candidates(bare, MatmulPrecision::F16, 1024, 1024).iter().all(|tile| tile.unit == Unit::Thread));
        let units =
            |precision| Tile::candidates(all, precision, 1024, 1024).into_iter().map(|tile| tile.unit).collect::<Vec<_>>();
        let cooperative = Unit::Cooperative { size: 16, threads: 32 };
        assert!(units(MatmulPrecision::F16).contains(&cooperative) && !units(MatmulPrecision::F32).contains(&cooperative));
        assert_eq!(Tile::candidates(all, MatmulPrecision::F32, 1, 40478), [FEW_ROWS], "decoding wastes no rows");
        let names: std::collections::BTreeSet<String> =
            Tile::candidates(all, MatmulPrecision::F16, 4096, 4096).iter().map(Tile::to_string).collect();
        assert_eq!(names.len(), Tile::candidates(all, MatmulPrecision::F16, 4096, 4096).len(), "each has a name of its own");
    }
}
