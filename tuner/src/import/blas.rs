//! BLAS calls as weights and activations.
//!
//! TunableOp and hipBLASLt record column-major calls D(m,n) = op(A)(m,k) · op(B)(k,n). `y = x·Wᵀ` of row-major x and W is
//! the call T,N with A = W: the weight is A, so that our N is the call's m, our M its n. A weight is laid out anew when it
//! is loaded, so its transposition and leading dimension are no matter. Activation and output are taken where they lie:
//! if they are transposed or strided, the declaration cannot say so.

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
