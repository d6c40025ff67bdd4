//! What a prediction needs to know of a GPU: the vendor's figures, none measured by us.
//!
//! Sources: the ROCm documentation's table of GPU specifications (units, caches, clocks, memory); the CDNA3 ISA and
//! AMD's matrix instruction calculator for cycles of matrix instructions, on gfx950 from the wait states that clang 22
//! keeps after them. The rate of the Infinity Cache is the one commonly quoted for the MI300X; the MI355X's is taken to
//! be the same. gfx950's LDS is quoted with 128 and with 256 bytes a clock; the smaller is used.

use tilewright_kernels::{BackendKind, Caps, Device};

/// A GPU as predictions see it.
#[derive(Debug)]
pub struct Machine {
    /// What `--arch` takes.
    pub arch: &'static str,
    /// The product.
    pub name: &'static str,
    /// What the predicate asks about.
    pub device: Device,
    /// Dies with an L2 of their own; workgroup `i` runs on die `i % xcds`.
    pub xcds: u32,
    /// Clocks a second.
    pub clock: f64,
    /// Bytes of LDS a clock and compute unit.
    pub lds_rate: f64,
    /// Bytes of L2 a clock and die.
    pub l2_rate: f64,
    /// Bytes of Infinity Cache (MALL) a second.
    pub mall_rate: f64,
    /// Bytes of memory a second.
    pub hbm_rate: f64,
    /// Bytes to which a workgroup's LDS is rounded up.
    pub lds_granule: u32,
}

const MI300X: Device = Device {
    backend: BackendKind::Hip,
    caps: Caps::GFX942,
    units: 304,
    l1_kib: 64,
    l2_kib: 4096,
    llc_kib: 262_144,
};

/// The GPUs that there are kernels for.
pub static MACHINES: [Machine; 2] = [
    Machine {
        arch: "gfx942",
        name: "MI300X",
        device: MI300X,
        xcds: 8,
        clock: 2.1e9,
        lds_rate: 128.0,
        l2_rate: 2048.0,
        mall_rate: 17.2e12,
        hbm_rate: 5.3e12,
        lds_granule: 256,
    },
    Machine {
        arch: "gfx950",
        name: "MI355X",
        device: Device { caps: Caps::GFX950, units: 256, l1_kib: 160, ..MI300X },
        xcds: 8,
        clock: 2.4e9,
        lds_rate: 128.0,
        l2_rate: 2048.0,
        mall_rate: 17.2e12,
        hbm_rate: 8.0e12,
        lds_granule: 1280,
    },
];

impl Machine {
    /// The machine of an architecture's name.
    pub fn of(arch: &str) -> Option<&'static Machine> {
        MACHINES.iter().find(|machine| machine.arch == arch)
    }

    /// Clocks for which a matrix instruction keeps its SIMD, or `None` if it is not one. `eight_bits`: whether an operand of
    /// an f8f6f4 instruction has 8 bits, which halves its rate.
    pub fn matrix_clocks(mnemonic: &str, eight_bits: bool) -> Option<u32> {
        if !mnemonic.starts_with("v_mfma_") && !mnemonic.starts_with("v_smfmac_") {
            return None;
        }
        let rows = if mnemonic.contains("_32x32x") { 32 } else { 16 };
        Some(if mnemonic.ends_with("_f8f6f4") && eight_bits { 2 * rows } else { rows })
    }

    /// Workgroups that a compute unit holds: by registers, by LDS, by wave slots (8 a SIMD).
    pub fn occupancy(&self, registers: u32, lds_bytes: u32, waves: u32) -> [u32; 3] {
        let waves_a_simd = (512 / registers.next_multiple_of(8).max(8)).min(8);
        let lds = self.device.l1_kib * 1024;
        let by_lds =
            if lds_bytes == 0 { u32::MAX } else { lds / lds_bytes.next_multiple_of(self.lds_granule) };
        [4 * waves_a_simd / waves, by_lds, 32 / waves]
    }
}

#[cfg(test)]
mod tests {
    use super::Machine;

    #[test]
    fn occupancy_is_the_least_of_registers_lds_and_slots() {
        let machine = Machine::of("gfx942").expect("it is known");
        // 100 registers: 104 are given, four waves fit a SIMD, sixteen waves are two workgroups of eight.
        assert_eq!(machine.occupancy(100, 30_000, 8), [2, 2, 4]);
        assert_eq!(machine.occupancy(512, 0, 4), [1, u32::MAX, 8]);
    }

    #[test]
    fn matrix_instructions_have_the_documented_clocks() {
        let clocks = Machine::matrix_clocks;
        assert_eq!(clocks("v_mfma_scale_f32_16x16x128_f8f6f4", false), Some(16));
        assert_eq!(clocks("v_mfma_f32_32x32x64_f8f6f4", true), Some(64));
        assert_eq!(clocks("v_smfmac_f32_16x16x64_fp8_fp8", true), Some(16));
        assert_eq!(clocks("v_add_f32", true), None);
    }
}
