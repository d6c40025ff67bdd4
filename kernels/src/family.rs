//! Kernel families, their parameter spaces, and the one predicate.

use core::fmt;

use crate::config::Config;
use crate::cpu;
use crate::cuda;
use crate::device::Device;
use crate::format::Format;
use crate::hip;
use crate::layout::Layout;
use crate::problem::{Problem, named_enum};

/// The most parameters a family may have.
pub const MAX_PARAMS: usize = 16;

/// A kernel implementation with a parameter space.
///
/// Families are statics of their backend's module, compared by name. Bumping `revision` when a kernel's code changes
/// what it computes or how fast changes every config's identity, and so marks exactly the rows that name it as stale.
pub struct Family {
    /// Dotted name, backend first: `cpu.skinny_mxfp6`.
    pub name: &'static str,
    /// Version of the kernel's code.
    pub revision: u16,
    /// Who can run it.
    pub backend: BackendKind,
    /// One line for people.
    pub summary: &'static str,
    /// Weight formats it multiplies.
    pub formats: &'static [Format],
    /// Parameters, sorted by name, at most [`MAX_PARAMS`].
    pub params: &'static [Param],
    /// The family's own part of [`is_launchable`]. Called with a config of this family, a problem whose weight format
    /// is in `formats` and which has no [`Problem::fault`], and a device of this backend. Whatever else is given, the M
    /// at which a config is launchable are one interval: dispatch asks about its ends and not about every M in it.
    pub launchable: fn(&Config, &Problem, &Device) -> Result<(), Reject>,
    /// A config for a weight stored in `layout` that is launchable for every M, or `None` if this family cannot
    /// promise that. Dispatch's last rung and the tuner's baseline.
    pub fallback: fn(&Problem, Layout, &Device) -> Option<Config>,
    /// Whether a launchable config only repeats another's work on this problem, so that a search may leave it out.
    /// Dispatch never asks: such a config runs correctly.
    pub redundant: fn(&Config, &Problem, &Device) -> bool,
    /// Whether a value of one parameter (by its position in `params`) can be part of a launchable, not redundant config
    /// at all, whatever the other parameters are. It only spares an enumeration the others' combinations: what it lets
    /// through is still asked about, what it stops must be hopeless.
    pub narrow: fn(usize, u32, &Problem, &Device) -> bool,
    /// Whether the config gives the same bits on every run.
    pub deterministic: fn(&Config) -> bool,
    /// Analytic estimate of the run time, in seconds on an ideal device. It orders candidates, it never excludes.
    pub prior: fn(&Config, &Problem, &Device) -> f64,
}

impl Family {
    /// Position of a parameter in a config's values.
    pub fn param_index(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|param| param.name == name)
    }
}

impl PartialEq for Family {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.revision == other.revision
    }
}

impl Eq for Family {}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.revision)
    }
}

/// One tuning parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The field's standard term: `tile_m`, `split_k`, …
    pub name: &'static str,
    /// One line for people: unit, and what 0 means where it means something.
    pub doc: &'static str,
    /// Legal values.
    pub domain: Domain,
}

/// The values a parameter can take.
#[derive(Clone, Copy, Debug)]
pub enum Domain {
    /// Numbers, ascending. A config stores the number.
    Numbers(&'static [u32]),
    /// Names. A config stores the position in memory, and the name wherever it is written down.
    Names(&'static [&'static str]),
}

impl Domain {
    /// How many values there are.
    pub const fn len(&self) -> usize {
        match self {
            Domain::Numbers(values) => values.len(),
            Domain::Names(names) => names.len(),
        }
    }

    /// Whether there is no value at all.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stored value at a position of the domain.
    pub const fn value(&self, position: usize) -> u32 {
        match self {
            Domain::Numbers(values) => values[position],
            Domain::Names(_) => position as u32,
        }
    }

    /// The position of a stored value.
    pub fn position(&self, value: u32) -> Option<usize> {
        match self {
            Domain::Numbers(values) => values.iter().position(|v| *v == value),
            Domain::Names(names) => ((value as usize) < names.len()).then_some(value as usize),
        }
    }
}

named_enum! {
    /// Who drives a device.
    BackendKind {
        /// The host's processor: works everywhere.
        Cpu = "cpu",
        /// AMD GPUs through HIP.
        Hip = "hip",
        /// NVIDIA GPUs through CUDA.
        Cuda = "cuda",
    }
}

/// Why a config cannot run a problem on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The parameter at fault, or empty where it is the problem or the device.
    pub param: &'static str,
    /// What is wrong, in words.
    pub reason: &'static str,
}

impl Reject {
    /// A rejection that blames a parameter.
    pub const fn param(param: &'static str, reason: &'static str) -> Self {
        Reject { param, reason }
    }

    /// A rejection that blames the problem or the device.
    pub const fn problem(reason: &'static str) -> Self {
        Reject { param: "", reason }
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.param {
            "" => f.write_str(self.reason),
            param => write!(f, "{param}: {}", self.reason),
        }
    }
}

/// Whether a config can run a problem on a device. The only such predicate: tuner, table compiler and runtime call it.
///
/// # Errors
/// The first reason found why it cannot.
pub fn is_launchable(config: &Config, problem: &Problem, device: &Device) -> Result<(), Reject> {
    let family = config.family();
    if family.backend != device.backend {
        return Err(Reject::problem("the device belongs to another backend"));
    }
    if !family.formats.contains(&problem.b) {
        return Err(Reject::problem("the family does not multiply this weight format"));
    }
    if let Some(fault) = problem.fault() {
        return Err(Reject::problem(fault));
    }
    (family.launchable)(config, problem, device)
}

/// Every family that is built in, in canonical order: the CPU's, CUDA's, HIP's, each by name.
pub fn families() -> &'static [&'static Family] {
    const BACKENDS: [&[&Family]; 3] = [cpu::FAMILIES, cuda::FAMILIES, hip::FAMILIES];
    const LEN: usize = BACKENDS[0].len() + BACKENDS[1].len() + BACKENDS[2].len();
    static ALL: [&Family; LEN] = {
        let mut all = [cpu::FAMILIES[0]; LEN];
        let (mut backend, mut i, mut to) = (0, 0, 0);
        while to < LEN {
            if i == BACKENDS[backend].len() {
                (backend, i) = (backend + 1, 0);
                continue;
            }
            all[to] = BACKENDS[backend][i];
            (i, to) = (i + 1, to + 1);
        }
        all
    };
    &ALL
}

/// The family of that name.
pub fn family(name: &str) -> Option<&'static Family> {
    families().iter().copied().find(|family| family.name == name)
}

/// A config for a weight stored in `layout` that runs the problem at every M: the first fallback, in canonical
/// order, that is launchable. `None` only where no kernel of this device reads that format and layout.
pub fn fallback(problem: &Problem, layout: Layout, device: &Device) -> Option<Config> {
    families().iter().find_map(|family| {
        if family.backend != device.backend
            || !family.formats.contains(&problem.b)
            || problem.fault().is_some()
        {
            return None;
        }
        (family.fallback)(problem, layout, device).filter(|c| is_launchable(c, problem, device).is_ok())
    })
}
