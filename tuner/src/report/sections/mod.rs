//! The parts of the page, each made of what one kind of file says.

mod changes;
mod misses;
mod session;
mod table;

pub(super) use changes::changes;
pub(super) use misses::{misses, requests};
pub(super) use session::session;
pub(super) use table::table;
