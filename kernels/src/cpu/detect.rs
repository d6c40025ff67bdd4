//! What machine this is: features, cores, caches, name.

use std::fs;
use std::thread;

use crate::backend::Fingerprint;
use crate::device::{Caps, Device};
use crate::family::BackendKind;

/// The host's processor as a device.
pub struct Cpu {
    pub(super) device: Device,
    pub(super) fingerprint: Fingerprint,
}

impl Cpu {
    /// Describes the processor this runs on.
    pub fn detect() -> Self {
        Cpu::with_caps(detected_caps())
    }

    /// The same processor as if it had only these features, of those it has: to test or to compare paths.
    pub fn with_caps(caps: Caps) -> Self {
        let detected = detected_caps();
        let caps = Caps::NAMES
            .iter()
            .filter(|(_, cap)| detected.contains(*cap) && caps.contains(*cap))
            .fold(Caps::NONE, |all, (_, cap)| all.with(*cap));
        let units = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let device = Device {
            backend: BackendKind::Cpu,
            caps,
            units,
            l1_kib: cache_kib(1).unwrap_or(32),
            l2_kib: cache_kib(2).unwrap_or(512),
            llc_kib: (1..=4).rev().find_map(cache_kib).unwrap_or(8192),
        };
        let features = match caps.names().map(String::from).collect::<Vec<_>>() {
            names if names.is_empty() => vec!["portable".into()],
            names => names,
        };
        let fingerprint = Fingerprint { backend: BackendKind::Cpu, model: model_name(), features, units };
        Cpu { device, fingerprint }
    }
}

#[cfg(target_arch = "x86_64")]
fn detected_caps() -> Caps {
    macro_rules! has {
        ($($feature:tt),+) => { $(std::arch::is_x86_feature_detected!($feature))&&+ };
    }
    [
        (Caps::AVX2, has!("avx2", "fma")),
        (Caps::AVX512, has!("avx512f", "avx512bw", "avx512vl", "avx512dq")),
        (Caps::AVX512_VBMI, has!("avx512vbmi")),
        (Caps::AVX512_BF16, has!("avx512bf16")),
        (Caps::AVX512_VNNI, has!("avx512vnni")),
        // AMD's cores run the dot at the rate of FMA. On a Xeon (family 6, model 207) it ran at a sixth of it.
        (Caps::FULL_RATE_BF16, has!("avx512bf16") && cpuinfo("vendor_id").as_deref() == Some("AuthenticAMD")),
    ]
    .into_iter()
    .filter(|(_, has)| *has)
    .fold(Caps::NONE, |all, (cap, _)| all.with(cap))
}

#[cfg(not(target_arch = "x86_64"))]
fn detected_caps() -> Caps {
    Caps::NONE
}

/// KiB of the first core's data or unified cache of a level, from sysfs.
fn cache_kib(level: u32) -> Option<u32> {
    let caches = "/sys/devices/system/cpu/cpu0/cache";
    (0..8).find_map(|index| {
        let read = |file: &str| fs::read_to_string(format!("{caches}/index{index}/{file}")).ok();
        if read("level")?.trim().parse() != Ok(level) || read("type")?.trim() == "Instruction" {
            return None;
        }
        parse_size(read("size")?.trim())
    })
}

/// Reads sysfs sizes such as `48K`.
fn parse_size(text: &str) -> Option<u32> {
    match text.strip_suffix('M') {
        Some(mib) => mib.parse::<u32>().ok()?.checked_mul(1024),
        None => text.strip_suffix('K')?.parse().ok(),
    }
}

/// A field of the first core in Linux's description of the processor.
fn cpuinfo(name: &str) -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_string())
    })
}

fn model_name() -> String {
    match cpuinfo("model name") {
        // Virtual machines hide the name; family and model tell microarchitectures apart even then.
        Some(name) => match (cpuinfo("cpu family"), cpuinfo("model")) {
            (Some(family), Some(model)) => format!("{name} family {family} model {model}"),
            _ => name,
        },
        None => cpuinfo("CPU part").map_or(std::env::consts::ARCH.to_string(), |part| {
            format!("{} part {part}", std::env::consts::ARCH)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysfs_sizes_are_read_in_either_unit() {
        assert_eq!(parse_size("48K"), Some(48));
        assert_eq!(parse_size("2M"), Some(2048));
        assert_eq!(parse_size("lots"), None);
    }

    #[test]
    fn a_restricted_device_has_no_feature_beyond_the_restriction() {
        let none = Cpu::with_caps(Caps::NONE);
        assert_eq!(none.device.caps, Caps::NONE);
        assert_eq!(none.fingerprint.features, ["portable"]);
        let two = Cpu::with_caps(Caps::AVX2);
        assert!(Caps::AVX2.contains(two.device.caps));
    }

    #[test]
    fn the_fingerprint_is_the_same_every_time() {
        let (first, second) = (Cpu::detect(), Cpu::detect());
        assert_eq!(first.fingerprint, second.fingerprint);
        assert!(first.device.units >= 1 && first.device.llc_kib >= first.device.l1_kib);
    }
}
