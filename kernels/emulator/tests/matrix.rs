//! Every matrix instruction against a product computed from the published operand layouts.
//!
//! The layouts are written here a second time and the other way round: where does element (i, k) live. Inputs are small
//! integers times powers of two, so every sum is exact and must agree bit for bit.

mod support;

use support::{Bytes, Random, code, read};
use tilewright_emulator::{
    Arg, BF16, CodeObject, E2M1, E2M3, E3M2, E4M3, E4M3_FNUZ, E5M2, E5M2_FNUZ, F16, Grid, Memory, Options,
    SmallFloat,
};

/// Element format: f32, a small float, or i8.
#[derive(Clone, Copy, PartialEq)]
enum Format {
    F32,
    Small(SmallFloat),
    I8,
}
use Format::{F32, I8, Small};

impl Format {
    fn bits(self) -> usize {
        match self {
            F32 => 32,
            I8 => 8,
            Small(f) => f.bits() as usize,
        }
    }

    fn encode(self, x: f64) -> u32 {
        match self {
            F32 => (x as f32).to_bits(),
            I8 => x as i8 as u8 as u32,
            Small(f) => {
                let pattern = f.encode(x, false);
                assert_eq!(f64::from(f.decode(pattern)), x, "test data must be exact");
                pattern
            }
        }
    }

    /// A random value that the format holds exactly.
    fn value(self, r: &mut Random) -> f64 {
        match self {
            I8 => f64::from(r.u32() as i8),
            Small(f) if f == E2M1 => [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][r.below(8) as usize] * sign(r),
            _ => f64::from(r.below(8)) * 0.25 * sign(r),
        }
    }
}

fn sign(r: &mut Random) -> f64 {
    if r.below(2) == 0 { 1.0 } else { -1.0 }
}

#[derive(Clone, Copy)]
struct Shape {
    dim: usize,
    k: usize,
    blocks: usize,
}

impl Shape {
    fn per_lane(self) -> usize {
        self.k * self.dim * self.blocks / 64
    }

    /// Lane and element that hold (row of A or column of B, k) of a block.
    fn home(self, format: Format, block: usize, i: usize, k: usize) -> (usize, usize) {
        let per = self.per_lane();
        if format.bits() == 8 && per == 32 {
            let groups = 64 / self.dim;
            let chunk = k / 16;
            return (i + self.dim * (chunk % groups), 16 * (chunk / groups) + k % 16);
        }
        (i + self.dim * (block + self.blocks * (k / per)), k % per)
    }

    /// Lane and register that hold (row, column) of a block of D.
    fn result(self, block: usize, row: usize, column: usize) -> (usize, usize) {
        match self.dim {
            32 => (column + 32 * (row / 4 % 2), 16 * block + 4 * (row / 8) + row % 4),
            16 => (column + 16 * (row / 4), 4 * block + row % 4),
            _ => (4 * block + column, row),
        }
    }

    fn result_registers(self) -> usize {
        self.dim * self.dim * self.blocks / 64
    }
}

/// Bits packed little-endian into each lane's registers.
struct Packed {
    stride: usize,
    bytes: Vec<u8>,
}

impl Packed {
    fn new(stride: usize) -> Self {
        // What is not written must not matter.
        Self { stride, bytes: vec![0xa7; stride * 64] }
    }

    fn put(&mut self, lane: usize, e: usize, bits: usize, pattern: u32) {
        for bit in 0..bits {
            let at = e * bits + bit;
            let byte = &mut self.bytes[lane * self.stride + at / 8];
            *byte = *byte & !(1 << (at % 8)) | ((pattern >> bit & 1) as u8) << (at % 8);
        }
    }
}

fn matrix(r: &mut Random, format: Format, rows: usize, k: usize) -> Vec<Vec<f64>> {
    (0..rows).map(|_| (0..k).map(|_| format.value(r)).collect()).collect()
}

/// Runs `kernel` and compares D = A · Bᵀ (scaled per 32 along K) + C.
struct Case<'a> {
    code: &'a CodeObject,
    kernel: &'a str,
    shape: Shape,
    formats: [Format; 2],
    /// Bytes of a lane's operand in the kernel's parameters.
    strides: [usize; 2],
    /// Byte selects of the scales.
    scales: Option<[u32; 2]>,
}

impl Case<'_> {
    fn run(&self, seed: u64) {
        let mut r = Random(seed);
        let Shape { dim, k, blocks } = self.shape;
        let mut memory = Memory::new();
        let operands: [Vec<Vec<Vec<f64>>>; 2] =
            self.formats.map(|format| (0..blocks).map(|_| matrix(&mut r, format, dim, k)).collect());
        let mut args: Vec<Arg> = Vec::new();
        for (o, operand) in operands.iter().enumerate() {
            let format = self.formats[o];
            let mut packed = Packed::new(self.strides[o]);
            for (block, rows) in operand.iter().enumerate() {
                for (i, row) in rows.iter().enumerate() {
                    for (s, &x) in row.iter().enumerate() {
                        let (lane, e) = self.shape.home(format, block, i, s);
                        packed.put(lane, e, format.bits(), format.encode(x));
                    }
                }
            }
            args.push(memory.alloc_from("operand", &packed.bytes).into());
        }
        let registers = self.shape.result_registers();
        let integer = self.formats[0] == I8;
        let c: Vec<i32> = (0..64 * registers).map(|_| r.below(200) as i32 - 100).collect();
        let encode = |x: f64| if integer { x as i64 as u32 } else { (x as f32).to_bits() };
        let words: Vec<u32> = c.iter().map(|&x| encode(f64::from(x))).collect();
        args.push(memory.alloc_from("c", &words.bytes()).into());
        let d = memory.alloc("d", 256 * registers, 0xee);
        args.push(d.into());
        // A scale of every row and 32-block of K, none like its neighbours.
        let mut exponents = [[[0i32; 4]; 32]; 2];
        if let Some(selects) = self.scales {
            for (o, select) in selects.into_iter().enumerate() {
                let mut bytes = vec![0x33u8; 256];
                for i in 0..dim {
                    for block in 0..k / 32 {
                        let e = r.below(7) as i32 - 3;
                        exponents[o][i][block] = e;
                        bytes[4 * (block * dim + i) + select as usize] = (127 + e) as u8;
                    }
                }
                args.push(memory.alloc_from("scale", &bytes).into());
            }
        }
        self.code.launch(self.kernel, &memory, Grid::linear(1, 64), &args, &Options::default()).unwrap();
        let got = read::<u32>(&memory, d, 64 * registers);
        for block in 0..blocks {
            for i in 0..dim {
                for j in 0..dim {
                    let (lane, register) = self.shape.result(block, i, j);
                    let at = lane * registers + register;
                    let sum: f64 = (0..k)
                        .map(|s| {
                            let e = exponents[0][i][s / 32] + exponents[1][j][s / 32];
                            operands[0][block][i][s] * operands[1][block][j][s] * 2f64.powi(e)
                        })
                        .sum();
                    let want = encode(sum + f64::from(c[at]));
                    assert_eq!(got[at], want, "{} row {i} column {j} of block {block}", self.kernel);
                }
            }
        }
    }
}

fn dense(code: &CodeObject, kernel: &str, dim: usize, k: usize, blocks: usize, formats: [Format; 2]) {
    let shape = Shape { dim, k, blocks };
    let strides = formats.map(|f| shape.per_lane() * f.bits() / 8);
    Case { code, kernel, shape, formats, strides, scales: None }.run(kernel.len() as u64);
}

#[test]
fn dense_products_agree_on_both_architectures() {
    for (arch, fp8, bf8) in [("gfx942", E4M3_FNUZ, E5M2_FNUZ), ("gfx950", E4M3, E5M2)] {
        let code = &code("matrix", arch);
        let (f16, bf16, fp8, bf8) = (Small(F16), Small(BF16), Small(fp8), Small(bf8));
        dense(code, "f32_16x16x4", 16, 4, 1, [F32; 2]);
        dense(code, "f32_32x32x2", 32, 2, 1, [F32; 2]);
        dense(code, "f16_16x16x16", 16, 16, 1, [f16; 2]);
        dense(code, "f16_32x32x8", 32, 8, 1, [f16; 2]);
        dense(code, "f16_4x4x4_16b", 4, 4, 16, [f16; 2]);
        dense(code, "f16_16x16x4_4b", 16, 4, 4, [f16; 2]);
        dense(code, "f16_32x32x4_2b", 32, 4, 2, [f16; 2]);
        dense(code, "bf16_16x16x16", 16, 16, 1, [bf16; 2]);
        dense(code, "bf16_32x32x8", 32, 8, 1, [bf16; 2]);
        dense(code, "fp8_fp8_16x16x32", 16, 32, 1, [fp8, fp8]);
        dense(code, "fp8_bf8_16x16x32", 16, 32, 1, [fp8, bf8]);
        dense(code, "bf8_fp8_16x16x32", 16, 32, 1, [bf8, fp8]);
        dense(code, "bf8_bf8_16x16x32", 16, 32, 1, [bf8, bf8]);
        dense(code, "fp8_fp8_32x32x16", 32, 16, 1, [fp8, fp8]);
        dense(code, "bf8_fp8_32x32x16", 32, 16, 1, [bf8, fp8]);
        dense(code, "i8_16x16x32", 16, 32, 1, [I8; 2]);
        dense(code, "i8_32x32x16", 32, 16, 1, [I8; 2]);
        if arch == "gfx950" {
            dense(code, "bf16_16x16x32", 16, 32, 1, [bf16; 2]);
            dense(code, "bf16_32x32x16", 32, 16, 1, [bf16; 2]);
            dense(code, "f16_16x16x32", 16, 32, 1, [f16; 2]);
            dense(code, "i8_16x16x64", 16, 64, 1, [I8; 2]);
            dense(code, "i8_32x32x32", 32, 32, 1, [I8; 2]);
            dense(code, "unscaled_16x16x128_00", 16, 128, 1, [fp8, fp8]);
        }
    }
}

#[test]
fn scaled_products_take_one_scale_a_row_and_block_in_every_format() {
    let code = &code("matrix", "gfx950");
    let formats = [E4M3, E5M2, E2M3, E3M2, E2M1].map(Small);
    let cases = [
        ("00", [0, 1]),
        ("11", [1, 2]),
        ("22", [2, 3]),
        ("33", [3, 0]),
        ("44", [1, 1]),
        ("04", [0, 3]),
        ("21", [3, 2]),
        ("43", [2, 0]),
    ];
    for (name, dim, k) in [("scaled_16x16x128", 16, 128), ("scaled_32x32x64", 32, 64)] {
        for (seed, (pair, selects)) in cases.iter().enumerate() {
            let format = |i: usize| formats[pair[i..=i].parse::<usize>().unwrap()];
            let case = Case {
                code,
                kernel: &format!("{name}_{pair}"),
                shape: Shape { dim, k, blocks: 1 },
                formats: [format(0), format(1)],
                strides: [32; 2],
                scales: Some(*selects),
            };
            case.run(seed as u64);
        }
    }
}

#[test]
fn a_scale_of_255_is_nan_and_extreme_scales_do_not_overflow_on_the_way() {
    let code = code("matrix", "gfx950");
    let run = |a: u8, b: u8| {
        let mut memory = Memory::new();
        // 1.0 in E2M1 is 2: every element of both operands.
        let ones = memory.alloc_from("ones", &[0x22; 32 * 64]);
        let zero = memory.alloc("c", 1024, 0);
        let d = memory.alloc("d", 1024, 0xee);
        let (sa, sb) = (memory.alloc("sa", 256, a), memory.alloc("sb", 256, b));
        let args = [ones, ones, zero, d, sa, sb].map(Arg::from);
        code.launch("scaled_16x16x128_44", &memory, Grid::linear(1, 64), &args, &Options::default()).unwrap();
        read::<f32>(&memory, d, 256)
    };
    assert!(run(255, 127).iter().all(|x| x.is_nan()));
    assert!(run(127, 255).iter().all(|x| x.is_nan()));
    assert_eq!(run(254, 0), vec![128.0; 256]);
    assert_eq!(run(127 + 60, 127 - 60), vec![128.0; 256]);
    assert_eq!(run(254, 254), vec![f32::INFINITY; 256]);
}

/// Sparse A: two of every four along K, their places in the index register.
fn sparse(code: &CodeObject, kernel: &str, dim: usize, k: usize, format: Format, set: usize) {
    let mut r = Random(kernel.len() as u64 + set as u64);
    let shape = Shape { dim, k, blocks: 1 };
    let per = shape.per_lane();
    let b = matrix(&mut r, format, dim, k);
    let mut a = vec![vec![0.0; k]; dim];
    let mut stored = Packed::new(per / 2 * format.bits() / 8);
    let mut index = [0xdead_beefu32; 64];
    for i in 0..dim {
        for group in 0..k / 4 {
            let (first, second) = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)][r.below(6) as usize];
            // The dense range of a lane is contiguous in A.
            let (lane, q) = (i + dim * (4 * group / per), group % (per / 4));
            for (half, position) in [first, second].into_iter().enumerate() {
                let x = format.value(&mut r);
                a[i][4 * group + position] = x;
                stored.put(lane, 2 * q + half, format.bits(), format.encode(x));
            }
            let shift = set * per + 4 * q;
            index[lane] = index[lane] & !(15 << shift) | ((first | second << 2) as u32) << shift;
        }
    }
    let mut dense_b = Packed::new(per * format.bits() / 8);
    for (j, row) in b.iter().enumerate() {
        for (s, &x) in row.iter().enumerate() {
            let (lane, e) = shape.home(format, 0, j, s);
            dense_b.put(lane, e, format.bits(), format.encode(x));
        }
    }
    let registers = shape.result_registers();
    let c: Vec<f32> = (0..64 * registers).map(|i| i as f32).collect();
    let mut memory = Memory::new();
    let d = memory.alloc("d", 256 * registers, 0xee);
    let args = [
        memory.alloc_from("a", &stored.bytes).into(),
        memory.alloc_from("b", &dense_b.bytes).into(),
        memory.alloc_from("c", &c.bytes()).into(),
        d.into(),
        memory.alloc_from("index", &index.bytes()).into(),
    ];
    code.launch(kernel, &memory, Grid::linear(1, 64), &args, &Options::default()).unwrap();
    let got = read::<f32>(&memory, d, 64 * registers);
    for i in 0..dim {
        for j in 0..dim {
            let (lane, register) = shape.result(0, i, j);
            let at = lane * registers + register;
            let sum: f64 = (0..k).map(|s| a[i][s] * b[j][s]).sum();
            assert_eq!(f64::from(got[at]), sum + f64::from(c[at]), "{kernel} row {i} column {j}");
        }
    }
}

#[test]
fn sparse_products_expand_a_by_the_index_register() {
    for (arch, fp8) in [("gfx942", Small(E4M3_FNUZ)), ("gfx950", Small(E4M3))] {
        let code = &code("matrix", arch);
        sparse(code, "sparse_fp8_16x16x64_set0", 16, 64, fp8, 0);
        sparse(code, "sparse_fp8_16x16x64_set1", 16, 64, fp8, 1);
        sparse(code, "sparse_fp8_32x32x32", 32, 32, fp8, 0);
        sparse(code, "sparse_f16_16x16x32_set2", 16, 32, Small(F16), 2);
        sparse(code, "sparse_f16_32x32x16", 32, 16, Small(F16), 0);
        if arch == "gfx950" {
            sparse(code, "sparse_fp8_16x16x128", 16, 128, fp8, 0);
            sparse(code, "sparse_fp8_32x32x64", 32, 64, fp8, 0);
            sparse(code, "sparse_bf16_16x16x64_set1", 16, 64, Small(BF16), 1);
        }
    }
}
