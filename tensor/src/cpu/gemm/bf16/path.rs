//! The paths: the ways to compute the product on different CPUs, with the same bits.

use std::sync::OnceLock;

use super::plain;
use crate::simd::{Level, detected, level};

/// A way to compute the product.
#[derive(Debug)]
pub(super) struct Path {
    /// The instruction that multiplies.
    pub(super) name: &'static str,
    /// The instructions that it requires, besides its own.
    level: Level,
    /// The number of rows of a strip of A.
    pub(super) rows: usize,
    /// The layout of packed factors.
    pub(super) order: Order,
    /// The kernels of strips of 1, 2, … `rows` rows; or only the last, and shorter strips are padded.
    pub(super) kernels: &'static [StripFn],
}

/// The layout of packed factors. A word holds two halves of a line: neighbours along k, or nearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    /// Word w holds (2w, 2w + 1), low half first. A block of B's panel is two tiles of 16 words of 16 columns.
    Tiles,
    /// Words 2g and 2g + 1 hold (4g + 2, 4g) and (4g + 3, 4g + 1), low half first. A block of B's panel is 16 words of 32 columns.
    Dots,
    /// A is in f32. Word w of B holds (2w, 2w + 1), low half first. A block of B's panel is 16 words of 32 columns.
    Wide,
}

impl Order {
    /// Returns the number of words of a block of a line of A.
    pub(super) fn of_a(self) -> usize {
        if self == Order::Wide { 32 } else { 16 }
    }

    /// Returns the positions along k of the halves of word `w`, low half first.
    pub(super) fn positions(self, w: usize) -> [usize; 2] {
        match self {
            Order::Dots => [w / 2 * 4 + w % 2 + 2, w / 2 * 4 + w % 2],
            _ => [2 * w, 2 * w + 1],
        }
    }

    /// Returns the offset of word `w` of column `j` in a block of a panel of B.
    pub(super) fn of_b(self, w: usize, j: usize) -> usize {
        match self {
            Order::Tiles => j / 16 * 256 + w * 16 + j % 16,
            _ => w * 32 + j,
        }
    }
}

/// The operands of a kernel: consecutive strips of A, a panel of B, the term that the product is added to, and C. There is at
/// least one strip and one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strips {
    pub(super) strips: usize,
    pub(super) blocks: usize,
    pub(super) a: *const u32,
    pub(super) b: *const u32,
    /// An address from which to prefetch, valid or not.
    pub(super) ahead: *const u32,
    /// The first row of the term, which may be in C.
    pub(super) onto: *const f32,
    /// The bytes from one row of the term to the next; 0 if all are equal.
    pub(super) onto_ld: usize,
    pub(super) c: *mut f32,
    /// The bytes from one row of C to the next.
    pub(super) ld: usize,
}

/// Computes C ← onto + A·B.
///
/// # Safety
/// The CPU has the instructions. A, B, the term and C have the strips, the blocks and 32 columns, and nothing else accesses C.
pub(super) type StripFn = unsafe fn(Strips);

const PLAIN: Path = Path { name: "plain loops", level: Level::Baseline, rows: 1, order: Order::Wide, kernels: &plain::STRIPS };

/// Returns the fastest path of this CPU.
pub(super) fn path() -> &'static Path {
    let level = level();
    paths().iter().find(|path| path.level <= level).expect("plain loops run everywhere")
}

/// Returns the paths of this CPU, the fastest first.
pub(super) fn paths() -> &'static [Path] {
    static PATHS: OnceLock<Vec<Path>> = OnceLock::new();
    PATHS.get_or_init(|| all().into_iter().filter_map(|(path, runs)| runs.is_ok().then_some(path)).collect())
}

/// The way in which this CPU computes products in bf16. All ways give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bf16Path {
    /// The instruction that multiplies.
    pub instruction: &'static str,
    /// Whether this instruction multiplies factors in bf16. If not, it multiplies them widened to f32, which takes longer than a
    /// product in f32.
    pub is_native: bool,
    /// The reason if the CPU has AMX, but the system does not let this process use it.
    pub refused: Option<&'static str>,
}

impl Bf16Path {
    /// Returns the path of this CPU.
    pub fn of_this_cpu() -> Self {
        let mut reasons = all().into_iter().filter(|(path, _)| path.order == Order::Tiles).filter_map(|(_, runs)| runs.err());
        let is_native = matches!(path().order, Order::Tiles | Order::Dots);
        Bf16Path { instruction: path().name, is_native, refused: reasons.find(|why| *why != NO_TILES) }
    }
}

/// The reason why a CPU without AMX does not run its path.
pub(super) const NO_TILES: &str = "the CPU has no AMX with bf16";

/// Returns all paths, the fastest of this CPU first, and for each of them the reason if this CPU cannot run it.
pub(super) fn all() -> Vec<(Path, Result<(), &'static str>)> {
    let mut paths = of_vectors();
    paths.push((PLAIN, Ok(())));
    paths
}

#[cfg(not(target_arch = "x86_64"))]
fn of_vectors() -> Vec<(Path, Result<(), &'static str>)> {
    vec![]
}

#[cfg(target_arch = "x86_64")]
fn of_vectors() -> Vec<(Path, Result<(), &'static str>)> {
    use super::{amx, vectors};
    let tiles = Path { name: "tdpbf16ps", level: Level::Avx512, rows: 32, order: Order::Tiles, kernels: &amx::STRIPS };
    let dots = Path { name: "vdpbf16ps", level: Level::Avx512, rows: 7, order: Order::Dots, kernels: &vectors::DOTS };
    let fma512 =
        Path { name: "vfmadd231ps, 512 bits", level: Level::Avx512, rows: 7, order: Order::Wide, kernels: &vectors::FMA512 };
    let fma256 =
        Path { name: "vfmadd231ps, 256 bits", level: Level::Avx2, rows: 3, order: Order::Wide, kernels: &vectors::FMA256 };
    let level = |path: &Path| if path.level <= detected() { Ok(()) } else { Err("the CPU has no such vectors") };
    let of_tiles = amx::available().and_then(|()| level(&tiles));
    let of_dots = level(&dots).and(if super::pack::rounds() { Ok(()) } else { Err("the CPU has no AVX512_BF16") });
    let (of_fma512, of_fma256) = (level(&fma512), level(&fma256));
    let mut paths = vec![(tiles, of_tiles), (dots, of_dots), (fma512, of_fma512), (fma256, of_fma256)];
    // On Intel, VDPBF16PS has half the rate of fused multiply-adds.
    if std::arch::x86_64::__cpuid(0).ebx == u32::from_le_bytes(*b"Genu") {
        paths.swap(1, 2);
    }
    paths
}
