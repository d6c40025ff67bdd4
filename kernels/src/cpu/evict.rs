//! Getting operands out of every cache before a cold launch.

/// Copies of the operands that timed launches rotate through, so that no candidate is lucky with an address.
///
/// x86 evicts by address, so a few copies do, and of a large weight, which spans every set of every cache, one. Elsewhere the copies themselves are the eviction: together they exceed
/// the last-level cache three times over, within a bound.
pub(super) fn copies(bytes: usize, llc_kib: u32) -> usize {
    if cfg!(target_arch = "x86_64") {
        const FEW: usize = 64 << 20;
        return (FEW / bytes.max(1)).clamp(1, 5);
    }
    const MOST: usize = 512 << 20;
    let wanted = (3 * llc_kib as usize) << 10;
    wanted.min(MOST).div_ceil(bytes.max(1)).clamp(2, 4096)
}

/// Writes back and drops every cache line of a range.
#[cfg(target_arch = "x86_64")]
pub(super) fn evict<T>(range: &[T]) {
    use core::arch::x86_64::{_mm_clflush, _mm_mfence};
    const LINE: usize = 64;
    let start = range.as_ptr().cast::<u8>();
    for offset in (0..size_of_val(range)).step_by(LINE) {
        // SAFETY: the address lies within the slice, and SSE2 is part of x86-64.
        unsafe { _mm_clflush(start.add(offset)) };
    }
    if let Some(last) = size_of_val(range).checked_sub(1) {
        // SAFETY: as above.
        unsafe { _mm_clflush(start.add(last)) };
    }
    // SAFETY: SSE2 is part of x86-64. The fence orders the flushes before the timed loads.
    unsafe { _mm_mfence() };
}

/// Nothing to do: copies are rotated instead, see [`copies`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn evict<T>(_: &[T]) {}
