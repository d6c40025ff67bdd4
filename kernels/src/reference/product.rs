//! A·Bᵀ in f64, blocked for the cache and spread over the cores.

use std::thread;

use crate::format::encode::worth_threads;

/// Partial sums of one dot product. Their number fixes the order of additions, and with it the result.
const LANES: usize = 4;
/// Rows of A multiplied with a row of B at once.
const ROWS: usize = 4;
/// Bytes of dequantised A that are kept while all of B passes by.
const BLOCK_BYTES: usize = 1 << 20;

/// A row of an operand: writes its K values.
pub(super) type Rows<'a> = dyn Fn(usize, &mut [f64]) + Sync + 'a;

/// The product and the Euclidean norms of the rows that went into it.
pub(super) struct Product {
    /// Column after column of D, M values each.
    pub(super) d: Vec<f64>,
    pub(super) a_norms: Vec<f64>,
    pub(super) b_norms: Vec<f64>,
}

/// Multiplies M rows of A with N rows of B, all of length K, given `[M, N, K]`.
pub(super) fn product([m, n, k]: [usize; 3], a: &Rows<'_>, b: &Rows<'_>) -> Product {
    let mut made = Product { d: vec![0.0; m * n], a_norms: vec![0.0; m], b_norms: vec![0.0; n] };
    if m == 0 || n == 0 {
        return made;
    }
    let block_rows =
        (BLOCK_BYTES / 8 / k.max(1)).next_multiple_of(ROWS).clamp(ROWS, m.next_multiple_of(ROWS));
    let mut block = vec![0.0; block_rows * k];
    let threads = worth_threads(n * k * block_rows.min(m).div_ceil(8)).min(n);
    let share = n.div_ceil(threads);
    for first in (0..m).step_by(block_rows) {
        let rows = block_rows.min(m - first);
        for row in 0..rows {
            let values = &mut block[row * k..][..k];
            a(first + row, values);
            made.a_norms[first + row] = norm(values);
        }
        let block = &block[..rows * k];
        thread::scope(|scope| {
            let parts = made.d.chunks_mut(share * m).zip(made.b_norms.chunks_mut(share));
            let mut parts = parts.enumerate().map(|(part, (d, norms))| {
                move || {
                    let mut values = vec![0.0; k];
                    for (index, (d, of_row)) in d.chunks_exact_mut(m).zip(norms).enumerate() {
                        b(part * share + index, &mut values);
                        *of_row = norm(&values);
                        dots(&values, block, &mut d[first..first + rows]);
                    }
                }
            });
            let own = parts.next();
            parts.for_each(|part| {
                scope.spawn(part);
            });
            own.into_iter().for_each(|part| part());
        });
    }
    made
}

/// The dot product of one row of B with each row of a block of A.
fn dots(b: &[f64], block: &[f64], d: &mut [f64]) {
    let k = b.len();
    let whole = d.len() / ROWS * ROWS;
    for (row, d) in (0..whole).step_by(ROWS).zip(d.chunks_exact_mut(ROWS)) {
        let rows: [&[f64]; ROWS] = std::array::from_fn(|i| &block[(row + i) * k..][..k]);
        d.copy_from_slice(&dot(b, rows));
    }
    for row in whole..d.len() {
        [d[row]] = dot(b, [&block[row * k..][..k]]);
    }
}

/// The dot products of `b` with `R` rows of the same length.
fn dot<const R: usize>(b: &[f64], rows: [&[f64]; R]) -> [f64; R] {
    let mut sums = [[0.0; LANES]; R];
    let (chunks, rest) = b.as_chunks::<LANES>();
    let rows = rows.map(|row| row[..b.len()].as_chunks::<LANES>());
    for (at, b) in chunks.iter().enumerate() {
        for row in 0..R {
            let a = &rows[row].0[at];
            for lane in 0..LANES {
                sums[row][lane] += a[lane] * b[lane];
            }
        }
    }
    std::array::from_fn(|row| {
        let tail: f64 = rows[row].1.iter().zip(rest).map(|(a, b)| a * b).sum();
        sums[row].iter().sum::<f64>() + tail
    })
}

fn norm(values: &[f64]) -> f64 {
    let [square] = dot(values, [values]);
    square.sqrt()
}
