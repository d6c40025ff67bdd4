//! The loops that need the host's vector instructions to be fast, with a portable form of each.

use crate::isa::{LANES, Lanes};
use crate::small_float::{SmallFloat, Special};

/// Defines a function that runs `$body` compiled for the best vector instructions of the host.
macro_rules! vectorised {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) => $body:ident) => {
        $(#[$doc])*
        pub(crate) fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn avx512($($arg: $ty),*) {
                    $body($($arg),*);
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) {
                    $body($($arg),*);
                }
                match level() {
                    // SAFETY: the functions need nothing but the features, which `level` found.
                    2 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    1 => return unsafe { avx2($($arg),*) },
                    _ => {}
                }
            }
            $body($($arg),*);
        }
    };
}

/// 2: AVX-512, 1: AVX2 and FMA, 0: neither.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn level() -> u8 {
    use std::arch::is_x86_feature_detected as has;
    if has!("avx512f")
        && has!("avx512bw")
        && has!("avx512dq")
        && has!("avx512vl")
        && has!("avx2")
        && has!("fma")
    {
        2
    } else if has!("avx2") && has!("fma") {
        1
    } else {
        0
    }
}

vectorised! {
    /// `v_fma_f32` over a wave: one rounding.
    fn fma32(a: &Lanes, b: &Lanes, c: &Lanes, d: &mut Lanes) => fma32_lanes
}

#[inline(always)]
fn fma32_lanes(a: &Lanes, b: &Lanes, c: &Lanes, d: &mut Lanes) {
    for i in 0..LANES {
        d[i] = f32::from_bits(a[i]).mul_add(f32::from_bits(b[i]), f32::from_bits(c[i])).to_bits();
    }
}

/// `d[i][j] += Σ_k a[k][i] · b[k][j]` for one `dim` × `dim` tile, k ascending, one fused multiply-add a step.
///
/// `a` and `b` are `k` rows of `dim`, `d` is `dim` rows of `dim`; `dim` is 4, 16 or 32.
pub(crate) fn tile_f32(dim: usize, k: usize, a: &[f32], b: &[f32], d: &mut [f32]) {
    assert!(a.len() == k * dim && b.len() == k * dim && d.len() == dim * dim);
    #[cfg(target_arch = "x86_64")]
    if dim.is_multiple_of(16) {
        match level() {
            // SAFETY: `level` found the features; the sizes were checked above.
            2 => return unsafe { x86::tile_avx512(dim, a, b, d) },
            // SAFETY: as above.
            1 => return unsafe { x86::tile_avx2(dim, a, b, d) },
            _ => {}
        }
    }
    for (a, b) in a.chunks_exact(dim).zip(b.chunks_exact(dim)) {
        for (d, &a) in d.chunks_exact_mut(dim).zip(a) {
            for (d, &b) in d.iter_mut().zip(b) {
                *d = a.mul_add(b, *d);
            }
        }
    }
}

/// The tile with the accumulators held in registers, which the compiler does not find by itself.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// 16 × 16 accumulators at a time. `dim` is a multiple of 16; a, b and d hold whole rows.
    ///
    /// # Safety
    /// The host has AVX-512F, and `d` has `dim` rows of `dim`.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn tile_avx512(dim: usize, a: &[f32], b: &[f32], d: &mut [f32]) {
        for i in (0..dim).step_by(16) {
            for j in (0..dim).step_by(16) {
                let mut sum = [_mm512_setzero_ps(); 16];
                for (r, sum) in sum.iter_mut().enumerate() {
                    // SAFETY: 16 elements from row i + r, column j lie in d, as i and j are at most dim - 16.
                    *sum = unsafe { _mm512_loadu_ps(d.as_ptr().add((i + r) * dim + j)) };
                }
                for (a, b) in a.chunks_exact(dim).zip(b.chunks_exact(dim)) {
                    let a: &[f32; 16] = a[i..i + 16].try_into().expect("16 rows");
                    // SAFETY: 16 elements from column j lie in this row of b.
                    let b = unsafe { _mm512_loadu_ps(b.as_ptr().add(j)) };
                    for r in 0..16 {
                        sum[r] = _mm512_fmadd_ps(_mm512_set1_ps(a[r]), b, sum[r]);
                    }
                }
                for (r, &sum) in sum.iter().enumerate() {
                    // SAFETY: as at the load.
                    unsafe { _mm512_storeu_ps(d.as_mut_ptr().add((i + r) * dim + j), sum) };
                }
            }
        }
    }

    /// 8 × 8 accumulators at a time.
    ///
    /// # Safety
    /// The host has AVX2 and FMA, and `d` has `dim` rows of `dim`.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn tile_avx2(dim: usize, a: &[f32], b: &[f32], d: &mut [f32]) {
        for i in (0..dim).step_by(8) {
            for j in (0..dim).step_by(8) {
                let mut sum = [_mm256_setzero_ps(); 8];
                for (r, sum) in sum.iter_mut().enumerate() {
                    // SAFETY: 8 elements from row i + r, column j lie in d, as i and j are at most dim - 8.
                    *sum = unsafe { _mm256_loadu_ps(d.as_ptr().add((i + r) * dim + j)) };
                }
                for (a, b) in a.chunks_exact(dim).zip(b.chunks_exact(dim)) {
                    let a: &[f32; 8] = a[i..i + 8].try_into().expect("8 rows");
                    // SAFETY: 8 elements from column j lie in this row of b.
                    let b = unsafe { _mm256_loadu_ps(b.as_ptr().add(j)) };
                    for r in 0..8 {
                        sum[r] = _mm256_fmadd_ps(_mm256_set1_ps(a[r]), b, sum[r]);
                    }
                }
                for (r, &sum) in sum.iter().enumerate() {
                    // SAFETY: as at the load.
                    unsafe { _mm256_storeu_ps(d.as_mut_ptr().add((i + r) * dim + j), sum) };
                }
            }
        }
    }
}

/// Decodes one small float a lane, without branches.
pub(crate) struct Decoder {
    format: SmallFloat,
    /// Magnitudes above this are NaN, this one itself is infinite.
    infinite: u32,
    nan_above: u32,
    /// Negative zero is NaN.
    fnuz: bool,
    /// Value of a subnormal's last place.
    unit: f32,
}

impl Decoder {
    pub(crate) fn new(format: SmallFloat) -> Self {
        let (infinite, nan_above) = match format.special {
            Special::Ieee => (format.max_pattern() + 1, format.max_pattern() + 1),
            Special::NanOnly => (u32::MAX, format.max_pattern()),
            Special::Fnuz | Special::Finite => (u32::MAX, u32::MAX),
        };
        let unit = 2f64.powi(1 - format.bias - format.mantissa_bits as i32) as f32;
        Self { format, infinite, nan_above, fnuz: format.special == Special::Fnuz, unit }
    }

    /// The values of the fields that begin at bit `shift` of each word.
    pub(crate) fn run(&self, words: &Lanes, shift: u32, out: &mut [f32; LANES]) {
        decode(self, words, shift, out);
    }
}

vectorised! {
    fn decode(decoder: &Decoder, words: &Lanes, shift: u32, out: &mut [f32; LANES]) => decode_lanes
}

#[inline(always)]
fn decode_lanes(decoder: &Decoder, words: &Lanes, shift: u32, out: &mut [f32; LANES]) {
    let SmallFloat { mantissa_bits, bias, .. } = decoder.format;
    let top = decoder.format.bits() - 1;
    let (mask, up, rebias) = ((1u32 << top) - 1, 23 - mantissa_bits, ((127 - bias) as u32) << 23);
    for (out, &word) in out.iter_mut().zip(words) {
        let pattern = word >> shift;
        let (magnitude, sign) = (pattern & mask, pattern >> top & 1);
        let normal = (magnitude << up).wrapping_add(rebias);
        let subnormal = (magnitude as i32 as f32 * decoder.unit).to_bits();
        let finite = if magnitude >> mantissa_bits == 0 { subnormal } else { normal };
        let bits = if magnitude == decoder.infinite { 0x7f80_0000 } else { finite };
        let bits = if magnitude > decoder.nan_above || (decoder.fnuz && sign == 1 && magnitude == 0) {
            0x7fc0_0000
        } else {
            bits
        };
        *out = f32::from_bits(bits | sign << 31);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_float::{BF16, E2M1, E2M3, E3M2, E4M3, E4M3_FNUZ, E5M2, E5M2_FNUZ, F16};

    #[test]
    fn a_tile_is_the_sum_of_products_for_every_size() {
        for (dim, k) in [(4, 1), (16, 32), (32, 16), (16, 128)] {
            let a: Vec<f32> = (0..dim * k).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
            let b: Vec<f32> = (0..dim * k).map(|i| (i * 5 % 13) as f32 - 6.0).collect();
            let mut d: Vec<f32> = (0..dim * dim).map(|i| i as f32).collect();
            tile_f32(dim, k, &a, &b, &mut d);
            #[cfg(target_arch = "x86_64")]
            if dim >= 16
                && std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("fma")
            {
                let mut again: Vec<f32> = (0..dim * dim).map(|i| i as f32).collect();
                // SAFETY: the features were just found, and the sizes are those of the tile.
                unsafe { x86::tile_avx2(dim, &a, &b, &mut again) };
                assert_eq!(again, d);
            }
            for i in 0..dim {
                for j in 0..dim {
                    let dot: f32 = (0..k).map(|s| a[s * dim + i] * b[s * dim + j]).sum();
                    assert_eq!(d[i * dim + j], (i * dim + j) as f32 + dot);
                }
            }
        }
    }

    #[test]
    fn multiply_add_rounds_once_in_every_lane() {
        let x = (1.0f32 + 2f32.powi(-12)).to_bits();
        let (a, c) = ([x; LANES], [(-(1.0f32 + 2f32.powi(-11))).to_bits(); LANES]);
        let mut d = [0; LANES];
        fma32(&a, &a, &c, &mut d);
        assert_eq!(d, [2f32.powi(-24).to_bits(); LANES]);
    }

    #[test]
    fn every_pattern_of_every_format_decodes_as_the_plain_decoder_says() {
        for format in [F16, BF16, E4M3, E5M2, E4M3_FNUZ, E5M2_FNUZ, E2M3, E3M2, E2M1] {
            let decoder = Decoder::new(format);
            for first in (0..1u32 << format.bits()).step_by(LANES) {
                let shift = 32 - format.bits();
                let words = std::array::from_fn(|i| (first + i as u32) << shift | 0x5);
                let mut out = [0.0; LANES];
                decoder.run(&words, shift, &mut out);
                for (i, &out) in out.iter().enumerate() {
                    let want = format.decode((first + i as u32) & ((1 << format.bits()) - 1));
                    assert!(
                        out.to_bits() == want.to_bits() || out.is_nan() && want.is_nan(),
                        "{format:?} {first} {i}"
                    );
                }
            }
        }
    }
}
