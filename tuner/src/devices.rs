//! The devices of this machine by name: `cpu`, `cuda:0`, `hip:1`, ….
//!
//! A name says which device of this machine, here and now; what identifies a device across machines is its
//! [`Fingerprint`](tilewright_kernels::backend::Fingerprint). Drivers are loaded when a name asks for them, so one binary
//! runs on machines with and without GPUs.

use anyhow::{Context, bail};
use tilewright_kernels::BackendKind;
use tilewright_kernels::backend::Backend;
use tilewright_kernels::cpu::Cpu;
use tilewright_kernels::hip::compile::{NotFound, Toolchain};

/// The backend of a device's name; the device itself need not be there.
///
/// # Errors
/// If it is no device's name.
pub fn kind(name: &str) -> anyhow::Result<BackendKind> {
    let kind = name.split(':').next().and_then(BackendKind::from_name);
    kind.with_context(|| {
        format!("--device {name}: no such device; names are `cpu`, `cuda:N` and `hip:N` (see `tilewright devices`)")
    })
}

/// Opens a device by its name.
///
/// # Errors
/// If there is no such device, its driver is missing, or this build has no backend for it.
pub fn open(name: &str) -> anyhow::Result<Box<dyn Backend>> {
    let refused = || format!("--device {name}");
    match name.split_once(':') {
        None if name == "cpu" => Ok(Box::new(Cpu::detect())),
        Some(("cuda", ordinal)) => cuda(parse_ordinal(ordinal).with_context(refused)?).with_context(refused),
        None if name == "cuda" => {
            bail!("--device cuda: say which one, for instance `cuda:0` (see `tilewright devices`)")
        }
        Some(("hip", ordinal)) => hip(parse_ordinal(ordinal).with_context(refused)?).with_context(refused),
        None if name == "hip" => hip(0).with_context(refused),
        _ => bail!(
            "--device {name}: no such device; names are `cpu`, `cuda:N` and `hip:N` (see `tilewright devices`)"
        ),
    }
}

/// Opens a device of the kind that a table was made for: the first one there is.
///
/// # Errors
/// As [`open`].
pub fn open_kind(kind: BackendKind) -> anyhow::Result<Box<dyn Backend>> {
    match kind {
        BackendKind::Cpu => open("cpu"),
        BackendKind::Cuda => open("cuda:0"),
        BackendKind::Hip => open("hip:0"),
    }
}

fn parse_ordinal(text: &str) -> anyhow::Result<u32> {
    text.parse().ok().with_context(|| format!("`{text}` is not the number of a device; the first one is 0"))
}

#[cfg(feature = "cuda")]
fn cuda(ordinal: u32) -> anyhow::Result<Box<dyn Backend>> {
    use tilewright_kernels::cuda::Cuda;
    let count = Cuda::count();
    if count > 0 && ordinal >= count {
        bail!("no such GPU: this machine has {count}, numbered from 0");
    }
    Ok(Box::new(Cuda::open(ordinal, Cuda::usual_cache())?))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_: u32) -> anyhow::Result<Box<dyn Backend>> {
    bail!("this build has no CUDA backend; build it with the feature `cuda`")
}

#[cfg(feature = "hip")]
fn hip(ordinal: u32) -> anyhow::Result<Box<dyn Backend>> {
    use tilewright_kernels::hip::{Hip, compile::Compiler};
    let count = hip_count();
    if count > 0 && ordinal >= count {
        bail!("no such GPU: this machine has {count}, numbered from 0");
    }
    Ok(Box::new(Hip::open(ordinal, Compiler::usual_cache())?))
}

#[cfg(not(feature = "hip"))]
fn hip(_: u32) -> anyhow::Result<Box<dyn Backend>> {
    bail!("this build has no HIP backend; build it with the feature `hip`")
}

#[cfg(feature = "hip")]
fn hip_count() -> u32 {
    tilewright_kernels::hip::Hip::count()
}

#[cfg(not(feature = "hip"))]
fn hip_count() -> u32 {
    0
}

/// The compiler of HIP kernels: ROCm's where it is, else a clang.
///
/// # Errors
/// Where one was looked for.
pub fn hip_toolchain() -> Result<Box<dyn Toolchain>, NotFound> {
    #[cfg(feature = "hip")]
    return tilewright_kernels::hip::toolchain();
    #[cfg(not(feature = "hip"))]
    tilewright_kernels::hip::compile::Clang::find().map(|clang| Box::new(clang) as Box<dyn Toolchain>)
}

/// One name of the list of devices.
pub struct Listed {
    /// What [`open`] takes.
    pub name: String,
    /// The device, or why there is none of this kind.
    pub backend: anyhow::Result<Box<dyn Backend>>,
}

/// Every device of this machine, and for each backend without one an entry under its bare name that says why.
pub fn list() -> Vec<Listed> {
    let mut listed = Vec::new();
    let mut add = |name: String| listed.push(Listed { backend: open(&name), name });
    add("cpu".into());
    for ordinal in 0..cuda_count() {
        add(format!("cuda:{ordinal}"));
    }
    for ordinal in 0..hip_count() {
        add(format!("hip:{ordinal}"));
    }
    if cuda_count() == 0 {
        listed.push(Listed { name: BackendKind::Cuda.name().into(), backend: cuda(0) });
    }
    if hip_count() == 0 {
        listed.push(Listed { name: BackendKind::Hip.name().into(), backend: hip(0) });
    }
    listed
}

#[cfg(feature = "cuda")]
fn cuda_count() -> u32 {
    tilewright_kernels::cuda::Cuda::count()
}

#[cfg(not(feature = "cuda"))]
fn cuda_count() -> u32 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str) -> String {
        format!("{:#}", open(name).err().expect("there is no such device"))
    }

    #[test]
    fn names_that_are_no_device_say_what_a_name_is() {
        assert!(refusal("gpu").contains("names are `cpu`, `cuda:N` and `hip:N`"));
        assert!(refusal("cuda").contains("`cuda:0`"));
        assert!(refusal("cuda:").contains("not the number of a device"));
        assert!(refusal("cuda:-1").contains("not the number of a device"));
        assert!(refusal("cuda:4096").starts_with("--device cuda:4096: "));
        assert!(refusal("hip:x").contains("not the number of a device"));
        assert!(refusal("hip:4096").starts_with("--device hip:4096: "));
    }

    #[test]
    fn the_processor_is_always_listed_first() {
        let listed = list();
        let cpu = listed[0].backend.as_ref().expect("the processor is there");
        assert_eq!((listed[0].name.as_str(), cpu.device().backend), ("cpu", BackendKind::Cpu));
        assert!(
            listed[1..].iter().all(|other| other.name.starts_with("cuda") || other.name.starts_with("hip"))
        );
    }
}
