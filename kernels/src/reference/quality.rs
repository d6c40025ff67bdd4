//! What a format costs: errors against the un-quantised operands, as relative errors in the Frobenius norm.
//!
//! [`weight_error`] is ‖W_q − W‖ / ‖W‖, the weight alone. [`output_error`] is ‖D_q − D‖ / ‖D‖, where D = A·Wᵀ of the
//! operands as given and D_q the product of what a kernel multiplies, both in f64: it weighs each weight by the
//! activation it meets, and counts the activation's own quantisation. For independent errors the two agree when the
//! activation is not quantised; outlier channels make them differ, which is why the second one is the gate.
//!
//! Both are 0 where the formats lose nothing. Where an operand is not finite, or the exact product is zero and the
//! quantised one is not, they are infinite, so that no limit accepts them.

use super::{product, snap_activation_for};
use crate::format::quantize::Quantized;
use crate::format::{Format, hadamard};

/// Rows of A that [`output_error`] uses at most.
pub const ERROR_ROWS: usize = 32;
/// Rows of W, columns of D, that [`output_error`] uses at most.
pub const ERROR_COLUMNS: usize = 128;

/// ‖W_q − W‖ / ‖W‖ over all of a weight. A rotated weight is compared with the rotation of `values`, which has the
/// same norm.
///
/// # Panics
/// If `values` is not of the weight's shape.
pub fn weight_error(values: &[f32], quantized: &Quantized) -> f64 {
    assert_eq!(values.len(), quantized.rows * quantized.k, "the values are not the weight's");
    if values.is_empty() {
        return 0.0;
    }
    let mut row = vec![0.0; quantized.k];
    let mut exact = vec![0.0; quantized.k];
    let (mut error, mut norm) = (0.0, 0.0);
    for (index, values) in values.chunks_exact(quantized.k).enumerate() {
        quantized.dequantize_row_f64(index, &mut row);
        exact.iter_mut().zip(values).for_each(|(exact, &value)| *exact = f64::from(value));
        if quantized.options.hadamard {
            hadamard::rotate_row_f64(&mut exact);
        }
        let (of_row, norm_of_row) = squares(&row, &exact);
        error += of_row;
        norm += norm_of_row;
    }
    relative(error, norm)
}

/// ‖D_q − D‖ / ‖D‖ over at most [`ERROR_ROWS`] rows and [`ERROR_COLUMNS`] columns of D, evenly spread.
///
/// `activation` is row-major with K columns, `values` the weight before quantisation, N × K. The activation is snapped
/// to format `a`, and rotated if the weight is.
///
/// # Panics
/// If the lengths do not fit the weight.
pub fn output_error(activation: &[f32], values: &[f32], weight: &Quantized, a: Format) -> f64 {
    let (n, k) = (weight.rows, weight.k);
    assert_eq!(values.len(), n * k, "the values are not the weight's");
    assert!(k > 0 && activation.len().is_multiple_of(k), "the activation is not rows of K");
    let rows = spread(activation.len() / k, ERROR_ROWS);
    let columns = spread(n, ERROR_COLUMNS);
    let sampled: Vec<f32> = rows.iter().flat_map(|&row| &activation[row * k..][..k]).copied().collect();
    let snapped = snap_activation_for(&sampled, rows.len(), k, a, weight);
    let shape = [rows.len(), columns.len(), k];
    let widen = |from: &[f32], to: &mut [f64]| {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = f64::from(from));
    };
    let exact = product::product(shape, &|row, to| widen(&sampled[row * k..][..k], to), &|column, to| {
        widen(&values[columns[column] * k..][..k], to)
    });
    let quantized = product::product(shape, &|row, to| snapped.dequantize_row_f64(row, to), &|column, to| {
        weight.dequantize_row_f64(columns[column], to)
    });
    let (error, norm) = squares(&quantized.d, &exact.d);
    relative(error, norm)
}

/// At most `count` of `0..n`, evenly spread from the first to the last.
pub(super) fn spread(n: usize, count: usize) -> Vec<usize> {
    match count {
        _ if count >= n => (0..n).collect(),
        0 => Vec::new(),
        1 => vec![0],
        _ => (0..count).map(|i| i * (n - 1) / (count - 1)).collect(),
    }
}

/// ‖x − exact‖² and ‖exact‖².
fn squares(x: &[f64], exact: &[f64]) -> (f64, f64) {
    x.iter().zip(exact).fold((0.0, 0.0), |(error, norm), (x, exact)| {
        let difference = x - exact;
        (error + difference * difference, norm + exact * exact)
    })
}

fn relative(error: f64, norm: f64) -> f64 {
    match (error / norm).sqrt() {
        _ if error == 0.0 => 0.0,
        finite if finite.is_finite() => finite,
        _ => f64::INFINITY,
    }
}
