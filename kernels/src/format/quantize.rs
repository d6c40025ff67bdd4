//! Whole operands in a format.

use crate::format::Format;
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
}
