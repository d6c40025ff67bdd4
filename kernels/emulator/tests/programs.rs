//! Random straight-line programs, assembled by clang, against a second evaluation in plain Rust.
//!
//! The generator emits an instruction's text together with a closure that does to a model state what the instruction
//! set document says. The closures share nothing with the emulator.

#![allow(clippy::type_complexity, reason = "a table of mnemonics and functions is what it is")]

mod support;

use support::{Bytes, Random, object, read};
use tilewright_emulator::{Grid, Memory, Options};

const PROGRAMS: usize = 48;
const LENGTH: usize = 70;
/// Vector registers v8 to v15 and scalar registers s16 to s23 are the program's variables.
const VARIABLES: u32 = 8;

#[derive(Clone)]
struct State {
    v: Vec<[u32; 64]>,
    s: Vec<u32>,
    vcc: u64,
    scc: bool,
    exec: u64,
}

type Effect = Box<dyn Fn(&mut State)>;
type Value = Box<dyn Fn(&State) -> u32>;

struct Generator {
    r: Random,
}

/// A vector source: a register or an inline constant.
#[derive(Clone, Copy)]
enum Source {
    Vector(usize),
    Scalar(usize),
    Constant(i32),
}

impl Source {
    fn text(self) -> String {
        match self {
            Self::Vector(n) => format!("v{}", 8 + n),
            Self::Scalar(n) => format!("s{}", 16 + n),
            Self::Constant(c) => c.to_string(),
        }
    }

    fn get(self, state: &State, lane: usize) -> u32 {
        match self {
            Self::Vector(n) => state.v[n][lane],
            Self::Scalar(n) => state.s[n],
            Self::Constant(c) => c as u32,
        }
    }
}

/// Writes lane by lane where EXEC allows, after all lanes are computed.
fn write(state: &mut State, d: usize, f: impl Fn(&State, usize) -> u32) {
    let new: Vec<u32> = (0..64).map(|lane| f(state, lane)).collect();
    for lane in 0..64 {
        if state.exec >> lane & 1 == 1 {
            state.v[d][lane] = new[lane];
        }
    }
}

/// A mnemonic and what it computes.
type Named<F> = (&'static str, F);

const VECTOR2: [Named<fn(u32, u32) -> u32>; 18] = [
    ("v_add_u32", |a, b| a.wrapping_add(b)),
    ("v_sub_u32", |a, b| a.wrapping_sub(b)),
    ("v_subrev_u32", |a, b| b.wrapping_sub(a)),
    ("v_and_b32", |a, b| a & b),
    ("v_or_b32", |a, b| a | b),
    ("v_xor_b32", |a, b| a ^ b),
    ("v_xnor_b32", |a, b| !(a ^ b)),
    ("v_lshlrev_b32", |a, b| b.wrapping_shl(a)),
    ("v_lshrrev_b32", |a, b| b.wrapping_shr(a)),
    ("v_ashrrev_i32", |a, b| (b as i32).wrapping_shr(a) as u32),
    ("v_min_i32", |a, b| (a as i32).min(b as i32) as u32),
    ("v_max_i32", |a, b| (a as i32).max(b as i32) as u32),
    ("v_min_u32", |a, b| a.min(b)),
    ("v_max_u32", |a, b| a.max(b)),
    ("v_mul_u32_u24", |a, b| (a % (1 << 24)).wrapping_mul(b % (1 << 24))),
    ("v_mul_i32_i24", |a, b| ((a << 8) as i32 / 256).wrapping_mul((b << 8) as i32 / 256) as u32),
    ("v_add_u16", |a, b| (a as u16).wrapping_add(b as u16).into()),
    ("v_mul_lo_u16", |a, b| (a as u16).wrapping_mul(b as u16).into()),
];

const VECTOR3: [Named<fn(u32, u32, u32) -> u32>; 18] = [
    ("v_add3_u32", |a, b, c| a.wrapping_add(b).wrapping_add(c)),
    ("v_lshl_add_u32", |a, b, c| a.wrapping_shl(b).wrapping_add(c)),
    ("v_add_lshl_u32", |a, b, c| a.wrapping_add(b).wrapping_shl(c)),
    ("v_lshl_or_b32", |a, b, c| a.wrapping_shl(b) | c),
    ("v_and_or_b32", |a, b, c| (a & b) | c),
    ("v_or3_b32", |a, b, c| a | b | c),
    ("v_xad_u32", |a, b, c| (a ^ b).wrapping_add(c)),
    ("v_bfi_b32", |a, b, c| (a & b) | (!a & c)),
    ("v_bfe_u32", |a, b, c| {
        (0..c & 31).filter(|i| (b & 31) + i < 32).map(|i| (a >> ((b & 31) + i) & 1) << i).sum()
    }),
    ("v_alignbit_b32", |a, b, c| ((u64::from(a) * (1 << 32) + u64::from(b)) >> (c % 32)) as u32),
    ("v_alignbyte_b32", |a, b, c| ((u64::from(a) * (1 << 32) + u64::from(b)) >> (8 * (c % 4))) as u32),
    ("v_mad_u32_u24", |a, b, c| (a % (1 << 24)).wrapping_mul(b % (1 << 24)).wrapping_add(c)),
    ("v_min3_u32", |a, b, c| a.min(b).min(c)),
    ("v_max3_i32", |a, b, c| (a as i32).max(b as i32).max(c as i32) as u32),
    ("v_med3_i32", |a, b, c| {
        let mut x = [a as i32, b as i32, c as i32];
        x.sort_unstable();
        x[1] as u32
    }),
    ("v_sad_u32", |a, b, c| a.abs_diff(b).wrapping_add(c)),
    ("v_mad_u32_u16", |a, b, c| ((a & 0xffff) * (b & 0xffff)).wrapping_add(c)),
    ("v_perm_b32", |a, b, c| {
        let bytes = [b.to_le_bytes(), a.to_le_bytes()].concat();
        u32::from_le_bytes(c.to_le_bytes().map(|s| match s {
            0..=7 => bytes[usize::from(s)],
            8..=11 => {
                if bytes[usize::from(2 * (s - 8) + 1)] >= 128 {
                    255
                } else {
                    0
                }
            }
            12 => 0,
            _ => 255,
        }))
    }),
];

const VECTOR1: [Named<fn(u32) -> u32>; 8] = [
    ("v_not_b32", |a| !a),
    ("v_bfrev_b32", u32::reverse_bits),
    ("v_ffbh_u32", |a| if a == 0 { u32::MAX } else { a.leading_zeros() }),
    ("v_ffbl_b32", |a| if a == 0 { u32::MAX } else { a.trailing_zeros() }),
    ("v_cvt_f32_u32", |a| (a as f32).to_bits()),
    ("v_cvt_f32_i32", |a| (a as i32 as f32).to_bits()),
    ("v_cvt_f32_ubyte2", |a| f32::from(a.to_le_bytes()[2]).to_bits()),
    ("v_mov_b32", |a| a),
];

const COMPARE: [Named<fn(u32, u32) -> bool>; 8] = [
    ("v_cmp_lt_u32", |a, b| a < b),
    ("v_cmp_ge_u32", |a, b| a >= b),
    ("v_cmp_eq_u32", |a, b| a == b),
    ("v_cmp_ne_i32", |a, b| a != b),
    ("v_cmp_gt_i32", |a, b| a as i32 > b as i32),
    ("v_cmp_le_i32", |a, b| a as i32 <= b as i32),
    ("v_cmp_lt_u16", |a, b| (a as u16) < b as u16),
    ("v_cmp_gt_i16", |a, b| a as i16 > b as i16),
];

/// Result and SCC (none: unchanged).
type Scalar2 = fn(u32, u32, bool) -> (u32, Option<bool>);

const SCALAR2: [(&str, Scalar2); 18] = [
    ("s_add_u32", |a, b, _| (a.wrapping_add(b), Some(a.checked_add(b).is_none()))),
    ("s_sub_u32", |a, b, _| (a.wrapping_sub(b), Some(a < b))),
    ("s_addc_u32", |a, b, c| {
        let sum = u64::from(a) + u64::from(b) + u64::from(c);
        (sum as u32, Some(sum > u64::from(u32::MAX)))
    }),
    ("s_subb_u32", |a, b, c| {
        let d = i64::from(a) - i64::from(b) - i64::from(c);
        (d as u32, Some(d < 0))
    }),
    ("s_add_i32", |a, b, _| (a.wrapping_add(b), Some((a as i32).checked_add(b as i32).is_none()))),
    ("s_sub_i32", |a, b, _| (a.wrapping_sub(b), Some((a as i32).checked_sub(b as i32).is_none()))),
    ("s_min_i32", |a, b, _| ((a as i32).min(b as i32) as u32, Some((a as i32) < b as i32))),
    ("s_max_u32", |a, b, _| (a.max(b), Some(a > b))),
    ("s_and_b32", |a, b, _| (a & b, Some(a & b != 0))),
    ("s_andn2_b32", |a, b, _| (a & !b, Some(a & !b != 0))),
    ("s_nor_b32", |a, b, _| (!(a | b), Some(!(a | b) != 0))),
    ("s_lshl_b32", |a, b, _| (a.wrapping_shl(b), Some(a.wrapping_shl(b) != 0))),
    ("s_ashr_i32", |a, b, _| {
        let d = (a as i32).wrapping_shr(b);
        (d as u32, Some(d != 0))
    }),
    ("s_mul_i32", |a, b, _| (a.wrapping_mul(b), None)),
    ("s_mul_hi_u32", |a, b, _| (((u64::from(a) * u64::from(b)) >> 32) as u32, None)),
    ("s_cselect_b32", |a, b, c| (if c { a } else { b }, None)),
    ("s_lshl2_add_u32", |a, b, _| {
        let sum = u64::from(a) * 4 + u64::from(b);
        (sum as u32, Some(sum > u64::from(u32::MAX)))
    }),
    ("s_pack_lh_b32_b16", |a, b, _| (a % 65536 + b / 65536 * 65536, None)),
];

const SCALAR1: [Named<fn(u32) -> (u32, Option<bool>)>; 6] = [
    ("s_mov_b32", |a| (a, None)),
    ("s_not_b32", |a| (!a, Some(!a != 0))),
    ("s_brev_b32", |a| (a.reverse_bits(), None)),
    ("s_bcnt1_i32_b32", |a| (a.count_ones(), Some(a != 0))),
    ("s_ff1_i32_b32", |a| (if a == 0 { u32::MAX } else { a.trailing_zeros() }, None)),
    ("s_sext_i32_i8", |a| (a as i8 as i32 as u32, None)),
];

impl Generator {
    fn pick<X: Copy>(&mut self, from: &[X]) -> X {
        from[self.r.below(from.len() as u32) as usize]
    }

    fn variable(&mut self) -> usize {
        self.r.below(VARIABLES) as usize
    }

    fn source(&mut self) -> Source {
        match self.r.below(8) {
            0 => Source::Scalar(self.variable()),
            1 => Source::Constant(self.r.below(81) as i32 - 16),
            _ => Source::Vector(self.variable()),
        }
    }

    fn scalar_source(&mut self) -> (String, Value) {
        if self.r.below(4) == 0 {
            let literal = self.r.u32();
            return (format!("{literal:#x}"), Box::new(move |_| literal));
        }
        let n = self.variable();
        (format!("s{}", 16 + n), Box::new(move |s| s.s[n]))
    }

    fn instruction(&mut self) -> (String, Effect) {
        let d = self.variable();
        match self.r.below(15) {
            0..=2 => {
                let ((name, f), a, b) = (self.pick(&VECTOR2), self.source(), self.variable());
                let text = format!("{name} v{}, {}, v{}", 8 + d, a.text(), 8 + b);
                (text, Box::new(move |s| write(s, d, |s, lane| f(a.get(s, lane), s.v[b][lane]))))
            }
            3..=5 => {
                // At most one scalar among the sources.
                let ((name, f), a, b, c) =
                    (self.pick(&VECTOR3), self.source(), self.variable(), self.variable());
                let text = format!("{name} v{}, {}, v{}, v{}", 8 + d, a.text(), 8 + b, 8 + c);
                (
                    text,
                    Box::new(move |s| write(s, d, |s, lane| f(a.get(s, lane), s.v[b][lane], s.v[c][lane]))),
                )
            }
            6 => {
                let ((name, f), a) = (self.pick(&VECTOR1), self.source());
                let text = format!("{name} v{}, {}", 8 + d, a.text());
                (text, Box::new(move |s| write(s, d, |s, lane| f(a.get(s, lane)))))
            }
            7 => {
                let ((name, f), a, b) = (self.pick(&COMPARE), self.source(), self.variable());
                let text = format!("{name} vcc, {}, v{}", a.text(), 8 + b);
                let effect = move |s: &mut State| {
                    s.vcc = (0..64)
                        .filter(|&lane| s.exec >> lane & 1 == 1 && f(a.get(s, lane), s.v[b][lane]))
                        .fold(0, |mask, lane| mask | 1 << lane);
                };
                (text, Box::new(effect))
            }
            8 => {
                let (a, b) = (self.variable(), self.variable());
                let text = format!("v_cndmask_b32 v{}, v{}, v{}, vcc", 8 + d, 8 + a, 8 + b);
                let effect = move |s: &mut State| {
                    let vcc = s.vcc;
                    write(s, d, |s, lane| s.v[if vcc >> lane & 1 == 1 { b } else { a }][lane]);
                };
                (text, Box::new(effect))
            }
            9 => self.carry(d),
            10 => self.floats(d),
            11 => self.sdwa(d),
            12 => self.dpp(d),
            13 => {
                let (name, f) = self.pick(&SCALAR2);
                let (a, b) = (
                    {
                        let n = self.variable();
                        (format!("s{}", 16 + n), n)
                    },
                    self.scalar_source(),
                );
                let text = format!("{name} s{}, {}, {}", 16 + d, a.0, b.0);
                let effect = move |s: &mut State| {
                    let (value, scc) = f(s.s[a.1], (b.1)(s), s.scc);
                    s.s[d] = value;
                    s.scc = scc.unwrap_or(s.scc);
                };
                (text, Box::new(effect))
            }
            _ => match self.r.below(4) {
                0 => {
                    let mask = self.r.next() | 1 << self.r.below(64);
                    let (low, high) = (mask as u32, (mask >> 32) as u32);
                    let text = format!("s_mov_b32 exec_lo, {low:#x}\n  s_mov_b32 exec_hi, {high:#x}");
                    (text, Box::new(move |s| s.exec = mask))
                }
                1 => {
                    let (a, b) = (self.variable(), self.variable());
                    (
                        format!("s_cmp_gt_i32 s{}, s{}", 16 + a, 16 + b),
                        Box::new(move |s| s.scc = s.s[a] as i32 > s.s[b] as i32),
                    )
                }
                2 => {
                    let a = self.variable();
                    let text = format!("v_readfirstlane_b32 s{}, v{}", 16 + d, 8 + a);
                    (text, Box::new(move |s| s.s[d] = s.v[a][s.exec.trailing_zeros() as usize]))
                }
                _ => {
                    let ((name, f), (text, a)) = (self.pick(&SCALAR1), self.scalar_source());
                    let effect = move |s: &mut State| {
                        let (value, scc) = f(a(s));
                        s.s[d] = value;
                        s.scc = scc.unwrap_or(s.scc);
                    };
                    (format!("{name} s{}, {text}", 16 + d), Box::new(effect))
                }
            },
        }
    }

    fn carry(&mut self, d: usize) -> (String, Effect) {
        let (a, b, subtract) = (self.variable(), self.variable(), self.r.below(2) == 1);
        let name = if subtract { "v_subb_co_u32" } else { "v_addc_co_u32" };
        let text = format!("{name} v{}, vcc, v{}, v{}, vcc", 8 + d, 8 + a, 8 + b);
        let effect = move |s: &mut State| {
            let old = s.clone();
            let wide = |lane: usize| {
                let (a, b, c) =
                    (i64::from(old.v[a][lane]), i64::from(old.v[b][lane]), (old.vcc >> lane & 1) as i64);
                if subtract { a - b - c } else { a + b + c }
            };
            s.vcc = (0..64)
                .filter(|&l| old.exec >> l & 1 == 1 && !(0..1 << 32).contains(&wide(l)))
                .fold(0, |m, l| m | 1 << l);
            write(s, d, |_, lane| wide(lane) as u32);
        };
        (text, Box::new(effect))
    }

    /// Floats made from integers, so that no NaN arises and every operation has one answer.
    fn floats(&mut self, d: usize) -> (String, Effect) {
        let (a, b, c) = (self.variable(), self.variable(), self.variable());
        let kind = self.r.below(6);
        let operation = match kind {
            0 => "v_add_f32 v4, v4, v5",
            1 => "v_sub_f32 v4, |v4|, -v5",
            2 => "v_mul_f32 v4, v4, v5",
            3 => "v_fma_f32 v4, v4, -v5, |v6|",
            4 => "v_max_f32 v4, v4, v5",
            _ => "v_med3_f32 v4, v4, v5, v6",
        };
        let text = format!(
            "v_cvt_f32_i32 v4, v{}\n  v_cvt_f32_i32 v5, v{}\n  v_cvt_f32_i32 v6, v{}\n  {operation}\n  v_mov_b32 v{}, v4",
            8 + a,
            8 + b,
            8 + c,
            8 + d
        );
        let effect = move |s: &mut State| {
            write(s, d, |s, lane| {
                let [x, y, z] = [a, b, c].map(|n| s.v[n][lane] as i32 as f32);
                let result = match kind {
                    0 => x + y,
                    1 => x.abs() + y,
                    2 => x * y,
                    3 => (f64::from(x) * -f64::from(y) + f64::from(z.abs())) as f32,
                    4 => x.max(y),
                    _ => {
                        let mut sorted = [x, y, z];
                        sorted.sort_by(f32::total_cmp);
                        sorted[1]
                    }
                };
                result.to_bits()
            });
        };
        (text, Box::new(effect))
    }

    fn sdwa(&mut self, d: usize) -> (String, Effect) {
        let ((name, f), a, b) = (self.pick(&VECTOR2[..6]), self.variable(), self.variable());
        let (sa, sb, sd) = (self.r.below(6) as usize, self.r.below(6) as usize, self.r.below(6) as usize);
        let (unused, sign) = (self.r.below(3) as usize, self.r.below(2) == 1);
        let names = ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1"];
        let first = if sign { format!("sext(v{})", 8 + a) } else { format!("v{}", 8 + a) };
        let text = format!(
            "{name}_sdwa v{}, {first}, v{} dst_sel:{} dst_unused:{} src0_sel:{} src1_sel:{}",
            8 + d,
            8 + b,
            names[sd],
            ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"][unused],
            names[sa],
            names[sb]
        );
        let part = |x: u32, sel: usize| {
            if sel < 4 { (u32::from(x.to_le_bytes()[sel]), 8) } else { (x >> (16 * (sel - 4)) & 0xffff, 16) }
        };
        let effect = move |s: &mut State| {
            write(s, d, |s, lane| {
                let (x, bits) = part(s.v[a][lane], sa);
                let x = if sign && x >> (bits - 1) == 1 { x | u32::MAX << bits } else { x };
                let result = f(x, part(s.v[b][lane], sb).0);
                let (low, width) = if sd < 4 { (8 * sd, 8) } else { (16 * (sd - 4), 16) };
                let mask = (((1u64 << width) - 1) << low) as u32;
                let placed = result << low & mask;
                match unused {
                    0 => placed,
                    1 => {
                        let negative = result >> (width - 1) & 1 == 1;
                        let above = if low + width < 32 { u32::MAX << (low + width) } else { 0 };
                        if negative { placed | above } else { placed }
                    }
                    _ => s.v[d][lane] & !mask | placed,
                }
            });
        };
        (text, Box::new(effect))
    }

    /// Often with the destination among the sources, which must be read before it is written.
    fn dpp(&mut self, d: usize) -> (String, Effect) {
        let ((name, f), a, b) = (self.pick(&VECTOR2[..6]), self.variable(), self.variable());
        let a = if self.r.below(2) == 0 { d } else { a };
        let n = 1 + self.r.below(15) as usize;
        let kind = self.r.below(4);
        let control = match kind {
            0 => format!("row_shl:{n}"),
            1 => format!("row_ror:{n}"),
            2 => "row_half_mirror".into(),
            _ => "quad_perm:[2,3,0,1]".into(),
        };
        let (rows, banks, zero) = (1 + self.r.below(15), 1 + self.r.below(15), self.r.below(2) == 1);
        let bound = if zero { " bound_ctrl:0" } else { "" };
        let text = format!(
            "{name}_dpp v{}, v{}, v{} {control} row_mask:{rows:#x} bank_mask:{banks:#x}{bound}",
            8 + d,
            8 + a,
            8 + b
        );
        let effect = move |s: &mut State| {
            let old = s.clone();
            for lane in 0..64usize {
                let from = match kind {
                    0 if lane % 16 + n > 15 => None,
                    0 => Some(lane + n),
                    1 => Some(lane / 16 * 16 + (lane % 16 + 16 - n) % 16),
                    2 => Some(lane / 8 * 8 + 7 - lane % 8),
                    _ => Some(lane ^ 2),
                };
                let from = from.filter(|from| old.exec >> from & 1 == 1);
                let selected = rows >> (lane / 16) & 1 == 1 && banks >> (lane % 16 / 4) & 1 == 1;
                if old.exec >> lane & 1 == 1 && selected && (from.is_some() || zero) {
                    s.v[d][lane] = f(from.map_or(0, |from| old.v[a][from]), old.v[b][lane]);
                }
            }
        };
        (text, Box::new(effect))
    }
}

/// Loads the variables, runs, stores them.
fn assembly(arch: &str, programs: &[Vec<String>]) -> String {
    let mut text = format!(".amdgcn_target \"amdgcn-amd-amdhsa--{arch}\"\n.amdhsa_code_object_version 5\n");
    for (i, program) in programs.iter().enumerate() {
        text += &format!(".text\n.globl p{i}\n.p2align 8\n.type p{i},@function\np{i}:\n");
        text += "  s_load_dwordx4 s[4:7], s[0:1], 0x0\n  s_waitcnt lgkmcnt(0)\n";
        text += "  s_load_dwordx8 s[16:23], s[4:5], 0x800\n  v_lshlrev_b32 v1, 2, v0\n";
        for n in 0..VARIABLES {
            text += &format!("  global_load_dword v{}, v1, s[4:5] offset:{}\n", 8 + n, 256 * n);
        }
        text += "  s_waitcnt vmcnt(0) lgkmcnt(0)\n  s_mov_b64 vcc, 0\n  s_cmp_eq_u32 0, 1\n";
        for line in program {
            text += &format!("  {line}\n");
        }
        text += "  s_cselect_b32 s8, 1, 0\n  s_mov_b64 s[10:11], exec\n  s_mov_b64 exec, -1\n";
        for n in 0..VARIABLES {
            text += &format!("  global_store_dword v1, v{}, s[6:7] offset:{}\n", 8 + n, 256 * n);
        }
        let extra = ["s8", "vcc_lo", "vcc_hi", "s10", "s11"];
        let scalars = (0..VARIABLES).map(|n| format!("s{}", 16 + n)).chain(extra.map(String::from));
        text += "  v_mov_b32 v3, 0\n";
        for (n, s) in scalars.enumerate() {
            text += &format!(
                "  v_mov_b32 v2, {s}\n  global_store_dword v3, v2, s[6:7] offset:{}\n",
                2048 + 4 * n
            );
        }
        text += &format!("  s_endpgm\n.size p{i}, .-p{i}\n.rodata\n.p2align 6\n.amdhsa_kernel p{i}\n");
        text += "  .amdhsa_next_free_vgpr 16\n  .amdhsa_next_free_sgpr 32\n  .amdhsa_accum_offset 16\n";
        text += "  .amdhsa_user_sgpr_kernarg_segment_ptr 1\n  .amdhsa_kernarg_size 16\n.end_amdhsa_kernel\n";
    }
    text
}

#[test]
fn random_programs_agree_with_a_second_evaluation() {
    let mut generator = Generator { r: Random(2026) };
    let programs: Vec<Vec<(String, Effect)>> =
        (0..PROGRAMS).map(|_| (0..LENGTH).map(|_| generator.instruction()).collect()).collect();
    let texts: Vec<Vec<String>> =
        programs.iter().map(|p| p.iter().map(|(text, _)| text.clone()).collect()).collect();
    let code = object("programs", "gfx942", "assembler", &assembly("gfx942", &texts));
    for (i, program) in programs.iter().enumerate() {
        let mut r = Random(i as u64);
        let mut word = || match r.below(4) {
            0 => r.below(40),
            1 => [0, 1, 0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 0xffff][r.below(6) as usize],
            _ => r.u32(),
        };
        let v: Vec<[u32; 64]> = (0..VARIABLES).map(|_| std::array::from_fn(|_| word())).collect();
        let s: Vec<u32> = (0..VARIABLES).map(|_| word()).collect();
        let mut state = State { v, s, vcc: 0, scc: false, exec: u64::MAX };
        let mut memory = Memory::new();
        let mut input: Vec<u32> = state.v.concat();
        input.extend(&state.s);
        let (pi, po) = (memory.alloc_from("in", &input.bytes()), memory.alloc("out", 2048 + 64, 0));
        let segment = [pi, po].bytes();
        code.launch_packed(&format!("p{i}"), &memory, Grid::linear(1, 64), &segment, &Options::default())
            .unwrap();
        for (_, effect) in program {
            effect(&mut state);
        }
        let listing = || texts[i].join("\n");
        let got = read::<u32>(&memory, po, 512 + 13);
        for (n, want) in state.v.iter().enumerate() {
            assert_eq!(got[64 * n..][..64], want[..], "v{} of program {i}:\n{}", 8 + n, listing());
        }
        assert_eq!(got[512..520], state.s[..], "scalars of program {i}:\n{}", listing());
        let halves = |x: u64| [x as u32, (x >> 32) as u32];
        let flags =
            [vec![u32::from(state.scc)], halves(state.vcc).to_vec(), halves(state.exec).to_vec()].concat();
        assert_eq!(got[520..525], flags[..], "SCC, VCC, EXEC of program {i}:\n{}", listing());
    }
}
