//! Worker processes: candidates run where they can harm nobody else.
//!
//! The tuner plans, decides and records, and never touches a device. For each device it starts a copy of its own executable as a
//! worker, which opens the device, makes the operands, compiles candidates and runs them. The two talk in checksummed
//! [frames](frame) over the worker's standard input and a private copy of its standard output; what kernels print
//! goes elsewhere.
//!
//! What a candidate can do to its worker, and what becomes of it:
//!
//! | the candidate | is noticed by | the worker |
//! |---|---|---|
//! | segfaults, aborts, exits | the end of the stream, and the process's exit status | is started anew |
//! | spins for ever | the [deadline](Deadlines) of the question, which follows the times expected | is killed and started anew |
//! | allocates without end | its address-space limit ([`WorkerSpec::memory`]): the allocation fails and it aborts | is started anew |
//! | writes into the stream | a frame that is none | is killed and started anew |
//! | poisons the device's context | a candidate that passed before fails now | says so, ends, is started anew |
//! | writes past its output, is wrong now and then | guard zones, and comparison after every launch | goes on |
//!
//! In each case the candidate alone is recorded as failed, with the reason, and the next question opens the same weight
//! in the new worker. A worker that is slow but alive is told from a dead one by the heartbeat that another of
//! its threads sends. A worker whose tuner is gone reads the end of its input and kills itself.

pub mod cores;
mod deadlines;
pub mod frame;
#[cfg(debug_assertions)]
mod inject;
mod message;
pub mod names;
mod process;
mod rig;
mod serve;

pub use deadlines::Deadlines;
pub use message::{Answer, Hello, Question};
pub use process::WorkerSpec;
pub use rig::RemoteRig;
pub use serve::{ServeOptions, serve};
