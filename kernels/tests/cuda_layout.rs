//! Layout `mma64` and the kernels' decoding of it, on the host: the bit operations of `gemm.cu` and the fragment maps
//! of `mma.m16n8k16` (PTX ISA, "Matrix Fragments for mma.m16n8k16") are written out again here, and have to give back
//! the weight that was packed, and its product.

use tilewright_kernels::cuda::pack::{Mma64, super_bytes};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::reference::{Reference, Sample};
use tilewright_kernels::{Format, Problem, Scaling};

const FORMATS: [Format; 4] = [Format::Bf16, Format::Fp8E4m3, Format::MxFp6E2m3, Format::MxFp6E3m2];

fn bf16(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// `mul.rn.bf16x2` of one half: exact products here, so that no rounding is needed.
fn multiply(a: u32, b: u32) -> f64 {
    bf16(a as u16) * bf16(b as u16)
}

/// `Encoded::decode`: the eight pairs of bf16 of a lane's tile `j`, as values.
fn decode(format: Format, supertile: &[u8], lane: usize, j: usize) -> [[f64; 2]; 8] {
    let word = |vector: usize, i: usize| {
        let at = 512 * vector + 16 * lane + 4 * i;
        u32::from_le_bytes(supertile[at..at + 4].try_into().expect("four bytes"))
    };
    let halves = |x: u32, by: u32| [multiply(x & 0xffff, by), multiply(x >> 16, by)];
    let mut pair = [[0.0; 2]; 8];
    match format {
        Format::Bf16 => (0..8).for_each(|p| pair[p] = halves(word(2 * j + p / 4, p % 4), 0x3f80)),
        Format::Fp8E4m3 => {
            for i in 0..4 {
                let w = word(j, i);
                pair[2 * i] = halves(((w << 8) & 0x8000_8000) | ((w << 4) & 0x07f0_07f0), 0x7b80);
                pair[2 * i + 1] = halves((w & 0x8000_8000) | ((w >> 4) & 0x07f0_07f0), 0x7b80);
            }
        }
        _ => {
            let words = |i: usize| word(i / 4, i % 4);
            let high = words(3 * j + 2);
            for q in 0..8 {
                let (row, p) = (q / 4, q % 4);
                let low = words(3 * j + row);
                let field = u32::from(supertile[1536 + 4 * (lane / 4 + 8 * row) + j]);
                let bits = if format == Format::MxFp6E2m3 {
                    let nibble = [low << 4, low, low >> 4, low >> 8][p] & 0x00f0_00f0;
                    let top = match q {
                        7 => ((high << 14) & 0x8000_8000) | ((high << 8) & 0x0100_0100),
                        _ => (high << q) & 0x8100_8100,
                    };
                    nibble | top
                } else {
                    let nibble = [low << 5, low << 1, low >> 3, low >> 7][p] & 0x01e0_01e0;
                    let top = match q {
                        7 => ((high << 14) & 0x8000_8000) | ((high << 9) & 0x0200_0200),
                        6 => ((high << 12) & 0x8000_8000) | ((high << 7) & 0x0200_0200),
                        _ => (high << q) & 0x8200_8200,
                    };
                    nibble | top
                };
                pair[q] = halves(bits, field << 7);
            }
        }
    }
    pair
}

/// The packed weight, decoded lane by lane and put back in place: padded rows × padded K.
fn unpack(format: Format, packed: &Mma64, k: usize) -> Vec<Vec<f64>> {
    let bytes = super_bytes(format).expect("the layout holds the format");
    let supers = k.div_ceil(128);
    let mut rows = vec![vec![f64::NAN; supers * 128]; packed.factors.len()];
    for (index, supertile) in packed.bytes.chunks_exact(bytes).enumerate() {
        // Slab by slab, along K, four panels together.
        let (panel, s) = (index / (4 * supers) * 4 + index % 4, index / 4 % supers);
        for (lane, j) in (0..32).flat_map(|lane| (0..4).map(move |j| (lane, j))) {
            for (q, values) in decode(format, supertile, lane, j).iter().enumerate() {
                let row = 16 * panel + lane / 4 + 8 * (q / 4);
                for (half, value) in values.iter().enumerate() {
                    let at = 128 * s + 32 * j + 8 * (q % 4) + 2 * (lane % 4) + half;
                    rows[row][at] = value * f64::from(packed.factors[row]);
                }
            }
        }
    }
    rows
}

fn weight(format: Format, rows: usize, k: usize, seed: u32) -> Quantized {
    let mut state = seed;
    let values: Vec<f32> = (0..rows * k)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let unit = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
            unit * [1.0, 1e-3, 40.0, 0.0][i / k % 4] * [1.0, 0.01][i / 32 % 2]
        })
        .collect();
    Quantized::quantize(&values, rows, k, format, Scaling::usual(format), &QuantizeOptions::default())
        .expect("shapes fit")
}

#[test]
fn packing_keeps_every_element_and_pads_with_zeros() {
    for format in FORMATS {
        for (rows, k) in [(1, 32), (16, 128), (17, 160), (50, 416), (130, 256)] {
            let weight = weight(format, rows, k, 7);
            let unpacked = unpack(format, &Mma64::pack(&weight).expect("packs"), k);
            for (row, values) in unpacked.iter().enumerate() {
                for (at, value) in values.iter().enumerate() {
                    let expected = if row < rows && at < k { weight.element(row, at) } else { 0.0 };
                    assert_eq!(*value, expected, "{format} {rows}x{k} at {row}, {at}");
                }
            }
        }
    }
}

#[test]
fn every_code_of_every_format_decodes() {
    for format in FORMATS {
        let codes = if format == Format::Bf16 { 1024 } else { 1 << format.bits() };
        let mut weight = weight(format, 16, 1024, 3);
        for row in 0..16 {
            for k in 0..1024 {
                let code = (k * 7 + row * 33) % codes;
                let code = if format == Format::Bf16 { code << 6 } else { code };
                let bytes = format.row_bytes(1024);
                tilewright_kernels::format::pack::set(
                    &mut weight.codes[row * bytes..][..bytes],
                    format,
                    k,
                    code as u16,
                );
            }
        }
        let unpacked = unpack(format, &Mma64::pack(&weight).expect("packs"), 1024);
        for (row, values) in unpacked.iter().enumerate().take(16) {
            for (k, value) in values.iter().enumerate() {
                let expected = weight.element(row, k);
                let row_has_nan =
                    (0..1024).any(|k| weight.element(row, k).is_nan()) && format != Format::Bf16;
                assert!(
                    *value == expected || (value.is_nan() && (row_has_nan || expected.is_nan())),
                    "{format} {row}, {k}: {value} for {expected}"
                );
            }
        }
    }
}

#[test]
fn extreme_block_scales_keep_their_ratio_to_the_rows_largest() {
    let mut weight = weight(Format::MxFp6E2m3, 4, 128, 5);
    weight.block_scales.copy_from_slice(&[0, 0, 0, 0, 254, 200, 127, 120, 0, 100, 50, 7, 127, 255, 127, 127]);
    let packed = Mma64::pack(&weight).expect("packs");
    let unpacked = unpack(Format::MxFp6E2m3, &packed, 128);
    for row in 0..3 {
        for k in 0..128 {
            assert_eq!(unpacked[row][k], weight.element(row, k), "{row}, {k}");
        }
    }
    assert!(packed.factors[3].is_nan());
}

/// The kernel's fragments multiplied as `mma` multiplies them: A = weights (16 × 16), B = activations (16 × 8).
#[test]
fn fragments_give_the_product_for_every_lane() {
    for format in FORMATS {
        let (m, n, k) = (8, 16, 128);
        let weight = weight(format, n, k, 11);
        let packed = Mma64::pack(&weight).expect("packs");
        let activation: Vec<f32> = (0..m * k).map(|i| ((i * 37) % 64) as f32 / 8.0 - 4.0).collect();
        let mut d = vec![[0.0f64; 8]; 16];
        for j in 0..4 {
            let pairs: Vec<_> = (0..32).map(|lane| decode(format, &packed.bytes, lane, j)).collect();
            // What `ldmatrix` gives a lane: register `i` holds k = 32j + 8i + 2t and the next of token g.
            let token = |lane: usize, i: usize, half: usize| {
                f64::from(activation[(lane / 4) * k + 32 * j + 8 * i + 2 * (lane % 4) + half])
            };
            for step in 0..2 {
                let mut a = [[0.0; 16]; 16];
                let mut b = [[0.0; 8]; 16];
                for lane in 0..32 {
                    let (g, t) = (lane / 4, lane % 4);
                    for half in 0..2 {
                        a[g][2 * t + half] = pairs[lane][2 * step][half];
                        a[g + 8][2 * t + half] = pairs[lane][4 + 2 * step][half];
                        a[g][2 * t + 8 + half] = pairs[lane][2 * step + 1][half];
                        a[g + 8][2 * t + 8 + half] = pairs[lane][4 + 2 * step + 1][half];
                        b[2 * t + half][g] = token(lane, 2 * step, half);
                        b[2 * t + 8 + half][g] = token(lane, 2 * step + 1, half);
                    }
                }
                for (row, column, i) in
                    (0..16).flat_map(|r| (0..8).flat_map(move |c| (0..16).map(move |i| (r, c, i))))
                {
                    d[row][column] += a[row][i] * b[i][column];
                }
            }
        }
        let output: Vec<f32> =
            (0..m * n).map(|i| (d[i % n][i / n] * f64::from(packed.factors[i % n])) as f32).collect();
        let problem = Problem::new(m as u32, n as u32, k as u32, format);
        Reference::compute(&problem, &activation, &weight, None, Sample::All)
            .check(&output, problem.out)
            .unwrap_or_else(|wrong| panic!("{format}: {wrong}"));
    }
}

#[test]
fn rotated_weights_and_other_formats_are_refused() {
    let values = vec![1.0; 64];
    let rotated = QuantizeOptions { hadamard: true, ..QuantizeOptions::default() };
    let weight =
        Quantized::quantize(&values, 2, 32, Format::MxFp6E2m3, Scaling::Block32, &rotated).expect("fits");
    assert!(Mma64::pack(&weight).is_err());
    let fp4 =
        Quantized::quantize(&values, 2, 32, Format::MxFp4, Scaling::Block32, &QuantizeOptions::default());
    assert!(Mma64::pack(&fp4.expect("fits")).is_err());
}
