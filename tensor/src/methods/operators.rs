//! The operators `+ − ∘` between tensors of one shape and between tensors and numbers. Tensors are passed by value or reference.

use std::ops::{Add, Mul, Neg, Sub};

use crate::{Real, Tensor};

/// Implements `$trait` for each pair of types, by `$f`.
macro_rules! operator {
    ($trait:ident, $method:ident, $f:expr, $($x:ty, $y:ty);+) => {$(
        impl<T: Real> $trait<$y> for $x {
            type Output = Tensor<T>;
            #[track_caller]
            fn $method(self, other: $y) -> Tensor<T> {
                $f(&self, &other)
            }
        }
    )+};
}

macro_rules! operators {
    ($($trait:ident, $method:ident, $right:expr, $left:expr;)+) => {$(
        operator!($trait, $method, Tensor::$method,
            Tensor<T>, Tensor<T>; Tensor<T>, &Tensor<T>; &Tensor<T>, Tensor<T>; &Tensor<T>, &Tensor<T>);
        operator!($trait, $method, $right, Tensor<T>, f64; &Tensor<T>, f64);
        operator!($trait, $method, $left, f64, Tensor<T>; f64, &Tensor<T>);
    )+};
}

operators! {
    Add, add, |x: &Tensor<T>, &c: &f64| x.affine(1.0, c), |&c: &f64, x: &Tensor<T>| x.affine(1.0, c);
    Sub, sub, |x: &Tensor<T>, &c: &f64| x.affine(1.0, -c), |&c: &f64, x: &Tensor<T>| x.affine(-1.0, c);
    Mul, mul, |x: &Tensor<T>, &c: &f64| x.affine(c, 0.0), |&c: &f64, x: &Tensor<T>| x.affine(c, 0.0);
}

impl<T: Real> Neg for &Tensor<T> {
    type Output = Tensor<T>;
    fn neg(self) -> Tensor<T> {
        self.affine(-1.0, 0.0)
    }
}

impl<T: Real> Neg for Tensor<T> {
    type Output = Tensor<T>;
    fn neg(self) -> Tensor<T> {
        -&self
    }
}

#[cfg(test)]
mod tests {
    use crate::Tensor;

    #[test]
    fn operators_of_tensors_and_numbers() {
        let (x, y) = (Tensor::new([2], vec![1.0, 2.0]), Tensor::new([2], vec![10.0, 30.0]));
        let is = |found: Tensor<f64>, expected: [f64; 2]| assert_eq!(found.to_vec(), expected);
        is(&x + &y, [11.0, 32.0]);
        is(&x - &y, [-9.0, -28.0]);
        is(&x * &y, [10.0, 60.0]);
        is(x.clone() + y.clone() - &x, [10.0, 30.0]);
        is(&x * (y.clone() * x.clone()), [10.0, 120.0]);
        is(&x + 3.0, [4.0, 5.0]);
        is(&x - 3.0, [-2.0, -1.0]);
        is(&x * 3.0, [3.0, 6.0]);
        is(3.0 + &x, [4.0, 5.0]);
        is(3.0 - &x, [2.0, 1.0]);
        is(3.0 * &x, [3.0, 6.0]);
        is(-&x, [-1.0, -2.0]);
        is(-(3.0 * (x.clone() - 1.0)), [0.0, -3.0]);
    }

    #[test]
    #[should_panic(expected = "tensors of one shape")]
    fn operators_do_not_broadcast() {
        let _ = Tensor::<f64>::zeros([2, 1]) + Tensor::zeros([1, 2]);
    }
}
