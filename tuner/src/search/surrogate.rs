//! A Gaussian process over positions: what the points tried say of those untried.
//!
//! Rasmussen & Williams, *Gaussian Processes for Machine Learning* (2006), algorithm 2.1, with the exponential kernel
//! k(x, x') = exp(−Σ θ_d |x_d − x'_d|). Each θ_d says how much a step in that parameter changes the time; a parameter that
//! does not matter gets a small one, and points that differ in it alone then count as the same. The scale is profiled out
//! of the likelihood, the constant mean is the generalised least-squares one, and the θ are found by coordinate search on
//! the marginal likelihood under a log-normal prior, which keeps ten points from being over-fitted.

/// The prior of a decay: its median, and the deviation of its logarithm.
const THETA: (f64, f64) = (0.15, 1.2);
/// Bounds of a decay.
const LEAST_THETA: f64 = 0.003;
const MOST_THETA: f64 = 4.0;
/// The noise variance as a share of the signal's: at first, and its bounds.
const NOISE: f64 = 1e-3;
const LEAST_NOISE: f64 = 1e-5;
const MOST_NOISE: f64 = 0.1;
/// What keeps a nearly singular factor real.
const LEAST_PIVOT: f64 = 1e-9;
/// The least scale, so that equal targets are no division by zero.
const LEAST_SCALE: f64 = 1e-8;
/// Candidates predicted at once: as many as keep the inner loop in vector registers.
const LANES: usize = 16;

/// The model. Inputs are positions; targets are log-ratios.
#[derive(Clone, Debug)]
pub(super) struct Surrogate {
    theta: Vec<f64>,
    noise: f64,
    inputs: Vec<Vec<u16>>,
    targets: Vec<f64>,
    mean: f64,
    scale: f64,
    /// Rows of the lower Cholesky factor of the correlation matrix.
    factor: Vec<Vec<f64>>,
    /// L⁻¹ (targets − mean).
    white: Vec<f64>,
}

impl Surrogate {
    pub(super) fn new(parameters: usize) -> Self {
        Surrogate {
            theta: vec![THETA.0; parameters],
            noise: NOISE,
            inputs: Vec::new(),
            targets: Vec::new(),
            mean: 0.0,
            scale: 1.0,
            factor: Vec::new(),
            white: Vec::new(),
        }
    }

    /// Forgets all but the first `count` results.
    pub(super) fn keep(&mut self, count: usize) {
        self.inputs.truncate(count);
        self.targets.truncate(count);
        self.factor.truncate(count);
        self.white.truncate(count);
    }

    /// Takes all results; their inputs begin with those that it has, their targets may all have changed. O(n²) an input.
    pub(super) fn learn(&mut self, inputs: &[&[u16]], targets: &[f64]) {
        self.targets = targets.to_vec();
        for input in &inputs[self.inputs.len()..] {
            let mut row: Vec<f64> = self.inputs.iter().map(|other| self.correlation(other, input)).collect();
            self.solve(&mut row);
            let left = 1.0 + self.noise - row.iter().map(|value| value * value).sum::<f64>();
            row.push(left.max(LEAST_PIVOT).sqrt());
            self.factor.push(row);
            self.inputs.push(input.to_vec());
        }
        self.whiten();
    }

    /// Finds decays and noise anew: one sweep of the coordinate search from where they are. O(n³) a step.
    pub(super) fn fit(&mut self) {
        let steps = self.steps();
        let mut distances = vec![0.0; self.inputs.len() * (self.inputs.len() + 1) / 2];
        for (theta, steps) in self.theta.iter().zip(&steps) {
            add_scaled(&mut distances, *theta, steps);
        }
        let mut best = self.factorise(&distances);
        for parameter in 0..self.theta.len() {
            for factor in [0.5, 2.0] {
                loop {
                    let old = self.theta[parameter];
                    let new = (old * factor).clamp(LEAST_THETA, MOST_THETA);
                    add_scaled(&mut distances, new - old, &steps[parameter]);
                    self.theta[parameter] = new;
                    let found = self.factorise(&distances);
                    if found <= best + 1e-6 {
                        add_scaled(&mut distances, old - new, &steps[parameter]);
                        self.theta[parameter] = old;
                        break;
                    }
                    best = found;
                }
            }
        }
        for factor in [1.0 / 3.0, 3.0] {
            let old = self.noise;
            self.noise = (old * factor).clamp(LEAST_NOISE, MOST_NOISE);
            let found = self.factorise(&distances);
            if found > best + 1e-6 {
                best = found;
            } else {
                self.noise = old;
            }
        }
        self.factorise(&distances);
    }

    /// Mean and standard deviation at each of the inputs.
    pub(super) fn predict(&self, inputs: &[&[u16]]) -> Vec<(f64, f64)> {
        let mut predictions = Vec::with_capacity(inputs.len());
        let mut solved: Vec<[f64; LANES]> = Vec::with_capacity(self.inputs.len());
        for lanes in inputs.chunks(LANES) {
            solved.clear();
            let mut mean = [self.mean; LANES];
            let mut variance = [1.0; LANES];
            for ((known, row), white) in self.inputs.iter().zip(&self.factor).zip(&self.white) {
                let mut value = [0.0; LANES];
                for (value, input) in value.iter_mut().zip(lanes) {
                    *value = self.correlation(known, input);
                }
                for (weight, other) in row.iter().zip(&solved) {
                    for lane in 0..LANES {
                        value[lane] -= weight * other[lane];
                    }
                }
                let pivot = row[solved.len()];
                for lane in 0..LANES {
                    value[lane] /= pivot;
                    mean[lane] += value[lane] * white;
                    variance[lane] -= value[lane] * value[lane];
                }
                solved.push(value);
            }
            for lane in 0..lanes.len() {
                predictions.push((mean[lane], (variance[lane].max(LEAST_PIVOT) * self.scale).sqrt()));
            }
        }
        predictions
    }

    fn correlation(&self, a: &[u16], b: &[u16]) -> f64 {
        let mut distance = 0.0;
        for ((a, b), theta) in a.iter().zip(b).zip(&self.theta) {
            distance += theta * f64::from(a.abs_diff(*b));
        }
        (-distance).exp()
    }

    /// By parameter, the steps between each two inputs: the lower triangle, row by row.
    fn steps(&self) -> Vec<Vec<f64>> {
        let between = |parameter: usize| {
            let mut steps = Vec::with_capacity(self.inputs.len() * (self.inputs.len() + 1) / 2);
            for (index, input) in self.inputs.iter().enumerate() {
                let others = &self.inputs[..=index];
                steps.extend(
                    others.iter().map(|other| f64::from(input[parameter].abs_diff(other[parameter]))),
                );
            }
            steps
        };
        (0..self.theta.len()).map(between).collect()
    }

    /// Factorises the correlation matrix of these distances, column by column so that the inner loop vectorises. Returns
    /// the log marginal likelihood, up to a constant, plus the log prior of the decays.
    fn factorise(&mut self, distances: &[f64]) -> f64 {
        let n = self.inputs.len();
        let mut at = 0;
        for (index, row) in self.factor.iter_mut().enumerate() {
            row.clear();
            row.extend(distances[at..=at + index].iter().map(|distance| (-distance).exp()));
            row[index] += self.noise;
            at += index + 1;
        }
        let mut column = vec![0.0; n];
        for k in 0..n {
            let pivot = self.factor[k][k].max(LEAST_PIVOT).sqrt();
            self.factor[k][k] = pivot;
            for i in k + 1..n {
                self.factor[i][k] /= pivot;
                column[i] = self.factor[i][k];
                add_scaled(&mut self.factor[i][k + 1..], -column[i], &column[k + 1..=i]);
            }
        }
        self.whiten();
        let determinant: f64 = self.factor.iter().enumerate().map(|(index, row)| row[index].ln()).sum();
        let unlikely = |theta: &f64| 0.5 * ((theta / THETA.0).ln() / THETA.1).powi(2);
        -0.5 * n as f64 * self.scale.ln() - determinant - self.theta.iter().map(unlikely).sum::<f64>()
    }

    /// Mean, scale and whitened targets for the present factor.
    fn whiten(&mut self) {
        let mut ones = vec![1.0; self.targets.len()];
        let mut targets = self.targets.clone();
        self.solve(&mut ones);
        self.solve(&mut targets);
        self.mean = dot(&ones, &targets) / dot(&ones, &ones);
        self.white = targets.iter().zip(&ones).map(|(target, one)| target - self.mean * one).collect();
        self.scale = (dot(&self.white, &self.white) / self.targets.len() as f64).max(LEAST_SCALE);
    }

    /// Replaces b by L⁻¹ b.
    fn solve(&self, values: &mut [f64]) {
        for index in 0..values.len() {
            let row = &self.factor[index];
            values[index] = (values[index] - dot(&row[..index], &values[..index])) / row[index];
        }
    }
}

fn add_scaled(into: &mut [f64], factor: f64, values: &[f64]) {
    for (into, value) in into.iter_mut().zip(values) {
        *into += factor * value;
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::Surrogate;

    /// An interaction of two parameters, and a third that does not matter.
    fn truth(x: &[u16]) -> f64 {
        0.3 * (f64::from(x[0]) - f64::from(x[1])).abs()
    }

    fn grid() -> Vec<Vec<u16>> {
        (0..64u16).map(|code| vec![code & 3, (code >> 2) & 3, code >> 4]).collect()
    }

    #[test]
    fn it_passes_through_what_it_learnt_and_is_unsure_elsewhere() {
        let all = grid();
        let inputs: Vec<&[u16]> = all.iter().step_by(5).map(Vec::as_slice).collect();
        let targets: Vec<f64> = inputs.iter().map(|x| truth(x)).collect();
        let mut model = Surrogate::new(3);
        model.learn(&inputs, &targets);
        for ((mean, deviation), target) in model.predict(&inputs).into_iter().zip(&targets) {
            assert!((mean - target).abs() < 0.01 && deviation < 0.02, "{mean} ± {deviation}, not {target}");
        }
        let (_, far) = model.predict(&[&[3, 0, 1]])[0];
        assert!(far > 0.05, "{far}");
    }

    #[test]
    fn learning_one_by_one_is_learning_at_once() {
        let all = grid();
        let inputs: Vec<&[u16]> = all.iter().step_by(3).map(Vec::as_slice).collect();
        let targets: Vec<f64> = inputs.iter().map(|x| truth(x)).collect();
        let mut at_once = Surrogate::new(3);
        at_once.learn(&inputs, &targets);
        let mut stepwise = Surrogate::new(3);
        for count in 1..=inputs.len() {
            stepwise.learn(&inputs[..count], &targets[..count]);
        }
        let probe: Vec<&[u16]> = all.iter().map(Vec::as_slice).collect();
        for (a, b) in at_once.predict(&probe).into_iter().zip(stepwise.predict(&probe)) {
            assert!((a.0 - b.0).abs() < 1e-9 && (a.1 - b.1).abs() < 1e-9);
        }
    }

    #[test]
    fn fitting_finds_which_parameters_matter() {
        let all = grid();
        let learnt = |index: &usize| index % 5 != 2;
        let pick = |keep: bool| -> Vec<&[u16]> {
            (0..64).filter(|index| learnt(index) == keep).map(|index| all[index].as_slice()).collect()
        };
        let inputs = pick(true);
        let targets: Vec<f64> = inputs.iter().map(|x| truth(x)).collect();
        let mut model = Surrogate::new(3);
        model.learn(&inputs, &targets);
        (0..4).for_each(|_| model.fit());
        assert!(
            model.theta[2] < 0.2 * model.theta[0] && model.theta[2] < 0.2 * model.theta[1],
            "{:?}",
            model.theta
        );
        let held_out = pick(false);
        let error: f64 = model
            .predict(&held_out)
            .iter()
            .zip(&held_out)
            .map(|((mean, _), x)| (mean - truth(x)).abs())
            .sum::<f64>()
            / held_out.len() as f64;
        assert!(error < 0.05, "{error}");
    }

    #[test]
    fn equal_targets_are_no_division_by_zero() {
        let mut model = Surrogate::new(1);
        model.learn(&[&[0], &[1], &[2]], &[0.5; 3]);
        model.fit();
        let (mean, deviation) = model.predict(&[&[7]])[0];
        assert!((mean - 0.5).abs() < 1e-9 && deviation.is_finite());
    }
}
