//! The work of quantising: scales and codes of whole rows, spread over the cores.

use std::thread;

use crate::format::e8m0::ScaleRule;
use crate::format::quantize::{QuantizeOptions, Quantized};
use crate::format::{Format, MX_BLOCK, aiter, e8m0, hadamard, pack};
use crate::problem::Scaling;

/// Fills in scales and codes of a matrix whose vectors already have their lengths, on as many threads as its size is
/// worth.
pub(super) fn fill(made: &mut Quantized, values: &[f32]) {
    let (format, scaling, k, options) = (made.format, made.scaling, made.k, made.options);
    if values.is_empty() {
        return;
    }
    let per_row =
        [k, format.row_bytes(k), (scaling == Scaling::Channel) as usize, made.block_scales.len() / made.rows];
    let work = |part: Part<'_>, tensor: f32| {
        let mut scratch = Vec::new();
        let [k, bytes, _, blocks] = per_row;
        for (row, (values, codes)) in
            part.values.chunks_exact(k).zip(part.codes.chunks_exact_mut(bytes)).enumerate()
        {
            let values = rotated(values, &options, &mut scratch);
            match scaling {
                Scaling::None => encode_bf16(values, codes),
                Scaling::Tensor => encode_scaled(values, format, tensor, codes),
                Scaling::Channel => {
                    part.scales[row] = scale_of(finite_amax(values), format);
                    encode_scaled(values, format, part.scales[row], codes);
                }
                Scaling::Block32 => {
                    let scales = &mut part.block_scales[row * blocks..][..blocks];
                    encode_blocks(values, format, options.rule, codes, scales);
                }
            }
        }
    };
    let mut tensor = 1.0;
    let mut scales: &mut [f32] = &mut made.scales;
    if scaling == Scaling::Tensor {
        tensor = tensor_scale(values, format, &options);
        scales[0] = tensor;
        scales = &mut [];
    }
    let mut rest = Part { values, codes: &mut made.codes, scales, block_scales: &mut made.block_scales };
    let share = made.rows.div_ceil(worth_threads(values.len()));
    thread::scope(|scope| {
        while rest.values.len() > share * k {
            let (part, left) = rest.split(per_row.map(|of_row| of_row * share));
            rest = left;
            scope.spawn(move || work(part, tensor));
        }
        work(rest, tensor);
    });
}

/// Neighbouring rows of the input with the place for their codes and scales.
struct Part<'a> {
    values: &'a [f32],
    codes: &'a mut [u8],
    scales: &'a mut [f32],
    block_scales: &'a mut [u8],
}

impl<'a> Part<'a> {
    fn split(self, at: [usize; 4]) -> (Part<'a>, Part<'a>) {
        let (values, values_left) = self.values.split_at(at[0]);
        let (codes, codes_left) = self.codes.split_at_mut(at[1]);
        let (scales, scales_left) = self.scales.split_at_mut(at[2]);
        let (block_scales, blocks_left) = self.block_scales.split_at_mut(at[3]);
        (
            Part { values, codes, scales, block_scales },
            Part { values: values_left, codes: codes_left, scales: scales_left, block_scales: blocks_left },
        )
    }
}

/// Threads for work over that many elements: one for each 256 Ki, at most one a core.
pub(crate) fn worth_threads(elements: usize) -> usize {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    (elements >> 18).clamp(1, cores)
}

/// A row as it is quantised: rotated into `scratch` where the options say so.
fn rotated<'a>(row: &'a [f32], options: &QuantizeOptions, scratch: &'a mut Vec<f32>) -> &'a [f32] {
    if !options.hadamard {
        return row;
    }
    scratch.clear();
    scratch.extend_from_slice(row);
    hadamard::rotate_row(scratch, options.rule);
    scratch
}

fn tensor_scale(values: &[f32], format: Format, options: &QuantizeOptions) -> f32 {
    if !options.hadamard {
        return scale_of(finite_amax(values), format);
    }
    let mut amax = 0.0_f32;
    let mut block = Vec::with_capacity(MX_BLOCK);
    for given in values.chunks_exact(MX_BLOCK) {
        amax = amax.max(finite_amax(rotated(given, options, &mut block)));
    }
    scale_of(amax, format)
}

/// The largest finite magnitude, 0 if there is none.
pub(crate) fn finite_amax(values: &[f32]) -> f32 {
    let bits = values.iter().map(|value| value.to_bits() & 0x7fff_ffff);
    f32::from_bits(bits.map(|bits| if bits < 0x7f80_0000 { bits } else { 0 }).max().unwrap_or(0))
}

pub(crate) fn scale_of(amax: f32, format: Format) -> f32 {
    if amax == 0.0 { 1.0 } else { (amax / format.max()).max(f32::MIN_POSITIVE) }
}

fn encode_bf16(row: &[f32], codes: &mut [u8]) {
    for (pair, &value) in codes.chunks_exact_mut(2).zip(row) {
        pair.copy_from_slice(&Format::Bf16.encode(value).to_le_bytes());
    }
}

fn encode_scaled(row: &[f32], format: Format, scale: f32, codes: &mut [u8]) {
    let codec = format.codec();
    for (code, &value) in codes.iter_mut().zip(row) {
        let scaled = if value.is_finite() { value / scale } else { f32::NAN };
        *code = codec.encode(scaled) as u8;
    }
}

fn encode_blocks(row: &[f32], format: Format, rule: ScaleRule, codes: &mut [u8], scales: &mut [u8]) {
    let codec = format.codec();
    let packed = codes.chunks_exact_mut(format.row_bytes(MX_BLOCK));
    for ((values, packed), scale) in row.chunks_exact(MX_BLOCK).zip(packed).zip(scales) {
        // The order of magnitudes is the order of their bits, with infinity and NaN on top.
        let amax = values.iter().map(|value| value.to_bits() & 0x7fff_ffff).max().unwrap_or(0);
        *scale = rule.scale(f32::from_bits(amax), format);
        if *scale == e8m0::NAN {
            continue;
        }
        let factor = e8m0::reciprocal(*scale);
        let mut codes = [0; MX_BLOCK];
        for (code, &value) in codes.iter_mut().zip(values) {
            *code = match rule {
                ScaleRule::Ocp => codec.encode(value * factor) as u8,
                ScaleRule::Aiter => aiter::encode_e2m3(value * factor),
            };
        }
        pack::pack_block(&codes, format, packed);
    }
}
