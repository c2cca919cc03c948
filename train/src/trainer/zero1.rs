//! Optimizer state sharding: each process keeps the moments only of its own part of the parameters (ZeRO-1: Rajbhandari et al.
//! 2020, "ZeRO: Memory optimizations toward training trillion parameter models", §5.1).
//!
//! ```text
//! gradients → reduce-scatter: each process its own parts     Σ g² of each part → all-gather: one norm, one clipping factor
//! own parts of p, m, v → one step of the optimizer           own parts of p → all-gather
//! ```
//!
//! A part is cut at a place where a sum of squares is halved, and the squares are added in the same order. So the norm has the
//! bits of the whole gradient's norm. The optimizer works element by element, so the parameters have the same bits, too.

use std::collections::BTreeMap;
use std::ops::Range;

use gradus_collective::{AdditionTree, ParamRange, PeerError, Sum};
use gradus_model::{Batch, Model, Tree};
use gradus_tensor::{GlobalNorm, Real, Tensor, halves};

use super::step_message::{numbers_from, numbers_to};
use super::{Gradient, Shards, StepSummary, TrainError, Trainer, clip};

/// The moments m and v of a part of a parameter.
pub(super) type Moments<T> = [Tensor<T>; 2];
/// The own parts of the gradient, and the sum of squares of each parameter's whole gradient (`None` if it is not trained).
type OwnParts<T> = (Vec<Tensor<T>>, Vec<Option<f64>>);

impl<T: Real> Trainer<T> {
    /// Makes each process keep the moments only of its own parts from now on. A single process keeps all.
    ///
    /// # Errors
    /// Returns an error if there are fewer shards than processes.
    pub fn shard_moments(&mut self) -> Result<(), PeerError> {
        if self.collective.processes() == 1 {
            return Ok(());
        }
        let own = self.parts_of_all()?.swap_remove(self.collective.process());
        let [m, v] = [flat(&self.m), flat(&self.v)];
        let cut = |of: &[Tensor<T>], place: &ParamRange| own_copy(&of[place.parameter].slice(0, place.range.clone()));
        self.parts = Some(own.iter().map(|place| [cut(&m, place), cut(&v, place)]).collect());
        self.forget_moments();
        Ok(())
    }

    /// Gathers the moments of all parts on process 0, to be saved.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    pub fn gather_moments(&mut self) -> Result<(), PeerError> {
        let Some(parts) = &self.parts else { return Ok(()) };
        let bytes = |[m, v]: &Moments<T>| [numbers_to(&m.to_vec()), numbers_to(&v.to_vec())].concat();
        let told = self.collective.gather(parts.iter().flat_map(bytes).collect())?;
        if self.collective.process() > 0 {
            return Ok(());
        }
        let [mut m, mut v] = [(); 2].map(|()| self.params.as_ref().map(|_, p| vec![T::zero(); p.len()]));
        {
            let mut all: Vec<[&mut Vec<T>; 2]> = Vec::new();
            m.as_mut().zip(v.as_mut()).visit(|_, (m, v)| all.push([m, v]));
            for (process, (places, bytes)) in self.parts_of_all()?.iter().zip(&told).enumerate() {
                let unfit = || PeerError::new(format!("process {process} sent moments of the wrong size"));
                let mut rest = &bytes[..];
                for ParamRange { parameter, range } in places {
                    for moment in &mut all[*parameter] {
                        let (own, others) = rest.split_at_checked(range.len() * size_of::<T>()).ok_or_else(unfit)?;
                        moment[range.clone()].copy_from_slice(&numbers_from(own));
                        rest = others;
                    }
                }
                if !rest.is_empty() {
                    return Err(unfit());
                }
            }
        }
        let shaped = |moments: Model<Vec<T>>| moments.zip(self.params.as_ref()).map(|_, (m, p)| Tensor::new(*p.shape(), m));
        (self.m, self.v) = (shaped(m), shaped(v));
        Ok(())
    }

    /// Drops the gathered moments, so that each process again keeps only its own parts.
    pub fn forget_moments(&mut self) {
        if self.parts.is_some() {
            let none = || self.params.as_ref().map(|_, p| p.zeros_like([0]));
            (self.m, self.v) = (none(), none());
        }
    }

    fn parts_of_all(&self) -> Result<Vec<Vec<ParamRange>>, PeerError> {
        let tree = AdditionTree::new(self.recipe.shards);
        self.collective.parts(&tree, &self.shapes_of_gradients())
    }

    /// Applies the gradient of `batch`, each process to its own parts. If the loss, the norm or a mark is non-finite, nothing
    /// changes.
    pub(super) fn apply_in_parts(
        &mut self,
        batch: &Batch,
        shards: &Shards<T>,
        sum: Box<dyn Sum<T> + '_>,
    ) -> Result<StepSummary, TrainError> {
        let (gradients, mut squares) = self.own_parts(&*sum).map_err(|error| self.peer(error))?;
        let reached = self.reached(batch);
        squares.iter_mut().zip(&reached).for_each(|(square, is)| *square = square.filter(|_| *is));
        let measured = GlobalNorm::of_squares(squares.iter().copied().flatten().collect(), &shards.numbers());
        let factor = clip::on_device(&measured, self.recipe.clip, shards.scale);
        let read = measured.read().map_err(|error| self.fault(error))?;
        let summary = self.summary(batch, shards, &read)?;
        let own = self.parts_of_all().map_err(|error| self.peer(error))?.swap_remove(self.collective.process());
        let params = flat(&self.params);
        let (at, optimizer) = (self.recipe.factors(self.done + 1), &self.recipe.optimizer);
        let update = |((place, g), [m, v]): ((&ParamRange, Tensor<T>), &mut Moments<T>)| {
            let mut p = own_copy(&params[place.parameter].slice(0, place.range.clone()));
            if !reached[place.parameter] {
                return p;
            }
            let moments = optimizer.name.has_moments().then_some((m, v));
            optimizer.update(at, &factor, self.decays[place.parameter], &mut p, moments, &g);
            p
        };
        let parts = self.parts.as_mut().expect("asked for");
        let updated = own.iter().zip(gradients).zip(parts).map(update).collect();
        let mut updated = sum.all_gather(updated).map_err(|error| self.peer(error))?.into_iter();
        self.params.as_mut().visit(|_, p| {
            if let Some(new) = updated.next().flatten() {
                *p = new.to(&p.device()).expect("a CPU takes the values of any other");
            }
        });
        let nowhere: Gradient<T> = self.params.as_ref().map(|_, _| None);
        self.made(summary, &nowhere, &squares);
        Ok(summary)
    }

    fn own_parts(&self, sum: &dyn Sum<T>) -> Result<OwnParts<T>, PeerError> {
        let gradients = sum.reduce_scatter()?;
        let squares: Vec<f64> = gradients.iter().map(Tensor::sum_squares).collect();
        let told = self.collective.all_gather(numbers_to(&squares)).wait()?;
        let mut by_place = BTreeMap::new();
        for (process, (places, bytes)) in self.parts_of_all()?.iter().zip(&told).enumerate() {
            if bytes.len() != 8 * places.len() {
                return Err(PeerError::new(format!("process {process} sent squares of the wrong size")));
            }
            let squares: Vec<f64> = numbers_from(bytes);
            by_place.extend(places.iter().zip(squares).map(|(p, square)| ((p.parameter, p.range.start, p.range.end), square)));
        }
        let of = |(parameter, shape): (usize, Option<gradus_tensor::Shape>)| Some(whole(&by_place, parameter, 0..shape?.numel()));
        Ok((gradients, self.shapes_of_gradients().into_iter().enumerate().map(of).collect()))
    }
}

/// Returns the sum of squares of a range of a parameter, from those of its parts.
fn whole(parts: &BTreeMap<(usize, usize, usize), f64>, parameter: usize, range: Range<usize>) -> f64 {
    if let Some(square) = parts.get(&(parameter, range.start, range.end)) {
        return *square;
    }
    let middle = range.start + halves(range.len()).expect("each number is in a part");
    whole(parts, parameter, range.start..middle) + whole(parts, parameter, middle..range.end)
}

/// Returns each parameter, flattened.
fn flat<T: Real>(tree: &Model<Tensor<T>>) -> Vec<Tensor<T>> {
    let mut all = Vec::new();
    tree.as_ref().visit(|_, p| all.push(p.reshape([p.len()])));
    all
}

/// Returns a copy that shares no memory.
fn own_copy<T: Real>(x: &Tensor<T>) -> Tensor<T> {
    x.constant(*x.shape(), x.to_vec())
}
