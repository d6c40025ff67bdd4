//! Loading: ELF, relocations, kernel descriptors, metadata; the text is decoded once here.
//!
//! Sources: the AMDGPU back end's user guide of LLVM (code object format V4 to V6, kernel descriptor, metadata).

use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

use crate::error::{Error, Undecodable};
use crate::isa::decode;
use crate::isa::{Arch, Inst, Op};
use crate::memory::Region;
use crate::metadata::{self, KernelMetadata};

/// Address at which a code object's image lies while it runs.
const IMAGE: u64 = 0x1000_0000_0000;
/// e_machine and the processor numbers in e_flags.
const EM_AMDGPU: u16 = 224;
const MACH_GFX942: u32 = 0x4c;
const MACH_GFX950: u32 = 0x4f;
/// R_AMDGPU_RELATIVE64: image base plus addend.
const RELATIVE64: u32 = 13;

/// A loaded code object.
#[derive(Debug)]
pub struct CodeObject {
    arch: Arch,
    pub(crate) image: Region,
    /// Address of the text section in the image, and its instructions.
    pub(crate) text: u64,
    pub(crate) insts: Vec<Inst>,
    /// Index of the instruction that begins at each word of the text; `NOWHERE` within one.
    pub(crate) index: Vec<u32>,
    kernels: Vec<Kernel>,
}

/// What a word within an instruction maps to.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// A kernel of a code object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Name without the `.kd` of its descriptor.
    pub name: String,
    /// What the metadata say, if there are any for this kernel.
    pub metadata: Option<KernelMetadata>,
    /// The fields of the descriptor that a launch needs.
    pub descriptor: Descriptor,
    /// Address of the first instruction in the image, and bytes of code (0 if the symbol does not say).
    pub(crate) entry: u64,
    pub(crate) size: u64,
}

/// The kernel descriptor, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Bytes of statically allocated LDS.
    pub group_segment: u32,
    /// Bytes of scratch a lane.
    pub private_segment: u32,
    /// Bytes of kernel arguments.
    pub kernarg_size: u32,
    /// Initial MODE bits: rounding, denormals, clamp, IEEE, FP16 overflow.
    pub(crate) mode: u32,
    pub(crate) user_sgprs: u32,
    pub(crate) workgroup_ids: [bool; 3],
    pub(crate) workgroup_info: bool,
    pub(crate) workitem_id_dims: u32,
    pub(crate) properties: u16,
    /// Dwords of kernel arguments that are put into SGPRs, and the first of them.
    pub(crate) preload: (u32, u32),
}

impl Descriptor {
    fn parse(bytes: &[u8]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"));
        let (rsrc1, rsrc2) = (u32_at(48), u32_at(52));
        let bit = |x: u32, n: u32| x >> n & 1;
        let mode = rsrc1 >> 12 & 0xff | bit(rsrc1, 21) << 8 | bit(rsrc1, 23) << 9 | bit(rsrc1, 26) << 23;
        Self {
            group_segment: u32_at(0),
            private_segment: u32_at(4),
            kernarg_size: u32_at(8),
            mode,
            user_sgprs: rsrc2 >> 1 & 31,
            workgroup_ids: [7, 8, 9].map(|n| bit(rsrc2, n) == 1),
            workgroup_info: bit(rsrc2, 10) == 1,
            workitem_id_dims: rsrc2 >> 11 & 3,
            properties: u16_at(56),
            preload: (u32::from(u16_at(58)) & 0x7f, u32::from(u16_at(58)) >> 7),
        }
    }
}

/// An instruction that a scan found undecodable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kernel whose code it lies in.
    pub kernel: String,
    /// Address in the image.
    pub pc: u64,
    /// What is not known about it.
    pub undecodable: Undecodable,
}

fn fail<X>(what: impl Into<String>) -> Result<X, Error> {
    Err(Error::CodeObject(what.into()))
}

impl CodeObject {
    /// Loads a code object for gfx942 or gfx950 and decodes its text.
    ///
    /// # Errors
    /// [`Error::CodeObject`] if the bytes are not such an ELF, or have no text.
    pub fn load(bytes: &[u8]) -> Result<Self, Error> {
        let file = match ElfFile64::<Endianness>::parse(bytes) {
            Ok(file) => file,
            Err(error) => return fail(format!("not a 64-bit ELF file: {error}")),
        };
        let header = file.elf_header();
        if header.e_machine(Endianness::Little) != EM_AMDGPU {
            return fail("an ELF file for another machine than AMDGPU");
        }
        let arch = match header.e_flags(Endianness::Little) & 0xff {
            MACH_GFX942 => Arch::Gfx942,
            MACH_GFX950 => Arch::Gfx950,
            mach => {
                return fail(format!(
                    "processor {mach:#x}; this emulator runs gfx942 (0x4c) and gfx950 (0x4f)"
                ));
            }
        };
        let image = image(&file, bytes)?;
        let Some(text) = file.section_by_name(".text") else { return fail("no .text section") };
        let Ok(code) = text.data() else { return fail("the .text section lies outside the file") };
        let insts = decode::section(code, arch);
        let mut index = vec![NOWHERE; code.len() / 4];
        for (i, inst) in insts.iter().enumerate() {
            index[inst.offset as usize / 4] = i as u32;
        }
        let kernels = kernels(&file, &image)?;
        let image = Region::new("code object", IMAGE, &image, false);
        Ok(Self { arch, image, text: IMAGE.wrapping_add(text.address()), insts, index, kernels })
    }

    /// The architecture it was compiled for.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Its kernels.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The kernel of a name.
    ///
    /// # Errors
    /// [`Error::Launch`] naming the kernels that there are.
    pub fn kernel(&self, name: &str) -> Result<&Kernel, Error> {
        self.kernels.iter().find(|k| k.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.kernels.iter().map(|k| k.name.as_str()).collect();
            Error::Launch {
                kernel: name.into(),
                what: format!("no such kernel; there are: {}", names.join(", ")),
            }
        })
    }

    /// Everything within the kernels that the emulator cannot execute.
    pub fn scan(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        for kernel in &self.kernels {
            let end = if kernel.size == 0 { u64::MAX } else { kernel.entry.saturating_add(kernel.size) };
            for inst in &self.insts {
                let pc = self.text.wrapping_add(u64::from(inst.offset));
                if pc < kernel.entry || pc >= end {
                    continue;
                }
                if let Op::Undecodable(undecodable) = &inst.op {
                    let undecodable = (**undecodable).clone();
                    found.push(Finding {
                        kernel: kernel.name.clone(),
                        pc: pc.wrapping_sub(IMAGE),
                        undecodable,
                    });
                }
            }
        }
        found
    }

    /// The first word of the instruction at an address of [`CodeObject::listing`]: fields that a mnemonic does not tell.
    pub fn word(&self, address: u64) -> Option<u32> {
        self.image.contains(IMAGE.wrapping_add(address), 4).map(|at| self.image.load32(at))
    }

    /// Mnemonic of each instruction with its image address, for listings and for checks against an assembler.
    pub fn listing(&self) -> Vec<(u64, String)> {
        self.insts
            .iter()
            .map(|i| (self.text.wrapping_sub(IMAGE).wrapping_add(u64::from(i.offset)), i.mnemonic()))
            .collect()
    }
}

/// The loaded segments at their addresses, relocated.
fn image(file: &ElfFile64<'_, Endianness>, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let e = Endianness::Little;
    let mut image = Vec::new();
    for segment in file.elf_program_headers().iter().filter(|s| s.p_type(e) == elf::PT_LOAD) {
        let at = segment.p_vaddr(e) as usize;
        let (offset, size) = (segment.p_offset(e) as usize, segment.p_filesz(e) as usize);
        let end = at.saturating_add(segment.p_memsz(e) as usize);
        if end > 1 << 30 || size > end - at {
            return fail(format!("a segment of {size} bytes in memory that ends at {end:#x}"));
        }
        if image.len() < end {
            image.resize(end, 0);
        }
        let Some(data) = bytes.get(offset..offset.saturating_add(size)) else {
            return fail("a segment outside the file");
        };
        image[at..at + size].copy_from_slice(data);
    }
    for section in file.sections().filter(|s| s.name() == Ok(".rela.dyn")) {
        for entry in section.data().unwrap_or_default().chunks_exact(24) {
            let word = |i: usize| u64::from_le_bytes(entry[i..i + 8].try_into().expect("eight bytes"));
            let (at, info, addend) = (word(0) as usize, word(8), word(16));
            if info as u32 != RELATIVE64 {
                return fail(format!("relocation type {} is not modelled", info as u32));
            }
            let Some(place) = image.get_mut(at..at.saturating_add(8)) else {
                return fail("a relocation outside the image");
            };
            place.copy_from_slice(&IMAGE.wrapping_add(addend).to_le_bytes());
        }
    }
    Ok(image)
}

fn kernels(file: &ElfFile64<'_, Endianness>, image: &[u8]) -> Result<Vec<Kernel>, Error> {
    let metadata = match file.sections().find(|s| s.name() == Ok(".note")) {
        Some(note) => metadata::parse(note.data().unwrap_or_default()).map_err(Error::CodeObject)?,
        None => Vec::new(),
    };
    let symbols: Vec<_> = file.dynamic_symbols().chain(file.symbols()).collect();
    let mut kernels: Vec<Kernel> = Vec::new();
    for symbol in &symbols {
        let Some(name) = symbol.name().ok().and_then(|n| n.strip_suffix(".kd")) else { continue };
        if kernels.iter().any(|k| k.name == name) {
            continue;
        }
        let at = symbol.address() as usize;
        let Some(bytes) = image.get(at..at.saturating_add(64)) else {
            return fail(format!("descriptor of `{name}` lies outside"));
        };
        let offset = i64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
        let entry = (at as u64).wrapping_add_signed(offset);
        let size = symbols.iter().find(|s| s.name() == Ok(name)).map_or(0, |s| s.size());
        kernels.push(Kernel {
            name: name.into(),
            metadata: metadata.iter().find(|m| m.symbol == format!("{name}.kd")).cloned(),
            descriptor: Descriptor::parse(bytes),
            entry: IMAGE.wrapping_add(entry),
            size,
        });
    }
    Ok(kernels)
}
