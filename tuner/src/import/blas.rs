//! BLAS calls as weights and activations.
//!
//! TunableOp and hipBLASLt record column-major calls D(m,n) = op(A)(m,k) · op(B)(k,n). `y = x·Wᵀ` of row-major x and W is
//! the call T,N with A = W: the weight is A, so that our N is the call's m, our M its n. A weight is laid out anew when it
//! is loaded, so its transposition and leading dimension are no matter. Activation and output are taken where they lie:
//! if they are transposed or strided, the declaration cannot say so.
//!
//! Both write lines of plain fields between commas, without quotes, so that both are walked by [`lines`] and added by
//! [`Row::push`].

use super::foreign::{Entry, Foreign, NONE, Operation};

/// A row of TunableOp or hipBLASLt: a call, and what was found for it.
pub(super) struct Row<'t> {
    /// Its line.
    pub(super) line: u32,
    /// The call.
    pub(super) call: Call,
    /// Calls of one launch.
    pub(super) batch: u32,
    /// The solution, or empty in an untuned list.
    pub(super) kernel: &'t str,
    /// Whose it is.
    pub(super) library: &'t str,
    /// Its number, where it has one.
    pub(super) index: Option<i32>,
    /// Its time in µs.
    pub(super) time_us: Option<f64>,
    /// The key or row as it is written.
    pub(super) origin: &'t str,
    /// Why a declaration cannot express it, beside what the call says.
    pub(super) obstacle: Option<&'static str>,
}

impl Row<'_> {
    /// Adds the row to a file.
    pub(super) fn push(self, foreign: &mut Foreign, operation: Operation) {
        let operation = foreign.operation(operation);
        let kernel = foreign.intern(self.kernel);
        let library = if kernel == NONE { NONE } else { foreign.intern(self.library) };
        let batched = (self.batch > 1).then_some("a batch of several GEMMs in one launch");
        let obstacle = batched.or(self.obstacle).or_else(|| self.call.obstacle());
        let obstacle = obstacle.map_or(NONE, |reason| foreign.intern(reason));
        let origin = if kernel == NONE { NONE } else { foreign.intern(self.origin) };
        let [m, n, k] = self.call.problem();
        foreign.push(Entry {
            line: self.line,
            operation,
            batch: self.batch,
            m,
            n,
            k,
            library,
            kernel,
            split_k: None,
            time_us: self.time_us,
            error: None,
            tflops: None,
            index: self.index,
            origin,
            obstacle,
        });
    }
}

/// Lines with their numbers, from 1, and their fields, blanks around them left out. Empty lines are none.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (u32, &str, Vec<&str>)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index as u32 + 1, line.trim()));
    numbered
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| (number, line, line.split(',').map(str::trim).collect()))
}

/// A call.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// Whether op(A) and op(B) transpose.
    pub(super) transposed: [bool; 2],
    /// m, n, k of the call.
    pub(super) sizes: [u32; 3],
    /// Leading dimensions of B and D, where the source has them.
    pub(super) leading: Option<[u64; 2]>,
}

impl Call {
    /// Our M, N, K.
    pub(super) fn problem(&self) -> [u32; 3] {
        let [m, n, k] = self.sizes;
        [n, m, k]
    }

    /// What its key holds beyond dimensions and types: `TN`, and leading dimensions of B and D that are not dense.
    pub(super) fn variant(&self) -> String {
        let [m, n, k] = self.sizes;
        let mut text: String = self.transposed.map(|is| if is { 'T' } else { 'N' }).iter().collect();
        if let Some([ldb, ldd]) = self.leading {
            let dense = if self.transposed[1] { n } else { k };
            for (name, value, dense) in [(" ldb=", ldb, dense), (" ldd=", ldd, m)] {
                if value != u64::from(dense) {
                    text += name;
                    text += &value.to_string();
                }
            }
        }
        text
    }

    /// Why a declaration cannot express it.
    pub(super) fn obstacle(&self) -> Option<&'static str> {
        let [m, n, k] = self.sizes;
        if self.transposed[1] && n > 1 && k > 1 {
            return Some("the activation is transposed: its K is not contiguous");
        }
        // The stride of a single row is never taken.
        match self.leading {
            Some([ldb, _]) if n > 1 && !self.transposed[1] && ldb != u64::from(k) => {
                Some("the activation is strided: its leading dimension is not K")
            }
            Some([_, ldd]) if n > 1 && ldd != u64::from(m) => {
                Some("the output is strided: its leading dimension is not N")
            }
            _ => None,
        }
    }
}
