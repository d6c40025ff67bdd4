//! Runs gfx942 (MI300X) and gfx950 (MI355X) code objects on a CPU.
//!
//! It exists to prove HIP kernels where there is no AMD GPU: in CI and on the machines of people who change a kernel.
//! A code object is loaded and decoded once ([`CodeObject::load`]), buffers are made ([`Memory::alloc`]), and a kernel
//! is launched over a grid ([`CodeObject::launch`]); workgroups run in parallel, the waves of one take turns.
//!
//! **Results were not compared with AMD hardware.** They were checked against the documents that the modules name,
//! against independent computations of each test kernel's result, and, for the matrix layouts, against layouts that
//! code objects shipped for real machines agree with. What is known to differ or is not modelled:
//!
//! * the order and width of sums inside a matrix instruction (f32, k ascending here);
//! * the last bit of transcendental instructions (rounded from f64 here);
//! * missing waits for registers and missing `s_nop`s: loads into registers complete at once;
//! * time: nothing is timed, there are no caches, and `s_memtime` counts the wave's instructions;
//! * rounding modes other than to nearest even: an error.
//!
//! Invariants:
//!
//! * an unknown opcode, or a combination of fields that was not thought of, is an error that names it, never a no-op;
//! * registers and LDS begin poisoned; memory outside buffers faults, with the lane, the address and the buffer nearby;
//! * a launch with the same seed does the same, but for atomics on floats between workgroups that run in parallel.
//!
//! ```no_run
//! use tilewright_emulator::{CodeObject, Grid, Memory, Options};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let code = CodeObject::load(&std::fs::read("add.hsaco")?)?;
//! let mut memory = Memory::new();
//! let x = memory.alloc_from("x", &[0; 4096]);
//! let y = memory.alloc("y", 4096, 0xff);
//! let report = code.launch("add", &memory, Grid::linear(4, 256), &[x.into(), y.into()], &Options::default())?;
//! println!("{} instructions, {:?}", report.instructions, memory.read(y, 16)?);
//! # Ok(())
//! # }
//! ```

mod code_object;
mod error;
mod exec;
mod isa;
mod launch;
mod memory;
mod metadata;
mod report;
mod scheduler;
mod small_float;

pub use code_object::{CodeObject, Descriptor, Finding, Kernel};
pub use error::{Error, Fault, Undecodable};
pub use isa::{Arch, Encoding, LANES};
pub use launch::{Arg, Dma, Grid, Options, Order};
pub use memory::{GUARD, Memory};
pub use metadata::{Arg as ArgMetadata, KernelMetadata};
pub use report::{LINE, Race, Report, Touch, Traffic};
pub use small_float::{
    BF16, E2M1, E2M3, E3M2, E4M3, E4M3_FNUZ, E5M2, E5M2_FNUZ, F16, SmallFloat, Special as SmallFloatSpecial,
    e8m0,
};
