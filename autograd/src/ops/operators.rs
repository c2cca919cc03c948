//! `+ − × ÷` between variables and numbers, so that formulas read as formulas. Operands of different shapes are
//! broadcast by an explicit `expand` node.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::{add, div, mul, sub};
use crate::{Op, Real, ShapeError, Var};

impl<'t, T: Real> Var<'t, T> {
    /// Broadcasts both operands to a common shape and applies `op`.
    #[track_caller]
    fn binary<O: Op<T>>(&self, op: O, other: &Self) -> Self {
        if self.shape() == other.shape() {
            return self.tape().apply(op, &[self, other]);
        }
        let rule = "shapes that broadcast (equal from the last axis on, or 1)";
        let error = || ShapeError::new(O::NAME, rule, &[self.shape(), other.shape()]);
        let shape = self.shape().broadcast(other.shape()).unwrap_or_else(|| panic!("{}", error()));
        self.tape().apply(op, &[&self.expand(shape), &other.expand(shape)])
    }
}

/// Implements an operator between two variables by the op of its name.
macro_rules! binary {
    ($trait:ident, $method:ident, $op:expr) => {
        impl<'t, T: Real> $trait<&Var<'t, T>> for &Var<'t, T> {
            type Output = Var<'t, T>;
            /// [Formula and derivative](super): in the module of this name.
            #[track_caller]
            fn $method(self, other: &Var<'t, T>) -> Var<'t, T> {
                self.binary($op, other)
            }
        }
        binary!(owned $trait, $method, Var<'t, T>, Var<'t, T>);
        binary!(owned $trait, $method, &Var<'t, T>, Var<'t, T>);
        binary!(owned $trait, $method, Var<'t, T>, &Var<'t, T>);
    };
    (owned $trait:ident, $method:ident, $a:ty, $b:ty) => {
        impl<'t, T: Real> $trait<$b> for $a {
            type Output = Var<'t, T>;
            /// [Formula and derivative](super): in the module of this name.
            #[track_caller]
            #[allow(clippy::needless_borrow, reason = "one form for values and references")]
            fn $method(self, other: $b) -> Var<'t, T> {
                $trait::$method(&*std::borrow::Borrow::<Var<'t, T>>::borrow(&self), &*std::borrow::Borrow::<Var<'t, T>>::borrow(&other))
            }
        }
    };
}

binary!(Add, add, add::Add);
binary!(Sub, sub, sub::Sub);
binary!(Mul, mul, mul::Mul);
binary!(Div, div, div::Div);

/// Implements an operator with a number, `x + 1.0`, `2.0 * x`, `1.0 - x`, by `affine`.
macro_rules! with_number {
    ($trait:ident, $method:ident, |$c:ident| var_number: $vn:expr, number_var: $nv:expr) => {
        with_number!(impl $trait, $method, &Var<'t, T>, |$c| $vn, $nv);
        with_number!(impl $trait, $method, Var<'t, T>, |$c| $vn, $nv);
    };
    (impl $trait:ident, $method:ident, $var:ty, |$c:ident| $vn:expr, $nv:expr) => {
        impl<'t, T: Real> $trait<f64> for $var {
            type Output = Var<'t, T>;
            /// [Formula and derivative](super::affine).
            #[track_caller]
            fn $method(self, $c: f64) -> Var<'t, T> {
                let (scale, shift) = $vn;
                self.affine(scale, shift)
            }
        }
        impl<'t, T: Real> $trait<$var> for f64 {
            type Output = Var<'t, T>;
            /// [Formula and derivative](super::affine).
            #[track_caller]
            fn $method(self, x: $var) -> Var<'t, T> {
                let $c = self;
                let (scale, shift) = $nv;
                x.affine(scale, shift)
            }
        }
    };
}

with_number!(Add, add, |c| var_number: (1.0, c), number_var: (1.0, c));
with_number!(Sub, sub, |c| var_number: (1.0, -c), number_var: (-1.0, c));
with_number!(Mul, mul, |c| var_number: (c, 0.0), number_var: (c, 0.0));

/// Implements negation and division: `x / 2.0` is `affine` by the reciprocal, `1.0 / x` divides a constant by x.
macro_rules! neg_and_div {
    ($var:ty) => {
        impl<'t, T: Real> Neg for $var {
            type Output = Var<'t, T>;
            /// [Formula and derivative](super::affine).
            #[track_caller]
            fn neg(self) -> Var<'t, T> {
                self.affine(-1.0, 0.0)
            }
        }
        impl<'t, T: Real> Div<f64> for $var {
            type Output = Var<'t, T>;
            /// [Formula and derivative](super::affine).
            #[track_caller]
            fn div(self, c: f64) -> Var<'t, T> {
                self.affine(1.0 / c, 0.0)
            }
        }
        impl<'t, T: Real> Div<$var> for f64 {
            type Output = Var<'t, T>;
            /// [Formula and derivative](super::div).
            #[track_caller]
            fn div(self, x: $var) -> Var<'t, T> {
                x.constant(x.value().full_like([], T::lit(self))) / x
            }
        }
    };
}

neg_and_div!(&Var<'t, T>);
neg_and_div!(Var<'t, T>);
