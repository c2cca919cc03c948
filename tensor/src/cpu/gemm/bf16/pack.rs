//! Packing: factors rounded to bf16, in the layout of a path.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::ops::Range;

use rayon::prelude::*;

use super::super::super::parallel::Shared;
use super::multiply::DEEP;
use super::path::{Order, Path};
use super::{BLOCK, round, widen};

/// The number of panels of B that a task packs.
const PANELS: usize = 8;

/// An element of a factor in memory: an `f32`, or the 16 bits of a rounded one.
pub(crate) trait Element: Copy + Sync + 'static {
    /// Returns the element rounded.
    fn round(self) -> u16;

    /// Returns the low 32 elements of a line that `inside` selects, rounded, and zeros.
    ///
    /// # Safety
    /// The CPU has the instructions of [`rounds`], and the selected elements exist.
    #[cfg(target_arch = "x86_64")]
    unsafe fn line(at: *const Self, inside: u32) -> __m512i;

    /// Returns 16 elements that `inside` selects, from each of two places, rounded, and zeros.
    ///
    /// # Safety
    /// The contract of [`Element::line`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn two(low: *const Self, of_low: u16, high: *const Self, of_high: u16) -> __m512i;
}

impl Element for f32 {
    fn round(self) -> u16 {
        round(self)
    }
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    unsafe fn line(at: *const f32, inside: u32) -> __m512i {
        // SAFETY: by the caller's contract.
        unsafe { Self::two(at, inside as u16, at.wrapping_add(16), (inside >> 16) as u16) }
    }
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    unsafe fn two(low: *const f32, of_low: u16, high: *const f32, of_high: u16) -> __m512i {
        // SAFETY: by the caller's contract; both types are 64 bytes, of any bits.
        unsafe {
            let (low, high) = (_mm512_maskz_loadu_ps(of_low, low), _mm512_maskz_loadu_ps(of_high, high));
            std::mem::transmute(_mm512_cvtne2ps_pbh(high, low))
        }
    }
}

impl Element for u16 {
    fn round(self) -> u16 {
        self
    }
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    unsafe fn line(at: *const u16, inside: u32) -> __m512i {
        // SAFETY: by the caller's contract.
        unsafe { _mm512_maskz_loadu_epi16(inside, at.cast()) }
    }
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    unsafe fn two(low: *const u16, of_low: u16, high: *const u16, of_high: u16) -> __m512i {
        // SAFETY: by the caller's contract.
        unsafe {
            let (low, high) = (_mm256_maskz_loadu_epi16(of_low, low.cast()), _mm256_maskz_loadu_epi16(of_high, high.cast()));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        }
    }
}

/// A factor in memory, as lines along k: the rows of A, the columns of B. Element p of line l is at `at + l·line + p·along`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factor<E> {
    pub(super) at: *const E,
    pub(super) line: usize,
    pub(super) along: usize,
}

// SAFETY: code that reads through the pointer guarantees that nothing writes there.
unsafe impl<E> Sync for Factor<E> {}

impl<E: Element> Factor<E> {
    fn from(self, line: usize, p: usize) -> Self {
        Factor { at: self.at.wrapping_add(line * self.line + p * self.along), ..self }
    }

    /// # Safety
    /// Element p of this line exists.
    unsafe fn round(self, line: usize, p: usize) -> u16 {
        // SAFETY: by the caller's contract.
        unsafe { *self.from(line, p).at }.round()
    }
}

/// The packed rows of A: groups of [`DEEP`] blocks along k, in each strips, in each blocks, in each rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left<'a> {
    pub(super) path: &'static Path,
    pub(super) words: &'a [u32],
    pub(super) rows: usize,
    pub(super) blocks: usize,
}

/// The packed columns of B: panels of 32 columns, in each blocks along k.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right<'a> {
    pub(super) path: &'static Path,
    pub(super) words: &'a [u32],
    pub(super) cols: usize,
    pub(super) blocks: usize,
}

impl<'a> Left<'a> {
    /// Returns the number of words of (rows, k) packed.
    pub(super) fn len(path: &Path, rows: usize, k: usize) -> usize {
        padded(path, rows) * k.div_ceil(BLOCK) * path.order.of_a()
    }

    /// Packs a factor into `space`, which has the length [`Left::len`].
    ///
    /// # Safety
    /// The elements (rows, k) of the factor exist.
    pub(super) unsafe fn new<E: Element>(
        path: &'static Path,
        from: Factor<E>,
        rows: usize,
        k: usize,
        space: &'a mut [u32],
        threads: usize,
    ) -> Self {
        assert_eq!(space.len(), Self::len(path, rows, k), "space for a left factor of {rows} rows");
        let (to, cut) = (Shared::new(space), rows.div_ceil(threads).next_multiple_of(16));
        // SAFETY: by the caller's contract; the space has the rows, and each is written once.
        let pack = |first: usize| unsafe { Self::pack(path, from, first..rows.min(first + cut), k, rows, to.at(0)) };
        match threads {
            1 => pack(0),
            _ => (0..rows).into_par_iter().step_by(cut).for_each(pack),
        }
        Left { path, words: space, rows, blocks: k.div_ceil(BLOCK) }
    }

    /// Packs some rows of a factor with `all` rows.
    ///
    /// # Safety
    /// The elements of the rows exist, `to` has room for all rows, and nothing else accesses the room of these.
    unsafe fn pack<E: Element>(path: &Path, from: Factor<E>, rows: Range<usize>, k: usize, all: usize, to: *mut u32) {
        let (blocks, order, padded) = (k.div_ceil(BLOCK), path.order, padded(path, all));
        let end = if rows.end == all { padded } else { rows.end };
        let packed = PackedRows { to, strip: path.rows, rows: padded, blocks, words: order.of_a() };
        let k_of = |row: usize| if row < all { k } else { 0 };
        #[cfg(target_arch = "x86_64")]
        if rounds() && (from.along == 1 || from.line == 1) {
            // SAFETY: `rounds` found the instructions; by the caller's contract.
            return unsafe {
                match from.along {
                    1 => x86::left_lines(from, rows.start..end, k_of, order, packed),
                    _ => x86::left_squares(from, rows.start..end, all, k, order, packed),
                }
            };
        }
        for (row, block) in (rows.start..end).flat_map(|row| (0..blocks).map(move |block| (row, block))) {
            // SAFETY: by the caller's contract.
            let half = |p: usize| if block * BLOCK + p < k_of(row) { unsafe { from.round(row, block * BLOCK + p) } } else { 0 };
            let (to, _) = packed.place(row, packed.strip_of(row), block);
            for w in 0..order.of_a() {
                let word = match order {
                    Order::Wide => widen(half(w)).to_bits(),
                    _ => word(order.positions(w).map(half)),
                };
                // SAFETY: by the caller's contract.
                unsafe { *to.add(w) = word };
            }
        }
    }
}

/// The layout of packed rows in memory.
#[derive(Clone, Copy)]
struct PackedRows {
    to: *mut u32,
    /// The rows of a strip.
    strip: usize,
    /// All rows, of which the last strip may have fewer.
    rows: usize,
    /// The blocks along k.
    blocks: usize,
    /// The words of a block of a row.
    words: usize,
}

impl PackedRows {
    /// Returns the first row of the strip of a row.
    fn strip_of(self, row: usize) -> usize {
        row / self.strip * self.strip
    }

    /// Returns the place of a block of a row, whose strip begins at `strip`, and the words to the next block in its group.
    #[inline(always)]
    fn place(self, row: usize, strip: usize, block: usize) -> (*mut u32, usize) {
        let group = block / DEEP * DEEP;
        let (depth, height) = (DEEP.min(self.blocks - group), self.strip.min(self.rows - strip));
        let at = group * self.rows + strip * depth + (block - group) * height + row - strip;
        (self.to.wrapping_add(at * self.words), height * self.words)
    }
}

/// Returns the number of rows in packed memory.
pub(super) fn padded(path: &Path, rows: usize) -> usize {
    if path.kernels.len() == 1 { rows.next_multiple_of(path.rows) } else { rows }
}

fn word([low, high]: [u16; 2]) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

impl<'a> Right<'a> {
    /// Returns the number of words of (k, cols) packed.
    pub(super) fn len(k: usize, cols: usize) -> usize {
        cols.next_multiple_of(32) * k.div_ceil(BLOCK) * 16
    }

    /// Packs a factor into `space`, which has the length [`Right::len`].
    ///
    /// # Safety
    /// The elements (k, cols) of the factor exist.
    pub(super) unsafe fn new<E: Element>(
        path: &'static Path,
        from: Factor<E>,
        k: usize,
        cols: usize,
        space: &'a mut [u32],
        threads: usize,
    ) -> Self {
        assert_eq!(space.len(), Self::len(k, cols), "space for a right factor of {cols} columns");
        let (to, blocks, halves) = (Shared::new(space), k.div_ceil(BLOCK), 2 * cols.div_ceil(32));
        // SAFETY: by the caller's contract; the space has the columns, and each is written once.
        let pack = |first: usize| unsafe {
            Self::pack(path, from, [k, cols], first..halves.min(first + 2 * PANELS), 0..blocks, to.at(0));
        };
        match threads {
            1 => (0..halves).step_by(2 * PANELS).for_each(pack),
            _ => (0..halves).into_par_iter().step_by(2 * PANELS).for_each(pack),
        }
        Right { path, words: space, cols, blocks }
    }

    /// Packs some halves of panels, 16 columns each, and some blocks along k of a factor (k, cols).
    ///
    /// # Safety
    /// Their elements exist, `to` has room for the whole factor, and nothing else accesses the room of these.
    pub(super) unsafe fn pack<E: Element>(
        path: &Path,
        from: Factor<E>,
        [k, cols]: [usize; 2],
        halves: Range<usize>,
        blocks: Range<usize>,
        to: *mut u32,
    ) {
        let (all, order) = (k.div_ceil(BLOCK), path.order);
        let square = |half: usize, block: usize| {
            let within = cols.saturating_sub(16 * half).min(16);
            let (from, k) = (from.from(16 * half, block * BLOCK), BLOCK.min(k - block * BLOCK));
            let to = to.wrapping_add((half / 2 * all + block) * 512);
            let first = 16 * (half % 2);
            #[cfg(target_arch = "x86_64")]
            if rounds() && (from.along == 1 || from.line == 1) {
                // SAFETY: `rounds` found the instructions; by the caller's contract.
                return unsafe { x86::right(from, within, k, order, |w| to.wrapping_add(order.of_b(w, first))) };
            }
            for (w, j) in (0..16).flat_map(|w| (0..16).map(move |j| (w, j))) {
                // SAFETY: by the caller's contract.
                unsafe {
                    let half = |p: usize| if j < within && p < k { from.round(j, p) } else { 0 };
                    *to.add(order.of_b(w, first + j)) = word(order.positions(w).map(half));
                }
            }
        };
        // In the order of the factor in memory.
        match from.along {
            1 => halves.for_each(|half| blocks.clone().for_each(|block| square(half, block))),
            _ => blocks.for_each(|block| halves.clone().for_each(|half| square(half, block))),
        }
    }
}

/// Returns whether this CPU rounds to bf16 by an instruction.
#[cfg(target_arch = "x86_64")]
pub(super) fn rounds() -> bool {
    is_x86_feature_detected!("avx512bf16")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Rounds elements in vectors.
///
/// # Safety
/// [`rounds`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(super) unsafe fn round_line(x: &[f32], y: &mut [u16]) {
    for (x, y) in x.chunks(32).zip(y.chunks_mut(32)) {
        let inside = u32::MAX >> (32 - x.len());
        // SAFETY: by the caller's contract; both chunks have these elements.
        unsafe { _mm512_mask_storeu_epi16(y.as_mut_ptr().cast(), inside, f32::line(x.as_ptr(), inside)) };
    }
}

/// Squares of 16 lines by a block, in registers.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::ops::Range;

    use super::super::super::prefetch;
    use super::{BLOCK, DEEP, Element, Factor, Order, PackedRows};

    /// The number of elements of a line that are prefetched.
    const AHEAD: usize = 64;
    /// The number of elements packed between the prefetch of a line and its use.
    const LINES_AHEAD: usize = 2048;

    /// Packs lines whose elements along k are neighbours, as many as `k_of` returns, and zeros after them.
    ///
    /// # Safety
    /// [`rounds`](super::rounds); the elements and the room exist.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(super) unsafe fn left_lines<E: Element>(
        from: Factor<E>,
        lines: Range<usize>,
        k_of: impl Fn(usize) -> usize,
        order: Order,
        packed: PackedRows,
    ) {
        let ahead = (LINES_AHEAD / (packed.blocks * BLOCK).max(1)).max(1) * from.line;
        for line in lines {
            let (k, strip) = (k_of(line), packed.strip_of(line));
            for group in (0..packed.blocks).step_by(DEEP) {
                let (mut to, step) = packed.place(line, strip, group);
                for block in group..packed.blocks.min(group + DEEP) {
                    let at = from.from(line, block * BLOCK).at;
                    prefetch(at.wrapping_add(ahead));
                    prefetch(at.wrapping_add(ahead + 16));
                    // SAFETY: by the caller's contract.
                    unsafe { store(words_along(at, k.saturating_sub(block * BLOCK).min(BLOCK), order), order, to) };
                    to = to.wrapping_add(step);
                }
            }
        }
    }

    /// Packs lines that are neighbours, of which there are `all`, and zeros for those after them, in squares of 16 lines by a block.
    ///
    /// # Safety
    /// As for [`left_lines`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(super) unsafe fn left_squares<E: Element>(
        from: Factor<E>,
        lines: Range<usize>,
        all: usize,
        k: usize,
        order: Order,
        packed: PackedRows,
    ) {
        for block in 0..packed.blocks {
            for first in lines.clone().step_by(16) {
                let within = all.saturating_sub(first).min(16);
                // SAFETY: by the caller's contract.
                unsafe {
                    let mut square = [_mm512_setzero_si512(); 16];
                    words_across(&mut square, from.from(first, block * BLOCK), within, BLOCK.min(k - block * BLOCK), order);
                    transpose(&mut square);
                    let mut strip = packed.strip_of(first);
                    for (line, &words) in (first..lines.end).zip(&square) {
                        strip = if line == strip + packed.strip { line } else { strip };
                        store(words, order, packed.place(line, strip, block).0);
                    }
                }
            }
        }
    }

    /// Stores the words of a block of a line of A.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    unsafe fn store(line: __m512i, order: Order, to: *mut u32) {
        // SAFETY: by the caller's contract.
        unsafe {
            if order == Order::Wide {
                let (low, high) = (_mm512_slli_epi32::<16>(line), _mm512_srli_epi32::<16>(line));
                let high = _mm512_slli_epi32::<16>(high);
                let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                let second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
                _mm512_storeu_si512(to.cast(), _mm512_permutex2var_epi32(low, first, high));
                _mm512_storeu_si512(to.add(16).cast(), _mm512_permutex2var_epi32(low, second, high));
            } else {
                _mm512_storeu_si512(to.cast(), line);
            }
        }
    }

    /// Packs 16 columns: word w of each to the place `to(w)`.
    ///
    /// # Safety
    /// [`rounds`](super::rounds); the elements (within, k) exist, k ≤ 32, one of the strides is 1, and each place has room.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(super) unsafe fn right<E: Element>(
        from: Factor<E>,
        within: usize,
        k: usize,
        order: Order,
        mut to: impl FnMut(usize) -> *mut u32,
    ) {
        // SAFETY: by the caller's contract.
        unsafe {
            let mut square = [_mm512_setzero_si512(); 16];
            if from.along == 1 {
                for (i, line) in square[..within].iter_mut().enumerate() {
                    let at = from.at.add(i * from.line);
                    prefetch(at.wrapping_add(AHEAD));
                    prefetch(at.wrapping_add(AHEAD + 16));
                    *line = words_along(at, k, order);
                }
                transpose(&mut square);
            } else {
                words_across(&mut square, from, within, k, order);
            }
            for (w, &columns) in square.iter().enumerate() {
                _mm512_storeu_si512(to(w).cast(), columns);
            }
        }
    }

    /// Returns the words of a block of a line whose elements along k are neighbours.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    unsafe fn words_along<E: Element>(at: *const E, k: usize, order: Order) -> __m512i {
        // Halves 4g … 4g + 3 become (4g + 2, 4g, 4g + 3, 4g + 1).
        let pairs = _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11));
        // SAFETY: by the caller's contract; masked elements are not read.
        let halves = unsafe { E::line(at, if k == BLOCK { u32::MAX } else { (1 << k) - 1 }) };
        if order == Order::Dots { _mm512_shuffle_epi8(halves, pairs) } else { halves }
    }

    /// Writes the words of 16 lines that are neighbours: a register holds a word of all lines.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    unsafe fn words_across<E: Element>(square: &mut [__m512i; 16], from: Factor<E>, within: usize, k: usize, order: Order) {
        const MIX: [u16; 32] = {
            let (mut mix, mut i) = ([0; 32], 0);
            while i < 32 {
                mix[i] = (i / 2 + 16 * (i % 2)) as u16;
                i += 1;
            }
            mix
        };
        // SAFETY: by the caller's contract; masked elements are not read.
        unsafe {
            let mix = _mm512_loadu_si512(MIX.as_ptr().cast());
            let inside = ((1u32 << within) - 1) as u16;
            for (w, word) in square.iter_mut().enumerate() {
                let [low, high] = order.positions(w);
                prefetch(from.at.wrapping_add((low + BLOCK) * from.along)); // the next block
                prefetch(from.at.wrapping_add((high + BLOCK) * from.along));
                let inside = |p: usize| if p < k { inside } else { 0 };
                let at = |p: usize| from.at.wrapping_add(p * from.along);
                *word = _mm512_permutexvar_epi16(mix, E::two(at(low), inside(low), at(high), inside(high)));
            }
        }
    }

    /// Transposes 16 × 16 words.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn transpose(r: &mut [__m512i; 16]) {
        for i in (0..16).step_by(2) {
            (r[i], r[i + 1]) = (_mm512_unpacklo_epi32(r[i], r[i + 1]), _mm512_unpackhi_epi32(r[i], r[i + 1]));
        }
        for i in (0..16).step_by(4) {
            let [a, b, c, d] = [r[i], r[i + 1], r[i + 2], r[i + 3]];
            (r[i], r[i + 1]) = (_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c));
            (r[i + 2], r[i + 3]) = (_mm512_unpacklo_epi64(b, d), _mm512_unpackhi_epi64(b, d));
        }
        for i in 0..4 {
            let [a, b, c, d] = [r[i], r[i + 4], r[i + 8], r[i + 12]];
            let (ab, cd) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(c, d));
            let (ba, dc) = (_mm512_shuffle_i32x4::<0xDD>(a, b), _mm512_shuffle_i32x4::<0xDD>(c, d));
            (r[i], r[i + 8]) = (_mm512_shuffle_i32x4::<0x88>(ab, cd), _mm512_shuffle_i32x4::<0xDD>(ab, cd));
            (r[i + 4], r[i + 12]) = (_mm512_shuffle_i32x4::<0x88>(ba, dc), _mm512_shuffle_i32x4::<0xDD>(ba, dc));
        }
    }
}
