//! The correctness gate.

use std::sync::Arc;

use tilewright_kernels::backend::{Backend, Operands, Regime, RunFault, Session};
use tilewright_kernels::format::MX_BLOCK;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::reference::{Reference, Sample};
use tilewright_kernels::{Config, Epilogue, Format, Problem};

use crate::operands;

/// Up to this many multiply-adds every element of D is checked; above, all rows of some columns.
const FULL_CHECK: u64 = 1 << 27;
/// Columns that are checked of a large D.
const SAMPLED_COLUMNS: usize = 48;

/// Adversarial operands and a session that holds them.
struct OddShape<'b> {
    operands: Operands,
    session: Box<dyn Session + 'b>,
}

/// Checks candidates of one weight against the float64 reference, on the real operands and on adversarial ones.
pub struct Gate<'b> {
    odd: Vec<OddShape<'b>>,
    references: Vec<(Problem, Reference)>,
    deterministic: bool,
    /// Of the last candidate on the real operands.
    output: Vec<f32>,
    /// Of everything else.
    again: Vec<f32>,
}

impl<'b> Gate<'b> {
    /// A gate for weights in those formats. `m` is the largest number of rows, `bias` whether there is one.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(
        backend: &'b dyn Backend,
        formats: &[Format],
        m: usize,
        bias: bool,
        deterministic: bool,
        seed: u64,
    ) -> Result<Self, RunFault> {
        let (mx, plain): (Vec<Format>, Vec<Format>) = formats.iter().partition(|format| format.is_mx());
        let mut odd = Vec::new();
        for formats in [mx, plain].iter().filter(|formats| !formats.is_empty()) {
            let operands = odd_operands(formats, m, bias, seed);
            let session = backend.open(operands.clone(), Regime::Hot)?;
            odd.push(OddShape { operands, session });
        }
        Ok(Gate { odd, references: Vec::new(), deterministic, output: Vec::new(), again: Vec::new() })
    }

    /// Whether a candidate may be timed. `real` and `operands` belong to the problem's own shape.
    ///
    /// # Errors
    /// What is wrong with it, in words for the journal.
    pub fn admit(
        &mut self,
        real: &mut dyn Session,
        operands: &Operands,
        problem: &Problem,
        config: &Config,
    ) -> Result<(), String> {
        real.run(problem, config, &mut self.output).map_err(|fault| fault.to_string())?;
        let output = std::mem::take(&mut self.output);
        let checked = self.check(operands, problem, &output);
        self.output = output;
        checked?;
        if self.deterministic {
            if !(config.family().deterministic)(config) {
                return Err("not deterministic, and the declaration asks for it".into());
            }
            real.run(problem, config, &mut self.again).map_err(|fault| fault.to_string())?;
            let same = self.output.iter().zip(&self.again).all(|(x, y)| x.to_bits() == y.to_bits());
            if !same {
                return Err(
                    "two runs on the same operands differ, and the declaration asks for determinism".into()
                );
            }
        }
        let covers = |shape: &OddShape<'_>| shape.operands.weights.iter().any(|w| w.format == problem.b);
        let Some(index) = self.odd.iter().position(covers) else { return Ok(()) };
        let shape = &mut self.odd[index];
        let odd = odd_problem(problem, &shape.operands);
        match shape.session.run(&odd, config, &mut self.again) {
            Ok(()) => {}
            // A config may be legal on the real shape only.
            Err(RunFault::NotLaunchable(_)) => return Ok(()),
            Err(fault) => return Err(format!("on the odd shape {odd}: {fault}")),
        }
        let operands = self.odd[index].operands.clone();
        let output = std::mem::take(&mut self.again);
        let checked = self.check(&operands, &odd, &output);
        self.again = output;
        checked.map_err(|why| format!("on the odd shape {odd}: {why}"))
    }

    /// The output on the real operands of the candidate that was admitted last, M × N.
    pub fn admitted_output(&self) -> &[f32] {
        &self.output
    }

    /// Compares an output of the problem on those operands with the reference.
    ///
    /// # Errors
    /// Where it is wrong.
    pub fn check(&mut self, operands: &Operands, problem: &Problem, output: &[f32]) -> Result<(), String> {
        if !self.references.iter().any(|(known, _)| known == problem) {
            let reference = reference(operands, problem);
            self.references.push((*problem, reference));
        }
        let (_, reference) = self.references.iter().find(|(known, _)| known == problem).expect("just added");
        reference.check(output, problem.out).map(|_| ()).map_err(|mismatch| mismatch.to_string())
    }
}

/// The reference of a problem on operands that may have more rows than it.
fn reference(operands: &Operands, problem: &Problem) -> Reference {
    let m = problem.m as usize;
    let weight = operands.weights.iter().find(|w| w.format == problem.b).expect("operands cover the formats");
    let sample = if problem.flops() / 2 <= FULL_CHECK {
        Sample::All
    } else {
        Sample::spread(operands.n, SAMPLED_COLUMNS)
    };
    let activation = &operands.activation[..m * operands.k];
    Reference::compute(problem, activation, weight, operands.bias.as_deref(), sample)
}

/// A small shape that divides by nothing a kernel likes: an odd number of 32-blocks of K, a K tail where every format
/// allows one, and N just past a panel.
fn odd_operands(formats: &[Format], m: usize, bias: bool, seed: u64) -> Operands {
    let blocks = 17 * MX_BLOCK;
    let k = if formats.iter().any(|format| format.is_mx()) { blocks } else { blocks + 13 };
    let n = 83;
    let m = m.min(37);
    let values = operands::weight(n, k, seed);
    let weights = formats.iter().map(|format| {
        let scaling = tilewright_kernels::Scaling::usual(*format);
        let quantized = Quantized::quantize(&values, n, k, *format, scaling, &QuantizeOptions::default());
        Arc::new(quantized.expect("K was chosen to fit"))
    });
    Operands {
        m,
        n,
        k,
        activation: operands::adversarial_activation(m, k, seed).into(),
        weights: weights.collect(),
        bias: bias.then(|| operands::weight(1, n, seed ^ 1).into()),
    }
}

fn odd_problem(problem: &Problem, operands: &Operands) -> Problem {
    let bias = if operands.bias.is_some() { Epilogue::Bias } else { Epilogue::None };
    let m = problem.m.min(operands.m as u32);
    Problem { m, n: operands.n as u32, k: operands.k as u32, epilogue: bias, ..*problem }
}
