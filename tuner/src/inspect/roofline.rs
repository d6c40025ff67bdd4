//! The least time that a step can take by each of a GPU's resources: what it asked of the resource, over the vendor's
//! rate. The longest is a bound, not an estimate: latencies, waits and launches are not in it.
//!
//! What was counted on the emulator at a smaller problem is scaled by the work: for the step that multiplies by its
//! workgroups and steps along K, for one that packs the activation by M · K, for any other by M · N.

use tilewright_kernels::Problem;
use tilewright_kernels::hip::launch::{Arg, Step};

use super::caches::LINE;
use super::machine::Machine;
use super::run::StepRun;

/// Seconds by resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Matrix cores, on the busiest compute unit.
    pub mfma: f64,
    /// LDS, on the busiest compute unit, bank conflicts included.
    pub lds: f64,
    /// L2 of all dies.
    pub l2: f64,
    /// Infinity Cache.
    pub mall: f64,
    /// Memory.
    pub hbm: f64,
}

impl Terms {
    /// The terms of a step of `full` of which `run` is a smaller one, of `smaller`.
    pub fn of(
        run: &StepRun,
        machine: &Machine,
        [step, small_step]: [&Step; 2],
        [full, smaller]: [&Problem; 2],
    ) -> Terms {
        let scale = work(step, full) / work(small_step, smaller);
        let units = f64::from(machine.device.units);
        let groups = f64::from(step.grid[0]) * f64::from(step.grid[1]);
        // The busiest unit's share over the mean.
        let imbalance = (groups / units).ceil() * units / groups;
        let eight_bits = full.a.bits() == 8 || full.b.bits() == 8;
        let matrix: f64 = run
            .report
            .mix
            .iter()
            .filter_map(|(name, count)| {
                Some(f64::from(Machine::matrix_clocks(name, eight_bits)?) * *count as f64)
            })
            .fold(0.0, |sum, clocks| sum + clocks);
        let lds = run.report.traffic.lds_cycles as f64 * 128.0 / machine.lds_rate;
        let bytes = |lines: u64| (lines * LINE) as f64 * scale;
        Terms {
            mfma: matrix * scale * imbalance / (4.0 * units) / machine.clock,
            lds: lds * scale * imbalance / units / machine.clock,
            l2: bytes(run.reuse.requests) / (machine.l2_rate * f64::from(machine.xcds) * machine.clock),
            mall: bytes(run.reuse.l2_misses) / machine.mall_rate,
            hbm: bytes(run.reuse.mall_misses) / machine.hbm_rate,
        }
    }

    /// The terms with their names.
    pub fn named(&self) -> [(&'static str, f64); 5] {
        [("MFMA", self.mfma), ("LDS", self.lds), ("L2", self.l2), ("MALL", self.mall), ("HBM", self.hbm)]
    }

    /// The longest, with its name.
    pub fn bound(&self) -> (&'static str, f64) {
        let terms = self.named();
        terms.into_iter().fold(terms[0], |best, term| if term.1 > best.1 { term } else { best })
    }
}

/// Work of a step, in a unit that only ratios of the same step use.
fn work(step: &Step, problem: &Problem) -> f64 {
    let [m, n, k] = [problem.m, problem.n, problem.k].map(f64::from);
    if step.packs_activation {
        m * k
    } else if step.args.contains(&Arg::Weight(0)) {
        f64::from(step.grid[0]) * f64::from(step.grid[1]) * f64::from(problem.k.div_ceil(128)) / parts(step)
    } else {
        m * n
    }
}

/// Parts of K that the grid's second dimension counts, if it does: each works on its share of K alone.
fn parts(step: &Step) -> f64 {
    if step.source.entry == "skinny" { f64::from(step.grid[1]) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::Terms;

    #[test]
    fn the_bound_is_the_longest_term() {
        let terms = Terms { mfma: 1.0, lds: 2.0, l2: 5.0, mall: 3.0, hbm: 4.0 };
        assert_eq!(terms.bound(), ("L2", 5.0));
    }
}
