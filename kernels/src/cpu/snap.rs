//! Rounding an activation to the elements of a format, without codes or branches.
//!
//! A number's neighbours in a format are 2^(e − mantissa bits) apart, where e is its exponent or the smallest normal one.
//! Adding and subtracting 2^(e − mantissa bits + 23) rounds an f32 to that grid, to nearest even, as the processor's own
//! rounding. What is above the largest element saturates. The same numbers as decoding the code of
//! [`Format::encode`].

use crate::format::Format;

/// The grid of one format.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    /// The smallest exponent of a normal element, as an f32 exponent field in place.
    smallest: u32,
    /// From an exponent to that of the number that rounds, in place.
    lift: u32,
    max: f32,
}

impl Grid {
    pub(super) const fn of(format: Format) -> Self {
        let codec = format.codec();
        Grid {
            smallest: ((128 - codec.bias) as u32) << 23,
            lift: (23 - codec.mantissa_bits) << 23,
            max: format.max(),
        }
    }

    /// The nearest element to a finite value of a magnitude below 2^100.
    #[inline(always)]
    pub(super) fn nearest(self, value: f32) -> f32 {
        let bits = value.to_bits();
        let magnitude = f32::from_bits(bits & 0x7fff_ffff);
        let exponent = bits & 0x7f80_0000;
        let exponent = if exponent < self.smallest { self.smallest } else { exponent };
        let lift = f32::from_bits(exponent + self.lift);
        let rounded = (magnitude + lift) - lift;
        let saturated = if rounded > self.max { self.max } else { rounded };
        f32::from_bits(saturated.to_bits() | bits & 0x8000_0000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_element_is_the_one_that_encoding_finds() {
        for &format in Format::ALL.iter().filter(|format| format.bits() <= 8) {
            let grid = Grid::of(format);
            // Every f32 whose low 12 bits are the same, with low bits next to ties.
            for top in 0..1u32 << 20 {
                for low in [0, 1, 0x800, 0xfff] {
                    let value = f32::from_bits(top << 12 | low);
                    if value.abs() < 1e30 {
                        let wanted = format.decode(format.encode(value));
                        let found = grid.nearest(value);
                        assert!(found == wanted, "{format} {value:e}: {found} is not {wanted}");
                    }
                }
            }
        }
    }
}
