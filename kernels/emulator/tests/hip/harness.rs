//! Compiles sources, carries out plans on the emulator, compares with the reference.
#![allow(dead_code, reason = "each family's tests use a part")]

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use tilewright_emulator::{Arg as Value, CodeObject, Dma, Grid, Memory, Options, Order, Report};
use tilewright_kernels::config::fnv1a;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::hip::launch::{Arg, Plan, Source, Step};
use tilewright_kernels::reference::{Reference, Sample, snap_activation_for};
use tilewright_kernels::{
    BackendKind, Caps, Config, Device, Epilogue, Format, Layout, OutType, Problem, hip, is_launchable,
};

/// An MI300X as the predicate sees it.
pub(crate) const MI300X: Device = Device {
    backend: BackendKind::Hip,
    caps: Caps::GFX942,
    units: 304,
    l1_kib: 64,
    l2_kib: 4096,
    llc_kib: 262_144,
};
/// An MI355X as the predicate sees it.
pub(crate) const MI355X: Device = Device { caps: Caps::GFX950, units: 256, l1_kib: 160, ..MI300X };

/// Every order in which the emulator may let data land and waves run.
pub(crate) const ORDERS: [(Dma, Order); 9] = [
    (Dma::Late, Order::Forward),
    (Dma::Early, Order::Reverse),
    (Dma::Random, Order::Random),
    (Dma::Late, Order::Reverse),
    (Dma::Late, Order::Random),
    (Dma::Early, Order::Forward),
    (Dma::Early, Order::Random),
    (Dma::Random, Order::Forward),
    (Dma::Random, Order::Reverse),
];

/// A compiled source.
pub(crate) struct Compiled {
    /// The code object, decoded.
    pub(crate) code: CodeObject,
    /// The compiler's assembly, with the metadata at its end.
    pub(crate) assembly: String,
}

/// One architecture, with its compiler.
pub(crate) struct Rig {
    /// `gfx942` or `gfx950`.
    pub(crate) arch: &'static str,
    /// The device of the predicate.
    pub(crate) device: Device,
    python: String,
}

impl Rig {
    /// The rig of an architecture, or `None` (said on standard error) where there is no compiler.
    pub(crate) fn new(arch: &'static str) -> Option<Rig> {
        let Ok(python) = std::env::var("TILEWRIGHT_HIP_CLANG") else {
            eprintln!("skipped: TILEWRIGHT_HIP_CLANG names no compiler (ci/hip-clang.sh installs one)");
            return None;
        };
        let device = if arch == "gfx942" { MI300X } else { MI355X };
        Some(Rig { arch, device, python })
    }

    /// The code object of a source, compiled once for all tests and kept under `target/tmp`.
    pub(crate) fn compile(&self, source: &Source) -> Arc<Compiled> {
        type Slot = Arc<OnceLock<Arc<Compiled>>>;
        static DONE: LazyLock<Mutex<HashMap<u64, Slot>>> = LazyLock::new(Default::default);
        let key = format!("{} {} {:?} {}", self.arch, source.entry, source.defines, source.text);
        let key = fnv1a(format!("{} {key}", FLAGS.join(" ")).as_bytes());
        let slot = DONE.lock().expect("no test panics here").entry(key).or_default().clone();
        slot.get_or_init(|| Arc::new(self.load(source, key))).clone()
    }

    fn load(&self, source: &Source, key: u64) -> Compiled {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hip");
        std::fs::create_dir_all(&folder).unwrap();
        let kept = |suffix: &str| folder.join(format!("{key:016x}.{suffix}"));
        if !kept("hsaco").exists() {
            let made = tempfile::tempdir_in(&folder).unwrap();
            self.build(source, made.path());
            // The code object last: where it is, the assembly is.
            for suffix in ["s", "hsaco"] {
                std::fs::rename(made.path().join(suffix), kept(suffix)).unwrap();
            }
        }
        let code = CodeObject::load(&std::fs::read(kept("hsaco")).unwrap()).unwrap();
        Compiled { code, assembly: std::fs::read_to_string(kept("s")).unwrap() }
    }

    fn build(&self, source: &Source, folder: &Path) {
        let path = |name: &str| folder.join(name).into_os_string().into_string().unwrap();
        std::fs::write(path(source.file), source.text).unwrap();
        let (offload, cpu) = (format!("--offload-arch={}", self.arch), format!("-mcpu={}", self.arch));
        let defines: Vec<String> = source.defines.iter().map(|d| format!("-D{d}")).collect();
        let mut args: Vec<&str> = FLAGS.to_vec();
        let (text, assembly, object) = (path(source.file), path("s"), path("o"));
        args.extend([offload.as_str(), "-S", "-o", &assembly, &text]);
        args.extend(defines.iter().map(String::as_str));
        self.tool(&args, source);
        let target = "--target=amdgcn-amd-amdhsa";
        self.tool(&["clang", "-x", "assembler", target, &cpu, "-c", "-o", &object, &assembly], source);
        let page = "max-page-size=256";
        self.tool(&["ld.lld", "-shared", "-s", "-z", page, "-o", &path("hsaco"), &object], source);
    }

    fn tool(&self, args: &[&str], source: &Source) {
        let output = Command::new(&self.python).args(["-m", "ziglang"]).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {:?}\n{said}", source.file, source.defines);
    }

    /// Carries a plan out once into a poisoned output, and gives D widened to f32 and each step's report.
    ///
    /// # Errors
    /// What the emulator reports, or what a step left that it must not have touched.
    pub(crate) fn run(&self, plan: &Plan, case: &Case, options: &Options) -> Result<Outcome, String> {
        let mut memory = Memory::new();
        let problem = &case.problem;
        let activation = memory.alloc_from("activation", &case.activation_bytes());
        let weights: Vec<u64> = case.weight_parts.iter().map(|p| memory.alloc_from("weight", p)).collect();
        let bias = case.bias.as_ref().map_or(0, |b| memory.alloc_from("bias", &bytes_of(b)));
        let packs = plan.steps.iter().any(|step| step.packs_activation);
        let scratch: Vec<u64> = plan
            .scratch
            .iter()
            .enumerate()
            .map(|(i, part)| match case.packed_activation.get(i) {
                Some(packed) if !packs => {
                    assert_eq!(packed.len(), part.bytes, "scratch {i}");
                    memory.alloc_from("packed activation", packed)
                }
                _ => memory.alloc("scratch", part.bytes, if part.zeroed { 0 } else { 0xff }),
            })
            .collect();
        let size = if problem.out == OutType::F32 { 4 } else { 2 };
        let elements = problem.m as usize * problem.n as usize;
        let output = memory.alloc("output", elements * size, 0xff);
        let mut reports = Vec::new();
        for step in &plan.steps {
            let args: Vec<Value> = step
                .args
                .iter()
                .map(|arg| match *arg {
                    Arg::Weight(part) => weights[part].into(),
                    Arg::Activation => activation.into(),
                    Arg::Scratch(part) => scratch[part].into(),
                    Arg::Bias => bias.into(),
                    Arg::Output => output.into(),
                    Arg::U32(value) => value.into(),
                })
                .collect();
            reports.push(self.launch(step, &memory, &args, options)?);
        }
        let same = |what: &str, at: u64, bytes: &[u8]| match memory.read(at, bytes.len())? == bytes {
            true => Ok(()),
            false => Err(format!("the kernel wrote into the {what}")),
        };
        same("activation", activation, &case.activation_bytes())?;
        for (at, part) in weights.iter().zip(&case.weight_parts) {
            same("weight", *at, part)?;
        }
        for (at, part) in scratch.iter().zip(&plan.scratch).filter(|(_, part)| part.zeroed) {
            same("scratch, which must be left zeroed", *at, &vec![0; part.bytes])?;
        }
        let bytes = memory.read(output, elements * size)?;
        let d = match problem.out {
            OutType::F32 => {
                bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
            }
            OutType::Bf16 => bytes
                .chunks_exact(2)
                .map(|b| Format::Bf16.decode(u16::from_le_bytes(b.try_into().unwrap())))
                .collect(),
        };
        Ok(Outcome { d, reports })
    }

    fn launch(
        &self,
        step: &Step,
        memory: &Memory,
        args: &[Value],
        options: &Options,
    ) -> Result<Report, String> {
        let compiled = self.compile(&step.source);
        let grid = Grid {
            grid: [step.grid[0], step.grid[1], 1],
            block: [step.threads, 1, 1],
            dynamic_lds: step.lds_bytes,
        };
        let report = compiled.code.launch(step.source.entry, memory, grid, args, options);
        let report = report.map_err(|error| format!("{}: {error}", step.source.entry))?;
        match report.races.first() {
            None => Ok(report),
            Some(race) => Err(format!("{}: {race:?}", step.source.entry)),
        }
    }

    /// Proves a config on a problem: launchable, right in the given orders, watching LDS for races.
    pub(crate) fn prove_in(
        &self,
        config: &Config,
        problem: &Problem,
        orders: &[(Dma, Order)],
    ) -> Vec<Report> {
        self.prove_case(config, &Case::new(problem, config.layout(), 1), orders)
    }

    /// As [`Rig::prove_in`] in all of [`ORDERS`].
    pub(crate) fn prove(&self, config: &Config, problem: &Problem) -> Vec<Report> {
        self.prove_in(config, problem, &ORDERS)
    }

    /// As [`Rig::prove_in`] for a given case; gives the first order's reports.
    pub(crate) fn prove_case(&self, config: &Config, case: &Case, orders: &[(Dma, Order)]) -> Vec<Report> {
        let problem = &case.problem;
        is_launchable(config, problem, &self.device).unwrap_or_else(|e| panic!("{config}, {problem}: {e}"));
        let plan = hip::plan(config, problem, &self.device).expect("a HIP family");
        let mut first = None;
        for (seed, &(dma, order)) in orders.iter().enumerate() {
            let options = Options { dma, order, seed: seed as u64, races: true, ..Options::default() };
            let at = format!("{config} on {} with {problem}, {dma:?} {order:?}", self.arch);
            let outcome = self.run(&plan, case, &options).unwrap_or_else(|e| panic!("{at}: {e}"));
            case.reference.check(&outcome.d, problem.out).unwrap_or_else(|e| panic!("{at}: {e}"));
            first.get_or_insert(outcome.reports);
        }
        first.unwrap_or_default()
    }

    /// Whether a plan whose sources were changed is found out: a fault, a race or a wrong D in one of [`ORDERS`].
    /// `change` is text to look for, which must be there, and what to put in its place.
    pub(crate) fn catches(&self, config: &Config, case: &Case, entry: &str, change: [&str; 2]) -> bool {
        let mut plan = hip::plan(config, &case.problem, &self.device).expect("a HIP family");
        for step in plan.steps.iter_mut().filter(|step| step.source.entry == entry) {
            let [from, to] = change;
            let text = step.source.text;
            assert_eq!(text.matches(from).count(), 1, "{from:?} must be there, once");
            // A mutant lives as long as the test run, as a built-in source does.
            step.source.text = Box::leak(text.replace(from, to).into_boxed_str());
        }
        ORDERS.iter().enumerate().any(|(seed, &(dma, order))| {
            let options =
                Options { dma, order, seed: seed as u64, races: true, limit: 1 << 20, ..Options::default() };
            match self.run(&plan, case, &options) {
                Err(_) => true,
                Ok(outcome) => case.reference.check(&outcome.d, case.problem.out).is_err(),
            }
        })
    }
}

/// How sources become assembly.
const FLAGS: &[&str] = &[
    "clang",
    "-x",
    "hip",
    "--cuda-device-only",
    "-nogpuinc",
    "-nogpulib",
    "-std=c++20",
    "-O3",
    "-ffp-contract=off",
];

/// What a run left.
pub(crate) struct Outcome {
    /// D, row-major M × N.
    pub(crate) d: Vec<f32>,
    /// One report a step.
    pub(crate) reports: Vec<Report>,
}

/// Operands of a problem, and what D has to be.
pub(crate) struct Case {
    /// The problem.
    pub(crate) problem: Problem,
    /// A as the engine has it, bf16 values.
    pub(crate) activation: Vec<f32>,
    /// A as the kernel multiplies it.
    pub(crate) snapped: Quantized,
    /// B.
    pub(crate) weight: Quantized,
    /// B as packed for the kernels.
    pub(crate) weight_parts: Vec<Vec<u8>>,
    /// The bias of a problem that has one.
    pub(crate) bias: Option<Vec<f32>>,
    /// Put into the first scratch buffers by the host where no step of the plan packs the activation.
    pub(crate) packed_activation: Vec<Vec<u8>>,
    /// D.
    pub(crate) reference: Reference,
}

impl Case {
    /// Random operands whose scale changes from block to block, with one huge input channel and a row of zeros.
    pub(crate) fn new(problem: &Problem, layout: Layout, seed: u64) -> Case {
        Case::with(problem, layout, seed, &QuantizeOptions::default())
    }

    /// As [`Case::new`], the weight quantised with these options.
    pub(crate) fn with(problem: &Problem, layout: Layout, seed: u64, options: &QuantizeOptions) -> Case {
        let [m, n, k] = [problem.m, problem.n, problem.k].map(|d| d as usize);
        let mut random = Random(seed);
        let activation: Vec<f32> = matrix(m, k, &mut random).into_iter().map(bf16).collect();
        let weight = matrix(n, k, &mut random);
        let weight = Quantized::quantize(&weight, n, k, problem.b, problem.scaling, options).unwrap();
        let bias = (problem.epilogue == Epilogue::Bias)
            .then(|| (0..n).map(|_| random.normal()).collect::<Vec<f32>>());
        let snapped = snap_activation_for(&activation, m, k, problem.a, &weight);
        let reference = Reference::of_operands(problem, &snapped, &weight, bias.as_deref(), Sample::All);
        let weight_parts = hip::pack(&weight, layout).unwrap_or_else(|e| panic!("{problem}: {e}"));
        let packed_activation = hip::pack(&snapped, layout).unwrap_or_default();
        let problem = *problem;
        Case { problem, activation, snapped, weight, weight_parts, bias, packed_activation, reference }
    }

    /// Puts values at positions of the row-major activation, and computes anew what depends on it.
    pub(crate) fn set_activation(&mut self, values: &[(usize, f32)]) {
        for &(at, value) in values {
            self.activation[at] = value;
        }
        let Case { problem, weight, bias, .. } = self;
        let [m, k] = [problem.m, problem.k].map(|d| d as usize);
        self.snapped = snap_activation_for(&self.activation, m, k, problem.a, weight);
        self.reference = Reference::of_operands(problem, &self.snapped, weight, bias.as_deref(), Sample::All);
    }

    /// A in bf16, row-major.
    fn activation_bytes(&self) -> Vec<u8> {
        self.activation.iter().flat_map(|v| Format::Bf16.encode(*v).to_le_bytes()).collect()
    }
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn bf16(value: f32) -> f32 {
    Format::Bf16.decode(Format::Bf16.encode(value))
}

/// Row-major `rows` × `k`: neighbouring blocks of 32 differ in magnitude by up to 2^6, so that a scale from the wrong
/// block shows; one column is 100 times larger, and the second row, if there is one, is zero.
fn matrix(rows: usize, k: usize, random: &mut Random) -> Vec<f32> {
    let mut values = Vec::with_capacity(rows * k);
    let mut magnitude = 1.0;
    for row in 0..rows {
        for column in 0..k {
            if column % 32 == 0 {
                magnitude = (random.next() % 7) as f32;
                magnitude = 2f32.powf(magnitude - 3.0);
            }
            let huge = if column == k / 3 { 100.0 } else { 1.0 };
            values.push(if row == 1 { 0.0 } else { random.normal() * magnitude * huge });
        }
    }
    values
}

/// SplitMix64: the same data on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// About normal: the sum of four uniform values, variance 1.
    pub(crate) fn normal(&mut self) -> f32 {
        let sum: f32 = (0..4).map(|_| (self.next() >> 40) as f32 / (1u64 << 24) as f32 - 0.5).sum();
        sum * 3f32.sqrt()
    }
}
