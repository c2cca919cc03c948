//! Parameters as a functor: a model is generic over what stands at its leaves.
//!
//! `Gpt<Tensor>` is a model at rest, `Gpt<Var>` the same on a tape, its gradients and its moments are trees again.
//! Initialisation, checkpoints, gradient norms, updates and the alarm for a parameter without gradient are each one
//! traversal, and nothing looks a parameter up by its name.

/// The names on the way to a leaf, joined by dots: `h.3.attn.c_attn.weight`.
#[derive(Debug, Default)]
pub struct Path(String);

impl Path {
    /// Runs `f` with `name` added at the end.
    pub fn within<R>(&mut self, name: impl std::fmt::Display, f: impl FnOnce(&mut Self) -> R) -> R {
        use std::fmt::Write;
        let before = self.0.len();
        if before > 0 {
            self.0.push('.');
        }
        write!(self.0, "{name}").expect("a string takes any text");
        let result = f(self);
        self.0.truncate(before);
        result
    }
}

/// A structure with values of one type at its leaves.
pub trait Tree: Sized {
    /// What stands at the leaves.
    type Leaf;
    /// The same structure with other leaves.
    type With<U>: Tree<Leaf = U>;

    /// The tree of f(path, leaf), below `path`.
    fn map_at<U>(self, path: &mut Path, f: &mut impl FnMut(&str, Self::Leaf) -> U) -> Self::With<U>;
    /// The tree of references to the leaves.
    fn as_ref(&self) -> Self::With<&Self::Leaf>;
    /// The tree of exclusive references to the leaves.
    fn as_mut(&mut self) -> Self::With<&mut Self::Leaf>;
    /// The tree of pairs; panics where the structures differ (another number of layers).
    fn zip<B>(self, other: Self::With<B>) -> Self::With<(Self::Leaf, B)>;

    /// The tree of f(path, leaf).
    fn map<U>(self, mut f: impl FnMut(&str, Self::Leaf) -> U) -> Self::With<U> {
        self.map_at(&mut Path::default(), &mut f)
    }
    /// f(path, leaf) for every leaf, in order.
    fn visit(self, mut f: impl FnMut(&str, Self::Leaf)) {
        self.map(|path, leaf| f(path, leaf));
    }
}

/// A leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct P<V>(pub V);

impl<V> Tree for P<V> {
    type Leaf = V;
    type With<U> = P<U>;
    fn map_at<U>(self, path: &mut Path, f: &mut impl FnMut(&str, V) -> U) -> P<U> {
        P(f(&path.0, self.0))
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
    fn map_at<U>(self, path: &mut Path, f: &mut impl FnMut(&str, X::Leaf) -> U) -> Seq<X::With<U>> {
        Seq(self.0.into_iter().enumerate().map(|(i, x)| path.within(i, |path| x.map_at(path, f))).collect())
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

/// A subtree that may be absent.
impl<X: Tree> Tree for Option<X> {
    type Leaf = X::Leaf;
    type With<U> = Option<X::With<U>>;
    fn map_at<U>(self, path: &mut Path, f: &mut impl FnMut(&str, X::Leaf) -> U) -> Option<X::With<U>> {
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

/// Declares a struct of subtrees as a [`Tree`]; a field's name is its name in paths.
#[macro_export]
macro_rules! tree {
    ($(#[$meta:meta])* $vis:vis struct $name:ident<$v:ident> { $($(#[$fmeta:meta])* $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name<$v> { $($(#[$fmeta])* pub $field: $ty),* }

        impl<$v> $crate::tree::Tree for $name<$v> {
            type Leaf = $v;
            type With<U> = $name<U>;
            fn map_at<U>(self, path: &mut $crate::tree::Path, f: &mut impl FnMut(&str, $v) -> U) -> $name<U> {
                $name { $($field: path.within(stringify!($field), |path| $crate::tree::Tree::map_at(self.$field, path, f))),* }
            }
            fn as_ref(&self) -> $name<&$v> {
                $name { $($field: $crate::tree::Tree::as_ref(&self.$field)),* }
            }
            fn as_mut(&mut self) -> $name<&mut $v> {
                $name { $($field: $crate::tree::Tree::as_mut(&mut self.$field)),* }
            }
            fn zip<B>(self, other: $name<B>) -> $name<($v, B)> {
                $name { $($field: $crate::tree::Tree::zip(self.$field, other.$field)),* }
            }
        }
    };
}
