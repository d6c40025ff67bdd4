//! Floating-point functions that Rust's operators do not give: AMD's minimum and maximum, fused multiply-add,
//! exponent and mantissa, classes, and the transcendental instructions.
//!
//! The transcendental instructions (`v_exp`, `v_log`, `v_rcp`, `v_rsq`, `v_sqrt`, `v_sin`, `v_cos`) are within 1 ulp on
//! the hardware by its documents; here they are rounded from f64, so results may differ from a GPU's by an ulp.

/// `v_min_f32`: the number if one operand is NaN, -0 below +0.
#[inline(always)]
pub(crate) fn min32(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// `v_max_f32`: the number if one operand is NaN, +0 above -0.
#[inline(always)]
pub(crate) fn max32(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

/// As [`min32`].
pub(crate) fn min64(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// As [`max32`].
pub(crate) fn max64(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

/// `v_med3_f32`: the middle one; with a NaN, the smallest.
pub(crate) fn med3(a: f32, b: f32, c: f32) -> f32 {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        min32(min32(a, b), c)
    } else {
        max32(min32(a, b), min32(max32(a, b), c))
    }
}

/// `v_ldexp_f32`: a power of two applied with one rounding.
pub(crate) fn ldexp32(x: f32, e: i32) -> f32 {
    // Within these bounds the f64 product is exact, and beyond them the result is 0 or infinite anyway.
    (f64::from(x) * 2f64.powi(e.clamp(-400, 400))) as f32
}

/// `v_ldexp_f64`.
pub(crate) fn ldexp64(x: f64, e: i32) -> f64 {
    let mut e = e.clamp(-4000, 4000);
    let mut x = x;
    while e > 1000 {
        x *= 2f64.powi(1000);
        e -= 1000;
    }
    // Downwards in one last step, so that a subnormal result is rounded once.
    while e < -1000 && x.abs() > 2f64.powi(-20) {
        x *= 2f64.powi(-900);
        e += 900;
    }
    if e < -1022 { x * 2f64.powi(-1022) * 2f64.powi(e + 1022) } else { x * 2f64.powi(e) }
}

/// Exponent and mantissa in [0.5, 1) of a finite nonzero number.
pub(crate) fn frexp(x: f64) -> Option<(i32, f64)> {
    if x == 0.0 || !x.is_finite() {
        return None;
    }
    let scaled = if x.abs() < f64::MIN_POSITIVE { (x * 2f64.powi(64), -64) } else { (x, 0) };
    let exponent = (scaled.0.to_bits() >> 52 & 0x7ff) as i32 - 1022;
    let mantissa = f64::from_bits(scaled.0.to_bits() & !(0x7ff << 52) | 1022 << 52);
    Some((exponent + scaled.1, mantissa))
}

/// `v_fract_f32`.
pub(crate) fn fract32(x: f32) -> f32 {
    if x.is_infinite() { f32::NAN } else { min32(x - x.floor(), f32::from_bits(0x3f7f_ffff)) }
}

/// `v_fract_f64`.
pub(crate) fn fract64(x: f64) -> f64 {
    if x.is_infinite() { f64::NAN } else { min64(x - x.floor(), f64::from_bits(0x3fef_ffff_ffff_ffff)) }
}

/// `v_rcp_f32`.
pub(crate) fn rcp(x: f32) -> f32 {
    (1.0 / f64::from(x)) as f32
}

/// `v_rsq_f32`.
pub(crate) fn rsq(x: f32) -> f32 {
    (1.0 / f64::from(x).sqrt()) as f32
}

/// `v_exp_f32`: 2 to the power.
pub(crate) fn exp2(x: f32) -> f32 {
    f64::from(x).exp2() as f32
}

/// `v_log_f32`: base 2.
pub(crate) fn log2(x: f32) -> f32 {
    f64::from(x).log2() as f32
}

/// `v_sin_f32`: the operand counts revolutions.
pub(crate) fn sin(x: f32) -> f32 {
    (f64::from(x).fract() * std::f64::consts::TAU).sin() as f32
}

/// `v_cos_f32`.
pub(crate) fn cos(x: f32) -> f32 {
    (f64::from(x).fract() * std::f64::consts::TAU).cos() as f32
}

/// `v_cmp_class`: whether the number is of one of the ten classes that the mask names.
pub(crate) fn class(x: f64, subnormal: bool, signalling: bool, mask: u32) -> bool {
    let negative = x.is_sign_negative();
    let bit = if x.is_nan() {
        if signalling { 0 } else { 1 }
    } else if x.is_infinite() {
        if negative { 2 } else { 9 }
    } else if x == 0.0 {
        if negative { 5 } else { 6 }
    } else if subnormal {
        if negative { 4 } else { 7 }
    } else if negative {
        3
    } else {
        8
    };
    mask >> bit & 1 == 1
}

/// `v_cmp_class_f32` on bits.
pub(crate) fn class32(bits: u32, mask: u32) -> bool {
    let x = f32::from_bits(bits);
    class(f64::from(x), x.is_subnormal(), x.is_nan() && bits & 1 << 22 == 0, mask)
}

/// `v_div_fixup`: the special cases of a division, by the signs, classes and exponents of denominator and numerator.
///
/// `bits` is the exponent distance from which a quotient overflows for certain, and that below which it is zero.
pub(crate) fn div_fixup(quotient: f64, denominator: f64, numerator: f64, bits: (i32, i32)) -> f64 {
    let negative = denominator.is_sign_negative() ^ numerator.is_sign_negative();
    let signed = |x: f64| if negative { -x } else { x };
    if numerator.is_nan() || denominator.is_nan() {
        return f64::NAN;
    }
    if (denominator == 0.0 && numerator == 0.0) || (denominator.is_infinite() && numerator.is_infinite()) {
        return f64::NAN;
    }
    if denominator == 0.0 || numerator.is_infinite() {
        return signed(f64::INFINITY);
    }
    if denominator.is_infinite() || numerator == 0.0 {
        return signed(0.0);
    }
    let exponent = |x: f64| frexp(x).map_or(0, |(e, _)| e);
    let distance = exponent(numerator) - exponent(denominator);
    if distance > bits.0 {
        signed(f64::INFINITY)
    } else if distance < bits.1 {
        signed(0.0)
    } else if quotient.is_nan() {
        quotient
    } else {
        signed(quotient.abs())
    }
}

/// What `v_div_scale` does to its first source, and whether the quotient must be scaled back (VCC).
pub(crate) struct Scaling {
    /// Power of two to multiply the first source by.
    pub(crate) exponent: i32,
    /// The lane's VCC bit.
    pub(crate) post: bool,
    /// The result is NaN: zero operand.
    pub(crate) nan: bool,
}

/// `v_div_fmas` undoes a scaling by 2^±64 (2^±128 in f64), upwards if the quotient so far is large. The CDNA documents
/// give one factor (2^32) for both directions and no sign for the case of two subnormals; with those no division by the
/// sequence that compilers emit would be right, so this follows the later documents of the same instructions, and the
/// test is that sequence against IEEE division.
///
/// The decision of `v_div_scale` from the exponents of numerator and denominator.
///
/// `bits` is the exponent range: (bias, mantissa bits, unit of the scaling, distance that counts as extreme).
pub(crate) fn div_scale(
    s0_is_denominator: bool,
    s0_is_numerator: bool,
    denominator: f64,
    numerator: f64,
    range: DivRange,
) -> Scaling {
    let none = Scaling { exponent: 0, post: false, nan: false };
    if numerator == 0.0 || denominator == 0.0 {
        return Scaling { nan: true, ..none };
    }
    let (Some((ed, _)), Some((en, _))) = (frexp(denominator), frexp(numerator)) else { return none };
    let (ed, en) = (ed - 1 + range.bias, en - 1 + range.bias);
    let reciprocal_subnormal = 2 * range.bias - ed < 1
        || (2 * range.bias - ed == 1 && frexp(denominator).is_some_and(|(_, m)| m.abs() > 0.5));
    let quotient_subnormal = en - ed < 1 - range.bias;
    if en.max(1) - ed.max(0) >= range.far {
        let exponent = if s0_is_denominator { range.unit } else { 0 };
        Scaling { exponent, post: true, nan: false }
    } else if ed < 1 {
        Scaling { exponent: range.unit, ..none }
    } else if reciprocal_subnormal && quotient_subnormal {
        let exponent = if s0_is_denominator { -range.unit } else { 0 };
        Scaling { exponent, post: true, nan: false }
    } else if reciprocal_subnormal {
        Scaling { exponent: -range.unit, ..none }
    } else if quotient_subnormal {
        let exponent = if s0_is_numerator { range.unit } else { 0 };
        Scaling { exponent, post: true, nan: false }
    } else if en <= range.tiny {
        Scaling { exponent: range.unit, ..none }
    } else {
        none
    }
}

/// Bounds of [`div_fixup`] by precision.
pub(crate) const FIXUP16: (i32, i32) = (17, -26);
/// Single precision.
pub(crate) const FIXUP32: (i32, i32) = (129, -151);
/// Double precision.
pub(crate) const FIXUP64: (i32, i32) = (1025, -1076);

/// The constants of `v_div_scale` for one precision.
#[derive(Clone, Copy)]
pub(crate) struct DivRange {
    bias: i32,
    unit: i32,
    far: i32,
    tiny: i32,
}

/// Single precision.
pub(crate) const DIV32: DivRange = DivRange { bias: 127, unit: 64, far: 96, tiny: 23 };
/// Double precision.
pub(crate) const DIV64: DivRange = DivRange { bias: 1023, unit: 128, far: 768, tiny: 53 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_and_maximum_prefer_numbers_and_order_zeros() {
        assert_eq!(min32(f32::NAN, 1.0), 1.0);
        assert_eq!(max32(1.0, f32::NAN), 1.0);
        assert!(min32(0.0, -0.0).is_sign_negative() && min32(-0.0, 0.0).is_sign_negative());
        assert!(max32(0.0, -0.0).is_sign_positive() && max32(-0.0, 0.0).is_sign_positive());
        assert_eq!(med3(3.0, 1.0, 2.0), 2.0);
        assert_eq!(med3(f32::NAN, 1.0, -2.0), -2.0);
    }

    #[test]
    fn frexp_and_ldexp_take_a_number_apart_and_together() {
        for x in [1.0, -0.75, 1e300, 5e-324, 2.2e-308, 3.5] {
            let (e, m) = frexp(x).unwrap();
            assert!((0.5..1.0).contains(&m.abs()), "{x} {m}");
            assert_eq!(ldexp64(m, e), x);
        }
        assert_eq!(frexp(0.0), None);
        assert_eq!(frexp(f64::INFINITY), None);
        let tiny = f64::from(f32::from_bits(1));
        assert_eq!(frexp(tiny), Some((-148, 0.5)));
        assert_eq!(ldexp32(1.0, -149), f32::from_bits(1));
        assert_eq!(ldexp32(1.0, 1000), f32::INFINITY);
    }

    #[test]
    fn classes_are_told_apart() {
        let cases = [
            (0x7fa0_0000, 0),
            (0x7fc0_0000, 1),
            (0xff80_0000, 2),
            (0xbf80_0000, 3),
            (0x8000_0001, 4),
            (0x8000_0000, 5),
            (0x0000_0000, 6),
            (0x0000_0001, 7),
            (0x3f80_0000, 8),
            (0x7f80_0000, 9),
        ];
        for (bits, class) in cases {
            for mask in 0..10 {
                assert_eq!(class32(bits, 1 << mask), mask == class, "{bits:#x} {mask}");
            }
        }
    }

    #[test]
    fn division_is_fixed_up_at_the_edges() {
        assert_eq!(div_fixup(7.0, -2.0, 3.0, FIXUP32), -7.0);
        assert!(div_fixup(1.0, 0.0, 0.0, FIXUP32).is_nan());
        assert_eq!(div_fixup(1.0, 0.0, -3.0, FIXUP32), f64::NEG_INFINITY);
        assert_eq!(div_fixup(1.0, f64::INFINITY, 3.0, FIXUP32), 0.0);
    }
}
