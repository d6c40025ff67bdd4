//! The weight layout `mma64`, version 1: every lane's tensor-core fragments together, in 16-byte vectors, in the order
//! in which the CUDA kernels stream them.
//!
//! N is padded to slabs of 64 rows and K to 128, both with zero codes. A slab is four panels of 16 rows; of each step
//! of 128 along K it holds the four panels' supertiles (16 × 128), one after another, so that a kernel's tile of 64 or
//! more rows is a single piece of memory for each slab. A supertile holds four tiles of 16 × 32; in each, lane `4g + t` (g < 8, t < 4) owns of rows `g` and `g + 8` the
//! eight elements at k = 8p + 2t and 8p + 2t + 1, p = 0 … 3: its fragments of two steps of `mma.m16n8k16` or
//! `wgmma.m64nNk16`. Vector `v` of lane `l` lies at byte `512·v + 16·l`.
//!
//! * bf16, 4096 bytes, 8 vectors: tile `j` is vectors 2j (row g) and 2j+1 (row g+8), eight elements each.
//! * E4M3, 2048 bytes, 4 vectors: tile `j` is vector j: words 0, 1 of row g, words 2, 3 of row g+8. The bytes of a word
//!   are the elements 0, 2, 1, 3 of four, so that a mask takes two neighbours apart.
//! * MXFP6, 1600 bytes, 3 vectors and 64 bytes of scales: tile `j` is the lane's words 3j, 3j+1, 3j+2. The first two
//!   hold the low four bits of rows g and g+8: pair `p` (elements 2p, 2p+1) at bit 4p of the low and the high half. The
//!   third holds the other two bits of the eight pairs `q` (row g+8 is 4 … 7), again for both halves: sign and top
//!   exponent bit at 15−q and 8−q (E2M3), 15−q and 9−q (E3M2), and where these collide at 1 and 0 for q = 7 and, in
//!   E3M2, at 3 and 2 for q = 6. Byte `4r + j` of the scales is row r, tile j.
//!
//! Beside the codes there is one f32 factor for each padded row. FP8: the channel's scale. MXFP6: the largest scale of
//! a block of the row that is not all zero; a block's byte is the exponent field of the bf16 2^x that takes its decoded
//! elements (value · 2^-126 in E2M3, · 2^-124 in E3M2) to value · scale / factor. A block more than 2^250 below the
//! factor becomes zero. A row with a NaN has factor NaN: whatever it is multiplied with, D is NaN.

use crate::cuda::families::{PANEL_ROWS, SLAB_ROWS, SUPER_K, is_weight};
use crate::family::Reject;
use crate::format::quantize::Quantized;
use crate::format::{Format, MX_BLOCK, e8m0, pack};
use crate::problem::Scaling;

const ROWS: usize = PANEL_ROWS as usize;
const PANELS: usize = (SLAB_ROWS / PANEL_ROWS) as usize;
const DEPTH: usize = SUPER_K as usize;
const TILES: usize = DEPTH / MX_BLOCK;

/// A weight in layout `mma64`.
#[derive(Clone, Debug, PartialEq)]
pub struct Mma64 {
    /// Supertiles, see the module's documentation.
    pub bytes: Vec<u8>,
    /// One factor for each row, padded to a multiple of 64.
    pub factors: Vec<f32>,
}

/// Bytes of a supertile, or `None` where the layout does not hold the format.
pub fn super_bytes(format: Format) -> Option<usize> {
    match format {
        Format::Bf16 => Some(4096),
        Format::Fp8E4m3 => Some(2048),
        Format::MxFp6E2m3 | Format::MxFp6E3m2 => Some(1600),
        _ => None,
    }
}

impl Mma64 {
    /// Packs a weight, on every core.
    ///
    /// # Errors
    /// If the layout does not hold the format, or the weight is rotated: the kernels do not rotate activations.
    pub fn pack(weight: &Quantized) -> Result<Mma64, Reject> {
        let Some(bytes) = super_bytes(weight.format).filter(|_| is_weight(weight.format)) else {
            return Err(Reject::problem("layout mma64 does not hold this weight format"));
        };
        if weight.options.hadamard {
            return Err(Reject::problem("the CUDA kernels do not take rotated weights"));
        }
        let slabs = weight.rows.div_ceil(PANELS * ROWS);
        let slab_bytes = weight.k.div_ceil(DEPTH) * PANELS * bytes;
        let mut packed =
            Mma64 { bytes: vec![0; slabs * slab_bytes], factors: vec![1.0; slabs * PANELS * ROWS] };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let share = slabs.div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let parts = packed
                .bytes
                .chunks_mut(share * slab_bytes)
                .zip(packed.factors.chunks_mut(share * PANELS * ROWS));
            for (part, (to, factors)) in parts.enumerate() {
                scope.spawn(move || {
                    let slabs = to.chunks_exact_mut(slab_bytes).zip(factors.chunks_exact_mut(PANELS * ROWS));
                    for (i, (slab, factors)) in slabs.enumerate() {
                        pack_slab(weight, (part * share + i) * PANELS * ROWS, slab, factors);
                    }
                });
            }
        });
        Ok(packed)
    }
}

/// Packs the 64 rows from `first` on.
fn pack_slab(weight: &Quantized, first: usize, slab: &mut [u8], factors: &mut [f32]) {
    let super_bytes = super_bytes(weight.format).unwrap_or(1);
    let mut codes = vec![0u16; weight.k.next_multiple_of(DEPTH)];
    for (r, factor) in factors.iter_mut().enumerate().take(weight.rows - first) {
        let row = first + r;
        unpack(weight, row, &mut codes);
        let (panel, r) = (r / ROWS, r % ROWS);
        let supers = slab.chunks_exact_mut(super_bytes).skip(panel).step_by(PANELS);
        for (to, codes) in supers.zip(codes.chunks_exact(DEPTH)) {
            match weight.format {
                Format::Bf16 => put_bf16(to, r, codes),
                Format::Fp8E4m3 => put_fp8(to, r, codes),
                format => put_fp6(to, r, codes, format),
            }
        }
        *factor = match weight.format {
            Format::Bf16 => 1.0,
            Format::Fp8E4m3 if codes.iter().any(|c| c & 0x7f == 0x7f) => f32::NAN,
            Format::Fp8E4m3 => weight.scales[if weight.scaling == Scaling::Tensor { 0 } else { row }],
            _ => put_scales(weight, row, &codes, |block, field| {
                slab[(block / TILES * PANELS + panel) * super_bytes + 1536 + 4 * r + block % TILES] = field;
            }),
        };
    }
}

/// The codes of a row, followed by zeros.
fn unpack(weight: &Quantized, row: usize, codes: &mut [u16]) {
    let bytes = weight.row_codes(row);
    match weight.format {
        Format::Bf16 => {
            for (code, pair) in codes.iter_mut().zip(bytes.chunks_exact(2)) {
                *code = u16::from_le_bytes([pair[0], pair[1]]);
            }
        }
        Format::Fp8E4m3 => codes.iter_mut().zip(bytes).for_each(|(code, &byte)| *code = byte.into()),
        format => {
            for (codes, packed) in codes.chunks_exact_mut(4).zip(bytes.chunks_exact(3)) {
                let word = u32::from_le_bytes([packed[0], packed[1], packed[2], 0]);
                for (i, code) in codes.iter_mut().enumerate() {
                    *code = (word >> (6 * i)) as u16 & 0x3f;
                }
            }
            debug_assert_eq!(codes[weight.k - 1], pack::get(bytes, format, weight.k - 1));
        }
    }
}

/// Where the lane that owns row `r` and element `k` (below 32) of a tile lies in a vector, and its element of 8.
const fn owner(r: usize, k: usize) -> (usize, usize) {
    (4 * (r % 8) + k % 8 / 2, k / 8 * 2 + k % 2)
}

fn put_bf16(to: &mut [u8], r: usize, codes: &[u16]) {
    for (k, code) in codes.iter().enumerate() {
        let (lane, e) = owner(r, k % MX_BLOCK);
        let at = 512 * (2 * (k / MX_BLOCK) + r / 8) + 16 * lane + 2 * e;
        to[at..at + 2].copy_from_slice(&code.to_le_bytes());
    }
}

fn put_fp8(to: &mut [u8], r: usize, codes: &[u16]) {
    for (k, code) in codes.iter().enumerate() {
        let (lane, e) = owner(r, k % MX_BLOCK);
        let byte = [0, 2, 1, 3][e % 4];
        to[512 * (k / MX_BLOCK) + 16 * lane + 8 * (r / 8) + 4 * (e / 4) + byte] = *code as u8;
    }
}

/// Bits of sign and top exponent bit of pair `q` in a half of the third word.
const fn high_bits(format: Format, q: usize) -> (usize, usize) {
    match (format, q) {
        (_, 7) => (1, 0),
        (Format::MxFp6E3m2, 6) => (3, 2),
        (Format::MxFp6E3m2, _) => (15 - q, 9 - q),
        _ => (15 - q, 8 - q),
    }
}

fn put_fp6(to: &mut [u8], r: usize, codes: &[u16], format: Format) {
    for (k, &code) in codes.iter().enumerate() {
        let (lane, e) = owner(r, k % MX_BLOCK);
        let (pair, half) = (e / 2, e % 2);
        let mut or = |word: usize, bits: u32| {
            let at = 512 * (word / 4) + 16 * lane + 4 * (word % 4);
            let old = u32::from_le_bytes([to[at], to[at + 1], to[at + 2], to[at + 3]]);
            to[at..at + 4].copy_from_slice(&(old | bits << (16 * half)).to_le_bytes());
        };
        let (code, tile) = (u32::from(code), k / MX_BLOCK);
        let (sign, top) = high_bits(format, 4 * (r / 8) + pair);
        or(3 * tile + r / 8, (code & 15) << (4 * pair));
        or(3 * tile + 2, (code >> 5) << sign | (code >> 4 & 1) << top);
    }
}

/// Hands each block's byte to `put`, and gives the row's factor.
fn put_scales(weight: &Quantized, row: usize, codes: &[u16], mut put: impl FnMut(usize, u8)) -> f32 {
    let blocks = weight.k / MX_BLOCK;
    let scales = &weight.block_scales[row * blocks..(row + 1) * blocks];
    let is_zero = |block: usize| codes[block * MX_BLOCK..][..MX_BLOCK].iter().all(|c| c & 0x1f == 0);
    let largest = (0..blocks).filter(|&b| !is_zero(b)).map(|b| scales[b]).max().unwrap_or(127);
    let one = if weight.format == Format::MxFp6E2m3 { 253 } else { 251 };
    for (b, &scale) in scales.iter().enumerate() {
        let field = if scale > largest { 0 } else { (one + i32::from(scale) - i32::from(largest)).max(0) };
        put(b, field as u8);
    }
    if scales.contains(&e8m0::NAN) { f32::NAN } else { e8m0::decode(largest) }
}
