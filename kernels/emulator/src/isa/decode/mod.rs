//! From words to [`Inst`]s.

mod memory;
mod scalar;
mod vector;

use super::{Arch, Encoding, Inst, Op};
use crate::error::Undecodable;

/// The words from one instruction on, and what may be read from them.
pub(super) struct Cursor<'a> {
    words: &'a [u32],
    arch: Arch,
    /// Byte offset of the first word.
    offset: u32,
}

impl Cursor<'_> {
    fn word(&self, i: usize) -> Result<u32, String> {
        self.words.get(i).copied().ok_or_else(|| "the text ends within the instruction".into())
    }

    fn both(&self) -> Result<u64, String> {
        Ok(u64::from(self.word(0)?) | u64::from(self.word(1)?) << 32)
    }
}

/// What a decoder of one encoding gives back: words taken, mnemonic, operation.
pub(super) type Decoded = Result<(u8, [&'static str; 2], Op), String>;

/// Bits `low..low + width` of `x`.
pub(super) const fn bits(x: u64, low: u32, width: u32) -> u32 {
    (x >> low & ((1 << width) - 1)) as u32
}

/// Decodes a text section; instruction `i` begins at `offset` of the result's `i`th element.
pub(crate) fn section(text: &[u8], arch: Arch) -> Vec<Inst> {
    let words: Vec<u32> =
        text.chunks_exact(4).map(|w| u32::from_le_bytes(w.try_into().expect("four bytes"))).collect();
    let mut insts = Vec::with_capacity(words.len());
    let mut at = 0;
    while at < words.len() {
        let inst = one(&words[at..], arch, 4 * at as u32);
        at += usize::from(inst.words);
        insts.push(inst);
    }
    insts
}

/// Decodes the instruction that starts at the first word.
pub(crate) fn one(words: &[u32], arch: Arch, offset: u32) -> Inst {
    let cursor = Cursor { words, arch, offset };
    let (encoding, opcode) = encoding(words);
    let decoded = match encoding {
        Encoding::Sop1 => scalar::sop1(&cursor),
        Encoding::Sop2 => scalar::sop2(&cursor),
        Encoding::Sopc => scalar::sopc(&cursor),
        Encoding::Sopk => scalar::sopk(&cursor),
        Encoding::Sopp => scalar::sopp(&cursor),
        Encoding::Smem => memory::smem(&cursor),
        Encoding::Vop1 => vector::vop1(&cursor),
        Encoding::Vop2 => vector::vop2(&cursor),
        Encoding::Vopc => vector::vopc(&cursor),
        Encoding::Vop3 => vector::vop3(&cursor),
        Encoding::Vop3p => vector::vop3p(&cursor),
        Encoding::Mai => vector::mai(&cursor),
        Encoding::Ds => memory::ds(&cursor),
        Encoding::Flat | Encoding::Global | Encoding::Scratch => memory::flat(&cursor, encoding),
        Encoding::Mubuf => memory::mubuf(&cursor),
        Encoding::Unknown => Err("the leading bits name no encoding of this architecture".into()),
    };
    match decoded {
        Ok((words, name, op)) => Inst { offset, words, encoding, name, op },
        Err(what) => {
            let words = [words[0], words.get(1).copied().unwrap_or(0)];
            let op = Op::Undecodable(Box::new(Undecodable { encoding, opcode, words, what }));
            Inst { offset, words: length(encoding, words[0]), encoding, name: ["undecodable", ""], op }
        }
    }
}

/// The encoding that the leading bits select, and its opcode field.
fn encoding(words: &[u32]) -> (Encoding, u16) {
    let w = words[0];
    let field = |low: u32, width: u32| bits(u64::from(w), low, width) as u16;
    match w >> 23 {
        0b1_0111_1101 => return (Encoding::Sop1, field(8, 8)),
        0b1_0111_1110 => return (Encoding::Sopc, field(16, 7)),
        0b1_0111_1111 => return (Encoding::Sopp, field(16, 7)),
        0b1_1010_0111 => {
            let opcode = field(16, 7);
            let mai = opcode == 0x2c || super::matrix_table::MATRIX.iter().any(|row| row.opcode == opcode);
            return (if mai { Encoding::Mai } else { Encoding::Vop3p }, opcode);
        }
        _ => {}
    }
    if w >> 31 == 0 {
        return match w >> 25 {
            0b011_1110 => (Encoding::Vopc, field(17, 8)),
            0b011_1111 => (Encoding::Vop1, field(9, 8)),
            _ => (Encoding::Vop2, field(25, 6)),
        };
    }
    if w >> 28 == 0b1011 {
        return (Encoding::Sopk, field(23, 5));
    }
    if w >> 30 == 0b10 {
        return (Encoding::Sop2, field(23, 7));
    }
    match w >> 26 {
        0b11_0000 => (Encoding::Smem, field(18, 8)),
        0b11_0100 => (Encoding::Vop3, field(16, 10)),
        0b11_0110 => (Encoding::Ds, field(17, 8)),
        0b11_0111 => {
            let segment = [Encoding::Flat, Encoding::Scratch, Encoding::Global, Encoding::Unknown];
            (segment[usize::from(field(14, 2))], field(18, 7))
        }
        0b11_1000 => (Encoding::Mubuf, field(18, 7)),
        _ => (Encoding::Unknown, 0),
    }
}

/// Words to skip after an instruction that is not understood.
fn length(encoding: Encoding, word: u32) -> u8 {
    match encoding {
        Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopc | Encoding::Sopk | Encoding::Sopp => 1,
        Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc => {
            if matches!(word & 0x1ff, 249 | 250 | 255) {
                2
            } else {
                1
            }
        }
        Encoding::Unknown => 1,
        _ => 2,
    }
}
