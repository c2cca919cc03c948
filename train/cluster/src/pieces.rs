//! The pieces of gradients, which are sent and added independently.
//!
//! A gradient is halved at the same places as in the sum of its squares ([`gradus_tensor::halves`]) until each piece is small
//! enough. So the sums of squares of the pieces, added in the same order, equal that of the whole gradient to the bit.

use std::ops::Range;

use gradus_collective::ParamRange;
use gradus_tensor::{Shape, halves};

/// The maximum number of elements of a piece: 256 KiB of f32.
const MOST: usize = 1 << 16;

/// The pieces of all gradients, numbered in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces {
    all: Vec<ParamRange>,
    /// The range of pieces of each parameter.
    of_parameter: Vec<Range<usize>>,
}

impl Pieces {
    /// Cuts gradients of these shapes. A parameter that is not trained (`None`) has no pieces.
    pub fn of(shapes: &[Option<Shape>]) -> Self {
        let mut pieces = Pieces { all: Vec::new(), of_parameter: Vec::new() };
        for (parameter, shape) in shapes.iter().enumerate() {
            let first = pieces.all.len();
            pieces.cut(parameter, 0..shape.map_or(0, |shape| shape.numel()));
            pieces.of_parameter.push(first..pieces.all.len());
        }
        pieces
    }

    fn cut(&mut self, parameter: usize, range: Range<usize>) {
        let n = range.len();
        match halves(n) {
            Some(middle) if n > MOST => {
                self.cut(parameter, range.start..range.start + middle);
                self.cut(parameter, range.start + middle..range.end);
            }
            _ if n > 0 => self.all.push(ParamRange { parameter, range }),
            _ => {}
        }
    }

    /// Returns the number of pieces.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of elements of each piece.
    pub fn sizes(&self) -> Vec<usize> {
        self.all.iter().map(|place| place.range.len()).collect()
    }

    /// Returns the parameter and the range of a piece.
    pub fn place(&self, piece: usize) -> ParamRange {
        self.all[piece].clone()
    }

    /// Returns the number of elements of a piece.
    pub fn size(&self, piece: usize) -> usize {
        self.all[piece].range.len()
    }

    /// Returns the pieces of a parameter.
    pub fn of_parameter(&self, parameter: usize) -> Range<usize> {
        self.of_parameter[parameter].clone()
    }
}

#[cfg(test)]
mod tests {
    use gradus_tensor::Tensor;

    use super::*;

    #[test]
    fn every_number_is_in_one_piece() {
        let shapes =
            [Some(Shape::from([3, 5])), None, Some(Shape::from([700, 901])), Some(Shape::from([0])), Some(Shape::from([1]))];
        let pieces = Pieces::of(&shapes);
        let sizes = pieces.sizes();
        assert_eq!((pieces.len(), sizes.iter().sum::<usize>()), (sizes.len(), 15 + 700 * 901 + 1));
        assert!(sizes.iter().all(|&n| (1..=MOST).contains(&n)));
        assert!((0..pieces.len()).map(|piece| pieces.size(piece)).eq(sizes));
        assert_eq!(
            [MOST - 1, MOST, MOST + 1].map(|n| Pieces::of(&[Some(Shape::from([n]))]).len()),
            [1, 1, 2],
            "no smaller than need be"
        );
        for (parameter, shape) in shapes.iter().enumerate() {
            let own = pieces.of_parameter(parameter).map(|piece| pieces.place(piece));
            let end = own.fold(0, |end, ParamRange { parameter: of, range }| {
                assert_eq!((of, range.start), (parameter, end));
                range.end
            });
            assert_eq!(end, shape.map_or(0, |shape| shape.numel()));
        }
    }

    /// The sums of squares of the pieces, added in the order of the cuts, equal that of the whole gradient.
    #[test]
    fn squares_of_pieces_are_the_squares_of_the_whole() {
        fn squares(g: &Tensor, pieces: &Pieces, range: Range<usize>) -> f64 {
            let whole = (0..pieces.len()).any(|piece| pieces.place(piece).range == range);
            let n = range.len();
            match halves(n) {
                Some(middle) if !whole => {
                    squares(g, pieces, range.start..range.start + middle) + squares(g, pieces, range.start + middle..range.end)
                }
                _ => g.slice(0, range).sum_squares(),
            }
        }
        for n in [1, 16_385, 65_536, 65_537, 400_001] {
            let g: Tensor = Tensor::new([n], (0..n).map(|i| 1.0 / (1 + i % 977) as f32).collect());
            let pieces = Pieces::of(&[Some(*g.shape())]);
            assert_eq!(squares(&g, &pieces, 0..n).to_bits(), g.sum_squares().to_bits(), "{n}");
        }
    }
}
