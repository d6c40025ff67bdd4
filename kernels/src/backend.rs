//! The one trait behind which a backend lives: describe the device, list the families, upload operands, launch into an
//! output, time a launch. Adding a backend touches no other crate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, fnv1a};
use crate::device::Device;
use crate::family::{BackendKind, Family, Reject};
use crate::format::quantize::Quantized;
use crate::problem::Problem;

/// A device that kernels can be run and timed on.
pub trait Backend: Send + Sync {
    /// What predicate and prior need to know of the device.
    fn device(&self) -> &Device;

    /// What identifies the device: tables are keyed by it.
    fn fingerprint(&self) -> &Fingerprint;

    /// The families this backend can run, in canonical order.
    fn families(&self) -> Vec<&'static Family>;

    /// The shortest time the device's clock can tell apart.
    fn timer_resolution(&self) -> Duration;

    /// Candidates for a problem that no enumeration gives: a vendor library's algorithms, by their full description.
    /// They are subject to the predicate and the gate as all others.
    fn suggest(&self, _problem: &Problem) -> Vec<Config> {
        Vec::new()
    }

    /// Says what is about to be run, so that a backend that compiles can do so on every core at once. What cannot be
    /// compiled fails when it is run.
    fn ready(&self, _launches: &[(Problem, Config)]) {}

    /// Takes the operands of one weight and readies them for runs and timings at any M up to the activation's rows.
    ///
    /// # Errors
    /// If the operands do not fit together or into memory.
    fn open(&self, operands: Operands, regime: Regime) -> Result<Box<dyn Session + '_>, RunFault>;
}

/// The operands of one weight on a device. Layouts are made, and kernels compiled, when first used.
pub trait Session {
    /// Runs once into a poisoned output between guard zones, and gives D widened to f32, row-major M × N.
    ///
    /// # Errors
    /// If the config is not launchable, fails, or writes outside its output.
    fn run(&mut self, problem: &Problem, config: &Config, output: &mut Vec<f32>) -> Result<(), RunFault>;

    /// Times one launch in the session's regime. `slot` chooses the copy of the operands, modulo their number, so that
    /// a caller who counts upwards rotates through them.
    ///
    /// # Errors
    /// If the config is not launchable or fails.
    fn time(&mut self, problem: &Problem, config: &Config, slot: usize) -> Result<Duration, RunFault>;

    /// Gives elements of the output that the last timed launch wrote, widened to f32: those at the positions (row-major
    /// M × N) of `elements`, or all of them. False where the backend keeps none to look at.
    ///
    /// # Errors
    /// If they cannot be read back.
    fn timed_output(&mut self, elements: Elements<'_>, output: &mut Vec<f32>) -> Result<bool, RunFault> {
        let _ = (elements, output);
        Ok(false)
    }

    /// Forgets what was prepared for the configs not in `keep`, to bound memory in a long search.
    fn retain(&mut self, keep: &[Config]);
}

/// Which elements of an output are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// Every one.
    All,
    /// Those at these positions of the row-major output.
    At(&'a [usize]),
}

/// Operands of one GEMM size: the activation as the engine has it, and the weight in every format under trial.
#[derive(Clone)]
pub struct Operands {
    /// Rows of A. A problem may have fewer: it takes the first ones.
    pub m: usize,
    /// Rows of B.
    pub n: usize,
    /// The contracted dimension.
    pub k: usize,
    /// A, row-major M × K, values already rounded to bf16.
    pub activation: Arc<[f32]>,
    /// B in each format, N rows of K.
    pub weights: Vec<Arc<Quantized>>,
    /// One value per output channel, for problems with [`crate::Epilogue::Bias`].
    pub bias: Option<Arc<[f32]>>,
}

/// Where the operands are when a timed launch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regime {
    /// Weights and activations outside every cache, as when a model's other layers ran in between.
    Cold,
    /// As the previous launch left them.
    Hot,
}

/// What identifies a device across machines and sessions: never an index, never a host name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Which backend drives it.
    pub backend: BackendKind,
    /// The vendor's name of it.
    pub model: String,
    /// Instruction-set features, in canonical order.
    pub features: Vec<String>,
    /// Cores, compute units or multiprocessors.
    pub units: u32,
}

/// The feature of a device whose times come from a model, not from a clock.
pub const SIMULATED: &str = "simulated";

impl Fingerprint {
    /// Whether the device's times come from a model: nothing measured there means anything elsewhere.
    pub fn is_simulated(&self) -> bool {
        self.features.iter().any(|feature| feature == SIMULATED)
    }

    /// The folder name of this device's tables: a readable slug and a hash of [`Fingerprint`]'s text.
    pub fn key(&self) -> String {
        let slug: String = self
            .model
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' })
            .collect();
        let words: Vec<&str> = slug
            .split_whitespace()
            .filter(|w| !matches!(*w, "r" | "tm" | "processor" | "cpu"))
            .take(4)
            .collect();
        let hash = fnv1a(self.to_string().as_bytes()) as u32;
        format!("{}-{}-{}u-{hash:08x}", self.backend, words.join("-"), self.units)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fingerprint { backend, model, features, units } = self;
        write!(f, "{backend} | {model} | {} | {units} units", features.join("+"))
    }
}

/// Why a run gave no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFault {
    /// The predicate says no.
    NotLaunchable(Reject),
    /// The output's guard zone was written to, or part of the output was not written.
    OutOfBounds(String),
    /// The device, the driver or the operands.
    Failed(String),
}

impl fmt::Display for RunFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunFault::NotLaunchable(reject) => write!(f, "not launchable: {reject}"),
            RunFault::OutOfBounds(what) => write!(f, "out of bounds: {what}"),
            RunFault::Failed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for RunFault {}

impl From<Reject> for RunFault {
    fn from(reject: Reject) -> Self {
        RunFault::NotLaunchable(reject)
    }
}
