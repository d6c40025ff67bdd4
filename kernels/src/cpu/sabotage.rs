//! A broken kernel on request, in debug builds only: what the tests of guard zones run.

use std::sync::atomic::{AtomicBool, Ordering};

/// While set, every run writes one element past its output.
pub static OVERRUN: AtomicBool = AtomicBool::new(false);

/// Writes element `at` of a guarded output if asked to.
pub(super) fn overrun<T: Default>(guarded: &mut [T], at: usize) {
    if OVERRUN.load(Ordering::Relaxed) {
        guarded[at] = T::default();
    }
}
