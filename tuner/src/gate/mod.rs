//! What a candidate has to pass before its speed counts.
//!
//! * **Correctness** ([`Gate`]): each candidate computes the right product, writes inside its output only, and gives
//!   the same bits twice where that is asked. A fast wrong kernel is disqualified with a reason.
//! * **Quality** ([`quality`]): a format's error against the un-quantised operands. A format over the declared
//!   `max_error` is out for that weight, however fast its kernels.

mod correctness;
mod quality;

pub use correctness::Gate;
pub use quality::quality;
