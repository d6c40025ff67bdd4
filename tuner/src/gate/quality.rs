//! A format pair's error in output space.

use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::reference::output_error;
use tilewright_kernels::{Format, Scaling};

use crate::operands;

/// Tokens of the activation that errors are measured with.
const TOKENS: usize = 16;
/// Output channels that errors are measured on, spread over the weight.
const CHANNELS: usize = 256;

/// Relative error of the output, ‖D_q − D‖_F / ‖D‖_F over up to 256 output channels spread over N, of multiplying in
/// `activation`/`weight` formats instead of on the un-quantised operands. The activation is random with outlier
/// channels; the weight is what is given.
pub fn quality(values: &[f32], n: usize, k: usize, activation: Format, weight: Format, seed: u64) -> f64 {
    let step = n.div_ceil(CHANNELS).max(1);
    let rows: Vec<f32> =
        (0..n).step_by(step).flat_map(|row| &values[row * k..(row + 1) * k]).copied().collect();
    let sampled = rows.len() / k;
    let tokens = operands::activation(TOKENS, k, seed);
    let options = QuantizeOptions::default();
    let quantized = Quantized::quantize(&rows, sampled, k, weight, Scaling::usual(weight), &options)
        .expect("the declaration was checked: K fits the format");
    output_error(&tokens, &rows, &quantized, activation)
}
