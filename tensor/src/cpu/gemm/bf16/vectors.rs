//! The kernels in vector registers: both chains of a few rows and two vectors of columns.
//!
//! VDPBF16PS computes c ← fma(low, low, fma(high, high, c)) in every lane. The even chain is fed with the pairs (4g, 4g + 2), the
//! odd one with (4g + 1, 4g + 3), high half first. Fused multiply-adds take one element at a time. MXCSR makes them flush, and the
//! sums at the end of a block; VDPBF16PS flushes by itself. Each kernel is one block of assembly that sets and restores MXCSR,
//! since Rust requires the default everywhere else.

use std::arch::asm;

use super::path::{StripFn, Strips};

/// MXCSR: exceptions masked, nearest even, results flushed to zero, denormals are zeros.
const FLUSHING: u32 = 0x9FC0;

/// The numbers of a kernel that are in memory.
#[repr(C)]
struct State {
    /// The MXCSR of the caller.
    mxcsr: u32,
    flushing: u32,
    panel: *const u32,
    blocks: usize,
    /// The number of strips left.
    strips: usize,
    /// The bytes from a strip of the term to the next.
    onto_strip: usize,
}

pub(super) const DOTS: [StripFn; 7] = [dots::one, dots::two, dots::three, dots::four, dots::five, dots::six, dots::seven];
pub(super) const FMA512: [StripFn; 7] =
    [fma512::one, fma512::two, fma512::three, fma512::four, fma512::five, fma512::six, fma512::seven];
pub(super) const FMA256: [StripFn; 3] = [fma256::one, fma256::two, fma256::three];

/// Repeats a macro for each row: its index, and the registers of its chains (even, even, odd, odd).
macro_rules! rows {
    (1 $do:ident $($more:tt)*) => { $do!("0" ["0" "1" "2" "3"] $($more)*) };
    (2 $do:ident $($more:tt)*) => { concat!(rows!(1 $do $($more)*), $do!("1" ["4" "5" "6" "7"] $($more)*)) };
    (3 $do:ident $($more:tt)*) => { concat!(rows!(2 $do $($more)*), $do!("2" ["8" "9" "10" "11"] $($more)*)) };
    (4 $do:ident $($more:tt)*) => { concat!(rows!(3 $do $($more)*), $do!("3" ["12" "13" "14" "15"] $($more)*)) };
    (5 $do:ident $($more:tt)*) => { concat!(rows!(4 $do $($more)*), $do!("4" ["16" "17" "18" "19"] $($more)*)) };
    (6 $do:ident $($more:tt)*) => { concat!(rows!(5 $do $($more)*), $do!("5" ["20" "21" "22" "23"] $($more)*)) };
    (7 $do:ident $($more:tt)*) => { concat!(rows!(6 $do $($more)*), $do!("6" ["24" "25" "26" "27"] $($more)*)) };
}

/// Sets the chains of a row to +0.
macro_rules! zero {
    ($i:tt [$($r:literal)*] $v:literal $xor:literal) => { concat!($($xor, $v, $r, ", ", $v, $r, ", ", $v, $r, "\n",)*) };
}

/// Prefetches a row of C for writing.
macro_rules! prefetch {
    ($i:tt $registers:tt $bytes:literal) => {
        concat!("prefetchw [{to}]\n", "prefetchw [{to} + ", $bytes, "]\n", "add {to}, {ld}\n")
    };
}

/// Adds the sum of the chains of a row to the row at `from`, writes it to `to`, and proceeds to the next row. Vectors have `bytes`.
#[rustfmt::skip]
macro_rules! add {
    ($i:tt [$e0:literal $e1:literal $o0:literal $o1:literal] $v:literal $bytes:literal) => {
        concat!(
            "vaddps ", $v, $e0, ", ", $v, $e0, ", ", $v, $o0, "\n",
            "vaddps ", $v, $e1, ", ", $v, $e1, ", ", $v, $o1, "\n",
            "vaddps ", $v, $e0, ", ", $v, $e0, ", [{from}]\n",
            "vaddps ", $v, $e1, ", ", $v, $e1, ", [{from} + ", $bytes, "]\n",
            "vmovups [{to}], ", $v, $e0, "\n",
            "vmovups [{to} + ", $bytes, "], ", $v, $e1, "\n",
            "add {from}, {step}\n",
            "add {to}, {ld}\n",
        )
    };
}

/// Adds the products of a word of A and two vectors of B to the even or the odd chains of a row. `at` is the word's place.
macro_rules! multiply {
    ($i:tt [$e0:tt $e1:tt $o0:tt $o1:tt] even $($more:tt)*) => { multiply!($i $e0 $e1 $($more)*) };
    ($i:tt [$e0:tt $e1:tt $o0:tt $o1:tt] odd $($more:tt)*) => { multiply!($i $o0 $o1 $($more)*) };
    ($i:literal $s0:literal $s1:literal $v:literal $fused:literal [$b0:literal $b1:literal $x:literal] $at:expr) => {
        concat!(
            "vbroadcastss ", $v, $x, ", dword ptr [{a} + {line}*", $i, " + ", $at, "]\n",
            $fused, $v, $s0, ", ", $v, $x, ", ", $v, $b0, "\n",
            $fused, $v, $s1, ", ", $v, $x, ", ", $v, $b1, "\n",
        )
    };
}

/// Repeats a macro for each word of a block: the even words are pairs of the even chain, or hold an element of each chain.
macro_rules! words {
    ($do:ident $($more:tt)*) => {
        concat!(
            $do!("0" even $($more)*), $do!("1" odd $($more)*), $do!("2" even $($more)*), $do!("3" odd $($more)*),
            $do!("4" even $($more)*), $do!("5" odd $($more)*), $do!("6" even $($more)*), $do!("7" odd $($more)*),
            $do!("8" even $($more)*), $do!("9" odd $($more)*), $do!("10" even $($more)*), $do!("11" odd $($more)*),
            $do!("12" even $($more)*), $do!("13" odd $($more)*), $do!("14" even $($more)*), $do!("15" odd $($more)*),
        )
    };
}

macro_rules! dot_word {
    ($w:literal $chain:ident $rows:tt) => {
        concat!(
            "vmovdqu64 zmm28, [{b} + 128*", $w, "]\n",
            "vmovdqu64 zmm29, [{b} + 128*", $w, " + 64]\n",
            rows!($rows multiply $chain "zmm" "vdpbf16ps " ["28" "29" "30"] concat!("4*", $w)),
        )
    };
}

macro_rules! fma_word {
    ($w:literal $_chain:ident $rows:tt $v:literal $bytes:literal $load:literal $and:literal [$b0:literal $b1:literal $x:literal $mask:literal]) => {
        concat!(
            $load, $v, $b0, ", [{b} + 128*", $w, "]\n",
            $load, $v, $b1, ", [{b} + 128*", $w, " + ", $bytes, "]\n",
            "vpslld ", $v, $b0, ", ", $v, $b0, ", 16\n",
            "vpslld ", $v, $b1, ", ", $v, $b1, ", 16\n",
            rows!($rows multiply even $v "vfmadd231ps " [$b0 $b1 $x] concat!("8*", $w)),
            $and, $v, $b0, ", ", $v, $mask, ", [{b} + 128*", $w, "]\n",
            $and, $v, $b1, ", ", $v, $mask, ", [{b} + 128*", $w, " + ", $bytes, "]\n",
            rows!($rows multiply odd $v "vfmadd231ps " [$b0 $b1 $x] concat!("8*", $w, " + 4")),
        )
    };
}

/// Defines the kernel of strips with this many rows.
macro_rules! kernel {
    ($name:ident $rows:tt, $features:literal, line $line:literal, columns $columns:literal, $v:literal $bytes:literal $xor:literal,
     $start:expr, [$($words:tt)*], [$($register:tt)*]) => {
        /// Computes strips of this many rows.
        ///
        /// # Safety
        /// The CPU has the features; the contract of [`StripFn`].
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name(it: Strips) {
            let Strips { strips, blocks, a, b, ahead, onto, onto_ld, c, ld } = it;
            for right in (0..32).step_by($columns) {
                let onto_strip = $rows * onto_ld;
                let mut state = State { mxcsr: 0, flushing: FLUSHING, panel: b.wrapping_add(right), blocks, strips, onto_strip };
                // SAFETY: by the caller's contract. MXCSR is restored.
                unsafe {
                    asm!(
                        "stmxcsr [{state}]",
                        "ldmxcsr [{state} + 4]",
                        $start,
                        "2:", // a strip
                        "mov {b}, [{state} + 8]",
                        "mov {k}, [{state} + 16]",
                        "mov {from}, {onto}",
                        "mov {step}, {onto_ld}",
                        "mov {to}, {c}",
                        rows!($rows prefetch $bytes),
                        rows!($rows prefetch $bytes), // and the rows of the next strip: memory is far
                        "3:", // a block
                        "prefetcht1 [{ahead}]",
                        "add {ahead}, 64",
                        "mov {to}, {c}",
                        rows!($rows zero $v $xor),
                        words!($($words)*),
                        rows!($rows add $v $bytes),
                        "mov {from}, {c}",
                        "mov {step}, {ld}",
                        "add {a}, {line}*{rows}",
                        "add {b}, 2048",
                        "dec {k}",
                        "jnz 3b",
                        "mov {c}, {to}",
                        "add {onto}, [{state} + 32]",
                        "dec qword ptr [{state} + 24]",
                        "jnz 2b",
                        "ldmxcsr [{state}]",
                        state = in(reg) &mut state,
                        a = inout(reg) a => _,
                        b = out(reg) _,
                        onto = inout(reg) onto.add(right) => _,
                        onto_ld = in(reg) onto_ld,
                        from = out(reg) _,
                        step = out(reg) _,
                        c = inout(reg) c.add(right) => _,
                        to = out(reg) _,
                        ld = in(reg) ld,
                        k = out(reg) _,
                        ahead = inout(reg) ahead.wrapping_add(right) => _,
                        line = const $line,
                        rows = const $rows,
                        $(out($register) _,)*
                        options(nostack),
                    );
                }
            }
        }
    };
}

/// Defines a kernel of 512-bit vectors.
macro_rules! wide {
    ($name:ident $rows:tt, $features:literal, line $line:literal, $start:expr, $words:tt) => {
        kernel!($name $rows, $features, line $line, columns 32, "zmm" "64" "vpxord ", $start, $words,
            ["zmm0" "zmm1" "zmm2" "zmm3" "zmm4" "zmm5" "zmm6" "zmm7" "zmm8" "zmm9" "zmm10" "zmm11" "zmm12" "zmm13" "zmm14" "zmm15"
             "zmm16" "zmm17" "zmm18" "zmm19" "zmm20" "zmm21" "zmm22" "zmm23" "zmm24" "zmm25" "zmm26" "zmm27" "zmm28" "zmm29" "zmm30"
             "zmm31"]);
    };
}

/// Applies a macro to the names and numbers of rows of kernels.
macro_rules! heights {
    ($kernel:ident) => { heights!($kernel one 1 two 2 three 3 four 4 five 5 six 6 seven 7); };
    ($kernel:ident $($name:ident $rows:tt)*) => { $($kernel!($name $rows);)* };
}

mod dots {
    use super::*;

    macro_rules! dots {
        ($name:ident $rows:tt) => { wide!($name $rows, "avx512f,avx512bf16", line 64, "", [dot_word $rows]); };
    }
    heights!(dots);
}

mod fma512 {
    use super::*;

    macro_rules! fma {
        ($name:ident $rows:tt) => {
            wide!($name $rows, "avx512f", line 128, "vpternlogd zmm31, zmm31, zmm31, 255\nvpslld zmm31, zmm31, 16",
                [fma_word $rows "zmm" "64" "vmovdqu64 " "vpandd " ["28" "29" "30" "31"]]);
        };
    }
    heights!(fma);
}

mod fma256 {
    use super::*;

    macro_rules! fma {
        ($name:ident $rows:tt) => {
            kernel!($name $rows, "avx2,fma", line 128, columns 16, "ymm" "32" "vpxor ",
                "vpcmpeqd ymm15, ymm15, ymm15\nvpslld ymm15, ymm15, 16",
                [fma_word $rows "ymm" "32" "vmovdqu " "vpand " ["12" "13" "14" "15"]],
                ["ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11" "ymm12" "ymm13" "ymm14" "ymm15"]);
        };
    }
    heights!(fma one 1 two 2 three 3);
}
