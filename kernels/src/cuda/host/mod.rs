//! The host side: a Hopper GPU as a [`Backend`].
//!
//! All `unsafe` is in this module: [`driver`] wraps the CUDA driver, [`compiler`] NVRTC, [`blaslt`] cuBLASLt; each loads its
//! library when first used, so that one binary runs on machines without CUDA.

mod blaslt;
mod compiler;
mod device;
mod driver;
mod launch;
mod session;

use std::collections::HashMap;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use crate::backend::{Backend, Fingerprint, Operands, Regime, RunFault, Session};
use crate::config::Config;
use crate::cuda::archive::Archive;
use crate::cuda::{library, source};
use crate::device::{Caps, Device};
use crate::family::{BackendKind, Family, is_launchable};
use crate::format::Format;
use crate::problem::Problem;
use blaslt::Library;
use compiler::Compiler;
pub use device::{DeviceBuffer, DeviceGemm, DeviceOperands, DeviceWeight};
use driver::{Context, Fault, Kernel};
pub use session::CudaSession;

/// One NVIDIA GPU.
pub struct Cuda {
    device: Device,
    fingerprint: Fingerprint,
    driver_version: u32,
    compiler: Compiler,
    /// Kernels that snap activations.
    quantisers: Mutex<HashMap<(Format, bool), Kernel>>,
    library: OnceLock<Result<Library, Fault>>,
    // Last, so that what was made in it goes first.
    context: Context,
}

impl Cuda {
    /// Opens a GPU by its ordinal. Compiled kernels are kept in `cache`, or only in memory.
    ///
    /// # Errors
    /// Without a driver or a device of that ordinal. A GPU that no kernel here runs on is no error: the predicate
    /// refuses every config on it.
    pub fn open(ordinal: u32, cache: Option<PathBuf>) -> Result<Cuda, RunFault> {
        Cuda::try_open(ordinal, cache).map_err(RunFault::Failed)
    }

    fn try_open(ordinal: u32, cache: Option<PathBuf>) -> Result<Cuda, driver::Fault> {
        let context = Context::open(ordinal)?;
        let major = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let units = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let l2_kib = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? / 1024;
        let shared =
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?;
        let caps = if (major, minor) == (9, 0) { Caps::SM_90A } else { Caps::NONE };
        let features = vec![
            format!("sm_{major}{minor}"),
            format!("l2_{}mib", l2_kib.div_ceil(1024)),
            format!("memory_{}gib", context.memory()? >> 30),
        ];
        Ok(Cuda {
            device: Device {
                backend: BackendKind::Cuda,
                caps,
                units,
                l1_kib: shared / 1024,
                l2_kib,
                llc_kib: l2_kib,
            },
            fingerprint: Fingerprint { backend: BackendKind::Cuda, model: context.name()?, features, units },
            driver_version: context.driver_version()?,
            compiler: Compiler::new(cache),
            quantisers: Mutex::default(),
            library: OnceLock::new(),
            context,
        })
    }

    /// As [`Cuda::open`], for a device that runs a table: kernels come from the archive beside it. Those that it does not
    /// hold are compiled, where NVRTC is there, and kept nowhere.
    ///
    /// # Errors
    /// As [`Cuda::open`].
    pub fn open_with(ordinal: u32, archive: Archive) -> Result<Cuda, RunFault> {
        let mut cuda = Cuda::open(ordinal, None)?;
        cuda.compiler = Compiler::with_archive(archive);
        Ok(cuda)
    }

    /// How many GPUs there are; 0 without a driver.
    pub fn count() -> u32 {
        Context::count()
    }

    /// The folder that compiled kernels are usually kept in, if the user has a home.
    pub fn usual_cache() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        set("XDG_CACHE_HOME")
            .or_else(|| Some(set("HOME")?.join(".cache")))
            .map(|base| base.join("tilewright/cuda"))
    }

    /// The CUDA version the driver supports, as 1000 · major + 10 · minor. Not part of the fingerprint: tables outlive
    /// driver updates.
    pub fn driver_version(&self) -> u32 {
        self.driver_version
    }

    /// cuBLASLt, loaded when first asked for.
    fn library(&self) -> Result<&Library, Fault> {
        self.library.get_or_init(Library::open).as_ref().map_err(Clone::clone)
    }

    /// The kernel that snaps activations to a format.
    fn quantiser(&self, format: Format, codes: bool) -> Result<Kernel, Fault> {
        let mut loaded = self.quantisers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = loaded.get(&(format, codes)) {
            return Ok(kernel.clone());
        }
        let source = source::quantise(format, codes).ok_or("a bf16 activation is not snapped")?;
        let kernel = Kernel::load(&self.compiler.cubin(&source)?, source.entry, 0)?;
        loaded.insert((format, codes), kernel.clone());
        Ok(kernel)
    }

    /// As [`Backend::open`], with what only a CUDA session has.
    ///
    /// # Errors
    /// As there.
    pub fn session(&self, operands: Operands, regime: Regime) -> Result<CudaSession<'_>, RunFault> {
        CudaSession::open(self, operands, regime)
    }
}

/// Compiles the kernels of these launches, and what snaps their activations, into an archive. Needs NVRTC and no GPU.
///
/// # Errors
/// If NVRTC is missing or a kernel does not compile.
pub fn compile_archive(launches: &[(Problem, Config)], cache: Option<PathBuf>) -> Result<Archive, RunFault> {
    let mut sources = Vec::new();
    for (problem, config) in launches {
        let snaps = source::quantise(problem.a, library::is_library(config.family()));
        for source in launch::source(config, problem).into_iter().chain(snaps) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    let compiler = Compiler::new(cache);
    compiler.warm(&sources);
    let mut archive = Archive::default();
    for source in &sources {
        archive.insert(source, compiler.cubin(source).map_err(RunFault::Failed)?);
    }
    Ok(archive)
}

impl Backend for Cuda {
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
        // Events tick every half microsecond (CUDA driver API, cuEventElapsedTime), and a timing spans several launches.
        Duration::from_nanos(500 / session::MIN_LAUNCHES as u64)
    }

    fn suggest(&self, problem: &Problem) -> Vec<Config> {
        let fits = problem.fault().is_none() && problem.a == problem.b;
        if !fits || !library::FAMILY.formats.contains(&problem.b) || self.context.enter().is_err() {
            return Vec::new();
        }
        let found = self.library().and_then(|library| library.algorithms(problem));
        found
            .unwrap_or_default()
            .into_iter()
            .filter(|c| is_launchable(c, problem, &self.device).is_ok())
            .collect()
    }

    fn ready(&self, launches: &[(Problem, Config)]) {
        let mut seen = HashSet::new();
        let sources: Vec<_> = launches
            .iter()
            .filter_map(|(problem, config)| launch::source(config, problem))
            .filter(|s| seen.insert(s.clone()))
            .collect();
        self.compiler.warm(&sources);
    }

    fn open(&self, operands: Operands, regime: Regime) -> Result<Box<dyn Session + '_>, RunFault> {
        Ok(Box::new(self.session(operands, regime)?))
    }
}
