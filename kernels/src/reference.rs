//! The float64 reference: what D has to be, and how far from it a kernel may land.
//!
//! D is computed in f64 over the *dequantised* operands, so a kernel is compared with the product it was asked for and
//! not with the error of its formats; that error has its own measure, see [`quality`]. The activation is taken as a
//! kernel takes it: rounded to bf16, or quantised row by row ([`snap_activation`]).
//!
//! Invariants: the result depends on neither the number of threads nor the blocking; the reference's own rounding,
//! at most (K/4 + 4) · 2^-53 of ‖a‖·‖w‖, is below 2^-16 of what [`check`] tolerates for K up to 2^16.

pub mod check;
mod product;
pub mod quality;

pub use check::Mismatch;
pub use quality::{output_error, weight_error};

use crate::format::Format;
use crate::format::e8m0::ScaleRule;
use crate::format::quantize::{QuantizeOptions, Quantized};
use crate::problem::{Epilogue, Problem, Scaling};

/// The columns of D that are computed and checked, always for all rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Every column.
    All,
    /// These columns, each below N.
    Columns(Vec<usize>),
}

impl Sample {
    /// At most `count` columns of `n`, evenly spread, the first and the last among them if `count` is at least 2.
    pub fn spread(n: usize, count: usize) -> Self {
        if count >= n { Sample::All } else { Sample::Columns(quality::spread(n, count)) }
    }

    fn columns(self, n: usize) -> Vec<usize> {
        match self {
            Sample::All => (0..n).collect(),
            Sample::Columns(columns) => columns,
        }
    }
}

/// D of one problem, or some columns of it, in f64.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Rows of D.
    m: usize,
    /// Columns of D.
    n: usize,
    /// The contracted dimension.
    k: usize,
    /// The columns computed.
    columns: Vec<usize>,
    /// Column after column, M values each.
    d: Vec<f64>,
    /// The Euclidean norm of each row of A.
    activation_norms: Vec<f64>,
    /// The Euclidean norm of each chosen row of B.
    weight_norms: Vec<f64>,
    /// The bias of each chosen column, 0 without one.
    bias: Vec<f64>,
    /// Whether both operands are FP8, and kernels may multiply them as such.
    coarse: bool,
}

impl Reference {
    /// Computes `epilogue(A · Bᵀ)` of a problem over the dequantised operands.
    ///
    /// `activation` is row-major M × K as the engine has it; it is snapped to `problem.a` here, rotated first if the
    /// weight was. `weight` is N rows of K. `bias` has N values, and is used with [`Epilogue::Bias`] only.
    ///
    /// # Panics
    /// If the problem has a [fault](Problem::fault), an operand's shape is not the problem's, the weight's format not
    /// `problem.b`, the bias is missing, or a sampled column is not below N.
    pub fn compute(
        problem: &Problem,
        activation: &[f32],
        weight: &Quantized,
        bias: Option<&[f32]>,
        sample: Sample,
    ) -> Reference {
        let (m, k) = (problem.m as usize, problem.k as usize);
        let activation = snap_activation_for(activation, m, k, problem.a, weight);
        Reference::of_operands(problem, &activation, weight, bias, sample)
    }

    /// As [`Reference::compute`], with an activation that is already in the form the kernel multiplies.
    ///
    /// # Panics
    /// As [`Reference::compute`], and if only one of the operands is rotated.
    pub fn of_operands(
        problem: &Problem,
        activation: &Quantized,
        weight: &Quantized,
        bias: Option<&[f32]>,
        sample: Sample,
    ) -> Reference {
        assert_eq!(problem.fault(), None, "{problem}");
        let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
        assert_eq!((activation.rows, activation.k), (m, k), "the activation is not M x K");
        assert_eq!(
            (weight.rows, weight.k, weight.format),
            (n, k, problem.b),
            "the weight is not the problem's"
        );
        assert_eq!(
            activation.options.hadamard, weight.options.hadamard,
            "a rotated operand needs the other rotated"
        );
        let columns = sample.columns(n);
        let bias: Vec<f64> = match problem.epilogue {
            Epilogue::None => vec![0.0; columns.len()],
            Epilogue::Bias => {
                let bias = bias.expect("a problem with a bias needs one");
                assert_eq!(bias.len(), n, "the bias has one value for each column");
                columns.iter().map(|&column| f64::from(bias[column])).collect()
            }
        };
        let mut product = product::product(
            [m, columns.len(), k],
            &|row, values| activation.dequantize_row_f64(row, values),
            &|index, values| weight.dequantize_row_f64(columns[index], values),
        );
        for (column, bias) in product.d.chunks_exact_mut(m).zip(&bias) {
            column.iter_mut().for_each(|d| *d += bias);
        }
        Reference {
            m,
            n,
            k,
            columns,
            d: product.d,
            activation_norms: product.a_norms,
            weight_norms: product.b_norms,
            bias,
            coarse: [problem.a, problem.b].iter().all(|format| format.bits() == 8 && !format.is_mx()),
        }
    }

    /// The columns it holds, in the order asked for.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// D at a row of the column that stands at `index` in [`Reference::columns`].
    pub fn value(&self, row: usize, index: usize) -> f64 {
        assert!(row < self.m, "row {row} of {}", self.m);
        self.d[index * self.m + row]
    }
}

/// An activation as a kernel that multiplies in format `a` sees it: rounded to bf16; with one scale per row in FP8
/// (amax / largest element, elements by division); by the OCP rule per 32 in MX.
///
/// # Panics
/// If there are not `m` × `k` values, or `k` is not a multiple of 32 for an MX format.
pub fn snap_activation(values: &[f32], m: usize, k: usize, a: Format) -> Quantized {
    snap(values, m, k, a, &QuantizeOptions::default())
}

/// The activation for one weight: as [`snap_activation`], but rotated, and by the weight's scale rule where that is
/// defined for `a`, if the weight is rotated.
///
/// # Panics
/// As [`snap_activation`], and if the weight is rotated and `k` is not a multiple of 32.
pub fn snap_activation_for(values: &[f32], m: usize, k: usize, a: Format, weight: &Quantized) -> Quantized {
    let QuantizeOptions { rule, hadamard } = weight.options;
    let rule = if hadamard && rule.fits(a) { rule } else { ScaleRule::Ocp };
    snap(values, m, k, a, &QuantizeOptions { rule, hadamard })
}

fn snap(values: &[f32], m: usize, k: usize, a: Format, options: &QuantizeOptions) -> Quantized {
    match Quantized::quantize(values, m, k, a, Scaling::usual(a), options) {
        Ok(snapped) => snapped,
        Err(error) => panic!("the activation cannot be snapped: {error}"),
    }
}
