//! Who competes for one (N, K, M): every launchable config of every format pair that quality allows.

use std::collections::HashMap;
use std::fmt;

use tilewright_kernels::config::fnv1a;
use tilewright_kernels::{
    BackendKind, Caps, Config, Device, Format, Layout, Problem, families, family, is_launchable, space,
};

use crate::search::Space;

/// A problem variant and a config that runs it. Written as `activation/weight config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The problem, with its format pair.
    pub problem: Problem,
    /// The config.
    pub config: Config,
}

impl Candidate {
    /// Reads the canonical text, for the shape and epilogue of `base`. `None` if this build does not know the config.
    pub fn parse(text: &str, base: &Problem) -> Option<Self> {
        let (formats, config) = text.split_once(' ')?;
        let pair = FormatPair::parse(formats)?;
        Some(Candidate { problem: pair.apply(base), config: Config::parse(config).ok()? })
    }

    /// The weight plan it belongs to.
    pub fn plan(&self) -> Plan {
        Plan {
            formats: FormatPair { activation: self.problem.a, weight: self.problem.b },
            layout: self.config.layout(),
        }
    }

    /// Hash of the canonical text, as 16 hexadecimal digits.
    pub fn id(&self) -> String {
        format!("{:016x}", fnv1a(self.to_string().as_bytes()))
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.problem.a, self.problem.b, self.config)
    }
}

/// The formats both operands enter the product in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatPair {
    /// A's.
    pub activation: Format,
    /// B's.
    pub weight: Format,
}

impl FormatPair {
    /// The pairs a declaration allows, most wanted first. The activation enters as declared, or, where a quality bound
    /// is declared to hold it to, quantised to a format of 8 bits or less that the backend has faster kernels for: on the
    /// CPU the weight's own MX format or, with E2M3 weights, INT8, which enters the same dot and rounds less; on CUDA FP8 with FP8 weights (the library's); with HIP
    /// the weight's own.
    pub fn of(activation: Format, weights: &[Format], bounded: bool, backend: BackendKind) -> Vec<Self> {
        let is_own_gained = |weight: Format| match backend {
            BackendKind::Cpu => weight.is_mx(),
            BackendKind::Cuda => weight == Format::Fp8E4m3,
            BackendKind::Hip => weight != Format::Bf16,
        };
        let is_int8_gained = |weight| backend == BackendKind::Cpu && weight == Format::MxFp6E2m3;
        let mut pairs = Vec::new();
        for &weight in weights {
            pairs.push(FormatPair { activation, weight });
            let gained = if is_int8_gained(weight) { Format::MxInt8 } else { weight };
            if bounded && is_own_gained(weight) && gained != activation {
                pairs.push(FormatPair { activation: gained, weight });
            }
        }
        pairs
    }

    /// The pair as a device multiplies it: the FP8 E4M3 of gfx942 is the FNUZ variant, of other range and encoding.
    pub fn on(self, device: &Device) -> Self {
        let of = |format| match format {
            Format::Fp8E4m3 if device.caps.contains(Caps::GFX942) => Format::Fp8E4m3Fnuz,
            other => other,
        };
        FormatPair { activation: of(self.activation), weight: of(self.weight) }
    }

    /// The problem in these formats.
    pub fn apply(self, base: &Problem) -> Problem {
        Problem {
            a: self.activation,
            b: self.weight,
            scaling: tilewright_kernels::Scaling::usual(self.weight),
            ..*base
        }
    }

    /// Reads `activation/weight`.
    pub fn parse(text: &str) -> Option<Self> {
        let (activation, weight) = text.split_once('/')?;
        Some(FormatPair { activation: Format::from_name(activation)?, weight: Format::from_name(weight)? })
    }
}

impl fmt::Display for FormatPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.activation, self.weight)
    }
}

/// How a weight is stored and multiplied: chosen once for all rows of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan {
    /// Formats of both operands.
    pub formats: FormatPair,
    /// Layout of the weight.
    pub layout: Layout,
}

impl Plan {
    /// Reads `activation/weight/layout`.
    pub fn parse(text: &str) -> Option<Self> {
        let (formats, layout) = text.rsplit_once('/')?;
        Some(Plan { formats: FormatPair::parse(formats)?, layout: Layout::from_name(layout)? })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.formats, self.layout)
    }
}

/// The candidates of one (N, K, M), with the space that a search walks.
pub struct Field {
    /// In canonical order: format pair as declared, then family, then config.
    pub candidates: Vec<Candidate>,
    /// The same candidates as points.
    pub space: Space,
    /// The default config: what runs untuned, and what everything is measured beside.
    pub sentinel: usize,
    points: HashMap<Candidate, usize>,
    /// Those of the candidates that no enumeration gives.
    suggested: Vec<Candidate>,
}

impl Field {
    /// Everything launchable for the shape of `base` in one of the format pairs: what the families enumerate, and what
    /// the backend suggested beyond.
    ///
    /// `None` if nothing is, not even a default.
    pub fn new(
        base: &Problem,
        pairs: &[FormatPair],
        suggested: &[Candidate],
        device: &Device,
    ) -> Option<Self> {
        let default = default_candidate(base, pairs, device)?;
        Some(Field::of(pairs, default, suggested, device, |_| true))
    }

    /// The candidates of one plan alone, beside the same default.
    ///
    /// `None` if there are none.
    pub fn within(&self, plan: Plan, device: &Device) -> Option<Self> {
        let default = self.candidates[self.sentinel];
        let field = Field::of(&[plan.formats], default, &self.suggested, device, |config| {
            config.layout() == plan.layout
        });
        field.candidates.iter().any(|candidate| candidate.plan() == plan).then_some(field)
    }

    fn of(
        pairs: &[FormatPair],
        default: Candidate,
        suggested: &[Candidate],
        device: &Device,
        keep: impl Fn(&Config) -> bool,
    ) -> Self {
        let mut candidates = Vec::new();
        let mut groups = Vec::new();
        let mut positions = Vec::new();
        let mut prior = Vec::new();
        let mut group = 0;
        for pair in pairs {
            let problem = pair.apply(&default.problem);
            for family in families() {
                let before = candidates.len();
                let mut configs = space::enumerate(family, &problem, device);
                for more in suggested.iter().filter(|c| c.problem == problem && c.config.family() == *family)
                {
                    let is_legal = is_launchable(&more.config, &problem, device).is_ok();
                    if is_legal && !configs.contains(&more.config) {
                        configs.push(more.config);
                    }
                }
                for config in configs.into_iter().filter(&keep) {
                    positions.push(positions_of(&config));
                    prior.push((family.prior)(&config, &problem, device));
                    groups.push(group);
                    candidates.push(Candidate { problem, config });
                }
                group += u16::from(candidates.len() > before);
            }
        }
        let mut points: HashMap<Candidate, usize> =
            candidates.iter().enumerate().map(|(i, c)| (*c, i)).collect();
        let sentinel = *points.entry(default).or_insert_with(|| {
            // A default is launchable but may be redundant or of another plan, and then was not enumerated.
            positions.push(positions_of(&default.config));
            prior.push((default.config.family().prior)(&default.config, &default.problem, device));
            groups.push(group);
            candidates.push(default);
            candidates.len() - 1
        });
        let space =
            Space::new(groups, positions, prior).expect("points are distinct and of one length a group");
        Field { candidates, space, sentinel, points, suggested: suggested.to_vec() }
    }

    /// The point of a candidate.
    pub fn point(&self, candidate: &Candidate) -> Option<usize> {
        self.points.get(candidate).copied()
    }

    /// The candidate of that canonical text.
    pub fn find(&self, text: &str) -> Option<usize> {
        let base = self.candidates[self.sentinel].problem;
        self.point(&Candidate::parse(text, &base)?)
    }
}

/// What runs where nothing was tuned: the most wanted format, in the first layout that is not row-major and has a kernel
/// for every M.
pub fn default_candidate(base: &Problem, pairs: &[FormatPair], device: &Device) -> Option<Candidate> {
    pairs.iter().find_map(|pair| {
        let problem = pair.apply(base);
        let packed = Layout::ALL.iter().filter(|layout| **layout != Layout::RowMajor);
        let config = packed
            .chain(&[Layout::RowMajor])
            .find_map(|layout| family::fallback(&problem, *layout, device))?;
        Some(Candidate { problem, config })
    })
}

fn positions_of(config: &Config) -> Vec<u16> {
    let params = config.family().params.iter().zip(config.values());
    params
        .map(|(param, value)| param.domain.position(*value).expect("configs hold legal values") as u16)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_kernels::BackendKind;

    #[test]
    fn fp8_is_what_the_device_has() {
        let caps =
            |caps| Device { backend: BackendKind::Hip, caps, units: 1, l1_kib: 0, l2_kib: 0, llc_kib: 0 };
        let pair = FormatPair { activation: Format::Bf16, weight: Format::Fp8E4m3 };
        assert_eq!(pair.on(&caps(Caps::GFX950)), pair);
        let fnuz = FormatPair { weight: Format::Fp8E4m3Fnuz, ..pair };
        assert_eq!(pair.on(&caps(Caps::GFX942)), fnuz);
        let other = FormatPair { activation: Format::Fp8E4m3, weight: Format::MxFp6E2m3 };
        assert_eq!(other.on(&caps(Caps::GFX942)).activation, Format::Fp8E4m3Fnuz);
    }
}
