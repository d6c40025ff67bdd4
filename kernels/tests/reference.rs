//! The reference against sums written out, and the check against outputs that are right, nearly right and wrong.

use tilewright_kernels::format::e8m0::ScaleRule;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::reference::check::accumulation_factor;
use tilewright_kernels::reference::{
    Reference, Sample, output_error, snap_activation, snap_activation_for, weight_error,
};
use tilewright_kernels::{Epilogue, Format, OutType, Problem, Scaling};

/// Reproducible normal values (Box–Muller over a multiplicative generator).
struct Normal(u64);

impl Normal {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0xda94_2042_e4dd_58b5);
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn next(&mut self) -> f32 {
        let (radius, angle) = ((-2.0 * self.uniform().ln()).sqrt(), self.uniform() * std::f64::consts::TAU);
        (radius * angle.cos()) as f32
    }

    fn vec(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.next()).collect()
    }
}

fn normal() -> Normal {
    Normal(0x1234_5679)
}

fn quantize(values: &[f32], rows: usize, format: Format) -> Quantized {
    let (k, options) = (values.len() / rows, QuantizeOptions::default());
    Quantized::quantize(values, rows, k, format, Scaling::usual(format), &options).expect("fits")
}

/// D of a kernel that multiplies and adds in f32, as `sum` does for one row of each operand.
fn f32_kernel(a: &Quantized, w: &Quantized, sum: impl Fn(&[f32], &[f32]) -> f32) -> Vec<f32> {
    let rows = |q: &Quantized| -> Vec<Vec<f32>> {
        (0..q.rows).map(|row| (0..q.k).map(|k| q.element(row, k) as f32).collect()).collect()
    };
    let (a, w) = (rows(a), rows(w));
    a.iter().flat_map(|a| w.iter().map(|w| sum(a, w)).collect::<Vec<_>>()).collect()
}

/// One f32 accumulator, K products one after another: the worst order there is.
fn sequential(a: &[f32], w: &[f32]) -> f32 {
    a.iter().zip(w).fold(0.0, |sum, (a, w)| sum + a * w)
}

/// Sixteen partial sums.
fn lanes(a: &[f32], w: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    for (k, (a, w)) in a.iter().zip(w).enumerate() {
        sums[k % 16] += a * w;
    }
    sums.iter().sum()
}

/// A bf16 problem of M = 3, N = 5 with its operands, values made by `value`.
fn case(k: usize, mut value: impl FnMut() -> f32) -> (Reference, Quantized, Quantized) {
    let a: Vec<f32> = (0..3 * k).map(|_| value()).collect();
    let w: Vec<f32> = (0..5 * k).map(|_| value()).collect();
    let (a, w) = (snap_activation(&a, 3, k, Format::Bf16), quantize(&w, 5, Format::Bf16));
    let problem = Problem::new(3, 5, k as u32, Format::Bf16);
    (Reference::of_operands(&problem, &a, &w, None, Sample::All), a, w)
}

#[test]
fn d_is_the_sum_of_products_of_dequantised_elements() {
    let mut normal = normal();
    let activations = [Format::Bf16, Format::Fp8E4m3, Format::MxFp8, Format::MxFp6E2m3];
    // More rows than are multiplied at once, and a tail.
    let (m, n, k) = (7, 6, 96);
    let (a, w, bias) = (normal.vec(m * k), normal.vec(n * k), normal.vec(n));
    for &b in Format::WEIGHTS {
        for a_format in activations {
            let weight = quantize(&w, n, b);
            let snapped = snap_activation(&a, m, k, a_format);
            let mut problem = Problem { a: a_format, ..Problem::new(m as u32, n as u32, k as u32, b) };
            for epilogue in [Epilogue::None, Epilogue::Bias] {
                problem.epilogue = epilogue;
                let reference = Reference::compute(&problem, &a, &weight, Some(&bias), Sample::All);
                for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
                    let sum: f64 = (0..k).map(|k| snapped.element(row, k) * weight.element(column, k)).sum();
                    let bias = if epilogue == Epilogue::Bias { f64::from(bias[column]) } else { 0.0 };
                    let difference = reference.value(row, column) - (sum + bias);
                    assert!(difference.abs() < 1e-12, "{problem} [{row}, {column}]: off by {difference:e}");
                }
            }
        }
    }
}

#[test]
fn neither_sample_nor_batch_changes_a_value() {
    // Large enough for several threads and blocks of A.
    let (m, n, k) = (70, 129, 4096);
    let mut normal = normal();
    let (a, w) = (normal.vec(m * k), normal.vec(n * k));
    let weight = quantize(&w, n, Format::MxFp6E2m3);
    let compute = |rows: std::ops::Range<usize>, sample| {
        let problem = Problem::new(rows.len() as u32, n as u32, k as u32, Format::MxFp6E2m3);
        Reference::compute(&problem, &a[rows.start * k..rows.end * k], &weight, None, sample)
    };
    let whole = compute(0..m, Sample::All);
    let some = compute(0..m, Sample::Columns(vec![128, 0, 77]));
    let row = compute(41..42, Sample::All);
    for (index, &column) in some.columns().iter().enumerate() {
        for row in 0..m {
            assert_eq!(some.value(row, index), whole.value(row, column));
        }
    }
    for column in 0..n {
        assert_eq!(row.value(0, column), whole.value(41, column));
    }
}

#[test]
fn samples_are_spread_from_the_first_to_the_last_column() {
    assert_eq!(Sample::spread(10, 4), Sample::Columns(vec![0, 3, 6, 9]));
    assert_eq!(Sample::spread(10, 1), Sample::Columns(vec![0]));
    assert_eq!(Sample::spread(10, 10), Sample::All);
}

#[test]
fn honest_f32_accumulation_passes_in_any_order() {
    let mut normal = normal();
    for k in [1, 31, 576, 4096, 16384] {
        for one_sign in [false, true] {
            let value = || if one_sign { normal.next().abs() } else { normal.next() };
            let (reference, a, w) = case(k, value);
            for sum in [sequential, lanes] {
                let error = reference.check(&f32_kernel(&a, &w, sum), OutType::F32).expect("is right");
                assert!(error <= 1.0, "K = {k}: {error}");
            }
        }
    }
    let (reference, a, w) = case(65536, || normal.next().abs());
    reference.check(&f32_kernel(&a, &w, lanes), OutType::F32).expect("partial sums are enough at any K");
}

#[test]
fn one_k_dropped_or_taken_twice_is_found() {
    let mut normal = normal();
    for k in [32, 576, 4096, 16384, 65536] {
        let (reference, a, w) = case(k, || normal.next());
        let faulty = |factor: f32| f32_kernel(&a, &w, |a, w| lanes(a, w) + factor * a[k / 3] * w[k / 3]);
        reference.check(&faulty(0.0), OutType::F32).expect("the kernel is right without the fault");
        for factor in [-1.0, 1.0] {
            let mismatch = reference.check(&faulty(factor), OutType::F32).expect_err("wrong");
            assert!(mismatch.wrong >= 8, "K = {k}, factor {factor}: {mismatch}");
        }
    }
}

#[test]
fn a_typical_product_is_four_tolerances_or_more() {
    for k in (5..=16).map(|power| 1 << power) {
        // All elements ±1: every product is typical.
        let mut normal = normal();
        let (reference, a, w) = case(k, || 1.0_f32.copysign(normal.next()));
        assert!(accumulation_factor(k) * k as f64 <= 0.25, "K = {k}");
        let mut d = f32_kernel(&a, &w, lanes);
        d[7] += 1.0;
        let mismatch = reference.check(&d, OutType::F32).expect_err("one product too many");
        assert_eq!((mismatch.row, mismatch.column, mismatch.wrong, mismatch.checked), (1, 2, 1, 15));
    }
}

#[test]
fn an_unwritten_element_is_named() {
    let mut normal = normal();
    let (reference, a, w) = case(64, || normal.next());
    let mut d = f32_kernel(&a, &w, sequential);
    (d[8], d[13]) = (f32::NAN, f32::NAN);
    let mismatch = reference.check(&d, OutType::F32).expect_err("unwritten");
    assert_eq!((mismatch.row, mismatch.column, mismatch.wrong, mismatch.checked), (1, 3, 2, 15));
    assert_eq!(mismatch.expected, reference.value(1, 3));
    let text = mismatch.to_string();
    assert!(text.starts_with("D[1, 3] is NaN, expected "), "{text}");
    assert!(text.ends_with("perhaps never written; 2 of 15 checked elements are wrong"), "{text}");
}

#[test]
fn only_sampled_columns_are_checked() {
    let (a, w) = (vec![1.0; 2 * 8], vec![1.0; 4 * 8]);
    let problem = Problem::new(2, 4, 8, Format::Bf16);
    let weight = quantize(&w, 4, Format::Bf16);
    let reference = Reference::compute(&problem, &a, &weight, None, Sample::Columns(vec![3, 1]));
    let poison = f32::NAN;
    let d = [poison, 8.0, poison, 8.0, poison, 8.0, poison, 8.0];
    assert_eq!(reference.check(&d, OutType::F32), Ok(0.0));
    let mismatch = reference.check(&[0.0; 8], OutType::F32).expect_err("zeros");
    assert_eq!((mismatch.row, mismatch.column, mismatch.wrong, mismatch.checked), (0, 1, 4, 4));
}

#[test]
fn infinities_and_nans_have_to_be_where_the_reference_has_them() {
    let problem = Problem::new(1, 4, 2, Format::Bf16);
    // D = [inf, -inf, NaN (inf · 0), inf]
    let weight = quantize(&[1., 1., -1., 1., 0., 1., 1., 1.], 4, Format::Bf16);
    let reference = Reference::compute(&problem, &[f32::INFINITY, 1.0], &weight, None, Sample::All);
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    assert_eq!(reference.check(&[inf, -inf, nan, inf], OutType::F32), Ok(0.0));
    for wrong in
        [[nan, -inf, nan, inf], [inf, inf, nan, inf], [inf, -inf, 0.0, inf], [inf, -inf, nan, f32::MAX]]
    {
        assert_eq!(reference.check(&wrong, OutType::F32).expect_err("wrong").wrong, 1);
    }
}

#[test]
fn a_value_too_large_for_the_output_may_be_infinite_and_no_other() {
    let problem = Problem::new(1, 2, 1, Format::Bf16);
    let weight = quantize(&[2.0_f32.powi(100), 1.0], 2, Format::Bf16);
    let reference = Reference::compute(&problem, &[2.0_f32.powi(100)], &weight, None, Sample::All);
    let (inf, one) = (f32::INFINITY, 2.0_f32.powi(100));
    for out in [OutType::F32, OutType::Bf16] {
        assert_eq!(reference.check(&[inf, one], out), Ok(0.0));
        assert!(reference.check(&[-inf, one], out).is_err());
        assert!(reference.check(&[f32::from_bits(0x7f7f_0000), one], out).is_err());
        assert!(reference.check(&[inf, inf], out).is_err());
    }
}

#[test]
fn bf16_output_has_to_be_rounded_to_nearest() {
    let mut normal = normal();
    let (reference, a, w) = case(576, || normal.next());
    let d = f32_kernel(&a, &w, lanes);
    let rounded: Vec<f32> = d.iter().map(|&d| Format::Bf16.decode(Format::Bf16.encode(d))).collect();
    reference.check(&rounded, OutType::Bf16).expect("rounded to nearest");
    assert!(reference.check(&rounded, OutType::F32).is_err(), "bf16 is too coarse for f32 output");
    assert_eq!(reference.check(&d, OutType::Bf16).expect_err("not rounded at all").wrong, 15);
    let off: Vec<f32> = rounded.iter().map(|d| f32::from_bits(d.to_bits() + 0x10000)).collect();
    assert!(reference.check(&off, OutType::Bf16).expect_err("one step off").wrong > 5);
}

#[test]
fn flushed_subnormals_are_within_tolerance() {
    let problem = Problem::new(1, 1, 64, Format::Bf16);
    let tiny = f32::MIN_POSITIVE / 2.0;
    let weight = quantize(&[0.5; 64], 1, Format::Bf16);
    let reference = Reference::compute(&problem, &[tiny; 64], &weight, None, Sample::All);
    assert!(reference.value(0, 0) > 0.0);
    reference.check(&[0.0], OutType::F32).expect("flushed to zero");
    assert!(reference.check(&[1e-30], OutType::F32).is_err());
}

#[test]
fn a_rotated_weight_meets_a_rotated_activation() {
    let mut normal = normal();
    let (m, n, k) = (3, 4, 128);
    let (a, w) = (normal.vec(m * k), normal.vec(n * k));
    let plain = quantize(&w, n, Format::Bf16);
    let problem = Problem::new(m as u32, n as u32, k as u32, Format::MxFp6E2m3);
    let exact = Reference::compute(
        &Problem { b: Format::Bf16, scaling: Scaling::None, ..problem },
        &a,
        &plain,
        None,
        Sample::All,
    );
    for (a_format, rule) in [
        (Format::Bf16, ScaleRule::Ocp),
        (Format::MxFp6E2m3, ScaleRule::Ocp),
        (Format::MxFp6E2m3, ScaleRule::Aiter),
        (Format::MxFp8, ScaleRule::Aiter),
    ] {
        let options = QuantizeOptions { rule, hadamard: true };
        let weight =
            Quantized::quantize(&w, n, k, Format::MxFp6E2m3, Scaling::Block32, &options).expect("fits");
        let snapped = snap_activation_for(&a, m, k, a_format, &weight);
        assert!(snapped.options.hadamard);
        assert_eq!(snapped.options.rule, if a_format == Format::MxFp6E2m3 { rule } else { ScaleRule::Ocp });
        let rotated = Reference::compute(&Problem { a: a_format, ..problem }, &a, &weight, None, Sample::All);
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let difference = rotated.value(row, column) - exact.value(row, column);
            // 3 % of ‖a‖‖w‖/√K is what the formats cost; an unrotated operand would be off by all of it.
            assert!(difference.abs() < 0.15 * (k as f64).sqrt(), "{a_format} {rule}: off by {difference}");
        }
        assert!((0.001..0.1).contains(&weight_error(&w, &weight)), "{}", weight_error(&w, &weight));
    }
}

#[test]
#[should_panic(expected = "a rotated operand needs the other rotated")]
fn operands_of_different_rotation_are_refused() {
    let options = QuantizeOptions { hadamard: true, ..QuantizeOptions::default() };
    let weight =
        Quantized::quantize(&[1.0; 32], 1, 32, Format::MxFp4, Scaling::Block32, &options).expect("fits");
    let activation = snap_activation(&[1.0; 32], 1, 32, Format::Bf16);
    let problem = Problem::new(1, 1, 32, Format::MxFp4);
    Reference::of_operands(&problem, &activation, &weight, None, Sample::All);
}

#[test]
fn quality_ranks_the_formats_and_counts_the_activation() {
    let mut normal = normal();
    let (m, n, k) = (40, 150, 256);
    let a: Vec<f32> =
        normal.vec(m * k).iter().map(|&a| Format::Bf16.decode(Format::Bf16.encode(a))).collect();
    let w = normal.vec(n * k);
    let formats = [Format::Bf16, Format::Fp8E4m3, Format::MxFp6E3m2, Format::MxFp4];
    let (mut last_weight, mut last_output) = (0.0, 0.0);
    for format in formats {
        let weight = quantize(&w, n, format);
        let (of_weight, of_output) = (weight_error(&w, &weight), output_error(&a, &w, &weight, Format::Bf16));
        assert!(of_weight > last_weight && of_output > last_output, "{format}: {of_weight} {of_output}");
        // Independent errors weigh the same in both.
        assert!((of_output / of_weight - 1.0).abs() < 0.15, "{format}: {of_weight} {of_output}");
        (last_weight, last_output) = (of_weight, of_output);
    }
    let weight = quantize(&w, n, Format::MxFp6E2m3);
    let both = output_error(&a, &w, &weight, Format::MxFp6E2m3);
    let one = output_error(&a, &w, &weight, Format::Bf16);
    assert!((both / one - 2.0_f64.sqrt()).abs() < 0.15, "{both} {one}");
}

#[test]
fn output_error_sees_what_an_outlier_channel_of_the_activation_does() {
    let mut normal = normal();
    let (m, n, k) = (16, 64, 256);
    let mut w = normal.vec(n * k);
    // One small weight in each row next to large ones in its block, met by a huge activation.
    w.chunks_exact_mut(k).for_each(|row| row[40] = 0.05);
    let mut a = normal.vec(m * k);
    a.chunks_exact_mut(k).for_each(|row| row[40] = 1000.0);
    let weight = quantize(&w, n, Format::MxFp4);
    let (of_weight, of_output) = (weight_error(&w, &weight), output_error(&a, &w, &weight, Format::Bf16));
    assert!(of_output > 2.0 * of_weight, "{of_weight} {of_output}");
}

#[test]
fn quality_is_zero_without_loss_and_infinite_where_it_has_no_meaning() {
    let exact = [1.0_f32, -0.5, 2.0, 0.0].repeat(16);
    let ones = vec![1.0_f32; 32];
    let weight = quantize(&exact, 2, Format::MxFp4);
    assert_eq!(
        (weight_error(&exact, &weight), output_error(&ones, &exact, &weight, Format::Bf16)),
        (0.0, 0.0)
    );
    let zero = vec![0.0_f32; 64];
    assert_eq!(weight_error(&zero, &quantize(&zero, 2, Format::MxFp4)), 0.0);
    assert_eq!(weight_error(&zero, &weight), f64::INFINITY);
    let mut faulty = exact.clone();
    faulty[3] = f32::NAN;
    let weight = quantize(&faulty, 2, Format::MxFp4);
    assert_eq!(weight_error(&faulty, &weight), f64::INFINITY);
    assert_eq!(output_error(&ones, &faulty, &weight, Format::Bf16), f64::INFINITY);
}
