//! Whole operands in a format: a matrix is quantised once, row by row, and read back exactly.
//!
//! FP8 has one f32 scale for the matrix or for each row, amax / largest element; an element is the value divided by
//! it. MX has one power of two for each 32 elements along K, by a [`ScaleRule`]; bf16 has none. Every dequantised
//! element is code value × scale, and both factors are exact in f64, so the reference adds no error of its own.
//!
//! Non-finite input stays visible. In FP8 an infinity or NaN becomes a NaN element and does not take part in amax; in
//! MX it makes its block NaN through the scale; bf16 keeps it as it is.

use std::fmt;

use crate::format::e8m0::ScaleRule;
use crate::format::{Format, MX_BLOCK, e8m0, encode, pack};
use crate::problem::Scaling;

/// A matrix of `rows` × `k` elements in a format: dense row-major codes and their scales.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// Element format.
    pub format: Format,
    /// Granularity of the scales.
    pub scaling: Scaling,
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub k: usize,
    /// Codes, `format.row_bytes(k)` bytes a row.
    pub codes: Vec<u8>,
    /// f32 scales: none, one, or one per row, by `scaling`.
    pub scales: Vec<f32>,
    /// E8M0 scales of an MX format, row-major `rows` × `k/32`; else empty.
    pub block_scales: Vec<u8>,
    /// How it was made. With `hadamard` its elements are those of the rotated matrix, and only a product with an
    /// operand that was rotated too means anything.
    pub options: QuantizeOptions,
}

/// What may be chosen when a matrix is quantised. The default is the OCP rule without rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QuantizeOptions {
    /// How MX scales are chosen; of no effect in other formats.
    pub rule: ScaleRule,
    /// Whether every 32 elements along K are rotated first, see [`crate::format::hadamard`].
    pub hadamard: bool,
}

impl Quantized {
    /// Quantises a row-major `rows` × `k` matrix.
    ///
    /// A row (or matrix) of FP8 whose finite elements are all zero has scale 1. A scale never is subnormal: below
    /// `max · 2^-126` it stays at 2^-126, and precision is lost instead.
    ///
    /// # Errors
    /// If the lengths do not fit, the format does not allow this K or granularity, or the options do not fit the
    /// format.
    pub fn quantize(
        values: &[f32],
        rows: usize,
        k: usize,
        format: Format,
        scaling: Scaling,
        options: &QuantizeOptions,
    ) -> Result<Self, QuantizeError> {
        if rows.checked_mul(k) != Some(values.len()) {
            return Err(QuantizeError::Length { rows, k, given: values.len() });
        }
        if !k.is_multiple_of(MX_BLOCK) && (format.is_mx() || options.hadamard) {
            return Err(QuantizeError::PartialBlock { format, k });
        }
        if !scaling.fits(format) {
            return Err(QuantizeError::Scaling { format, scaling });
        }
        if !options.rule.fits(format) {
            return Err(QuantizeError::Rule { format, rule: options.rule });
        }
        let blocks = if format.is_mx() { k / MX_BLOCK } else { 0 };
        let scales = match scaling {
            Scaling::None | Scaling::Block32 => 0,
            Scaling::Tensor => 1,
            Scaling::Channel => rows,
        };
        let mut made = Quantized {
            format,
            scaling,
            rows,
            k,
            codes: vec![0; rows * format.row_bytes(k)],
            scales: vec![1.0; scales],
            block_scales: vec![0; rows * blocks],
            options: *options,
        };
        encode::fill(&mut made, values);
        Ok(made)
    }

    /// The code of an element.
    pub fn code(&self, row: usize, k: usize) -> u16 {
        assert!(k < self.k, "element {k} of a row of {}", self.k);
        pack::get(self.row_codes(row), self.format, k)
    }

    /// The scale of an element: 1 in bf16.
    pub fn scale(&self, row: usize, k: usize) -> f64 {
        match self.scaling {
            Scaling::None => 1.0,
            Scaling::Tensor => f64::from(self.scales[0]),
            Scaling::Channel => f64::from(self.scales[row]),
            Scaling::Block32 => e8m0::decode_f64(self.block_scales[row * (self.k / MX_BLOCK) + k / MX_BLOCK]),
        }
    }

    /// The dequantised element: code value × scale, exact.
    pub fn element(&self, row: usize, k: usize) -> f64 {
        f64::from(self.format.decode(self.code(row, k))) * self.scale(row, k)
    }

    /// Dequantises a row into `values`, exactly.
    ///
    /// # Panics
    /// If `values` does not hold K elements.
    pub fn dequantize_row_f64(&self, row: usize, values: &mut [f64]) {
        assert_eq!(values.len(), self.k, "a row has K elements");
        let codes = self.row_codes(row);
        let Some(table) = self.format.table() else {
            for (value, pair) in values.iter_mut().zip(codes.chunks_exact(2)) {
                *value = f64::from(Format::Bf16.decode(u16::from_le_bytes([pair[0], pair[1]])));
            }
            return;
        };
        if !self.format.is_mx() {
            let scale = self.scale(row, 0);
            for (value, &code) in values.iter_mut().zip(codes) {
                *value = f64::from(table[code as usize]) * scale;
            }
            return;
        }
        let mut unpacked = [0; MX_BLOCK];
        let packed = codes.chunks_exact(self.format.row_bytes(MX_BLOCK));
        for (block, (values, packed)) in values.chunks_exact_mut(MX_BLOCK).zip(packed).enumerate() {
            pack::unpack_block(packed, self.format, &mut unpacked);
            let scale = self.scale(row, block * MX_BLOCK);
            for (value, &code) in values.iter_mut().zip(&unpacked) {
                *value = f64::from(table[code as usize]) * scale;
            }
        }
    }

    /// The packed codes of a row.
    pub fn row_codes(&self, row: usize) -> &[u8] {
        let bytes = self.format.row_bytes(self.k);
        &self.codes[row * bytes..(row + 1) * bytes]
    }

    /// Bytes of codes and scales together.
    pub fn storage_bytes(&self) -> usize {
        self.codes.len() + size_of_val(&self.scales[..]) + self.block_scales.len()
    }
}

/// Why a matrix cannot be quantised as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuantizeError {
    /// The values are not `rows` × `k`.
    Length {
        /// Rows asked for.
        rows: usize,
        /// Elements of a row asked for.
        k: usize,
        /// Values given.
        given: usize,
    },
    /// K is not a multiple of 32, which MX formats and the rotation need.
    PartialBlock {
        /// The format asked for.
        format: Format,
        /// Elements of a row.
        k: usize,
    },
    /// The format has no scales of that granularity.
    Scaling {
        /// The format asked for.
        format: Format,
        /// The granularity asked for.
        scaling: Scaling,
    },
    /// The scale rule is not defined for the format.
    Rule {
        /// The format asked for.
        format: Format,
        /// The rule asked for.
        rule: ScaleRule,
    },
}

impl fmt::Display for QuantizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuantizeError::Length { rows, k, given } => {
                write!(f, "{given} values given for {rows} rows of {k}")
            }
            QuantizeError::PartialBlock { format, k } => {
                let needy = if format.is_mx() { format.name() } else { "the rotation" };
                write!(f, "K = {k} is not a multiple of {MX_BLOCK}, which {needy} needs")
            }
            QuantizeError::Scaling { format, scaling } => {
                write!(f, "{format} has no scales of granularity {scaling}")
            }
            QuantizeError::Rule { format, rule } => {
                write!(f, "scale rule {rule} is not defined for {format}")
            }
        }
    }
}

impl std::error::Error for QuantizeError {}
