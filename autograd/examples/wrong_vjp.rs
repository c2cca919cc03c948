//! Three wrong derivatives of one op, and the reports of the witnesses.
//!
//! ```text
//! y = x³        x̄ = 3x² ȳ        wrong: 3.003x² ȳ;   3x² ȳ as a constant;   x² ȳ where x is negative
//! ```
//!
//! `cargo run -p gradus-autograd --example wrong_vjp`

use gradus_autograd::check::{self, Subject};
use gradus_autograd::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

const RIGHT: u8 = 0;
const A_THOUSANDTH_OFF: u8 = 1;
const A_DEAD_END: u8 = 2;
const A_WRONG_BRANCH: u8 = 3;

/// The op y = x³, with a flaw in its derivative.
#[derive(Debug)]
struct Cube<const FLAW: u8>;

impl<T: Real, const FLAW: u8> Op<T> for Cube<FLAW> {
    const NAME: &'static str = "cube";
    const MATH: &'static str = "y = x³;  x̄ = 3x² ȳ";
    const SAVES: Saves = Saves::INPUTS;
    fn flops(&self, _: &[&Shape], out: &Shape) -> u64 {
        2 * out.numel() as u64
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].map(|x| x * x * x).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let x = saved.x(0);
        let slope = match FLAW {
            A_THOUSANDTH_OFF => 3.003 * (x * x),
            A_DEAD_END => (3.0 * (x * x)).detach(), // the right number, but not differentiable again
            A_WRONG_BRANCH => (2.0 * x * x.relu()) + x * x,
            _ => 3.0 * (x * x),
        };
        vec![Some(gy * slope)]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let n = g.extent();
        vec![(Cube, vec![g.off_zero([n])])]
    }
}

fn say<const FLAW: u8>(title: &str) {
    println!("{title}");
    let cases: Vec<_> = (0..8).flat_map(|seed| Subject::of::<Cube<FLAW>>().cases(seed, 3)).collect();
    for (name, witness) in check::WITNESSES {
        match cases.iter().find_map(|case| witness(case).err()) {
            Some(failure) => println!("  {name:13} rejects it: {failure}"),
            None => println!("  {name:13} accepts it"),
        }
    }
}

fn main() {
    say::<RIGHT>("right: 3x² ȳ");
    say::<A_THOUSANDTH_OFF>("\nan error of 0.1 %: 3.003x² ȳ");
    say::<A_DEAD_END>("\ndetached from the tape: 3x² ȳ");
    say::<A_WRONG_BRANCH>("\na wrong branch: x² ȳ where x < 0");
}
