//! Asks the device, in this process. It runs inside a worker, see [`crate::worker`].
//!
//! A candidate is timed only after the gate let it pass in this process. After each timed launch, outside the timed
//! region, elements of the output are compared with what the admitted run left there; every first and now and then
//! another launch is compared whole with the reference.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use tilewright_kernels::backend::{Backend, Elements, Operands, Regime, Session};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::{Config, Format, Problem, Scaling};

use super::super::candidates::{Candidate, FormatPair};
use super::super::work::Work;
use super::Rig;
use crate::bench::{BenchFault, Sample};
use crate::gate::{self, Gate};
use crate::operands;

/// Elements that are compared after each launch. Outputs of up to this many are compared whole.
const CHECKED: usize = 4096;
/// Of larger outputs so many are, spread over the whole.
const SAMPLED: usize = 256;
/// One launch in so many is compared whole with the reference, and one in so many if the output is large.
const WHOLE_EVERY: u64 = 16;
const LARGE_WHOLE_EVERY: u64 = 256;
/// What a large output is, in elements.
const LARGE: usize = 1 << 20;

/// Asks the device.
pub struct DeviceRig<'b> {
    backend: &'b dyn Backend,
    regime: Regime,
    began: Instant,
    values: Option<(String, Arc<[f32]>)>,
    open: Option<Open<'b>>,
}

/// The weight under trial.
struct Open<'b> {
    operands: Operands,
    session: Box<dyn Session + 'b>,
    gate: Gate<'b>,
    admitted: HashMap<Candidate, Admitted>,
    output: Vec<f32>,
}

/// What a candidate that passed the gate left in its output.
struct Admitted {
    elements: Vec<usize>,
    values: Vec<f32>,
    launches: u64,
}

impl<'b> DeviceRig<'b> {
    /// A rig that measures in that regime.
    pub fn new(backend: &'b dyn Backend, regime: Regime) -> Self {
        DeviceRig { backend, regime, began: Instant::now(), values: None, open: None }
    }

    /// Whether the device still answers: runs a candidate again that passed the gate before. A device whose context is
    /// poisoned fails at everything that comes after. `None` if none has passed yet.
    pub fn probe(&mut self) -> Option<Result<(), String>> {
        let open = self.open.as_mut()?;
        let candidate = *open.admitted.keys().min_by_key(|candidate| candidate.id())?;
        let run =
            AssertUnwindSafe(|| open.session.run(&candidate.problem, &candidate.config, &mut open.output));
        Some(match catch_unwind(run) {
            Ok(ran) => ran.map_err(|fault| fault.to_string()),
            Err(payload) => Err(panicked(&payload)),
        })
    }

    /// The weight's values, kept until another weight is asked about.
    fn values(&mut self, work: &Work<'_>) -> anyhow::Result<Arc<[f32]>> {
        if self.values.as_ref().is_none_or(|(name, _)| *name != work.name) {
            self.values = None;
            self.values = Some((work.name.clone(), work.values()?.into()));
        }
        Ok(self.values.as_ref().expect("just loaded").1.clone())
    }
}

impl Open<'_> {
    fn admit(&mut self, candidate: &Candidate) -> Result<(), String> {
        let Open { operands, session, gate, admitted, .. } = self;
        let Candidate { problem, config } = candidate;
        gate.admit(session.as_mut(), operands, problem, config)?;
        let output = gate.admitted_output();
        let step = if output.len() <= CHECKED { 1 } else { output.len() / SAMPLED };
        // An odd step, so that the elements are not all of one column.
        let elements: Vec<usize> = (0..output.len()).step_by(step | 1).collect();
        let values = elements.iter().map(|at| output[*at]).collect();
        admitted.insert(*candidate, Admitted { elements, values, launches: 0 });
        Ok(())
    }

    fn time(&mut self, candidate: &Candidate, slot: usize) -> Result<f64, String> {
        if !self.admitted.contains_key(candidate) {
            self.admit(candidate)?;
        }
        let Candidate { problem, config } = candidate;
        let time = self.session.time(problem, config, slot).map_err(|fault| fault.to_string())?;
        let admitted = self.admitted.get_mut(candidate).expect("it passed");
        admitted.launches += 1;
        let launch = admitted.launches;
        let wrong = |why: String| format!("timed launch {launch} left a wrong output: {why}");
        let read = |fault: tilewright_kernels::backend::RunFault| wrong(fault.to_string());
        if !self.session.timed_output(Elements::At(&admitted.elements), &mut self.output).map_err(read)? {
            return Ok(time.as_nanos() as f64);
        }
        let exact = (config.family().deterministic)(config);
        if let Some(at) = first_difference(&admitted.values, &self.output, exact) {
            let (row, column) =
                (admitted.elements[at] / problem.n as usize, admitted.elements[at] % problem.n as usize);
            let (got, before) = (self.output[at], admitted.values[at]);
            return Err(wrong(format!("D[{row}, {column}] is {got}, and was {before} when it was checked")));
        }
        let large = problem.m as usize * problem.n as usize > LARGE;
        let every = if large { LARGE_WHOLE_EVERY } else { WHOLE_EVERY };
        // The golden ratio's multiples: spread without a period that a kernel could share.
        let drawn = launch.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        if launch == 1 || drawn.is_multiple_of(every) {
            self.session.timed_output(Elements::All, &mut self.output).map_err(read)?;
            self.gate.check(&self.operands, problem, &self.output).map_err(wrong)?;
        }
        Ok(time.as_nanos() as f64)
    }
}

/// The first element that is not what it was: in its bits if the kernel is exact, else by more than another order of
/// summation can explain.
fn first_difference(before: &[f32], now: &[f32], exact: bool) -> Option<usize> {
    let largest = before.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let differs = |x: f32, y: f32| {
        let near = (x - y).abs() <= x.abs() / 128.0 + largest / 1024.0;
        x.to_bits() != y.to_bits() && (exact || !near)
    };
    before.iter().zip(now).position(|(before, now)| differs(*before, *now))
}

impl Rig for DeviceRig<'_> {
    fn quality(&mut self, work: &Work<'_>, pair: FormatPair) -> anyhow::Result<f64> {
        let (n, k) = (work.n as usize, work.k as usize);
        let values = self.values(work)?;
        Ok(gate::quality(&values, n, k, pair.activation, pair.weight, operands::SEED))
    }

    fn open(&mut self, work: &Work<'_>, formats: &[Format]) -> anyhow::Result<()> {
        let (n, k) = (work.n as usize, work.k as usize);
        let m = work.points.iter().map(|point| point.m).max().unwrap_or(1) as usize;
        // The last weight goes before the next one comes: two large ones may not fit.
        self.open = None;
        let values = self.values(work)?;
        let mut weights = Vec::new();
        for &format in formats {
            let options = QuantizeOptions::default();
            let quantized = Quantized::quantize(&values, n, k, format, Scaling::usual(format), &options)
                .with_context(|| format!("{}: {format}", work.name))?;
            weights.push(Arc::new(quantized));
        }
        let operands = Operands {
            m,
            n,
            k,
            activation: operands::activation(m, k, operands::SEED).into(),
            weights,
            bias: work.bias.then(|| operands::weight(1, n, operands::SEED ^ 2).into()),
        };
        let session = self.backend.open(operands.clone(), self.regime)?;
        let gate = Gate::new(self.backend, formats, m, work.bias, work.deterministic, operands::SEED)?;
        self.open = Some(Open { operands, session, gate, admitted: HashMap::new(), output: Vec::new() });
        Ok(())
    }

    fn announce(&mut self, _: &Work<'_>, _: &[Format]) {
        self.open = None;
    }

    fn suggest(&mut self, problem: &Problem) -> Vec<Config> {
        self.backend.suggest(problem)
    }

    fn warm(&mut self, candidates: &[Candidate]) {
        let launches: Vec<(Problem, Config)> = candidates.iter().map(|c| (c.problem, c.config)).collect();
        self.backend.ready(&launches);
    }

    fn admit(&mut self, candidate: &Candidate) -> Result<(), BenchFault> {
        let Some(open) = &mut self.open else {
            return Err(BenchFault::Candidate("no weight is open".into()));
        };
        let attempt = AssertUnwindSafe(|| open.admit(candidate));
        let answer = catch_unwind(attempt).unwrap_or_else(|payload| Err(panicked(&payload)));
        answer.map_err(BenchFault::Candidate)
    }

    fn time(&mut self, candidate: &Candidate, slot: usize) -> Result<Sample, BenchFault> {
        let Some(open) = &mut self.open else {
            return Err(BenchFault::Candidate("no weight is open".into()));
        };
        let attempt = AssertUnwindSafe(|| open.time(candidate, slot));
        let answer = catch_unwind(attempt).unwrap_or_else(|payload| Err(panicked(&payload)));
        let at_ns = self.began.elapsed().as_nanos() as f64;
        answer.map(|ns| Sample { ns, at_ns }).map_err(BenchFault::Candidate)
    }
}

fn panicked(payload: &Box<dyn std::any::Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "no message".into()))
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn an_exact_kernel_must_give_the_same_bits_and_another_one_the_same_sum() {
        let before = [1.0, -200.0, f32::NAN];
        assert_eq!(first_difference(&before, &before, true), None);
        assert_eq!(first_difference(&before, &[1.0001, -200.0, f32::NAN], true), Some(0));
        assert_eq!(first_difference(&before, &[1.0001, -200.0, f32::NAN], false), None);
        assert_eq!(first_difference(&before, &[1.5, -200.0, f32::NAN], false), Some(0));
        assert_eq!(first_difference(&before, &[1.0, f32::NAN, f32::NAN], false), Some(1));
    }
}
