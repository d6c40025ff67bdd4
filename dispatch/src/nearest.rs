//! Log distance without a floating-point logarithm, so that it is the same everywhere and works without `std`.

/// Distances are counted in this many parts of an octave.
pub(crate) const OCTAVE: u32 = 256;

/// How far away a measured group may be, in parts of an octave, summed over N, K and M: two octaves, for instance N
/// and K both off by a factor of two.
pub(crate) const RADIUS: u32 = 2 * OCTAVE;

/// What another output type or epilogue adds: they change little of a kernel's time.
pub(crate) const OTHER_TAIL: u32 = OCTAVE / 8;

/// log₂ in parts of an octave, linear between powers of two: monotone, and off by less than 0.09 octaves.
/// `value` is at least 1.
pub(crate) const fn log2(value: u32) -> u32 {
    let value = if value == 0 { 1 } else { value };
    let whole = value.ilog2();
    let fraction = ((value as u64 - (1 << whole)) * OCTAVE as u64) >> whole;
    whole * OCTAVE + fraction as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log2_is_exact_at_powers_of_two_and_monotone() {
        for power in 0..32 {
            assert_eq!(log2(1 << power), power * OCTAVE);
        }
        let mut last = 0;
        for value in (1..200_000).chain((200_000..=u32::MAX).step_by(65_537)) {
            assert!(log2(value) >= last, "{value}");
            last = log2(value);
        }
        assert!(log2(u32::MAX) <= 32 * OCTAVE);
    }
}
