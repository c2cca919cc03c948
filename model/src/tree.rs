//! Parameters as a functor: a model is generic over its leaves.
//!
//! `Transformer<Param>` is the declaration of a model, `Transformer<Tensor>` its parameters, and `Transformer<Var>` the
//! parameters on a tape; gradients and moments are trees too. Initialisation, checkpoints, gradient norms, updates and the check
//! for parameters without gradient are each one traversal, and no code looks a parameter up by its name.
//!
//! The values that a layer needs besides its parameters (a number of heads, an ε) are settings of the tree: they stay with the
//! leaves, so that no parameters can be computed with the settings of others.
//!
//! ```
//! use gradus_model::Tree;
//! use gradus_model::tree::P;
//!
//! gradus_model::tree! {
//!     /// y = w·x, clipped at a limit.
//!     pub struct Clipped<V> {
//!         /// w.
//!         weight: P<V>,
//!     } with {
//!         /// The limit.
//!         most: f64,
//!     }
//! }
//! let layer = Clipped { weight: P(3.0), most: 1.0 };
//! let named = layer.map(|path, w| format!("{path} = {w}"));
//! assert_eq!((&*named.weight.0, named.most), ("weight = 3", 1.0));
//! ```

use std::fmt::{Display, Write};

use gradus_autograd::{Tape, Var};
use gradus_tensor::{Device, DeviceError, Real, Tensor};

/// The names on the path to a leaf, joined by dots: `h.3.attn.c_attn.weight`. They are joined only if the traversal uses them.
#[derive(Debug)]
pub struct Path(Option<String>);

impl Path {
    fn root() -> Self {
        Path(Some(String::new()))
    }

    fn names(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Runs `f` with `name` added at the end; an empty name adds nothing.
    #[inline]
    pub fn within<R>(&mut self, name: &dyn Display, f: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.enter(name);
        let result = f(self);
        self.0.iter_mut().for_each(|names| names.truncate(before));
        result
    }

    /// Adds a name, and returns the length before.
    fn enter(&mut self, name: &dyn Display) -> usize {
        let before = self.names().len();
        if let Some(names) = &mut self.0 {
            names.push_str(if before > 0 { "." } else { "" });
            let dot = names.len();
            write!(names, "{name}").expect("a string takes any text");
            if names.len() == dot {
                names.truncate(before);
            }
        }
        before
    }
}

/// A structure with values of one type at its leaves.
pub trait Tree: Sized {
    /// The type of the leaves.
    type Leaf;
    /// The structure with other leaves.
    type With<U>: Tree<Leaf = U>;

    /// Returns the tree of f(path, leaf), below `path`.
    fn map_at<U>(self, path: &mut Path, f: &mut dyn FnMut(&str, Self::Leaf) -> U) -> Self::With<U>;
    /// Returns the tree of references to the leaves.
    fn as_ref(&self) -> Self::With<&Self::Leaf>;
    /// Returns the tree of exclusive references to the leaves.
    fn as_mut(&mut self) -> Self::With<&mut Self::Leaf>;
    /// Returns the tree of pairs, with the settings of the first; panics if the structures differ (another number of layers).
    fn zip<B>(self, other: Self::With<B>) -> Self::With<(Self::Leaf, B)>;

    /// Returns the tree of f(path, leaf).
    fn map<U>(self, mut f: impl FnMut(&str, Self::Leaf) -> U) -> Self::With<U> {
        self.map_at(&mut Path::root(), &mut f)
    }
    /// Calls f(path, leaf) for every leaf, in order.
    fn visit(self, mut f: impl FnMut(&str, Self::Leaf)) {
        self.map(|path, leaf| f(path, leaf));
    }

    /// Returns the parameters as leaves of a tape, with respect to which gradients are computed, each in a scope of its name.
    fn leaves<'t, T: Real>(&self, tape: &'t Tape<T>) -> Self::With<Var<'t, T>>
    where
        Self: Tree<Leaf = Tensor<T>> + Clone,
    {
        self.clone().map(|name, p| tape.scope(name, || tape.leaf(p)))
    }
    /// Returns the parameters as constants of a tape.
    fn constants<'t, T: Real>(&self, tape: &'t Tape<T>) -> Self::With<Var<'t, T>>
    where
        Self: Tree<Leaf = Tensor<T>> + Clone,
    {
        self.clone().map_at(&mut Path(None), &mut |_, p| tape.constant(p))
    }
    /// Converts the parameters to another scalar.
    fn cast<T: Real, U: Real>(&self) -> Self::With<Tensor<U>>
    where
        Self: Tree<Leaf = Tensor<T>> + Clone,
    {
        self.clone().map_at(&mut Path(None), &mut |_, p| p.cast())
    }
    /// Returns the number of bytes of the tensors that are not on `device`.
    fn bytes_to<T: Real>(&self, device: &Device) -> u64
    where
        Self: Tree<Leaf = Tensor<T>>,
    {
        let mut bytes = 0;
        self.as_ref().visit(|_, p| bytes += if p.device() == *device { 0 } else { size_of::<T>() as u64 * p.len() as u64 });
        bytes
    }
    /// Returns the parameters on a device.
    ///
    /// # Errors
    /// Returns the errors of [`Device::check_room`], before anything is sent, and of [`Tensor::to`].
    fn to<T: Real>(&self, device: &Device) -> Result<Self::With<Tensor<T>>, DeviceError>
    where
        Self: Tree<Leaf = Tensor<T>> + Clone,
    {
        device.check_room(&[("parameters", self.bytes_to(device))])?;
        let mut moved = Ok(());
        let tree = self.clone().map_at(&mut Path(None), &mut |_, p| match p.to(device) {
            Ok(there) => there,
            Err(error) => {
                moved = Err(error);
                p
            }
        });
        moved.map(|()| tree)
    }
}

/// A leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct P<V>(pub V);

impl<V> Tree for P<V> {
    type Leaf = V;
    type With<U> = P<U>;
    fn map_at<U>(self, path: &mut Path, f: &mut dyn FnMut(&str, V) -> U) -> P<U> {
        P(f(path.names(), self.0))
    }
    fn as_ref(&self) -> P<&V> {
        P(&self.0)
    }
    fn as_mut(&mut self) -> P<&mut V> {
        P(&mut self.0)
    }
    fn zip<B>(self, other: P<B>) -> P<(V, B)> {
        P((self.0, other.0))
    }
}

/// A sequence of subtrees, named 0, 1, 2, …
#[derive(Clone, Debug, PartialEq)]
pub struct Seq<X>(pub Vec<X>);

impl<X: Tree> Tree for Seq<X> {
    type Leaf = X::Leaf;
    type With<U> = Seq<X::With<U>>;
    fn map_at<U>(self, path: &mut Path, f: &mut dyn FnMut(&str, X::Leaf) -> U) -> Seq<X::With<U>> {
        Seq(self.0.into_iter().enumerate().map(|(i, x)| path.within(&i, |path| x.map_at(path, f))).collect())
    }
    fn as_ref(&self) -> Seq<X::With<&X::Leaf>> {
        Seq(self.0.iter().map(Tree::as_ref).collect())
    }
    fn as_mut(&mut self) -> Seq<X::With<&mut X::Leaf>> {
        Seq(self.0.iter_mut().map(Tree::as_mut).collect())
    }
    fn zip<B>(self, other: Seq<X::With<B>>) -> Seq<X::With<(X::Leaf, B)>> {
        assert_eq!(self.0.len(), other.0.len(), "zip: sequences of one length");
        Seq(self.0.into_iter().zip(other.0).map(|(a, b)| a.zip(b)).collect())
    }
}

/// A sequence of subtrees with names: the first has its own name, the following have a prefix and their number.
#[derive(Clone, Debug, PartialEq)]
pub struct List<X>(pub Vec<X>, pub(crate) [&'static str; 2]);

impl<X> List<X> {
    /// Returns the name of the subtree with this number.
    pub(crate) fn name(&self, number: usize) -> String {
        if number == 0 { self.1[0].to_owned() } else { format!("{}_{number}", self.1[1]) }
    }
}

impl<X: Tree> Tree for List<X> {
    type Leaf = X::Leaf;
    type With<U> = List<X::With<U>>;
    fn map_at<U>(self, path: &mut Path, f: &mut dyn FnMut(&str, X::Leaf) -> U) -> List<X::With<U>> {
        let names: Vec<String> = (0..self.0.len()).map(|n| self.name(n)).collect();
        List(self.0.into_iter().zip(names).map(|(x, name)| path.within(&name, |path| x.map_at(path, f))).collect(), self.1)
    }
    fn as_ref(&self) -> List<X::With<&X::Leaf>> {
        List(self.0.iter().map(Tree::as_ref).collect(), self.1)
    }
    fn as_mut(&mut self) -> List<X::With<&mut X::Leaf>> {
        List(self.0.iter_mut().map(Tree::as_mut).collect(), self.1)
    }
    fn zip<B>(self, other: List<X::With<B>>) -> List<X::With<(X::Leaf, B)>> {
        assert_eq!(self.0.len(), other.0.len(), "zip: lists of one length");
        List(self.0.into_iter().zip(other.0).map(|(a, b)| a.zip(b)).collect(), self.1)
    }
}

/// A subtree that may be absent.
impl<X: Tree> Tree for Option<X> {
    type Leaf = X::Leaf;
    type With<U> = Option<X::With<U>>;
    fn map_at<U>(self, path: &mut Path, f: &mut dyn FnMut(&str, X::Leaf) -> U) -> Option<X::With<U>> {
        self.map(|x| x.map_at(path, f))
    }
    fn as_ref(&self) -> Option<X::With<&X::Leaf>> {
        self.as_ref().map(Tree::as_ref)
    }
    fn as_mut(&mut self) -> Option<X::With<&mut X::Leaf>> {
        self.as_mut().map(Tree::as_mut)
    }
    fn zip<B>(self, other: Option<X::With<B>>) -> Option<X::With<(X::Leaf, B)>> {
        match (self, other) {
            (Some(a), Some(b)) => Some(a.zip(b)),
            (None, None) => None,
            _ => panic!("zip: a subtree is present on one side only"),
        }
    }
}

/// Declares a struct of subtrees, or an enum whose variants are subtrees, as a [`Tree`].
///
/// A field's name is its name in paths; `field as "name": …` gives it another, and `as ""` none, so that the names below get no
/// prefix. Settings follow in `with { … }`; they are cloned with the tree. A variant adds nothing to the path.
#[macro_export]
macro_rules! tree {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };

    ($(#[$meta:meta])* $vis:vis struct $name:ident<$v:ident> {
        $($(#[$fmeta:meta])* $field:ident $(as $path:literal)? : $ty:ty),* $(,)?
    } $(with { $($(#[$smeta:meta])* $svis:vis $setting:ident : $sty:ty),* $(,)? })?) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name<$v> { $($(#[$fmeta])* pub $field: $ty,)* $($($(#[$smeta])* $svis $setting: $sty,)*)? }

        impl<$v> $crate::tree::Tree for $name<$v> {
            type Leaf = $v;
            type With<U> = $name<U>;
            fn map_at<U>(self, path: &mut $crate::tree::Path, f: &mut dyn FnMut(&str, $v) -> U) -> $name<U> {
                $name {
                    $($field: path.within(&$crate::tree!(@name $field $($path)?), |path| {
                        $crate::tree::Tree::map_at(self.$field, path, f)
                    }),)*
                    $($($setting: self.$setting,)*)?
                }
            }
            fn as_ref(&self) -> $name<&$v> {
                $name {
                    $($field: $crate::tree::Tree::as_ref(&self.$field),)*
                    $($($setting: self.$setting.clone(),)*)?
                }
            }
            fn as_mut(&mut self) -> $name<&mut $v> {
                $name {
                    $($field: $crate::tree::Tree::as_mut(&mut self.$field),)*
                    $($($setting: self.$setting.clone(),)*)?
                }
            }
            fn zip<B>(self, other: $name<B>) -> $name<($v, B)> {
                $name {
                    $($field: $crate::tree::Tree::zip(self.$field, other.$field),)*
                    $($($setting: self.$setting,)*)?
                }
            }
        }
    };

    ($(#[$meta:meta])* $vis:vis enum $name:ident<$v:ident> {
        $($(#[$vmeta:meta])* $variant:ident($ty:ty)),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis enum $name<$v> { $($(#[$vmeta])* $variant($ty)),* }

        impl<$v> $crate::tree::Tree for $name<$v> {
            type Leaf = $v;
            type With<U> = $name<U>;
            fn map_at<U>(self, path: &mut $crate::tree::Path, f: &mut dyn FnMut(&str, $v) -> U) -> $name<U> {
                match self { $($name::$variant(x) => $name::$variant($crate::tree::Tree::map_at(x, path, f))),* }
            }
            fn as_ref(&self) -> $name<&$v> {
                match self { $($name::$variant(x) => $name::$variant($crate::tree::Tree::as_ref(x))),* }
            }
            fn as_mut(&mut self) -> $name<&mut $v> {
                match self { $($name::$variant(x) => $name::$variant($crate::tree::Tree::as_mut(x))),* }
            }
            fn zip<B>(self, other: $name<B>) -> $name<($v, B)> {
                match (self, other) {
                    $(($name::$variant(a), $name::$variant(b)) => $name::$variant($crate::tree::Tree::zip(a, b)),)*
                    _ => panic!("zip: two variants of {}", stringify!($name)),
                }
            }
        }
    };
}
