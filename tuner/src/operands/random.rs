//! Random operands with the features that break quantised kernels.
//!
//! Weights are bell-shaped with a different spread for each output channel. Activations are bell-shaped with outlier
//! channels: in transformers a few input channels are an order of magnitude larger than the rest (Dettmers et al. 2022,
//! "LLM.int8()"). Zeros or uniform noise would flatter both a format's error and a GPU's clocks.
//!
//! Everything is a function of a seed, the same on every platform: only integer arithmetic and f32 products.

use crate::stats::Rng;

/// A bell-shaped value of mean 0 and variance 1: the sum of four uniforms, so never beyond ±3.5.
fn bell(rng: &mut Rng) -> f32 {
    let bits = rng.next_u64();
    let sum = (0..4).map(|i| ((bits >> (16 * i)) & 0xffff) as i32).sum::<i32>() - 2 * 0xffff;
    sum as f32 * (1.732_050_8 / 65536.0)
}

/// One input channel in this many is an outlier.
const OUTLIER_EVERY: usize = 61;
/// How much larger an outlier channel is.
const OUTLIER_GAIN: f32 = 10.0;

/// A weight of `n` output channels by `k` input channels.
pub fn weight(n: usize, k: usize, seed: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed ^ 0x5745_4947_4854);
    let mut values = Vec::with_capacity(n * k);
    for _ in 0..n {
        let spread = 0.02 * (1.0 + (rng.next_u64() % 4) as f32 * 0.5);
        values.extend((0..k).map(|_| spread * bell(&mut rng)));
    }
    values
}

/// An activation of `m` tokens by `k` channels, rounded to bf16, with outlier channels.
pub fn activation(m: usize, k: usize, seed: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed ^ 0x4143_5449_5641);
    let first = (rng.next_u64() % OUTLIER_EVERY as u64) as usize;
    let gain = |channel: usize| if channel % OUTLIER_EVERY == first { OUTLIER_GAIN } else { 1.0 };
    (0..m * k).map(|i| round_to_bf16(bell(&mut rng) * gain(i % k))).collect()
}

/// As [`activation`], with the last channel 64 times larger and one token of zeros: what a kernel that drops a K tail,
/// or mixes up rows or scales, gets wrong first.
pub fn adversarial_activation(m: usize, k: usize, seed: u64) -> Vec<f32> {
    let mut values = activation(m, k, seed);
    for row in 0..m {
        values[row * k + k - 1] *= 64.0;
    }
    if m > 1 {
        values[(m / 2) * k..(m / 2 + 1) * k].fill(0.0);
    }
    values
}

/// Rounds to nearest even, as an engine's bf16 activations are. The values here are finite.
fn round_to_bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bell_has_mean_0_and_variance_1() {
        let mut rng = Rng::new(7);
        let values: Vec<f64> = (0..100_000).map(|_| f64::from(bell(&mut rng))).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
    }

    #[test]
    fn operands_repeat_with_the_seed_and_activations_are_bf16() {
        assert_eq!(weight(3, 40, 1), weight(3, 40, 1));
        assert_ne!(weight(3, 40, 1), weight(3, 40, 2));
        let a = activation(4, 200, 1);
        assert!(a.iter().all(|v| v.to_bits() & 0xffff == 0));
        let largest = a.iter().fold(0f32, |x, v| x.max(v.abs()));
        assert!(largest > 12.0, "no outlier channel: {largest}");
    }
}
