//! An op outside this library, under the same checks as the library's ops.
//!
//! An op states its formula, the values that its derivative reads, its cost, its value, its derivative, and inputs to check it
//! on. Without them it does not compile. The formula in full:
//!
//! ```text
//! y = sinh x = ½(eˣ − e⁻ˣ)        dy = cosh x dx        x̄ = ȳ ∘ cosh x = ȳ ∘ ½(eˣ + e⁻ˣ)
//! ```
//!
//! `cargo run -p gradus-autograd --example op_of_my_own`

use gradus_autograd::check::{self, Subject};
use gradus_autograd::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tape, Tensor, Var, Want};

/// The op y = sinh x, element by element.
#[derive(Debug)]
struct Sinh;

impl<T: Real> Op<T> for Sinh {
    const NAME: &'static str = "sinh";
    const MATH: &'static str = "y = ½(eˣ − e⁻ˣ);  x̄ = ȳ ∘ ½(eˣ + e⁻ˣ)";
    const SAVES: Saves = Saves::INPUTS;
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        4 * out.numel() as u64 // two exponentials, −, ×
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        Tensor::elementwise([ins[0]], "0.5 * (exp(x) - exp(-x))", |[x]| T::lit(0.5) * (x.exp() - (-x).exp())).into()
    }
    // The VJP is written in ops of the tape, so that it can be differentiated again.
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let x = saved.x(0);
        vec![saved.grad(0, || gy * (0.5 * (x.exp() + (-x).exp())))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let n = g.extent();
        vec![(Sinh, vec![g.normal([n, 3])]), (Sinh, vec![g.normal([])]), (Sinh, vec![g.normal([0])])]
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tape = Tape::new();
    let x = tape.leaf(Tensor::new([2], vec![0.0, 2.0]));
    let y = tape.apply(Sinh, &[&x]);
    println!("sinh [0, 2]  = {:?}", y.value().to_vec());
    println!("its gradient = {:?}", tape.backward(&y.sum_all()).of(&x).expect("y depends on x").to_vec());

    let op = Subject::of::<Sinh>();
    check::teeth(&op)?; // checks that an error of 0.1 % is detected on these samples
    for (name, witness) in check::WITNESSES {
        let mut worst = 0.0f64;
        for case in (0..256).flat_map(|seed| op.cases(seed, 1 + seed as usize % 5)) {
            worst = worst.max(witness(&case)?.error());
        }
        println!("{name:13} worst relative error {worst:.1e}");
    }
    Ok(())
}
