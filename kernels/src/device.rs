//! What the predicate and the analytic prior need to know of a device. A few words, copied freely; the full
//! fingerprint that tables are keyed by is `backend::Fingerprint`.

use crate::family::BackendKind;

/// Capabilities and sizes of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Which backend drives it.
    pub backend: BackendKind,
    /// Instruction-set features.
    pub caps: Caps,
    /// Cores, compute units or multiprocessors that a kernel may use.
    pub units: u32,
    /// Level-1 data cache of one unit, in KiB; on a GPU what of it a unit can use as shared memory.
    pub l1_kib: u32,
    /// Level-2 cache of one unit (CPU) or of the device (GPU), in KiB.
    pub l2_kib: u32,
    /// Last-level cache, in KiB.
    pub llc_kib: u32,
}

/// A set of instruction-set features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Caps(u32);

impl Caps {
    /// No features: the portable paths.
    pub const NONE: Caps = Caps(0);
    /// x86 AVX2 with FMA.
    pub const AVX2: Caps = Caps(1 << 0);
    /// x86 AVX-512 F, BW, VL, DQ.
    pub const AVX512: Caps = Caps(1 << 1);
    /// x86 AVX-512 VBMI: byte permutes over 64 and 128 entries.
    pub const AVX512_VBMI: Caps = Caps(1 << 2);
    /// x86 AVX-512 BF16: `vdpbf16ps`.
    pub const AVX512_BF16: Caps = Caps(1 << 3);
    /// x86 AVX-512 VNNI: `vpdpbusd`.
    pub const AVX512_VNNI: Caps = Caps(1 << 4);
    /// `vdpbf16ps` runs at the rate of f32 FMA. Not an instruction set: where it is missing, the dot works but may be
    /// slower than widening to f32.
    pub const FULL_RATE_BF16: Caps = Caps(1 << 5);
    /// NVIDIA Hopper, compute capability 9.0 with its architecture-specific instructions.
    pub const SM_90A: Caps = Caps(1 << 16);
    /// AMD CDNA3 (MI300X): FP8 is FNUZ, no block-scaled matrix instructions.
    pub const GFX942: Caps = Caps(1 << 17);
    /// AMD CDNA4 (MI355X): FP8 is OCP, block-scaled matrix instructions for 4, 6 and 8 bits.
    pub const GFX950: Caps = Caps(1 << 18);

    /// Every single feature with its name, in canonical order.
    pub const NAMES: &'static [(&'static str, Caps)] = &[
        ("avx2", Caps::AVX2),
        ("avx512", Caps::AVX512),
        ("avx512_vbmi", Caps::AVX512_VBMI),
        ("avx512_bf16", Caps::AVX512_BF16),
        ("avx512_vnni", Caps::AVX512_VNNI),
        ("full_rate_bf16", Caps::FULL_RATE_BF16),
        ("sm_90a", Caps::SM_90A),
        ("gfx942", Caps::GFX942),
        ("gfx950", Caps::GFX950),
    ];

    /// Both sets together.
    pub const fn with(self, other: Caps) -> Caps {
        Caps(self.0 | other.0)
    }

    /// This set without the other's features.
    pub const fn without(self, other: Caps) -> Caps {
        Caps(self.0 & !other.0)
    }

    /// Whether every feature of `other` is in this set.
    pub const fn contains(self, other: Caps) -> bool {
        self.0 & other.0 == other.0
    }

    /// Names of the features in this set, in canonical order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Caps::NAMES.iter().filter(move |(_, cap)| self.contains(*cap)).map(|(name, _)| *name)
    }
}
