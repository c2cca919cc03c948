//! `+ − ∘` between tensors of one shape, and with numbers.

use std::ops::{Add, Mul, Neg, Sub};

use crate::{Real, Tensor};

macro_rules! operator {
    ($trait:ident, $method:ident, |$c:ident| $scale:expr, $shift:expr) => {
        impl<T: Real> $trait for &Tensor<T> {
            type Output = Tensor<T>;
            #[track_caller]
            fn $method(self, other: &Tensor<T>) -> Tensor<T> {
                Tensor::$method(self, other)
            }
        }
        impl<T: Real> $trait<f64> for &Tensor<T> {
            type Output = Tensor<T>;
            fn $method(self, $c: f64) -> Tensor<T> {
                self.affine($scale, $shift)
            }
        }
    };
}

operator!(Add, add, |c| 1.0, c);
operator!(Sub, sub, |c| 1.0, -c);
operator!(Mul, mul, |c| c, 0.0);

impl<T: Real> Neg for &Tensor<T> {
    type Output = Tensor<T>;
    fn neg(self) -> Tensor<T> {
        self.affine(-1.0, 0.0)
    }
}
