//! The elementwise functions eˣ, tanh and σ.

use super::{parallel, same_len};
use crate::Scalar;
use crate::simd::{Elementary, Float, vectorized};

/// Computes yᵢ = e^xᵢ.
pub fn naive_exp<T: Scalar>(x: &[T], y: &mut [T]) {
    same_len("exp", &[x.len(), y.len()]);
    x.iter().zip(y).for_each(|(x, y)| *y = x.exp());
}

/// Computes yᵢ = tanh xᵢ.
pub fn naive_tanh<T: Scalar>(x: &[T], y: &mut [T]) {
    same_len("tanh", &[x.len(), y.len()]);
    x.iter().zip(y).for_each(|(x, y)| *y = x.tanh());
}

/// Computes yᵢ = σ(xᵢ) = 1/(1 + e^−xᵢ).
pub fn naive_sigmoid<T: Scalar>(x: &[T], y: &mut [T]) {
    same_len("sigmoid", &[x.len(), y.len()]);
    x.iter().zip(y).for_each(|(&x, y)| *y = T::one() / (T::one() + (-x).exp()));
}

/// Computes [`naive_exp`], vectorised and parallel.
pub fn fast_exp<T: Float>(x: &[T], y: &mut [T]) {
    same_len("exp", &[x.len(), y.len()]);
    parallel::each_2(1, x, y, exp::<T>);
}

/// Computes [`naive_tanh`], vectorised and parallel.
pub fn fast_tanh<T: Float>(x: &[T], y: &mut [T]) {
    same_len("tanh", &[x.len(), y.len()]);
    parallel::each_2(1, x, y, tanh::<T>);
}

/// Computes [`naive_sigmoid`], vectorised and parallel.
pub fn fast_sigmoid<T: Float>(x: &[T], y: &mut [T]) {
    same_len("sigmoid", &[x.len(), y.len()]);
    parallel::each_2(1, x, y, sigmoid::<T>);
}

vectorized! {
    fn exp<T: Float>(x: &[T], y: &mut [T]) {
        for (&x, y) in x.iter().zip(y) {
            *y = x.fast_exp::<FMA>();
        }
    }
}

vectorized! {
    fn tanh<T: Float>(x: &[T], y: &mut [T]) {
        for (&x, y) in x.iter().zip(y) {
            *y = x.fast_tanh::<FMA>();
        }
    }
}

vectorized! {
    fn sigmoid<T: Float>(x: &[T], y: &mut [T]) {
        for (&x, y) in x.iter().zip(y) {
            *y = x.fast_sigmoid::<FMA>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    /// Checks that an element has the same bits alone as in a vector, on levels with and without fused multiply-adds.
    fn alone_and_in_a_vector<T: Float>() {
        type Row<T> = (fn(&[T], &mut [T]), [fn(T) -> T; 2]);
        let table: [Row<T>; 3] = [
            (fast_exp, [T::fast_exp::<false>, T::fast_exp::<true>]),
            (fast_tanh, [T::fast_tanh::<false>, T::fast_tanh::<true>]),
            (fast_sigmoid, [T::fast_sigmoid::<false>, T::fast_sigmoid::<true>]),
        ];
        let x: Vec<T> = normals(1000, 1).into_iter().map(|x: T| x * T::lit(5.0)).collect();
        for (kernel, alone) in table {
            let (y, alone) = (written([x.len()], |[y]| kernel(&x, y)), alone[usize::from(fuses())]);
            assert!(x.iter().zip(&y).all(|(&x, y)| alone(x) == *y));
        }
    }

    #[test]
    fn an_element_has_the_same_bits_alone_and_among_others() {
        alone_and_in_a_vector::<f32>();
        alone_and_in_a_vector::<f64>();
    }
}
