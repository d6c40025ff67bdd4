//! The GPUs that can be emulated, as ROCm describes them (AMD's accelerator specification pages).

/// What a GPU is like.
#[derive(Debug, PartialEq)]
pub struct Gpu {
    /// The value of `TILEWRIGHT_EMULATED_GPU`.
    pub key: &'static str,
    /// The name that HIP reports.
    pub name: &'static str,
    /// The architecture with its modes.
    pub arch: &'static str,
    /// Compute units.
    pub units: u32,
    /// Accelerator dies.
    pub xcds: u32,
    /// LDS of a compute unit and of a workgroup, in KiB.
    pub lds_kib: u32,
    /// Highest engine clock, in MHz.
    pub clock_mhz: u32,
    /// Memory, in GiB.
    pub memory_gib: usize,
    /// Memory rate, in GB/s.
    pub memory_gbs: u32,
}

/// L2 of one accelerator die, in KiB.
pub const L2_KIB: u32 = 4096;

/// The GPUs.
pub const GPUS: [Gpu; 2] = [
    Gpu {
        key: "mi355x",
        name: "AMD Instinct MI355X",
        arch: "gfx950:sramecc+:xnack-",
        units: 256,
        xcds: 8,
        lds_kib: 160,
        clock_mhz: 2400,
        memory_gib: 288,
        memory_gbs: 8000,
    },
    Gpu {
        key: "mi300x",
        name: "AMD Instinct MI300X",
        arch: "gfx942:sramecc+:xnack-",
        units: 304,
        xcds: 8,
        lds_kib: 64,
        clock_mhz: 2100,
        memory_gib: 192,
        memory_gbs: 5300,
    },
];

impl Gpu {
    /// The GPU of that name; the first one if none is named.
    pub fn named(name: Option<&str>) -> Option<&'static Gpu> {
        match name {
            None | Some("") => Some(&GPUS[0]),
            Some(name) => GPUS.iter().find(|gpu| gpu.key == name),
        }
    }
}
