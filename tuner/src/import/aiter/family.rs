//! AITER's families of tables: which operands they mean, and what their split-K column says.

use std::path::Path;

use tilewright_kernels::Format;

use super::super::foreign::{Element, Scales};

/// A family of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// `a16w16`: bf16, and whatever else its dtype column says.
    Bf16,
    /// 8 bits, a scale per token and channel.
    A8w8,
    /// The same with a shuffled weight.
    A8w8Bpreshuffle,
    /// FP8 with scales per 1x128 and 128x128.
    A8w8Blockscale,
    /// The same with a shuffled weight.
    A8w8BlockscaleBpreshuffle,
    /// MXFP4.
    A4w4,
    /// MXFP6 E2M3.
    A6w6,
    /// MXFP6 activations, MXFP4 weights.
    A6w4,
    /// MXFP4 activations, MXFP6 weights.
    A4w6,
    /// Batched, 8 bits.
    BatchedA8w8,
    /// Batched, bf16.
    BatchedBf16,
    /// Batched, MXFP8.
    BatchedMxscale,
}

impl Family {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Bf16 => "bf16",
            Family::A8w8 => "a8w8",
            Family::A8w8Bpreshuffle => "a8w8_bpreshuffle",
            Family::A8w8Blockscale => "a8w8_blockscale",
            Family::A8w8BlockscaleBpreshuffle => "a8w8_blockscale_bpreshuffle",
            Family::A4w4 => "a4w4",
            Family::A6w6 => "a6w6",
            Family::A6w4 => "a6w4",
            Family::A4w6 => "a4w6",
            Family::BatchedA8w8 => "batched_a8w8",
            Family::BatchedBf16 => "batched_bf16",
            Family::BatchedMxscale => "batched_mxscale",
        }
    }

    /// The family of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Family::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Every family.
    const ALL: [Family; 12] = [
        Family::Bf16,
        Family::A8w8,
        Family::A8w8Bpreshuffle,
        Family::A8w8Blockscale,
        Family::A8w8BlockscaleBpreshuffle,
        Family::A4w4,
        Family::A6w6,
        Family::A6w4,
        Family::A4w6,
        Family::BatchedA8w8,
        Family::BatchedBf16,
        Family::BatchedMxscale,
    ];

    /// The family of a file: by its name, else by its columns.
    pub(super) fn guess(path: &Path, has: impl Fn(&str) -> bool) -> Option<Self> {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("").to_ascii_lowercase();
        let said = |part: &str| stem.contains(part);
        if said("mxscale") {
            return Some(Family::BatchedMxscale);
        }
        if has("b") {
            return Some(if said("bf16") { Family::BatchedBf16 } else { Family::BatchedA8w8 });
        }
        // dtype and scaleAB are columns of this family alone; file names are free.
        if has("dtype") || has("scaleab") {
            return Some(Family::Bf16);
        }
        for (part, family) in [
            ("a8w8_blockscale_bpreshuffle", Family::A8w8BlockscaleBpreshuffle),
            ("a8w8_blockscale", Family::A8w8Blockscale),
            ("a8w8_bpreshuffle", Family::A8w8Bpreshuffle),
            ("a6w4", Family::A6w4),
            ("a4w6", Family::A4w6),
            ("a6w6", Family::A6w6),
        ] {
            if said(part) {
                return Some(family);
            }
        }
        if has("q_dtype_w") {
            return Some(if has("libtype") { Family::A8w8Bpreshuffle } else { Family::A8w8 });
        }
        // A model's file may name several formats (`mxfp4_attnfp8`), so these come after what columns say.
        for (part, family) in [("a4w4", Family::A4w4), ("a8w8", Family::A8w8), ("bf16", Family::Bf16)] {
            if said(part) {
                return Some(family);
            }
        }
        None
    }

    /// Whether its weights are stored shuffled.
    pub const fn is_preshuffled(self) -> bool {
        matches!(self, Family::A8w8Bpreshuffle | Family::A8w8BlockscaleBpreshuffle)
    }
}

/// Activation, weight and scales of a family's rows. `typed` is the dtype the row gives.
pub(super) fn elements(
    family: Option<Family>,
    arch: &str,
    typed: Element,
    scaled: bool,
) -> (Element, Element, Scales) {
    let both = |format| (Element::Format(format), Element::Format(format), Scales::Usual);
    match family {
        Some(Family::Bf16 | Family::BatchedBf16) => {
            let element = if typed == Element::Unsaid { Element::Format(Format::Bf16) } else { typed };
            (element.clone(), element, if scaled { Scales::Tensor } else { Scales::Usual })
        }
        Some(Family::A8w8 | Family::A8w8Bpreshuffle) => (typed.clone(), typed, Scales::Channel),
        // These hold int8 only.
        Some(Family::BatchedA8w8) => {
            let int8 = if typed == Element::Unsaid { Element::Other("int8".into()) } else { typed };
            (int8.clone(), int8, Scales::Channel)
        }
        Some(Family::A8w8Blockscale | Family::A8w8BlockscaleBpreshuffle) => {
            (Element::fp8_of(arch), Element::fp8_of(arch), Scales::Block128)
        }
        Some(Family::A4w4) => both(Format::MxFp4),
        Some(Family::A6w6) => both(Format::MxFp6E2m3),
        Some(Family::A6w4) => {
            (Element::Format(Format::MxFp6E2m3), Element::Format(Format::MxFp4), Scales::Usual)
        }
        Some(Family::A4w6) => {
            (Element::Format(Format::MxFp4), Element::Format(Format::MxFp6E2m3), Scales::Usual)
        }
        Some(Family::BatchedMxscale) => both(Format::MxFp8),
        None => (typed.clone(), typed, Scales::Usual),
    }
}

/// The library of a row of a family that has no column for it.
pub(super) fn library_of(family: Option<Family>, kernel: &str) -> &'static str {
    match (family, kernel) {
        (None, _) | (_, "") => "",
        (_, kernel) if kernel.contains("_ZN") => "asm",
        (Some(Family::A6w6 | Family::A6w4 | Family::A4w6), _) => "asm",
        _ => "ck",
    }
}

/// The split-K column as a count of parts, where its meaning is known. CK and the MX assembly kernels store the exponent
/// of two; the other assembly kernels and FlyDSL store the count, in which 0 and 1 are both no split; MXFP6 has none.
pub fn split_count(family: Option<Family>, library: &str, written: i32) -> Option<u32> {
    let written = u32::try_from(written).ok()?;
    let exponent = (written < 16).then(|| 1 << written);
    match (family, library) {
        (_, "ck" | "cktile") => exponent,
        (Some(Family::A4w4), "asm") => exponent,
        (Some(Family::A6w6 | Family::A6w4 | Family::A4w6), _) => (written == 0).then_some(1),
        (_, "asm" | "flydsl") => Some(written.max(1)),
        // Opus, Triton, hipBLASLt and torch number solutions here, or leave it 0.
        _ => (written <= 1).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_k_is_an_exponent_in_some_families_and_a_count_in_others() {
        assert_eq!(split_count(Some(Family::A8w8), "ck", 3), Some(8));
        assert_eq!(split_count(Some(Family::A4w4), "asm", 2), Some(4));
        assert_eq!(split_count(Some(Family::A8w8Bpreshuffle), "asm", 8), Some(8));
        for none in [0, 1] {
            assert_eq!(split_count(Some(Family::A8w8BlockscaleBpreshuffle), "asm", none), Some(1));
        }
        assert_eq!(split_count(Some(Family::A6w6), "asm", 1), None);
        assert_eq!(split_count(Some(Family::Bf16), "opus", 12), None);
        assert_eq!(split_count(Some(Family::A8w8), "ck", -1), None);
        assert_eq!(split_count(Some(Family::A8w8), "ck", 200), None);
    }
}
