//! An op outside this library, under the same checks as the library's own.
//!
//! An op states its function in words, what its derivative reads, its cost, its value, its derivative, and inputs to check it on:
//! without them it does not compile. The whole of it:
//!
//! ```text
//! y = softplus x = log(1 + eˣ)        x̄ = ȳ ∘ σ(x)
//! ```
//!
//! `cargo run -p gradus-autograd --example op_of_my_own`

use gradus_autograd::check::{self, Subject};
use gradus_autograd::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tape, Tensor, Var, Want};

/// y = log(1 + eˣ), element by element.
#[derive(Debug)]
struct Softplus;

impl<T: Real> Op<T> for Softplus {
    const NAME: &'static str = "softplus";
    const MATH: &'static str = "y = log(1 + eˣ);  x̄ = ȳ ∘ σ(x)";
    const SAVES: Saves = Saves::INPUTS;
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        3 * out.numel() as u64 // e, +, log
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].map(|x| (x.exp() + T::one()).ln()).into()
    }
    // In ops of the tape, so that it can be differentiated again.
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![saved.grad(0, || gy * saved.x(0).sigmoid())]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let n = g.extent();
        vec![(Softplus, vec![g.normal([n, 3])]), (Softplus, vec![g.normal([])]), (Softplus, vec![g.normal([0])])]
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tape = Tape::new();
    let x = tape.leaf(Tensor::new([2], vec![0.0, 2.0]));
    let y = tape.apply(Softplus, &[&x]);
    println!("softplus [0, 2] = {:?}", y.value().to_vec());
    println!("its gradient    = {:?}", tape.backward(&y.sum_all()).of(&x).expect("y depends on x").to_vec());

    let op = Subject::of::<Softplus>();
    check::teeth(&op)?; // would these samples reveal an error of 0.1 %?
    for (name, witness) in check::WITNESSES {
        let mut worst = 0.0f64;
        for case in (0..256).flat_map(|seed| op.cases(seed, 1 + seed as usize % 5)) {
            worst = worst.max(witness(&case)?.error());
        }
        println!("{name:13} worst relative error {worst:.1e}");
    }
    Ok(())
}
