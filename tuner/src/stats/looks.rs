//! When a race may be looked at, and what each look may spend.
//!
//! Testing after every block at 5 % finds a difference between identical candidates in a third of all races: each look
//! is another chance to be wrong (Armitage, McPherson & Rowe 1969). The looks are therefore fixed beforehand and the error
//! probability split evenly over looks and rivals (Bonferroni): valid under any dependence, and cheap, since the blocks
//! needed grow with the logarithm of the level only.

use thiserror::Error;

/// The block counts at which a race is looked at, and the error probability that all looks share.
#[derive(Clone, Debug, PartialEq)]
pub struct Looks {
    at: Vec<usize>,
    alpha: f64,
}

/// Why looks cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LooksError {
    /// There are none.
    #[error("a race needs at least one look")]
    None,
    /// The block counts do not rise.
    #[error("looks have to rise: {0} blocks do not come after {1}")]
    NotRising(usize, usize),
    /// A look this early has no spread to judge by.
    #[error("a look at {0} blocks is too early: a spread needs at least 3")]
    TooEarly(usize),
    /// The error probability is not one.
    #[error("alpha lies strictly between 0 and 0.5, not at {0}")]
    Alpha(f64),
}

impl Looks {
    /// Looks at these block counts, sharing the error probability `alpha`.
    ///
    /// # Errors
    /// If there is none, they do not rise, the first comes before 3 blocks, or `alpha` is not in (0, 0.5).
    pub fn new(at: Vec<usize>, alpha: f64) -> Result<Self, LooksError> {
        let first = *at.first().ok_or(LooksError::None)?;
        if first < 3 {
            return Err(LooksError::TooEarly(first));
        }
        if let Some(pair) = at.windows(2).find(|pair| pair[1] <= pair[0]) {
            return Err(LooksError::NotRising(pair[1], pair[0]));
        }
        if !(alpha > 0.0 && alpha < 0.5) {
            return Err(LooksError::Alpha(alpha));
        }
        Ok(Looks { at, alpha })
    }

    /// The block counts, rising.
    pub fn at(&self) -> &[usize] {
        &self.at
    }

    /// The error probability that all looks share.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The number of the look due after this many blocks, from 1.
    pub fn due(&self, blocks: usize) -> Option<usize> {
        self.at.iter().position(|at| *at == blocks).map(|index| index + 1)
    }

    /// The block count of the last look.
    pub fn last(&self) -> usize {
        *self.at.last().expect("there is at least one look")
    }

    /// The one-sided level of one comparison at one look among this many rivals.
    pub fn level(&self, rivals: usize) -> f64 {
        self.alpha / (self.at.len() * rivals.max(1)) as f64
    }
}

impl Default for Looks {
    /// After 6, 10, 16, 24 and 40 blocks at 5 %.
    fn default() -> Self {
        Looks { at: vec![6, 10, 16, 24, 40], alpha: 0.05 }
    }
}
