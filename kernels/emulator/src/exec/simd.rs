//! The two loops that need the host's fused multiply-add to be fast, with a portable form of each.

use crate::isa::{LANES, Lanes};

/// `v_fma_f32` over a wave: one rounding.
pub(crate) fn fma32(a: &Lanes, b: &Lanes, c: &Lanes, d: &mut Lanes) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the function needs nothing but the feature, which was just found.
        return unsafe { fma32_x86(a, b, c, d) };
    }
    fma32_lanes(a, b, c, d);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn fma32_x86(a: &Lanes, b: &Lanes, c: &Lanes, d: &mut Lanes) {
    fma32_lanes(a, b, c, d);
}

#[inline(always)]
fn fma32_lanes(a: &Lanes, b: &Lanes, c: &Lanes, d: &mut Lanes) {
    for i in 0..LANES {
        d[i] = f32::from_bits(a[i]).mul_add(f32::from_bits(b[i]), f32::from_bits(c[i])).to_bits();
    }
}

/// `d[i][j] += Σ_k a[i][k] · b[k][j]` for one `dim` × `dim` tile, k ascending, one fused multiply-add a step.
///
/// `a` is `dim` × `k` and `b` is `k` × `dim`, row by row; `dim` is 4, 16 or 32.
pub(crate) fn tile_f32(dim: usize, k: usize, a: &[f32], b: &[f32], d: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if dim >= 16 {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: as above.
            return unsafe { tile_avx512(dim, k, a, b, d) };
        }
        if std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: as above.
            return unsafe { tile_avx2(dim, k, a, b, d) };
        }
    }
    for i in 0..dim {
        for j in 0..dim {
            let mut sum = d[i * dim + j];
            for s in 0..k {
                sum = a[i * k + s].mul_add(b[s * dim + j], sum);
            }
            d[i * dim + j] = sum;
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
fn tile_avx512(dim: usize, k: usize, a: &[f32], b: &[f32], d: &mut [f32]) {
    tile_lanes::<8>(dim, k, a, b, d);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn tile_avx2(dim: usize, k: usize, a: &[f32], b: &[f32], d: &mut [f32]) {
    tile_lanes::<4>(dim, k, a, b, d);
}

/// `ROWS` rows by 16 columns at a time stay in registers.
#[inline(always)]
fn tile_lanes<const ROWS: usize>(dim: usize, k: usize, a: &[f32], b: &[f32], d: &mut [f32]) {
    for i in (0..dim).step_by(ROWS) {
        for j in (0..dim).step_by(16) {
            let mut sum = [[0f32; 16]; ROWS];
            for r in 0..ROWS {
                sum[r].copy_from_slice(&d[(i + r) * dim + j..][..16]);
            }
            for s in 0..k {
                let row: &[f32; 16] = b[s * dim + j..][..16].try_into().expect("16 columns");
                for r in 0..ROWS {
                    let x = a[(i + r) * k + s];
                    for c in 0..16 {
                        sum[r][c] = x.mul_add(row[c], sum[r][c]);
                    }
                }
            }
            for r in 0..ROWS {
                d[(i + r) * dim + j..][..16].copy_from_slice(&sum[r]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_is_the_sum_of_products_for_every_size() {
        for (dim, k) in [(4, 1), (16, 32), (32, 16), (16, 128)] {
            let a: Vec<f32> = (0..dim * k).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
            let b: Vec<f32> = (0..dim * k).map(|i| (i * 5 % 13) as f32 - 6.0).collect();
            let mut d: Vec<f32> = (0..dim * dim).map(|i| i as f32).collect();
            tile_f32(dim, k, &a, &b, &mut d);
            for i in 0..dim {
                for j in 0..dim {
                    let dot: f32 = (0..k).map(|s| a[i * k + s] * b[s * dim + j]).sum();
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
}
