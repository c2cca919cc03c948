//! The rates of matrix products on a device: squares, and the products of a model.

use gradus_tensor::{Device, Tensor};
use serde::Serialize;

use crate::machine::{fastest, random};
use crate::profile::Profile;
use crate::workload::Workload;

/// The results of the benchmark of products.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProductsReport {
    /// The device.
    pub device: String,
    /// The precision of the factors: f32 or f16.
    pub products_in: String,
    /// The number of threads.
    pub threads: usize,
    /// The rate of each product.
    pub products: Vec<ProductRate>,
}

/// The rate of one product (m, k)·(k, n).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProductRate {
    /// `square`, or the place in a model.
    pub name: &'static str,
    /// The layout of the factors.
    pub layout: Layout,
    /// The number of rows of the result.
    pub m: usize,
    /// The number of terms of each element.
    pub k: usize,
    /// The number of columns of the result.
    pub n: usize,
    /// The shortest time, in milliseconds.
    pub ms: f64,
    /// The rate in 10⁹ FLOP/s, at 2·m·k·n.
    pub gflops: f64,
    /// The profile of the product, repeated on a GPU; `None` on a CPU.
    pub gpu: Option<Profile>,
}

/// The layout of the factors of a product of a layer y = x·w. All matrices are stored by rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// The forward product, y = x·w.
    Forward,
    /// The gradient of the input, x̄ = ȳ·wᵀ.
    Input,
    /// The gradient of the weights, w̄ = xᵀ·ȳ.
    Weights,
}

/// A product to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    name: &'static str,
    layout: Layout,
    /// The extents m, k and n.
    size: [usize; 3],
    /// Whether the left and the right factor are transposed views.
    transposed: [bool; 2],
}

impl Product {
    /// Returns the product of two square matrices.
    pub fn square(n: usize) -> Self {
        Product { name: "square", layout: Layout::Forward, size: [n; 3], transposed: [false; 2] }
    }

    /// Returns the products of a training step of a workload: a block's four layers and the output, forward, and backward to input
    /// and weights.
    pub fn of(workload: &Workload) -> Vec<Self> {
        let (rows, d) = (workload.tokens() / workload.accumulate, workload.sizes.width);
        let layers =
            [("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, 4 * d), ("mlp.c_proj", 4 * d, d)].into_iter();
        let in_blocks = layers.flat_map(|(name, from, to)| {
            [
                Product { name, layout: Layout::Forward, size: [rows, from, to], transposed: [false, false] },
                Product { name, layout: Layout::Input, size: [rows, to, from], transposed: [false, true] },
                Product { name, layout: Layout::Weights, size: [from, rows, to], transposed: [true, false] },
            ]
        });
        // The output's matrix is the token embedding (V, d), and logits are computed for some rows at a time.
        let (rows, v, name) = (workload.rows_of_logits(), workload.sizes.vocab, "output");
        let output = [
            Product { name, layout: Layout::Forward, size: [rows, d, v], transposed: [false, true] },
            Product { name, layout: Layout::Input, size: [rows, v, d], transposed: [false, false] },
            Product { name, layout: Layout::Weights, size: [v, rows, d], transposed: [true, false] },
        ];
        in_blocks.chain(output).collect()
    }

    fn time(&self, device: &Device) -> ProductRate {
        let Product { name, layout, size: [m, k, n], transposed } = *self;
        let factor = |[rows, columns]: [usize; 2], transposed: bool| -> Tensor {
            if transposed { random(device, [columns, rows]).t() } else { random(device, [rows, columns]) }
        };
        let (a, b) = (factor([m, k], transposed[0]), factor([k, n], transposed[1]));
        let seconds = fastest(device, || drop(a.matmul(&b)));
        let gpu = Profile::of(device, || drop(a.matmul(&b))).unwrap_or_else(|error| panic!("{error}"));
        ProductRate { name, layout, m, k, n, ms: 1e3 * seconds, gflops: 2.0 * (m * k * n) as f64 / seconds / 1e9, gpu }
    }
}

/// Measures these products; `after(i)` is called after the i-th, from 1. Panics if the device fails.
pub fn products(device: &Device, all: &[Product], mut after: impl FnMut(usize)) -> ProductsReport {
    let mut timed = Vec::with_capacity(all.len());
    for product in all {
        timed.push(product.time(device));
        after(timed.len());
    }
    let (threads, products_in) = (rayon::current_num_threads(), device.matmul_precision().to_string());
    ProductsReport { device: device.to_string(), products_in, threads, products: timed }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forward product and both backward products have equal sizes: n·k·m multiply-adds each.
    #[test]
    fn a_layer_has_three_products_of_one_size() {
        let mut workload = Workload::named("tiny").unwrap();
        (workload.sequences, workload.sizes.context) = (2, 8);
        let all = Product::of(&workload);
        assert_eq!(all.len(), 15);
        for layer in all.chunks(3) {
            let flops = |p: &Product| p.size.iter().product::<usize>();
            assert!(layer.iter().all(|p| p.name == layer[0].name && flops(p) == flops(&layer[0])), "{layer:?}");
            assert_eq!([0, 1, 2].map(|i| layer[i].layout), [Layout::Forward, Layout::Input, Layout::Weights]);
        }
        let report = products(&Device::CPU, &[Product::square(8), all[1]], |_| {});
        let sizes: Vec<_> = report.products.iter().map(|p| [p.m, p.k, p.n]).collect();
        assert_eq!(sizes, [[8, 8, 8], [16, 3 * 128, 128]]);
        assert!(report.products.iter().all(|p| p.ms > 0.0 && p.gflops.is_finite()));
    }
}
