//! Runs GEMM code objects that AMD ships in AITER and compares them with a product in f64.
//!
//! `cargo run --release -p tilewright-emulator --example aiter_gemm FILE.co…`, with files of AITER's `hsa/gfx942` or
//! `hsa/gfx950`, folders `fp8gemm_blockscale` and `f4gemm` (`BpreShuffle` forms). The files are not part of this
//! repository. Argument structs and operand orders are those of AITER's host code.

use std::process::ExitCode;

use tilewright_emulator::{
    BF16, CodeObject, Dma, E2M1, E4M3, E4M3_FNUZ, Grid, Memory, Options, Order, SmallFloat,
};

const M: usize = 50;
const N: usize = 512;
const K: usize = 512;

fn main() -> ExitCode {
    let mut bad = false;
    for path in std::env::args().skip(1) {
        match run(&path) {
            Ok(line) => println!("{path}: {line}"),
            Err(what) => {
                println!("{path}: {what}");
                bad = true;
            }
        }
    }
    if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn run(path: &str) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    let code = CodeObject::load(&bytes).map_err(|e| e.to_string())?;
    let kernel = code.kernels().first().ok_or("no kernel")?.name.clone();
    // The tile is the last part of the file's name: 32x128.
    let stem = std::path::Path::new(path).file_stem().and_then(|s| s.to_str()).ok_or("no file name")?;
    let (tm, tn) = stem.rsplit('_').next().and_then(|t| t.split_once('x')).ok_or("no tile in the name")?;
    let tile = [tm, tn].map(|t| t.parse::<usize>().unwrap_or(0));
    if tile.contains(&0) || !N.is_multiple_of(tile[1]) {
        return Err(format!("tile {tile:?} does not divide N = {N}"));
    }
    let fp4 = stem.starts_with("f4gemm");
    let problem = if fp4 { Problem::fp4() } else { Problem::fp8(code.arch().name() == "gfx942") };
    let mut lines = Vec::new();
    for (dma, order) in
        [(Dma::Late, Order::Forward), (Dma::Early, Order::Reverse), (Dma::Random, Order::Random)]
    {
        let mut memory = Memory::new();
        let (segment, d) = if fp4 { problem.fp4_args(&mut memory) } else { problem.fp8_args(&mut memory) };
        let grid = [N / tile[1], M.div_ceil(tile[0]), 1].map(|x| x as u32);
        let grid = Grid { grid, block: [256, 1, 1], dynamic_lds: 0 };
        let options = Options { dma, order, seed: 1, ..Options::default() };
        let report =
            code.launch_packed(&kernel, &memory, grid, &segment, &options).map_err(|e| e.to_string())?;
        let got = memory.read(d, 2 * M * N)?;
        let mut worst = 0f64;
        let mut differ = 0;
        for (pair, want) in got.chunks_exact(2).zip(problem.product()) {
            let bits = u32::from(pair[0]) | u32::from(pair[1]) << 8;
            let error = (f64::from(BF16.decode(bits)) - want).abs() / want.abs().max(problem.magnitude);
            worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
            // Some of the kernels round to nearest, some cut off.
            let cut = (want as f32).to_bits() >> 16;
            differ += usize::from(BF16.encode(want, false) != bits && cut != bits);
        }
        if worst > 0.01 {
            return Err(format!("largest error {worst:.4} of the typical result ({dma:?}, {order:?})"));
        }
        lines.push(format!(
            "{} instructions, worst {worst:.5}, {differ} neither nearest nor cut off",
            report.instructions
        ));
    }
    Ok(lines.join("; "))
}

struct Problem {
    /// Dequantised A and B, row-major.
    values: [Vec<f64>; 2],
    /// Element patterns and scales.
    patterns: [Vec<u32>; 2],
    scales: [Vec<f32>; 2],
    exponents: [Vec<u8>; 2],
    magnitude: f64,
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

impl Problem {
    fn new(format: SmallFloat, seed: u64) -> (Self, Random) {
        let mut r = Random(seed);
        let patterns = [M, N].map(|rows| -> Vec<u32> {
            (0..rows * K)
                .map(|_| {
                    let x = r.below(1 << format.bits()) as u32;
                    let value = format.decode(x);
                    if value.is_nan() || value.abs() > 8.0 { 0 } else { x }
                })
                .collect()
        });
        let values = patterns.each_ref().map(|p| p.iter().map(|&x| f64::from(format.decode(x))).collect());
        let empty = || [Vec::new(), Vec::new()];
        (Self { values, patterns, scales: [Vec::new(), Vec::new()], exponents: empty(), magnitude: 0.0 }, r)
    }

    /// One f32 scale per row and 128 of A, per 128 × 128 of B.
    fn fp8(fnuz: bool) -> Self {
        let (mut p, mut r) = Self::new(if fnuz { E4M3_FNUZ } else { E4M3 }, 3);
        for (o, (rows, per)) in [(M, 1), (N, 128)].into_iter().enumerate() {
            p.scales[o] = (0..rows / per * K / 128).map(|_| 0.25 + r.below(1000) as f32 / 1000.0).collect();
            for i in 0..rows {
                for k in 0..K {
                    p.values[o][i * K + k] *= f64::from(p.scales[o][i / per * (K / 128) + k / 128]);
                }
            }
        }
        p.measure()
    }

    /// One E8M0 scale per row and 32 of both.
    fn fp4() -> Self {
        let (mut p, mut r) = Self::new(E2M1, 5);
        for (o, rows) in [M, N].into_iter().enumerate() {
            p.exponents[o] = (0..rows * K / 32).map(|_| 124 + r.below(7) as u8).collect();
            for i in 0..rows * K {
                p.values[o][i] *= 2f64.powi(i32::from(p.exponents[o][i / 32]) - 127);
            }
        }
        p.measure()
    }

    fn measure(mut self) -> Self {
        let product = self.product();
        self.magnitude = (product.iter().map(|x| x * x).sum::<f64>() / product.len() as f64).sqrt();
        self
    }

    fn product(&self) -> Vec<f64> {
        let row = |o: usize, i: usize| &self.values[o][i * K..][..K];
        let at = |i: usize| row(0, i / N).iter().zip(row(1, i % N)).map(|(a, b)| a * b).sum();
        (0..M * N).map(at).collect()
    }

    fn fp8_args(&self, memory: &mut Memory) -> (Vec<u8>, u64) {
        let bytes = |o: usize| -> Vec<u8> { self.patterns[o].iter().map(|&x| x as u8).collect() };
        let floats = |x: &[f32]| -> Vec<u8> { x.iter().flat_map(|x| x.to_le_bytes()).collect() };
        let d = memory.alloc("D", 2 * M * N, 0xff);
        let a = memory.alloc_from("A", &bytes(0));
        let b = memory.alloc_from("B", &padded(shuffle(&bytes(1), K)));
        let steps = K / 128;
        let transposed: Vec<f32> = (0..M * steps).map(|i| self.scales[0][i % M * steps + i / M]).collect();
        let sa = memory.alloc_from("A scales", &floats(&transposed));
        let sb = memory.alloc_from("B scales", &floats(&self.scales[1]));
        let bias = memory.alloc("bias", 4 * N, 0);
        let mut segment = Segment::default();
        segment.pointers(&[d, a, b, sa, sb, bias]);
        let sizes = [M, N, K, K, K, 2 * N, 1, M, N / 128, steps];
        segment.words(&sizes);
        (segment.0, d)
    }

    fn fp4_args(&self, memory: &mut Memory) -> (Vec<u8>, u64) {
        let packed = |o: usize| -> Vec<u8> {
            self.patterns[o].chunks_exact(2).map(|p| (p[0] | p[1] << 4) as u8).collect()
        };
        // Rows of the result and of A's scales are padded to 256 by the host.
        let d = memory.alloc("D", 2 * M.next_multiple_of(256) * N, 0xff);
        let mut rows = packed(0);
        rows.resize(M.next_multiple_of(256) * K / 2, 0);
        let a = memory.alloc_from("A", &rows);
        let b = memory.alloc_from("B", &padded(shuffle(&packed(1), K / 2)));
        let sa = memory.alloc_from("A scales", &padded(shuffle_scales(&self.exponents[0], M)));
        let sb = memory.alloc_from("B scales", &padded(shuffle_scales(&self.exponents[1], N)));
        let mut segment = Segment::default();
        segment.pointers(&[d, d, a, b]);
        segment.words(&[1f32.to_bits() as usize, 0, N, 0, N, 0, K, 0, K, 0, M, N, K]);
        segment.pointers(&[sa, sb]);
        segment.words(&[K / 32, 0, K / 32, 0, 0]);
        (segment.0, d)
    }
}

/// Arguments of 16 bytes each.
#[derive(Default)]
struct Segment(Vec<u8>);

impl Segment {
    fn pointers(&mut self, addresses: &[u64]) {
        for address in addresses {
            self.0.extend(address.to_le_bytes());
            self.0.extend([0; 8]);
        }
    }

    fn words(&mut self, words: &[usize]) {
        for &word in words {
            self.0.extend((word as u32).to_le_bytes());
            self.0.extend([0; 12]);
        }
    }
}

/// The kernels fetch a step ahead, past the end.
fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len() + (64 << 10), 0);
    bytes
}

/// [N/16][bytes/32][2][16 rows][16 bytes].
fn shuffle(bytes: &[u8], row: usize) -> Vec<u8> {
    let mut out = vec![0; bytes.len()];
    for (i, &byte) in bytes.iter().enumerate() {
        let (n, k) = (i / row, i % row);
        out[n / 16 * 16 * row + k / 32 * 512 + k % 32 / 16 * 256 + n % 16 * 16 + k % 16] = byte;
    }
    out
}

/// [rows/32][K/256][4 K-blocks][16 rows][2 halves of K][2 halves of rows], rows padded to 256.
fn shuffle_scales(scales: &[u8], rows: usize) -> Vec<u8> {
    let blocks = K / 32;
    let mut out = vec![127; rows.next_multiple_of(256) * blocks];
    for row in 0..rows {
        for k in 0..blocks {
            let tile = (row / 32 * (blocks / 8) + k / 8) * 256;
            out[tile + k % 4 * 64 + row % 16 * 4 + k % 8 / 4 * 2 + row % 32 / 16] = scales[row * blocks + k];
        }
    }
    out
}
