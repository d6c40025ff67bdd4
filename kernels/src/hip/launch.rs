//! What a launch of a config needs, as data: kernels to compile, buffers to make, and the steps to run in order.
//!
//! A family gives a [`Plan`] for a config and a problem, and packs weights into the parts that its kernels read. Who
//! carries a plan out (the HIP host on a device, a test on the emulator) knows nothing of the family.

/// A kernel to compile. Text and definitions together, with architecture and compiler, identify a code object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// File name, for the compiler's messages.
    pub file: &'static str,
    /// HIP C++, complete: nothing is included.
    pub text: &'static str,
    /// The kernel's name.
    pub entry: &'static str,
    /// Definitions of the kernel's macros: `NAME=value`.
    pub defines: Vec<String>,
}

/// One kernel argument, in the order of the kernel's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// Part of the packed weight, by its position: codes, scales, …
    Weight(usize),
    /// The activation as the engine has it: row-major M × K in bf16.
    Activation,
    /// A buffer of [`Plan::scratch`], by its position: a packed activation, partial sums, counters.
    Scratch(usize),
    /// The bias, N values of f32; a null pointer where the problem has none.
    Bias,
    /// D, row-major M × N in the problem's output type.
    Output,
    /// A number.
    U32(u32),
}

/// A buffer that a plan needs besides operands and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// Size in bytes.
    pub bytes: usize,
    /// Whether it must be all zeros before the first launch. The steps leave it zeroed for the next one.
    pub zeroed: bool,
}

/// One launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is launched.
    pub source: Source,
    /// Workgroups, x and y.
    pub grid: [u32; 2],
    /// Threads of a workgroup.
    pub threads: u32,
    /// Dynamic LDS in bytes, on top of what the kernel declares.
    pub lds_bytes: u32,
    /// The kernel's arguments.
    pub args: Vec<Arg>,
    /// Whether the step readies the activation (quantises and packs it): what a caller with packed activations skips.
    pub packs_activation: bool,
}

/// All that one launch of a config on a problem does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Buffers the steps share.
    pub scratch: Vec<Scratch>,
    /// Launches, in stream order.
    pub steps: Vec<Step>,
}
