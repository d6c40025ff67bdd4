//! A HIP kernel seen from all sides where there is no AMD GPU: what the compiler made of it, what it moves (counted on the
//! emulator, with a model of the caches), and the time that the vendor's figures leave it: a prediction, and marked as one.
//!
//! * [`machine`]: the GPUs' figures; [`published`]: times that others reported;
//! * [`code`]: registers, instructions and waits, from the code object;
//! * [`run`], [`caches`]: traffic; [`roofline`]: the terms of the prediction;
//! * [`report`](mod@report): the text.

pub mod caches;
pub mod code;
pub mod machine;
pub mod published;
pub mod report;
pub mod roofline;
pub mod run;

use anyhow::{Context, bail};
use tilewright_emulator::CodeObject;
use tilewright_kernels::hip;
use tilewright_kernels::hip::compile::{Clang, Compiler};
use tilewright_kernels::hip::launch::Plan;
use tilewright_kernels::space::enumerate;
use tilewright_kernels::{Config, Domain, Family, Problem, is_launchable};

use code::Code;
use machine::Machine;
use roofline::Terms;
use run::StepRun;

/// A config on a problem, looked at.
#[derive(Debug)]
pub struct Inspection {
    /// What was inspected.
    pub config: Config,
    /// For what.
    pub problem: Problem,
    /// The GPU.
    pub machine: &'static Machine,
    /// The problem that was emulated.
    pub emulated: Problem,
    /// Who compiled.
    pub compiler: String,
    /// The launches.
    pub plan: Plan,
    /// One for each launch.
    pub steps: Vec<Inspected>,
    /// The family's own estimate in seconds, by which a search orders candidates.
    pub prior: f64,
}

/// One launch.
#[derive(Debug)]
pub struct Inspected {
    /// The compiled kernel.
    pub code: Code,
    /// Workgroups of a compute unit, by registers, LDS and wave slots.
    pub occupancy: [u32; 3],
    /// Its traffic.
    pub run: StepRun,
    /// Its prediction.
    pub terms: Terms,
}

/// The config of a family that `assignments` (`name=value`) describe. What they leave open is chosen by the family's estimate,
/// among what can run the problem.
///
/// # Errors
/// If a parameter or value is not the family's, or nothing of it can run the problem.
pub fn choose(
    family: &'static Family,
    assignments: &[String],
    problem: &Problem,
    machine: &Machine,
) -> anyhow::Result<Config> {
    let mut fixed = Vec::new();
    for assignment in assignments.iter().flat_map(|a| a.split(',')).filter(|a| !a.is_empty()) {
        let Some((name, value)) = assignment.split_once('=') else {
            bail!("`{assignment}` is not `name=value`")
        };
        let names = || family.params.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        let Some(index) = family.param_index(name) else {
            bail!("{} has no parameter `{name}`; it has {}", family.name, names());
        };
        let value = match family.params[index].domain {
            Domain::Numbers(numbers) => value
                .parse()
                .ok()
                .filter(|v| numbers.contains(v))
                .with_context(|| format!("{name}={value}: {} has {numbers:?}", family.name))?,
            Domain::Names(names) => names
                .iter()
                .position(|n| *n == value)
                .with_context(|| format!("{name}={value}: {} has {}", family.name, names.join(", ")))?
                as u32,
        };
        fixed.push((index, value));
    }
    if fixed.len() == family.params.len() {
        let mut values = vec![0; fixed.len()];
        fixed.iter().for_each(|&(index, value)| values[index] = value);
        let config = Config::from_values(family, &values);
        return match is_launchable(&config, problem, &machine.device) {
            Ok(()) => Ok(config),
            Err(reject) => bail!("{config} cannot run {problem} on {}: {reject}", machine.arch),
        };
    }
    let held = |config: &Config| fixed.iter().all(|&(index, value)| config.value(index) == value);
    enumerate(family, problem, &machine.device)
        .into_iter()
        .filter(held)
        .map(|config| ((family.prior)(&config, problem, &machine.device), config))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, config)| config)
        .with_context(|| {
            format!("nothing of {} with these values can run {problem} on {}", family.name, machine.arch)
        })
}

/// Compiles, emulates and predicts.
///
/// # Errors
/// If there is no compiler, a kernel does not compile, or the emulator reports a fault.
pub fn inspect(config: &Config, problem: &Problem, machine: &'static Machine) -> anyhow::Result<Inspection> {
    let device = &machine.device;
    let plan_of = |problem: &Problem| {
        hip::plan(config, problem, device).with_context(|| format!("{config} is not a HIP kernel"))
    };
    let compiler = Compiler::new(Box::new(Clang::find()?), Compiler::usual_cache());
    let emulated = run::reduced(config, problem, machine);
    let (plan, small) = (plan_of(problem)?, plan_of(&emulated)?);
    let mut seen = Vec::new();
    let mut objects = Vec::new();
    for (step, small) in plan.steps.iter().zip(&small.steps) {
        let load = |source| anyhow::Ok(CodeObject::load(&compiler.object(source, machine.arch)?)?);
        let code = Code::of(&load(&step.source)?, step.source.entry)?;
        let occupancy =
            machine.occupancy(code.registers, code.lds_bytes + step.lds_bytes, step.threads.div_ceil(64));
        seen.push((code, occupancy));
        objects.push(load(&small.source)?);
    }
    let resident: Vec<u32> = seen.iter().map(|(_, o)| o.iter().copied().min().unwrap_or(1)).collect();
    let runs = run::emulate(config, &emulated, &small, machine, &objects, &resident)?;
    let steps = seen
        .into_iter()
        .zip(runs)
        .enumerate()
        .map(|(i, ((code, occupancy), run))| {
            let terms = Terms::of(&run, machine, [&plan.steps[i], &small.steps[i]], [problem, &emulated]);
            Inspected { code, occupancy, run, terms }
        })
        .collect();
    let prior = (config.family().prior)(config, problem, device);
    let compiler = compiler.version().to_string();
    Ok(Inspection { config: *config, problem: *problem, machine, emulated, compiler, plan, steps, prior })
}
