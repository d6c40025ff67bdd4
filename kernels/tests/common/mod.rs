//! Seeded operands and configs for the CPU tests.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses its own part of this module")]

use std::sync::Arc;

use tilewright_kernels::backend::{Backend, Operands, Regime};
use tilewright_kernels::cpu::{Cpu, FAMILIES, Path};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::reference::{Reference, Sample};
use tilewright_kernels::{Config, Device, Domain, Epilogue, Family, Format, Problem, is_launchable};

/// SplitMix64 (Steele, Lea, Flood).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Roughly normal, standard deviation 1.
    pub fn normal(&mut self) -> f32 {
        let sum: u64 = (0..4).map(|_| self.next() >> 40).sum();
        (sum as f32 / (1u64 << 24) as f32 - 2.0) * 1.732
    }

    pub fn normals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.normal()).collect()
    }
}

pub fn bf16(value: f32) -> f32 {
    Format::Bf16.decode(Format::Bf16.encode(value))
}

/// One problem with its operands and reference.
pub struct Case {
    pub problem: Problem,
    pub activation: Vec<f32>,
    pub weight: Arc<Quantized>,
    pub bias: Option<Vec<f32>>,
    pub reference: Reference,
}

impl Case {
    pub fn random(problem: Problem, random: &mut Random) -> Self {
        let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
        let activation: Vec<f32> = random.normals(m * k).into_iter().map(bf16).collect();
        let weight = random.normals(n * k);
        let weight =
            Quantized::quantize(&weight, n, k, problem.b, problem.scaling, &QuantizeOptions::default())
                .expect("the problem is legal");
        let bias = (problem.epilogue == Epilogue::Bias).then(|| random.normals(n));
        Case::new(problem, activation, weight, bias)
    }

    pub fn new(problem: Problem, activation: Vec<f32>, weight: Quantized, bias: Option<Vec<f32>>) -> Self {
        let reference = Reference::compute(&problem, &activation, &weight, bias.as_deref(), Sample::All);
        Case { problem, activation, weight: Arc::new(weight), bias, reference }
    }

    pub fn operands(&self) -> Operands {
        Operands {
            m: self.problem.m as usize,
            n: self.problem.n as usize,
            k: self.problem.k as usize,
            activation: self.activation.clone().into(),
            weights: vec![self.weight.clone()],
            bias: self.bias.clone().map(Into::into),
        }
    }

    /// Runs a config and gives D, failing with the config's text.
    pub fn run(&self, cpu: &Cpu, config: &Config) -> Vec<f32> {
        let mut session = cpu.open(self.operands(), Regime::Hot).expect("the operands fit");
        let mut output = Vec::new();
        if let Err(fault) = session.run(&self.problem, config, &mut output) {
            panic!("{config} on {}: {fault}", self.problem);
        }
        output
    }

    /// Runs a config and compares it with the reference.
    pub fn check(&self, cpu: &Cpu, config: &Config) -> Vec<f32> {
        let output = self.run(cpu, config);
        if let Err(mismatch) = self.reference.check(&output, self.problem.out) {
            panic!("{config} on {}: {mismatch}", self.problem);
        }
        output
    }
}

/// A random launchable config of a family with some parameters fixed by name, if there is one.
pub fn random_config(
    family: &'static Family,
    problem: &Problem,
    device: &Device,
    random: &mut Random,
    fixed: &[(&str, &str)],
) -> Option<Config> {
    // What can be chosen for each parameter: the fixed value, or everything that a device of few cores can run.
    let choices: Vec<Vec<u8>> = family
        .params
        .iter()
        .map(|param| {
            let is_free = |position: &usize| match fixed.iter().find(|(name, _)| *name == param.name) {
                Some((_, value)) => value_name(&param.domain, *position) == *value,
                None => param.name != "threads" || param.domain.value(*position) <= device.units,
            };
            (0..param.domain.len()).filter(is_free).map(|position| position as u8).collect()
        })
        .collect();
    (0..2000).find_map(|_| {
        let positions: Vec<u8> = choices.iter().map(|choices| random.pick(choices)).collect();
        let config = Config::at(family, &positions);
        is_launchable(&config, problem, device).is_ok().then_some(config)
    })
}

fn value_name(domain: &Domain, position: usize) -> String {
    match domain {
        Domain::Numbers(values) => values[position].to_string(),
        Domain::Names(names) => names[position].to_string(),
    }
}

/// Families that multiply a format.
pub fn families_of(format: Format) -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().copied().filter(move |family| family.formats.contains(&format))
}

/// The numeric paths of this processor that multiply a format, with the activation format each is for.
pub fn paths_for(cpu: &Cpu, b: Format) -> Vec<(&'static str, Format)> {
    let mut paths = Vec::new();
    for path in Path::ALL.iter().filter(|path| cpu.device().caps.contains(path.caps())) {
        match path {
            Path::Avx512Vnni if b != Format::MxFp6E2m3 => {}
            Path::Avx512Vnni => paths.extend([(path.name(), b), (path.name(), Format::MxInt8)]),
            _ => paths.push((path.name(), Format::Bf16)),
        }
    }
    paths
}

pub const LAYOUTS: [&str; 4] = ["row_major", "panel16", "panel16x2", "panel16x4"];
