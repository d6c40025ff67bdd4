//! D = A · Bᵀ in f32 by the crates gemm and faer, behind a C interface.
//!
//! All matrices are dense and row-major: A m × k, B n × k, D m × n. `RAYON_NUM_THREADS` gives the threads.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// By the crate gemm.
///
/// # Safety
/// The pointers must be to m·k, n·k and m·n values, the last apart from the others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_gemm(m: usize, n: usize, k: usize, a: *const f32, b: *const f32, d: *mut f32) {
    let parallelism = match threads() {
        1 => gemm::Parallelism::None,
        threads => gemm::Parallelism::Rayon(threads),
    };
    let (k_stride, n_stride) = (k as isize, n as isize);
    // SAFETY: the caller's promise, with the strides of dense row-major matrices; B is read transposed.
    unsafe {
        gemm::gemm(
            m, n, k, d, 1, n_stride, false, a, 1, k_stride, b, k_stride, 1, 0.0, 1.0, false, false, false, parallelism,
        );
    }
}

/// By the crate faer.
///
/// # Safety
/// As for [`peer_gemm`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_faer(m: usize, n: usize, k: usize, a: *const f32, b: *const f32, d: *mut f32) {
    // SAFETY: the caller's promise.
    let (a, b, d) = unsafe {
        (
            std::slice::from_raw_parts(a, m * k),
            std::slice::from_raw_parts(b, n * k),
            std::slice::from_raw_parts_mut(d, m * n),
        )
    };
    let parallelism = match threads() {
        1 => Par::Seq,
        threads => Par::rayon(threads),
    };
    matmul(
        MatMut::from_row_major_slice_mut(d, m, n),
        Accum::Replace,
        MatRef::from_row_major_slice(a, m, k),
        MatRef::from_row_major_slice(b, n, k).transpose(),
        1.0,
        parallelism,
    );
}

fn threads() -> usize {
    std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}
