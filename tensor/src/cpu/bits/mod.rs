//! Comparisons of every kernel with its naive twin on numbers of any bits: NaN of any payload, zeros of either sign, denormals,
//! infinities, and very large and very small numbers, at every instruction level of this CPU.
//!
//! A NaN matches a NaN of any payload and sign, and an infinity matches an infinity of the same sign. If each element is a fixed
//! chain of roundings ([`Exact`]), all other numbers agree to the bit. Otherwise the fast kernel may choose the order of a sum,
//! or compute an exponential differently. The naive kernel then computes in [`ErrorBound`] numbers, which bound the effect of the
//! order. Levels with fused multiply-adds agree to the bit with each other.
//!
//! [`Exact`]: Twin::Exact

mod calls;
mod error_bound;
mod sequences;

use std::cell::Cell;
use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

pub(super) use self::calls::{Drawn, WrongLength};
use self::error_bound::ErrorBound;
use super::gemm::Gemm;
use super::length_errors::assert_lengths_checked;
use crate::kernels::Kernels;
use crate::operands::{Mat, MatMut, Onto};
use crate::simd::{Level, at_level};

/// The agreement of a fast kernel with its naive twin.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Twin {
    /// Equal bits.
    Exact,
    /// Equal up to the order of the arithmetic.
    Bounded,
    /// Agreement as in `Bounded`, except that any element may be NaN if an input is non-finite or very large (see `attention`).
    Masked,
    /// Agreement as in `Bounded`, except that any element may be NaN if an input exceeds the root of the largest value (`gelu`).
    Squared,
}

/// Defines a test per kernel and precision, and a test of the kernel's slice lengths. A kernel without tests does not compile.
macro_rules! kernels {
    ($($kernel:ident: $twin:ident),* $(,)?) => {
        #[allow(dead_code, reason = "it only has to compile")]
        fn none_is_left_out(table: Kernels<f32>) {
            let Kernels { $($kernel: _),* } = table;
        }
        mod single {
            $(#[test] fn $kernel() { super::fast_agrees::<f32>(super::calls::$kernel, super::calls::$kernel, super::Twin::$twin); })*
        }
        mod double {
            $(#[test] fn $kernel() { super::fast_agrees::<f64>(super::calls::$kernel, super::calls::$kernel, super::Twin::$twin); })*
        }
        mod lengths { $(#[test] fn $kernel() { super::assert_lengths_checked(stringify!($kernel), super::calls::$kernel); })* }
    };
}

kernels!(
    matmul: Bounded,
    exp: Bounded,
    tanh: Bounded,
    sigmoid: Bounded,
    gelu: Bounded,
    gelu_vjp: Squared,
    softmax: Bounded,
    softmax_vjp: Bounded,
    log_softmax: Bounded,
    log_softmax_vjp: Bounded,
    layer_norm: Bounded,
    layer_norm_vjp: Bounded,
    cross_entropy: Bounded,
    cross_entropy_vjp: Bounded,
    rms_norm: Bounded,
    rms_norm_vjp: Bounded,
    linear_cross_entropy: Bounded,
    attention: Masked,
    attention_vjp: Masked,
    lstm_cell: Bounded,
    lstm_cell_vjp: Bounded,
    lstm: Bounded,
    lstm_vjp: Bounded,
    gather: Exact,
    scatter_add: Exact,
    dropout: Exact,
    sum_rows: Bounded,
    sum_cols: Bounded,
    sum_squares: Bounded,
    accumulate: Exact,
    add: Exact,
    sub: Exact,
    mul: Exact,
    affine: Exact,
    adam: Exact,
);

/// Defines a test per kernel with products in bf16.
macro_rules! bf16_kernels {
    ($($kernel:ident: $twin:ident),* $(,)?) => {
        mod bf16 {
            use super::*;
            $(#[test] fn $kernel() { agree(&Kernels::BF16, calls::$kernel, calls::$kernel::<ErrorBound<f32, true>>, Twin::$twin); })*
        }
    };
}

bf16_kernels!(
    matmul: Bounded,
    linear_cross_entropy: Bounded,
    attention: Masked,
    attention_vjp: Masked,
    lstm: Bounded,
    lstm_vjp: Bounded,
);

/// Truncates the factors of a product. Its errors are twice as large as those of rounding.
fn truncated(a: Mat<'_, f32>, b: Mat<'_, f32>, c: MatMut<'_, f32>, onto: Onto<'_, f32>) {
    let [of_a, of_b] = [a.data, b.data].map(|x| x.iter().map(|x| f32::from_bits(x.to_bits() & 0xFFFF_0000)).collect::<Vec<_>>());
    (Kernels::NAIVE.matmul)(Mat { data: &of_a, ..a }, Mat { data: &of_b, ..b }, c, onto);
}

#[test]
#[should_panic(expected = "element")]
fn truncated_factors_are_refused() {
    let table = Kernels { matmul: truncated, ..Kernels::BF16 };
    agree(&table, calls::matmul, calls::matmul::<ErrorBound<f32, true>>, Twin::Bounded);
}

/// A float whose bits can be drawn.
trait Bits: Gemm {
    fn any() -> BoxedStrategy<Self>;
    fn special() -> &'static [Self];
}

macro_rules! bits {
    ($t:ident, $bits:ident, $quiet:literal) => {
        impl Bits for $t {
            fn any() -> BoxedStrategy<$t> {
                any::<$bits>().prop_map($t::from_bits).boxed()
            }
            fn special() -> &'static [$t] {
                const TINY: $t = $t::from_bits(1);
                const PAYLOAD: $t = $t::from_bits($quiet);
                const INF: $t = $t::INFINITY;
                &[0.0, -0.0, 1.0, -1.0, INF, -INF, $t::NAN, PAYLOAD, TINY, -TINY, $t::MIN_POSITIVE, $t::MAX, $t::MIN, $t::EPSILON]
            }
        }
    };
}

bits!(f32, u32, 0xFFC1_2345); // a negative NaN with a payload
bits!(f64, u64, 0xFFF8_0123_4567_89AB);

/// Draws a few numbers, which a case repeats: numbers of any bits; ordinary numbers with a few special ones; or ordinary, zero
/// and tiny ones.
fn pool<T: Bits>() -> impl Strategy<Value = Vec<T>> {
    let ordinary = || (-4.0..4.0f64).prop_map(T::lit);
    let special = || proptest::sample::select(T::special());
    let tame = || proptest::sample::select(&T::special()[..4]);
    let tiny = || T::any().prop_map(|x| if x.to_f64().abs() < 1.0 { x } else { T::zero() });
    prop_oneof![
        proptest::collection::vec(prop_oneof![T::any(), special(), ordinary()], 1..12),
        proptest::collection::vec(prop_oneof![20 => ordinary(), 1 => special()], 1..40),
        proptest::collection::vec(prop_oneof![8 => ordinary(), 1 => tame(), 1 => tiny()], 1..40),
    ]
}

fn cases<T: Bits>() -> impl Strategy<Value = (Vec<T>, u64, [usize; 3])> {
    let around = || prop_oneof![4 => 0..9usize, 2 => 9..40usize, 1 => 40..72usize];
    (pool(), any::<u64>(), [around().boxed(), around().boxed(), prop_oneof![3 => 0..72usize, 1 => 72..300usize].boxed()])
}

/// Returns one thread for each level that this CPU has, from the lowest on.
fn threads() -> &'static [(Level, rayon::ThreadPool)] {
    static THREADS: OnceLock<Vec<(Level, rayon::ThreadPool)>> = OnceLock::new();
    THREADS.get_or_init(|| at_level::available().map(|level| (level, at_level::thread(level))).collect())
}

pub(super) type Call<S> = fn(&Kernels<S>, &Drawn<S>) -> Vec<S>;

fn fast_agrees<T: Bits>(call: Call<T>, bounded: Call<ErrorBound<T>>, twin: Twin) {
    agree(&Kernels::FAST, call, bounded, twin);
}

fn agree<T: Bits, const BF16: bool>(table: &Kernels<T>, call: Call<T>, bounded: Call<ErrorBound<T, BF16>>, twin: Twin) {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 1000;
    }
    let many = config.cases >= 256;
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let [compared, settled] = [Cell::new(0u64), Cell::new(0)];
    let outcome = runner.run(&cases::<T>(), |(pool, seed, sizes)| {
        let exact = pool.iter().copied().map(ErrorBound::exactly).collect();
        let error_bound = Drawn { pool: exact, seed, sizes, wrong: WrongLength::default() };
        let drawn = Drawn { pool, seed, sizes, wrong: WrongLength::default() };
        let expected = match twin {
            Twin::Exact => call(&Kernels::NAIVE, &drawn).into_iter().map(ErrorBound::exactly).collect(),
            _ => bounded(&Kernels::NAIVE, &error_bound),
        };
        let may_be_nan = drawn.pool.iter().any(|&x| nan_for_anything(twin, x));
        let mut before: Option<(Level, Vec<T>)> = None;
        for (level, thread) in threads() {
            let got = thread.install(|| call(table, &drawn));
            prop_assert_eq!(got.len(), expected.len());
            for (i, (&got, &expected)) in got.iter().zip(&expected).enumerate() {
                let excused = may_be_nan && got.to_f64().is_nan();
                let exact = twin != Twin::Exact || same_bits(got, expected.value());
                prop_assert!(excused || expected.allows(got) && exact, "{level:?}, element {i}: {got:?} for {expected:?}");
                compared.set(compared.get() + 1);
                settled.set(settled.get() + u64::from(!excused && !expected.is_anything()));
            }
            if let Some((lower, with)) = before.filter(|(lower, _)| *lower != Level::Baseline) {
                let same = got.iter().zip(&with).all(|(&x, &y)| same_bits(x, y));
                prop_assert!(same, "{lower:?} and {level:?} differ: {with:?}, {got:?}");
            }
            before = Some((*level, got));
        }
        Ok(())
    });
    if let Err(e) = outcome {
        panic!("{e}");
    }
    // Bounds that allow any number would check nothing. In bf16 more sums reach infinity or its neighbourhood.
    let part = if BF16 { 4 } else { 2 };
    assert!(
        !many || part * settled.get() > compared.get(),
        "of {} elements only {} could be wrong",
        compared.get(),
        settled.get()
    );
}

/// Returns whether two numbers are equal to the bit, up to the payload and sign of a NaN.
fn same_bits<T: Bits>(x: T, y: T) -> bool {
    let (x, y) = (x.to_f64(), y.to_f64());
    x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
}

/// Returns whether a kernel may return NaN for an input of this value, whatever its twin returns.
fn nan_for_anything<T: Bits>(twin: Twin, x: T) -> bool {
    let (size, most) = (x.to_f64().abs(), if size_of::<T>() == 4 { f32::MAX.into() } else { f64::MAX });
    match twin {
        Twin::Exact | Twin::Bounded => false,
        Twin::Masked => size.is_nan() || size > most.powf(0.25),
        Twin::Squared => size > most.sqrt(),
    }
}
