//! Forms of a tensor's elements for products in bf16.

use std::sync::OnceLock;

use crate::buffer::Buffer;

/// Elements rounded to bf16.
#[derive(Debug)]
pub(crate) struct Rounded {
    halves: Buffer<f32>,
    len: usize,
}

impl Rounded {
    /// Returns `len` elements that `fill` writes.
    pub(crate) fn write(len: usize, fill: impl FnOnce(&mut [u16])) -> Self {
        let mut halves = Buffer::<f32>::recycled(len.div_ceil(2));
        // SAFETY: the buffer holds 2·⌈len/2⌉ halves, and any bits are a value of either type.
        fill(unsafe { std::slice::from_raw_parts_mut(halves.as_mut_ptr().cast(), len) });
        Rounded { halves, len }
    }

    /// Returns the elements.
    pub(crate) fn as_slice(&self) -> &[u16] {
        // SAFETY: as in `write`.
        unsafe { std::slice::from_raw_parts(self.halves.as_ptr().cast(), self.len) }
    }
}

/// The packed forms of a matrix and of its transpose. Each is made by the first product that reads it, and read by later ones.
#[derive(Debug, Default)]
pub struct Packed([OnceLock<(Key, Buffer<f32>)>; 2]);

/// The layout of a packed form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Key {
    /// The rows and columns of the factor.
    pub(crate) sizes: [usize; 2],
    /// Whether the columns of the factor are contiguous.
    pub(crate) transposed: bool,
    /// The name of the layout.
    pub(crate) layout: &'static str,
}

impl Packed {
    /// Returns the form of this key, whose `len` elements `pack` writes if there is none. Returns `None` if there is one of another
    /// key. No lock is held while `pack` runs, which may use several threads. If two threads pack at the same time, one form is kept.
    pub(crate) fn get(&self, key: Key, len: usize, pack: impl FnOnce(&mut [f32])) -> Option<&[f32]> {
        let form = &self.0[usize::from(key.transposed)];
        if form.get().is_none() {
            let mut space = Buffer::recycled(len);
            pack(&mut space);
            self.put(key, space);
        }
        form.get().filter(|(its, _)| *its == key).map(|(_, form)| &form[..])
    }

    /// Adds a form, unless there is one.
    pub(crate) fn put(&self, key: Key, form: Buffer<f32>) {
        let _ = self.0[usize::from(key.transposed)].set((key, form));
    }

    /// Returns the keys of the forms.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.0.iter().filter_map(|form| form.get()).map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_packed_once_and_has_its_own_key() {
        let packed = Packed::default();
        let key = Key { sizes: [2, 3], transposed: false, layout: "rows" };
        let get = |key, value| packed.get(key, 2, |space| space.fill(value)).map(<[f32]>::to_vec);
        assert_eq!(get(key, 1.0), Some(vec![1.0; 2]));
        assert_eq!(get(key, 2.0), Some(vec![1.0; 2]), "packed once");
        let transposed = Key { sizes: [3, 2], transposed: true, ..key };
        assert_eq!(get(transposed, 3.0), Some(vec![3.0; 2]));
        assert_eq!(get(Key { sizes: [3, 2], ..key }, 4.0), None);
        assert_eq!(get(Key { layout: "columns", ..key }, 4.0), None);
        assert_eq!(packed.keys().collect::<Vec<_>>(), [key, transposed]);
    }

    #[test]
    fn rounded_elements_have_their_own_number() {
        for len in [0, 1, 2, 3] {
            let rounded = Rounded::write(len, |to| to.iter_mut().zip(5..).for_each(|(to, x)| *to = x));
            assert_eq!(rounded.as_slice(), &[5, 6, 7][..len]);
        }
    }
}
