//! From accumulators to D: scales of FP8, bias, rounding, and the store.

use crate::cpu::tables::to_bf16;

/// D, row-major M × N, as the caller wants it.
#[derive(Debug)]
pub enum Output<'a> {
    /// f32, as accumulated.
    F32(&'a mut [f32]),
    /// bf16 bits, rounded to nearest even.
    Bf16(&'a mut [u16]),
}

impl Output<'_> {
    /// Elements.
    pub fn len(&self) -> usize {
        match self {
            Output::F32(values) => values.len(),
            Output::Bf16(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn target(&mut self) -> Target {
        match self {
            Output::F32(values) => Target::F32(values.as_mut_ptr()),
            Output::Bf16(values) => Target::Bf16(values.as_mut_ptr()),
        }
    }
}

/// [`Output`] for several threads that write disjoint parts.
#[derive(Clone, Copy)]
pub(super) enum Target {
    F32(*mut f32),
    Bf16(*mut u16),
}

/// What happens to an accumulator before it is stored.
#[derive(Clone, Copy)]
pub(super) struct Epilogue<'a> {
    /// One factor per column, or empty.
    pub(super) channel_scales: &'a [f32],
    /// Whether rows have a factor too.
    pub(super) token_scales: bool,
    /// One summand per column, or empty.
    pub(super) bias: &'a [f32],
}

impl Epilogue<'_> {
    /// Finishes the elements of one row from column `column` on and stores them at element `at` of D.
    ///
    /// # Safety
    /// Elements `at..at + sums.len()` of D exist and nobody else touches them.
    #[inline]
    pub(super) unsafe fn store(
        &self,
        sums: &mut [f32],
        token_scale: f32,
        column: usize,
        output: Target,
        at: usize,
    ) {
        if !self.channel_scales.is_empty() {
            for (sum, scale) in sums.iter_mut().zip(&self.channel_scales[column..]) {
                *sum *= scale;
            }
        }
        if self.token_scales {
            for sum in sums.iter_mut() {
                *sum *= token_scale;
            }
        }
        if !self.bias.is_empty() {
            for (sum, bias) in sums.iter_mut().zip(&self.bias[column..]) {
                *sum += bias;
            }
        }
        // SAFETY: the caller guarantees the range and that it is ours.
        unsafe {
            match output {
                Target::F32(start) => {
                    std::slice::from_raw_parts_mut(start.add(at), sums.len()).copy_from_slice(sums);
                }
                Target::Bf16(start) => {
                    let to = std::slice::from_raw_parts_mut(start.add(at), sums.len());
                    for (to, sum) in to.iter_mut().zip(sums.iter()) {
                        *to = to_bf16(*sum);
                    }
                }
            }
        }
    }
}
