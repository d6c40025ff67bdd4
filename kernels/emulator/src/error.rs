//! What can go wrong, always with the place: kernel, instruction, workgroup, wave, lane.

use crate::isa::Encoding;

/// Why a code object could not be loaded or a launch could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are not a code object that this emulator runs.
    #[error("code object: {0}")]
    CodeObject(String),
    /// The launch does not fit the kernel: missing kernel, wrong arguments, too large a workgroup, an unmodelled mode.
    #[error("launch of `{kernel}`: {what}")]
    Launch {
        /// The kernel asked for.
        kernel: String,
        /// What does not fit, and what would.
        what: String,
    },
    /// A wave met something that it may not do, or that the emulator does not model.
    #[error("{0}")]
    Fault(Box<Fault>),
}

/// A fault of one wave, with the place where it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kernel that ran.
    pub kernel: String,
    /// Byte address of the instruction within the code object's image.
    pub pc: u64,
    /// Mnemonic and encoding of the instruction.
    pub instruction: String,
    /// Workgroup id in x, y, z.
    pub workgroup: [u32; 3],
    /// Wave within the workgroup.
    pub wave: u32,
    /// What happened.
    pub what: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.workgroup;
        write!(
            f,
            "kernel `{}`, pc {:#x}, {}, workgroup ({x}, {y}, {z}), wave {}: {}",
            self.kernel, self.pc, self.instruction, self.wave, self.what
        )
    }
}

/// An instruction that cannot be decoded: an unknown opcode, or a field that the emulator does not model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecodable {
    /// The encoding that the leading bits select.
    pub encoding: Encoding,
    /// The opcode field, where the encoding has one.
    pub opcode: u16,
    /// The first two words at the place.
    pub words: [u32; 2],
    /// What is not known about it.
    pub what: String,
}

impl std::fmt::Display for Undecodable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b] = self.words;
        write!(f, "{:?} opcode {:#x} (words {a:08x} {b:08x}): {}", self.encoding, self.opcode, self.what)
    }
}

/// The reason alone; the scheduler adds the place.
pub(crate) type Trap = Box<str>;

/// Builds a [`Trap`] with `format!` syntax.
macro_rules! trap {
    ($($arg:tt)*) => { Err(format!($($arg)*).into_boxed_str()) };
}
pub(crate) use trap;
