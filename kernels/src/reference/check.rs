//! How far from the reference a kernel may land.
//!
//! A kernel rounds each product and each sum to f32 (unit roundoff u = 2^-24), in an order of its own. The tolerance
//! of an element d of D is
//!
//! ```text
//! c(K) · ‖a_m‖ · ‖w_n‖  +  2u · (|d| + |bias|)  +  2^-8 · |d| for bf16 output  +  what flushing subnormals may cost
//! ```
//!
//! By Cauchy–Schwarz ‖a‖·‖w‖ bounds Σ|a·w|, the scale that rounding errors go with: unlike |d| it does not vanish
//! where a sum cancels. The factor is
//!
//! ```text
//! c(K) = max(8u, min(u · (8 + 1.25·√K), 1/(4K)))
//! ```
//!
//! * 8u covers what happens once per product: the rounding of a dequantised weight, of a scale, of the product.
//! * 1.25·√K·u covers a single f32 accumulator that adds K products one after another. Rounding errors behave as
//!   independent (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput.
//!   41(5), 2019); in the worst case, all products of one sign, partial sums grow as k/K of the total and the error
//!   has a standard deviation of 0.24·√K·u. The factor allows five of them.
//! * 1/(4K) keeps that below a quarter of one typical product, ‖a‖·‖w‖/K, so that one element of K dropped or taken
//!   twice is found. Above K ≈ 22 000 this is the smaller one, and a kernel needs blocked or several partial sums to
//!   stay within it on data of one sign, as any kernel with vector lanes, split-K or a blocked K has.
//!
//! Where both operands are FP8, kernels may use tensor cores that multiply FP8. Those keep 13 or 14 bits of a sum of
//! products (NVIDIA Hopper: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.5.2; their libraries add such
//! sums in f32), so that only the last bound holds for them: c(K) = max(8u, 1/(4K)).
//!
//! For the last term, a kernel may flush subnormal inputs, products and partial sums to zero, as AVX512-BF16 does:
//! each costs at most 2^-126, or 2^-126 times the other factor.

use std::fmt;

use super::Reference;
use crate::format::Format;
use crate::problem::OutType;

/// The unit roundoff of f32.
const U: f64 = f64::EPSILON * (1u64 << 28) as f64;
/// The smallest normal f32.
const SMALLEST_NORMAL: f64 = f32::MIN_POSITIVE as f64;

/// The factor c(K) of ‖a‖·‖w‖ in the tolerance of a product of FP8 by FP8.
pub fn coarse_accumulation_factor(k: usize) -> f64 {
    (0.25 / k.max(1) as f64).max(8.0 * U)
}

/// The factor c(K) of ‖a‖·‖w‖ in the tolerance of every other product.
pub fn accumulation_factor(k: usize) -> f64 {
    let k = k.max(1) as f64;
    let sequential = U * (8.0 + 1.25 * k.sqrt());
    sequential.min(0.25 / k).max(8.0 * U)
}

impl Reference {
    /// Compares a kernel's D, row-major M × N and widened to f32, in every column the reference holds. Gives the
    /// largest error in units of its tolerance, at most 1.
    ///
    /// A NaN is right exactly where the reference has one, an infinity where the reference has the same one or a value
    /// too large for the output type. bf16 output has to hold bf16 values. Columns not sampled are not looked at.
    ///
    /// # Errors
    /// The first wrong element in row-major order, and how many there are.
    ///
    /// # Panics
    /// If `output` is not M × N.
    pub fn check(&self, output: &[f32], out: OutType) -> Result<f64, Mismatch> {
        assert_eq!(output.len(), self.m * self.n, "the output is not M x N");
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by_key(|&index| self.columns[index]);
        let mut worst = 0.0_f64;
        let mut first: Option<Mismatch> = None;
        let mut wrong = 0;
        for row in 0..self.m {
            for &index in &order {
                let column = self.columns[index];
                let got = output[row * self.n + column];
                let error = self.error(row, index, got, out);
                if error <= 1.0 {
                    worst = worst.max(error);
                    continue;
                }
                wrong += 1;
                first.get_or_insert_with(|| Mismatch {
                    row,
                    column,
                    expected: self.value(row, index),
                    got,
                    tolerance: self.tolerance(row, index, out),
                    wrong: 0,
                    checked: self.m * self.columns.len(),
                });
            }
        }
        match first {
            Some(first) => Err(Mismatch { wrong, ..first }),
            None => Ok(worst),
        }
    }

    /// How far D may be off at a row of the column at `index` in [`Reference::columns`].
    pub fn tolerance(&self, row: usize, index: usize, out: OutType) -> f64 {
        let (a, w, k) = (self.activation_norms[row], self.weight_norms[index], self.k as f64);
        let d = self.value(row, index).abs();
        let rounded = match out {
            OutType::F32 => 0.0,
            OutType::Bf16 => d / 256.0,
        };
        let flushed = SMALLEST_NORMAL * (2.0 * k + k.sqrt() * (a + w));
        let factor =
            if self.coarse { coarse_accumulation_factor(self.k) } else { accumulation_factor(self.k) };
        factor * a * w + 2.0 * U * (d + self.bias[index].abs()) + rounded + flushed
    }

    /// The error in units of the tolerance; infinite where no distance can say how wrong it is.
    fn error(&self, row: usize, index: usize, got: f32, out: OutType) -> f64 {
        let expected = self.value(row, index);
        let right = |right: bool| if right { 0.0 } else { f64::INFINITY };
        if !expected.is_finite() {
            return right(f64::from(got) == expected || (got.is_nan() && expected.is_nan()));
        }
        let tolerance = self.tolerance(row, index, out);
        if got.is_infinite() {
            let largest = match out {
                OutType::F32 => f32::MAX,
                OutType::Bf16 => Format::Bf16.max(),
            };
            let overflows = expected.abs() + tolerance > f64::from(largest);
            return right(overflows && expected.is_sign_negative() == got.is_sign_negative());
        }
        if got.is_nan() || (out == OutType::Bf16 && got.to_bits() & 0xffff != 0) {
            return f64::INFINITY;
        }
        (f64::from(got) - expected).abs() / tolerance
    }
}

/// An output that is not the product.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The row of the first wrong element.
    pub row: usize,
    /// Its column in D.
    pub column: usize,
    /// What the reference has there.
    pub expected: f64,
    /// What the kernel left there.
    pub got: f32,
    /// How far it might have been off.
    pub tolerance: f64,
    /// How many elements are wrong.
    pub wrong: usize,
    /// How many were checked.
    pub checked: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { row, column, expected, got, tolerance, wrong, checked } = self;
        write!(f, "D[{row}, {column}] is {got}, expected {expected:.9e} to within {tolerance:.1e}")?;
        if got.is_nan() {
            f.write_str(", perhaps never written")?;
        }
        write!(f, "; {wrong} of {checked} checked elements are wrong")
    }
}

impl std::error::Error for Mismatch {}
