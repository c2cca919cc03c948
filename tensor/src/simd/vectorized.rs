//! Functions compiled for each level of the CPU.

/// Compiles a function of `T: Float` (or a stricter bound) once per [`Level`](super::Level) and calls the one for this CPU.
///
/// The body must be a plain loop over `#[inline(always)]` arithmetic. In it, the constant `FMA` is true if this level has a fused
/// multiply-add in hardware.
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<T: $bound:ident>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
        $vis fn $name<T: $bound>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, clippy::extra_unused_type_parameters, reason = "operands and their sizes")]
            fn body<T: $bound, const FMA: bool>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
            fn avx2<T: $bound>($($arg: $ty),*) $(-> $ret)? {
                body::<T, true>($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
            #[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
            fn avx512<T: $bound>($($arg: $ty),*) $(-> $ret)? {
                body::<T, true>($($arg),*)
            }

            match $crate::simd::level() {
                $crate::simd::Level::Baseline => body::<T, { cfg!(target_feature = "fma") || cfg!(target_arch = "aarch64") }>($($arg),*),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `level` found AVX2 and FMA on this CPU.
                $crate::simd::Level::Avx2 => unsafe { avx2::<T>($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `level` found AVX-512 F, VL, BW and DQ, AVX2 and FMA on this CPU.
                $crate::simd::Level::Avx512 => unsafe { avx512::<T>($($arg),*) },
                #[cfg(not(target_arch = "x86_64"))]
                _ => unreachable!("only x86-64 has levels"),
            }
        }
    };
}
pub(crate) use vectorized;
