//! Buffers, LDS, transfers, conversions, and what faults.

mod support;

use support::{Bytes, Random, code, read};
use tilewright_emulator::{
    Arg, Dma, E2M1, E2M3, E3M2, E4M3, E4M3_FNUZ, E5M2, E5M2_FNUZ, Error, Grid, Memory, Options, Order,
};

const ARCHS: [&str; 2] = ["gfx942", "gfx950"];

fn launch(
    arch: &str,
    kernel: &str,
    memory: &Memory,
    block: u32,
    args: &[Arg],
    options: &Options,
) -> Result<(), Error> {
    code("memory", arch).launch(kernel, memory, Grid::linear(1, block), args, options).map(|_| ())
}

#[test]
fn a_buffer_range_counts_the_scalar_offset_and_each_dword() {
    let a: Vec<u32> = (0..400).map(|i| 0x100 + i).collect();
    for arch in ARCHS {
        for (bytes, soffset) in [(256u32, 0u32), (256, 64), (100, 32), (104, 96), (1024, 16), (0, 0)] {
            let mut memory = Memory::new();
            let (pa, out) = (memory.alloc_from("a", &a.bytes()), memory.alloc("out", 4 * 384, 0xee));
            let stored = memory.alloc("stored", 256, 0xdd);
            let args = [pa.into(), bytes.into(), soffset.into(), out.into(), stored.into(), 100u32.into()];
            launch(arch, "buffer_range", &memory, 64, &args, &Options::default()).unwrap();
            let got = read::<u32>(&memory, out, 384);
            let word = |at: u32| if at + 4 <= bytes { a[at as usize / 4] } else { 0 };
            for i in 0..64u32 {
                assert_eq!(got[i as usize], word(4 * i + soffset), "{bytes} {soffset}");
                for k in 0..4 {
                    assert_eq!(
                        got[(64 + 4 * i + k) as usize],
                        word(16 * i + 4 * k + soffset),
                        "{bytes} {soffset}"
                    );
                }
                let at = 2 * i + 64 + soffset;
                let half = if at + 2 <= bytes { a[at as usize / 4] >> (8 * (at % 4)) & 0xffff } else { 0 };
                assert_eq!(got[(320 + i) as usize], half);
            }
            let stored = read::<u32>(&memory, stored, 64);
            for i in 0..64u32 {
                assert_eq!(stored[i as usize], if i < 25 { i + 1 } else { 0xdddd_dddd });
            }
        }
    }
}

#[test]
fn data_moves_from_memory_to_lds_with_offsets_on_both_sides() {
    let a: Vec<u32> = (0..256).map(|i| 0x5000 + i).collect();
    for arch in ARCHS {
        for dma in [Dma::Early, Dma::Late, Dma::Random] {
            let mut memory = Memory::new();
            let (pa, out) = (memory.alloc_from("a", &a.bytes()), memory.alloc("out", 1024, 0xee));
            let args = [pa.into(), 512u32.into(), out.into()];
            launch(arch, "dma_dword", &memory, 64, &args, &Options { dma, ..Options::default() }).unwrap();
            let got = read::<u32>(&memory, out, 256);
            let mut want: Vec<u32> = (0..256).map(|i| 0x1000 + i).collect();
            for lane in 0..64 {
                // LDS at 128 + 4·lane, memory at 128 + 8·lane, nothing beyond 512 bytes.
                if lane % 5 != 0 {
                    let from = 128 + 8 * lane;
                    want[32 + lane] = if from + 4 <= 512 { a[from / 4] } else { 0 };
                }
            }
            for lane in 0..64 {
                want[128 + 16 + lane] = a[63 - lane + 16];
            }
            assert_eq!(got, want, "{arch} {dma:?}");
        }
    }
}

#[test]
fn wide_transfers_to_lds_go_lane_by_lane() {
    let a: Vec<u8> = (0..1024u32).map(|i| (i * 7 + i / 256) as u8).collect();
    let mut memory = Memory::new();
    let (pa, out) = (memory.alloc_from("a", &a), memory.alloc("out", 1792, 0));
    launch("gfx950", "dma_wide", &memory, 64, &[pa.into(), 960u32.into(), out.into()], &Options::default())
        .unwrap();
    let got = memory.read(out, 1792).unwrap();
    for lane in 0..64 {
        for b in 0..16 {
            let from = (63 - lane) * 16 + b;
            assert_eq!(got[lane * 16 + b], if from < 960 { a[from] } else { 0 });
        }
    }
    assert_eq!(got[1024..], a[..768]);
}

#[test]
fn transposing_reads_give_each_lane_a_column() {
    let mut r = Random(11);
    let a: Vec<u8> = (0..768).map(|_| r.u32() as u8).collect();
    let mut memory = Memory::new();
    let (pa, out) = (memory.alloc_from("a", &a), memory.alloc("out", 64 * 36, 0));
    launch("gfx950", "transpose", &memory, 64, &[pa.into(), out.into()], &Options::default()).unwrap();
    let got = memory.read(out, 64 * 36).unwrap();
    let field = |data: &[u8], at: usize, bits: usize| {
        (0..bits).fold(0u32, |x, i| x | u32::from(data[(at + i) / 8] >> ((at + i) % 8) & 1) << i)
    };
    for (bits, start, bytes) in [(4, 0, 8), (6, 8, 12), (8, 20, 8), (16, 28, 8)] {
        for lane in 0..64 {
            // A group of 16 lanes holds a matrix of 16 columns, row after row.
            let group = &a[lane / 16 * 16 * bytes..][..16 * bytes];
            let column = &got[lane * 36 + start..][..bytes];
            for row in 0..bytes * 8 / bits {
                let want = field(group, (row * 16 + lane % 16) * bits, bits);
                assert_eq!(field(column, row * bits, bits), want, "{bits} bits, lane {lane}, row {row}");
            }
        }
    }
}

#[test]
fn rows_of_lanes_are_swapped() {
    let a: Vec<u32> = (0..128).collect();
    let mut memory = Memory::new();
    let (pa, out) = (memory.alloc_from("a", &a.bytes()), memory.alloc("out", 1024, 0));
    launch("gfx950", "swap_rows", &memory, 64, &[pa.into(), out.into()], &Options::default()).unwrap();
    let got = read::<u32>(&memory, out, 256);
    for i in 0..64u32 {
        // The upper row of the first operand changes places with the lower row of the second.
        let swapped = |row: u32| {
            let upper = i / row % 2 == 1;
            if upper { (64 + i - row, 64 + i) } else { (i, i + row) }
        };
        assert_eq!((got[i as usize], got[64 + i as usize]), swapped(32));
        assert_eq!((got[128 + i as usize], got[192 + i as usize]), swapped(16));
    }
}

fn values(r: &mut Random, n: usize) -> Vec<f32> {
    let edges = [
        0.0,
        -0.0,
        1.0,
        240.0,
        241.0,
        448.0,
        464.1,
        1e9,
        -1e9,
        f32::INFINITY,
        f32::NAN,
        0.0009,
        -0.001,
        1e-7,
    ];
    (0..n)
        .map(|i| {
            if i < 14 {
                edges[i]
            } else {
                (r.below(4000) as f32 - 2000.0) * 2f32.powi(r.below(16) as i32 - 14)
            }
        })
        .collect()
}

#[test]
fn eight_bit_floats_are_fnuz_on_gfx942_and_ocp_on_gfx950() {
    let mut r = Random(12);
    let (a, random) = (values(&mut r, 256), (0..128).map(|_| r.u32()).collect::<Vec<_>>());
    for (arch, fp8, bf8) in [("gfx942", E4M3_FNUZ, E5M2_FNUZ), ("gfx950", E4M3, E5M2)] {
        let mut memory = Memory::new();
        let (pa, pr) = (memory.alloc_from("a", &a.bytes()), memory.alloc_from("random", &random.bytes()));
        let out = [512, 512, 3072].map(|n| memory.alloc("out", n, 0));
        let args = [pa, pr, out[0], out[1], out[2]].map(Arg::from);
        code("memory", arch)
            .launch("convert_fp8", &memory, Grid::linear(2, 64), &args, &Options::default())
            .unwrap();
        let packed = read::<u32>(&memory, out[0], 128);
        let stochastic = read::<u32>(&memory, out[1], 128);
        let back = read::<f32>(&memory, out[2], 768);
        let same = |a: f32, b: f32| a == b || a.is_nan() && b.is_nan();
        for i in 0..128 {
            let pair = [a[2 * i], a[2 * i + 1]].map(f64::from);
            let low = fp8.encode(pair[0], false) | fp8.encode(pair[1], false) << 8;
            let high = bf8.encode(pair[0], false) | bf8.encode(pair[1], false) << 8;
            assert_eq!(packed[i], low | high << 16, "{pair:?} on {arch}");
            let bytes = packed[i].to_le_bytes().map(u32::from);
            let want =
                [fp8.decode(bytes[0]), fp8.decode(bytes[1]), bf8.decode(bytes[2]), bf8.decode(bytes[3])];
            for k in 0..6 {
                assert!(same(back[6 * i + k], want[[0, 1, 2, 3, 2, 3][k]]), "{arch} {i} {k}");
            }
            assert_eq!(stochastic[i] & !0xff_0000, 0x1100_3344, "other bytes stay");
            let (x, rounded) = (a[i], fp8.decode(stochastic[i] >> 16 & 0xff));
            if x.is_finite() && x.abs() <= 240.0 {
                // One of the two neighbours.
                let nearest = fp8.decode(fp8.encode(f64::from(x), false));
                let ulp = (nearest.abs() / 8.0).max(2f32.powi(-9));
                assert!((rounded - x).abs() <= ulp, "{x} became {rounded}");
            }
        }
    }
}

#[test]
fn scaled_conversions_pack_six_and_four_bits() {
    let mut r = Random(13);
    let a: Vec<f32> = (0..2048).map(|_| (r.below(4001) as f32 - 2000.0) / 64.0).collect();
    let scale = 4.0f32;
    let mut memory = Memory::new();
    let pa = memory.alloc_from("a", &a.bytes());
    let (out, back) = (memory.alloc("out", 4096, 0), memory.alloc("back", 8192, 0));
    let args = [pa.into(), scale.into(), out.into(), back.into()];
    launch("gfx950", "convert_scaled", &memory, 64, &args, &Options::default()).unwrap();
    let (out, back) = (read::<u32>(&memory, out, 1024), read::<f32>(&memory, back, 2048));
    let field = |words: &[u32], e: usize| {
        let at = 6 * e;
        let wide = u64::from(words[at / 32]) | u64::from(words.get(at / 32 + 1).copied().unwrap_or(0)) << 32;
        (wide >> (at % 32) & 63) as u32
    };
    for lane in 0..64 {
        let x = &a[32 * lane..][..32];
        let words = &out[16 * lane..][..16];
        for e in 0..32 {
            // The two sources of 16 alternate.
            let source = f64::from(x[if e % 2 == 0 { e / 2 } else { 16 + e / 2 }]);
            let want = E2M3.encode(source / 4.0, true);
            assert_eq!(field(&words[..6], e), want, "lane {lane} element {e}");
            assert_eq!(back[32 * lane + e], E2M3.decode(want) * 4.0);
            let bf16 =
                tilewright_emulator::BF16.decode(tilewright_emulator::BF16.encode(f64::from(x[e]), false));
            assert_eq!(field(&words[7..13], e), E3M2.encode(f64::from(bf16) / 4.0, true));
        }
        let fp4 = (0..8).fold(0, |w, e| w | E2M1.encode(f64::from(x[e]) / 4.0, true) << (4 * e));
        assert_eq!(words[6], fp4);
        let third = [fp4 >> 16 & 15, fp4 >> 20 & 15].map(|p| (E2M1.decode(p) * 4.0).to_bits());
        assert_eq!(words[13..15], third);
        assert_eq!(words[15], (lane as u32) << 1 ^ 197);
    }
}

#[test]
fn races_are_reported_by_place_and_waves() {
    for order in [Order::Forward, Order::Reverse] {
        let mut memory = Memory::new();
        let out = memory.alloc("out", 512, 0);
        let options = Options { races: true, order, ..Options::default() };
        let code = code("memory", "gfx942");
        let report = code.launch("race", &memory, Grid::linear(1, 128), &[out.into()], &options).unwrap();
        assert!(!report.races.is_empty());
        assert!(report.races.iter().all(|(group, race)| *group == 0 && race.first != race.second));
    }
}

#[test]
fn a_wave_that_polls_lds_lets_the_others_run() {
    let a: Vec<u32> = (0..64).map(|i| 7 * i).collect();
    for arch in ARCHS {
        for order in [Order::Forward, Order::Reverse, Order::Random] {
            let mut memory = Memory::new();
            let (pa, out) = (memory.alloc_from("a", &a.bytes()), memory.alloc("out", 256, 0));
            let options = Options { order, ..Options::default() };
            launch(arch, "handoff", &memory, 128, &[pa.into(), out.into()], &options).unwrap();
            let want: Vec<u32> = a.iter().rev().map(|x| x + 1).collect();
            assert_eq!(read::<u32>(&memory, out, 64), want, "{order:?}");
        }
    }
}

fn fault(result: Result<(), Error>) -> String {
    match result {
        Err(error @ Error::Fault(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_store_past_the_end_names_kernel_lane_and_buffer() {
    let mut memory = Memory::new();
    let out = memory.alloc("result", 256, 0);
    memory.alloc("other", 256, 0);
    let text = fault(launch("gfx942", "overrun", &memory, 64, &[out.into()], &Options::default()));
    for part in
        ["kernel `overrun`", "global_store_dword (Global)", "lane 63", "end 4 bytes past buffer `result`"]
    {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn what_was_never_written_is_poison() {
    let mut memory = Memory::new();
    let out = memory.alloc("out", 256, 0);
    let options = Options { poison: 0x7fc0_dead, ..Options::default() };
    launch("gfx950", "unwritten", &memory, 64, &[out.into()], &options).unwrap();
    assert_eq!(read::<u32>(&memory, out, 64), vec![0x7fc0_dead; 64]);
}

#[test]
fn a_wave_that_hangs_is_stopped() {
    let mut memory = Memory::new();
    let flag = memory.alloc("flag", 4, 0);
    let options = Options { limit: 1000, ..Options::default() };
    let text = fault(launch("gfx942", "spin", &memory, 64, &[flag.into()], &options));
    assert!(text.contains("taken to hang"), "{text}");
}

#[test]
fn launches_that_do_not_fit_say_why() {
    let code = code("memory", "gfx950");
    let memory = Memory::new();
    let run = |kernel: &str, grid, args: &[Arg]| {
        code.launch(kernel, &memory, grid, args, &Options::default()).unwrap_err().to_string()
    };
    assert!(run("nothing", Grid::linear(1, 64), &[]).contains("there are: "));
    assert!(run("overrun", Grid::linear(1, 64), &[]).contains("0 arguments where the kernel takes 1"));
    assert!(run("overrun", Grid::linear(1, 64), &[1u32.into()]).contains("has 4 bytes; the kernel takes 8"));
    assert!(run("overrun", Grid::linear(1, 128), &[1u64.into()]).contains("takes 1 to 64"));
    let lds = Grid { dynamic_lds: 200 << 10, ..Grid::linear(1, 64) };
    assert!(run("overrun", lds, &[1u64.into()]).contains("gfx950 has 163840"));
}
