//! The host side: an AMD GPU as a [`Backend`].
//!
//! All `unsafe` of the backend is in this module: [`library`] finds ROCm's functions when first used, [`runtime`] wraps
//! them in owned types, [`hiprtc`] is ROCm's compiler. What is launched comes as data, from [`super::plan`] and
//! [`super::pack`], which the emulator's tests carry out too.
//!
//! The runtime may be the stand-in of `kernels/hip-emulated`, which emulates a GPU. It says so, and the device's
//! fingerprint then has the feature `simulated`: its times are a model's, and tables made there are marked.

mod conditions;
mod engine;
mod hiprtc;
mod library;
mod loaded;
mod lock;
mod runtime;
mod session;

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use self::lock::DeviceLock;
use self::runtime::{Fault, Gpu};
use super::compile::{Clang, Compiler, NotFound, Toolchain};
use super::launch::Source;
use crate::backend::{Backend, Fingerprint, Operands, Regime, RunFault, SIMULATED, Session};
use crate::config::Config;
use crate::device::{Caps, Device};
use crate::family::{BackendKind, Family};
use crate::problem::Problem;
pub use conditions::Conditions;
pub use engine::{DeviceMemory, DeviceWeight, Launchable};
pub use session::HipSession;

/// One AMD GPU.
pub struct Hip {
    device: Device,
    fingerprint: Fingerprint,
    arch: String,
    pci: String,
    runtime_version: u32,
    compiler: Result<Compiler, NotFound>,
    /// Held from the first session on: two processes that time on one GPU would measure each other.
    lock: Mutex<Option<DeviceLock>>,
    gpu: Gpu,
}

impl Hip {
    /// Opens a GPU by its ordinal. Compiled kernels are kept in `cache`, or nowhere. A missing compiler is said with the
    /// first kernel that has to be compiled.
    ///
    /// # Errors
    /// Without a runtime or a device of that ordinal. A GPU that no kernel here runs on is no error: the predicate
    /// refuses every config on it.
    pub fn open(ordinal: u32, cache: Option<PathBuf>) -> Result<Hip, RunFault> {
        Hip::try_open(ordinal, cache).map_err(RunFault::Failed)
    }

    fn try_open(ordinal: u32, cache: Option<PathBuf>) -> Result<Hip, Fault> {
        let gpu = Gpu::open(ordinal)?;
        let found = gpu.describe()?;
        let arch = found.arch.split(':').next().unwrap_or_default().to_string();
        // Compute units of a whole accelerator die, to tell the dies of a partition where the runtime does not.
        let (caps, of_die) = match arch.as_str() {
            "gfx942" => (Caps::GFX942, 38),
            "gfx950" => (Caps::GFX950, 32),
            _ => (Caps::NONE, found.units),
        };
        let xcds = found.xcds.unwrap_or(found.units.div_ceil(of_die));
        let mut features: Vec<String> = vec![arch.clone()];
        // `sramecc+` and `xnack-`: modes the device runs in, part of what identifies it.
        features.extend(
            found.arch.split(':').skip(1).filter_map(|mode| mode.strip_suffix('+')).map(String::from),
        );
        features.extend([
            format!("xcd_{xcds}"),
            format!("lds_{}kib", found.lds / 1024),
            format!("clock_{}mhz", found.clock_khz / 1000),
            format!("memory_{}gib", (found.memory + (1 << 29)) >> 30),
        ]);
        if library::is_simulated() {
            features.push(SIMULATED.to_string());
        }
        Ok(Hip {
            device: Device {
                backend: BackendKind::Hip,
                caps,
                units: found.units,
                l1_kib: (found.lds / 1024) as u32,
                // Of one XCD. The runtime tells nothing of the Infinity Cache behind: 256 MiB on both parts.
                l2_kib: if found.l2 > 0 { found.l2 / 1024 } else { 4096 },
                llc_kib: 256 * 1024,
            },
            fingerprint: Fingerprint {
                backend: BackendKind::Hip,
                model: found.name,
                features,
                units: found.units,
            },
            arch,
            pci: found.pci,
            runtime_version: found.runtime_version,
            compiler: toolchain().map(|toolchain| Compiler::new(toolchain, cache)),
            lock: Mutex::new(None),
            gpu,
        })
    }

    /// How many GPUs there are; 0 without a runtime.
    pub fn count() -> u32 {
        Gpu::count()
    }

    /// Why there is no runtime, if there is none.
    pub fn missing() -> Option<String> {
        library::runtime().err()
    }

    /// The architecture that kernels are compiled for: `gfx942`, `gfx950`.
    pub fn arch(&self) -> &str {
        &self.arch
    }

    /// Whether times come from a model: the runtime is the stand-in.
    pub fn is_simulated(&self) -> bool {
        self.fingerprint.is_simulated()
    }

    /// The compiler.
    ///
    /// # Errors
    /// Where one was looked for.
    pub fn compiler(&self) -> Result<&Compiler, NotFound> {
        self.compiler.as_ref().map_err(Clone::clone)
    }

    /// Version of the HIP runtime: 10^7 · major + 10^5 · minor + patch. Not part of the fingerprint: tables outlive
    /// driver updates.
    pub fn runtime_version(&self) -> u32 {
        self.runtime_version
    }

    /// Temperature and clock now, as far as the operating system tells.
    pub fn conditions(&self) -> Conditions {
        Conditions::read(&self.pci)
    }

    /// Compiles the kernels of these launches on every core, so that sessions find them ready. What cannot be compiled
    /// fails when it is run.
    fn compile(&self, launches: &[(Problem, Config)]) {
        let Ok(compiler) = &self.compiler else { return };
        let mut seen = std::collections::HashSet::new();
        let sources: Vec<Source> = launches
            .iter()
            .filter_map(|(problem, config)| super::plan(config, problem, &self.device))
            .flat_map(|plan| plan.steps.into_iter().map(|step| step.source))
            .filter(|source| seen.insert(source.clone()))
            .collect();
        compiler.warm(&sources, &self.arch);
    }

    /// As [`Backend::open`].
    ///
    /// # Errors
    /// As there.
    pub fn session(&self, operands: Operands, regime: Regime) -> Result<HipSession<'_>, RunFault> {
        self.lock().map_err(RunFault::Failed)?;
        HipSession::open(self, operands, regime)
    }

    fn lock(&self) -> Result<(), Fault> {
        let mut lock = self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if lock.is_none() && !self.is_simulated() {
            *lock = Some(DeviceLock::take(&self.pci)?);
        }
        Ok(())
    }

    fn object(&self, source: &Source) -> Result<Vec<u8>, Fault> {
        let compiler = self.compiler.as_ref().map_err(ToString::to_string)?;
        compiler.object(source, &self.arch).map_err(|fault| fault.to_string())
    }
}

/// The compiler to use: what `TILEWRIGHT_HIP_CLANG` names, else ROCm's hiprtc, else a clang (see [`Clang::find`]).
///
/// # Errors
/// Where one was looked for.
pub fn toolchain() -> Result<Box<dyn Toolchain>, NotFound> {
    let no_hiprtc = if Clang::is_named() {
        None
    } else {
        match hiprtc::Hiprtc::find() {
            Ok(hiprtc) => return Ok(Box::new(hiprtc)),
            Err(why) => Some(why),
        }
    };
    match Clang::find() {
        Ok(clang) => Ok(Box::new(clang)),
        Err(NotFound(tried)) => Err(NotFound(no_hiprtc.into_iter().chain(tried).collect())),
    }
}

/// The runtime's version, if there is one.
fn runtime_version() -> Option<u32> {
    let api = library::runtime().ok()?;
    let mut version = 0;
    // SAFETY: `version` is a valid place.
    let status = unsafe { (api.hipRuntimeGetVersion)(&mut version) };
    u32::try_from(version).ok().filter(|_| status == 0)
}

impl Backend for Hip {
    fn device(&self) -> &Device {
        &self.device
    }

    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    fn families(&self) -> Vec<&'static Family> {
        super::FAMILIES.to_vec()
    }

    fn timer_resolution(&self) -> Duration {
        if self.is_simulated() {
            return Duration::from_nanos(1);
        }
        // Events tick about every microsecond (hipEventElapsedTime), and a timing spans several launches.
        Duration::from_nanos(1000 / session::MIN_LAUNCHES as u64)
    }

    fn ready(&self, launches: &[(Problem, Config)]) {
        self.compile(launches);
    }

    fn open(&self, operands: Operands, regime: Regime) -> Result<Box<dyn Session + '_>, RunFault> {
        Ok(Box::new(self.session(operands, regime)?))
    }
}
