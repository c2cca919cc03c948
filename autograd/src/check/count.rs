//! Numbers that count their own arithmetic, so that [`Op::flops`](crate::Op::flops) can be tested.

use std::cell::Cell;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use gradus_tensor::{Real, Scalar};

thread_local! {
    // The naive kernels run on the calling thread, so each test has its own count.
    static OPERATIONS: Cell<u64> = const { Cell::new(0) };
}

/// An `f64` that counts 1 for each + − × ÷ and each elementary function, and 0 for comparisons, constants and changes of sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Count(pub f64);

impl Count {
    /// Returns the number of operations of `f` on this thread, and its result.
    ///
    /// ```
    /// use gradus_autograd::check::Count;
    /// assert_eq!(Count::operations(|| Count(2.0) * Count(3.0) + Count(1.0)).0, 2);
    /// ```
    pub fn operations<R>(f: impl FnOnce() -> R) -> (u64, R) {
        let before = OPERATIONS.get();
        let result = f();
        (OPERATIONS.get() - before, result)
    }
    fn one(value: f64) -> Self {
        OPERATIONS.set(OPERATIONS.get() + 1);
        Count(value)
    }
}

macro_rules! counted {
    ($($trait:ident $method:ident),*) => {
        $(impl $trait for Count {
            type Output = Self;
            fn $method(self, b: Self) -> Self {
                Count::one(self.0.$method(b.0))
            }
        })*
    };
}

counted!(Add add, Sub sub, Mul mul, Div div);

impl Neg for Count {
    type Output = Self;
    fn neg(self) -> Self {
        Count(-self.0)
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, b: Self) {
        *self = *self + b;
    }
}

impl Real for Count {}

impl Scalar for Count {
    fn lit(x: f64) -> Self {
        Count(x)
    }
    fn to_f64(self) -> f64 {
        self.0
    }
    fn exp(self) -> Self {
        Count::one(Scalar::exp(self.0))
    }
    fn ln(self) -> Self {
        Count::one(Scalar::ln(self.0))
    }
    fn tanh(self) -> Self {
        Count::one(Scalar::tanh(self.0))
    }
    fn sqrt(self) -> Self {
        Count::one(self.0.sqrt())
    }
    fn erf(self) -> Self {
        Count::one(Scalar::erf(self.0))
    }
}
