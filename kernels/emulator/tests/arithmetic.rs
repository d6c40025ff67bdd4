//! Ordinary code compiled by clang, against the same computations in Rust.

mod support;

use support::{Bytes, Random, code, read};
use tilewright_emulator::{Arg, BF16, Grid, Memory, Options, Order};

const ARCHS: [&str; 2] = ["gfx942", "gfx950"];

/// Runs `kernel` on both architectures over inputs and returns each output of `n` values.
fn run<X: support::FromBytes>(kernel: &str, grid: Grid, inputs: &[Vec<u8>], n: usize) -> Vec<Vec<X>> {
    ARCHS
        .iter()
        .map(|arch| {
            let code = code("arith", arch);
            let mut memory = Memory::new();
            let mut args: Vec<Arg> = inputs.iter().map(|x| memory.alloc_from("input", x).into()).collect();
            let out = memory.alloc("out", n * size_of::<X>(), 0xcd);
            args.push(out.into());
            code.launch(kernel, &memory, grid, &args, &Options::default()).unwrap();
            read(&memory, out, n)
        })
        .collect()
}

#[test]
fn ids_of_workgroups_and_work_items_are_in_place() {
    let grid = Grid { grid: [3, 2, 2], block: [4, 4, 4], dynamic_lds: 0 };
    for out in run::<u32>("ids", grid, &[], 12 * 64) {
        for z in 0..2 {
            for y in 0..2 {
                for x in 0..3 {
                    for t in 0..64 {
                        let at = ((z * 2 + y) * 3 + x) * 64 + t;
                        assert_eq!(out[at as usize], x | y << 8 | z << 16 | t << 24);
                    }
                }
            }
        }
    }
}

#[test]
fn lanes_past_the_end_write_nothing() {
    for arch in ARCHS {
        let code = code("arith", arch);
        let mut memory = Memory::new();
        let x: Vec<f32> = (0..300).map(|i| i as f32).collect();
        let y: Vec<f32> = (0..300).map(|i| 0.5 * i as f32).collect();
        let (px, py) = (memory.alloc_from("x", &x.bytes()), memory.alloc_from("y", &y.bytes()));
        let args = [px.into(), py.into(), 2f32.into(), 300u32.into()];
        let report = code.launch("axpy", &memory, Grid::linear(2, 256), &args, &Options::default()).unwrap();
        let want: Vec<f32> = (0..300).map(|i| 2.5 * i as f32).collect();
        assert_eq!(read::<f32>(&memory, py, 300), want);
        assert!(report.mix.contains_key("s_endpgm") && report.instructions > 8);
    }
}

fn edge_u32(r: &mut Random, n: usize) -> Vec<u32> {
    let edges = [1, 2, 3, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0xffff, 0x10000, 0xff_ffff, 0x100_0000];
    (0..n)
        .map(|i| match i {
            i if i < edges.len() * 8 => edges[(i * 7 + i / 10) % edges.len()],
            i if i % 3 == 0 => r.below(1000) + 1,
            _ => r.u32() >> r.below(31) | 1,
        })
        .collect()
}

#[test]
fn integers_of_32_bits_agree() {
    let mut r = Random(1);
    let (a, b) = (edge_u32(&mut r, 256), edge_u32(&mut r, 256));
    for out in run::<u32>("u32_ops", Grid::linear(4, 64), &[a.bytes(), b.bytes()], 256 * 16) {
        for (i, o) in out.chunks(16).enumerate() {
            let (x, y) = (a[i], b[i]);
            let (sx, sy) = (x as i32, y as i32);
            let mul24 = (x & 0xff_ffff).wrapping_mul(y & 0xff_ffff);
            let want = [
                x / y,
                x % y,
                sx.wrapping_div(sy) as u32,
                sx.wrapping_rem(sy) as u32,
                ((u64::from(x) * u64::from(y)) >> 32) as u32,
                ((i64::from(sx) * i64::from(sy)) >> 32) as u32,
                x.leading_zeros(),
                x.trailing_zeros(),
                x.count_ones(),
                x.reverse_bits(),
                x.rotate_right(y & 31),
                // Selector bytes 2, 6, 4, 1 over {x, y}: y.2, x.2, x.0, y.1.
                (y >> 16 & 255) | (x >> 16 & 255) << 8 | (x & 255) << 16 | (y >> 8 & 255) << 24,
                x.saturating_add(y).wrapping_add(7),
                (sx >> (y & 31)) as u32,
                if x & 0xff_ffff != 0 { mul24 } else { 1 },
                ((x << 3) as i32 >> 7) as u32 ^ i32::from(y as i8) as u32,
            ];
            // INT_MIN / -1 overflows in C; the compiler may give anything.
            let skip = (x == 0x8000_0000 && y == u32::MAX).then_some([2, 3]);
            for (k, want) in want.iter().enumerate() {
                if !skip.is_some_and(|s| s.contains(&k)) {
                    assert_eq!(o[k], *want, "operation {k} of {x:#x}, {y:#x}");
                }
            }
        }
    }
}

#[test]
fn integers_of_64_bits_agree() {
    let mut r = Random(2);
    let mut values = || -> Vec<u64> { (0..128).map(|_| r.next() >> r.below(63) | 1).collect() };
    let (a, b) = (values(), values());
    for out in run::<u64>("u64_ops", Grid::linear(2, 64), &[a.bytes(), b.bytes()], 128 * 8) {
        for (i, o) in out.chunks(8).enumerate() {
            let (x, y) = (a[i], b[i]);
            let less =
                if x < y { u64::from((x as i64) < y as i64) } else { 2 + u64::from(x.leading_zeros()) };
            let shift = (y & 63) as u32;
            let want = [
                x.wrapping_add(y),
                x.wrapping_sub(y),
                x.wrapping_mul(y),
                x / y,
                x % y,
                x << shift,
                (x as i64 >> shift) as u64,
                less,
            ];
            assert_eq!(o, want, "{x:#x} {y:#x}");
        }
    }
}

fn same(a: f64, b: f64) -> bool {
    a == b && a.is_sign_negative() == b.is_sign_negative() || a.is_nan() && b.is_nan()
}

fn floats(r: &mut Random, n: usize) -> Vec<f32> {
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        f32::MAX,
        0.5,
        2.5,
        3.5,
        f32::from_bits(1),
        f32::from_bits(0x7f_ffff),
        -f32::from_bits(0x1234),
        8388608.5,
        1e-30,
        1e30,
    ];
    (0..n)
        .map(|i| match i {
            i if i < edges.len() * 6 => edges[(i * 5 + i / 18) % edges.len()],
            i if i % 2 == 0 => r.f32(),
            _ => (r.below(2_000_000) as f32 - 1e6) * 0.001,
        })
        .collect()
}

#[test]
fn floats_of_32_bits_agree_subnormals_and_division_included() {
    let mut r = Random(3);
    let (a, b) = (floats(&mut r, 512), floats(&mut r, 512));
    for out in run::<f32>("f32_ops", Grid::linear(8, 64), &[a.bytes(), b.bytes()], 512 * 16) {
        for (i, o) in out.chunks(16).enumerate() {
            let (x, y) = (a[i], b[i]);
            let minimum = if x.is_nan() {
                y
            } else if y.is_nan() {
                x
            } else {
                x.min(y)
            };
            let maximum = if x.is_nan() {
                y
            } else if y.is_nan() {
                x
            } else {
                x.max(y)
            };
            let (mantissa, exponent) = frexp(x);
            let mut sorted = [x, y, 1.0];
            sorted.sort_by(f32::total_cmp);
            let want = [
                (0, x + y),
                (1, x * y),
                (2, x / y),
                (3, x.mul_add(y, x)),
                (4, minimum),
                (5, maximum),
                (6, x.floor()),
                (7, x.round_ties_even()),
                (8, (-x).trunc()),
                (9, if x.is_nan() || y.is_nan() { o[9] } else { sorted[1] }),
                (10, (f64::from(x) * 2f64.powi((i % 40) as i32 - 20)) as f32),
                (12, mantissa),
                (13, exponent),
                (
                    15,
                    if x < y {
                        1.0
                    } else if x.is_nan() || y.is_nan() {
                        2.0
                    } else {
                        -x.abs()
                    },
                ),
            ];
            for (k, want) in want {
                // Which zero min and max of two zeros give is not said in C.
                let loose = matches!(k, 4 | 5) && x == 0.0 && y == 0.0;
                assert!(
                    same(f64::from(o[k]), f64::from(want)) || loose && o[k] == want,
                    "operation {k} of {x:e}, {y:e}: {:e}, not {want:e}",
                    o[k]
                );
            }
            if x.is_finite() {
                let fract = (x - x.floor()).min(f32::from_bits(0x3f7f_ffff));
                assert_eq!(o[11], fract, "fract of {x}");
                if x.abs() < 1e12 && y.abs() < 4e9 {
                    assert_eq!(o[14], (x * 0.001) as i32 as f32 + y.abs() as u32 as f32);
                }
            }
        }
    }
}

fn frexp(x: f32) -> (f32, f32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0.0);
    }
    let (mut m, mut e) = (f64::from(x), 0);
    while m.abs() >= 1.0 {
        m /= 2.0;
        e += 1;
    }
    while m.abs() < 0.5 {
        m *= 2.0;
        e -= 1;
    }
    (m as f32, e as f32)
}

#[test]
fn approximations_are_within_an_ulp() {
    let a: Vec<f32> = (1..=128).map(|i| i as f32 * 0.37).collect();
    for out in run::<f32>("approximations", Grid::linear(2, 64), &[a.bytes()], 128 * 8) {
        for (x, o) in a.iter().map(|&x| f64::from(x)).zip(out.chunks(8)) {
            let turn = std::f64::consts::TAU * x.fract();
            let want = [
                1.0 / x,
                1.0 / x.sqrt(),
                x.sqrt(),
                (x * 0.125).exp2(),
                x.log2(),
                turn.sin(),
                turn.cos(),
                x.sqrt(),
            ];
            for (k, (&o, want)) in o.iter().zip(want).enumerate() {
                let error = (f64::from(o) - want).abs();
                assert!(error <= want.abs() * 1.2e-7 + 1e-9, "operation {k} of {x}: {o}, not {want}");
            }
        }
    }
}

#[test]
fn floats_of_64_bits_agree() {
    let mut r = Random(4);
    let mut values = || -> Vec<f64> {
        (0..128)
            .map(|i| {
                if i < 20 { [1.0, -3.0, 1e-310, 1e308, 0.0][i % 5] } else { f64::from(r.f32()) * 1.000_000_1 }
            })
            .collect()
    };
    let (a, b) = (values(), values().into_iter().rev().collect::<Vec<_>>());
    for out in run::<f64>("f64_ops", Grid::linear(2, 64), &[a.bytes(), b.bytes()], 128 * 8) {
        for (i, o) in out.chunks(8).enumerate() {
            let (x, y) = (a[i], b[i]);
            let want = [
                x + y,
                x * y,
                x / y,
                x.mul_add(y, -x),
                x.min(y),
                x.max(-y),
                if y.abs() < 2e9 { x.floor() + f64::from(y as i32) } else { o[6] },
                f64::from(x as f32),
            ];
            for (k, want) in want.into_iter().enumerate() {
                assert!(
                    same(o[k], want) || o[k] == want,
                    "operation {k} of {x:e}, {y:e}: {:e}, not {want:e}",
                    o[k]
                );
            }
        }
    }
}

#[test]
fn halves_round_once() {
    let mut r = Random(5);
    let mut values = || -> Vec<u16> { (0..256).map(|_| (r.u32() & 0xffff) as u16).collect() };
    let (a, b) = (values(), values());
    let f = |h: u16| f64::from(tilewright_emulator::F16.decode(u32::from(h)));
    let h = |x: f64| tilewright_emulator::F16.encode(x, false) as u16;
    for out in run::<u16>("half_ops", Grid::linear(4, 64), &[a.bytes(), b.bytes()], 256 * 8) {
        for (i, o) in out.chunks(8).enumerate() {
            let (x, y) = (f(a[i]), f(b[i]));
            let product = |x: f64, y: f64| f(h(x * y));
            let want = [
                x + y,
                x * y,
                x / y,
                x.mul_add(y, x),
                product(x, y) + y,
                product(y, 1.5) + 1.5,
                f64::from(x as f32 * 3.0 + y as f32),
                if x.is_nan() { y } else { x.max(y) },
            ];
            for (k, want) in want.into_iter().enumerate() {
                let (got, want) = (f(o[k]), f(h(want)));
                assert!(
                    got == want || got.is_nan() && want.is_nan(),
                    "operation {k} of {x}, {y}: {got}, not {want}"
                );
            }
        }
    }
}

#[test]
fn bfloat16_rounds_to_nearest_even() {
    let mut r = Random(6);
    let a = floats(&mut r, 256);
    for arch in ARCHS {
        let code = code("arith", arch);
        let mut memory = Memory::new();
        let (pa, po, pb) =
            (memory.alloc_from("a", &a.bytes()), memory.alloc("out", 512, 0), memory.alloc("back", 1024, 0));
        let args = [pa.into(), po.into(), pb.into()];
        code.launch("bf16_ops", &memory, Grid::linear(4, 64), &args, &Options::default()).unwrap();
        let (out, back) = (read::<u16>(&memory, po, 256), read::<f32>(&memory, pb, 256));
        for i in 0..256 {
            let want = BF16.encode(f64::from(a[i]), false);
            let value = BF16.decode(want);
            if a[i].is_nan() {
                assert!(BF16.decode(u32::from(out[i])).is_nan() && back[i].is_nan());
            } else {
                assert_eq!(u32::from(out[i]), want, "{:e} on {arch}", a[i]);
                assert_eq!(back[i], value * 2.0);
            }
        }
    }
}

#[test]
fn narrow_loads_and_stores_extend_and_keep_neighbours() {
    let mut r = Random(7);
    let bytes: Vec<u8> = (0..64).map(|_| r.u32() as u8).collect();
    let words: Vec<i16> = (0..64).map(|_| r.u32() as i16).collect();
    for arch in ARCHS {
        let code = code("arith", arch);
        let mut memory = Memory::new();
        let args = [
            memory.alloc_from("bytes", &bytes),
            memory.alloc_from("words", &words.bytes()),
            memory.alloc("out", 512, 0),
            memory.alloc("copy", 64, 0),
            memory.alloc("twice", 128, 0),
        ];
        let launch: Vec<Arg> = args.iter().map(|&a| a.into()).collect();
        code.launch("narrow_memory", &memory, Grid::linear(1, 64), &launch, &Options::default()).unwrap();
        let out = read::<i32>(&memory, args[2], 128);
        for i in 0..64 {
            assert_eq!(out[i], i32::from(bytes[i] as i8) + i32::from(words[i]));
            assert_eq!(out[64 + i], i32::from(bytes[63 - i]));
        }
        assert_eq!(read::<u8>(&memory, args[3], 64), bytes.iter().map(|b| b ^ 0x5a).collect::<Vec<_>>());
        assert_eq!(
            read::<i16>(&memory, args[4], 64),
            words.iter().map(|w| w.wrapping_mul(2)).collect::<Vec<_>>()
        );
    }
}

#[test]
fn lanes_leave_a_loop_when_they_are_done() {
    let a: Vec<u32> = (1..=128).collect();
    let steps = |mut x: u64| {
        let mut n = 0;
        while x != 1 {
            x = if x % 2 == 1 { 3 * x + 1 } else { x / 2 };
            n += 1;
        }
        n
    };
    let want: Vec<u32> = a.iter().map(|&x| steps(u64::from(x))).collect();
    for out in run::<u32>("collatz", Grid::linear(2, 64), &[a.bytes()], 128) {
        assert_eq!(out, want);
    }
}

#[test]
fn lanes_exchange_values() {
    let mut r = Random(8);
    let a: Vec<u32> = (0..64).map(|_| r.u32() >> 8).collect();
    let ballot = (0..64).fold(0u64, |m, i| m | u64::from(a[i] & 1) << i);
    for out in run::<u32>("lanes", Grid::linear(1, 64), &[a.bytes()], 64 * 16) {
        for (i, o) in out.chunks(16).enumerate() {
            assert_eq!(o[0], a[63 - i], "ds_bpermute");
            // 13 is the inverse of 5 modulo 64.
            assert_eq!(o[1], a[i * 13 % 64], "ds_permute");
            assert_eq!(o[2], a[i ^ 1], "ds_swizzle with xor 1");
            assert_eq!(
                o[3],
                if i % 16 == 0 { 7 } else { a[i - 1] },
                "row_shr keeps the old value at the edge"
            );
            assert_eq!(
                o[4],
                if i / 16 % 2 == 1 { a[i / 16 * 16 - 1] } else { 7 },
                "row_bcast15 in rows 1 and 3"
            );
            assert_eq!(o[5], a[i ^ 3], "quad_perm reversed");
            assert_eq!(o[6], a[17].wrapping_add(a[0]), "readlane and readfirstlane");
            let below = if i < 16 { i } else { 16 } + i.saturating_sub(48);
            assert_eq!(o[7], (i + below) as u32, "mbcnt");
            assert_eq!(u64::from(o[8]) | u64::from(o[9]) << 32, ballot, "ballot");
            assert_eq!(o[11], if i % 2 == 1 { a[1] } else { 0 }, "readfirstlane among active lanes");
            assert_eq!(o[12], a[i / 16 * 16 + 3], "row_newbcast");
        }
        assert_eq!(out[63 * 16 + 10], a.iter().fold(0u32, |s, &x| s.wrapping_add(x)), "DPP sum");
    }
}

#[test]
fn scratch_belongs_to_a_lane() {
    let a: Vec<u32> = (0..384).map(|i| i * 77).collect();
    let want: Vec<u32> = (0..384u32)
        .map(|i| {
            let mut table = [0u32; 24];
            for k in 0..24 {
                table[((k * 7 + i) % 24) as usize] = a[i as usize] + k;
            }
            (0..24).fold(0u32, |sum, k| {
                sum.wrapping_mul(3).wrapping_add(table[((a[i as usize] + k) % 24) as usize])
            })
        })
        .collect();
    for out in run::<u32>("scratch", Grid::linear(3, 128), &[a.bytes()], 384) {
        assert_eq!(out, want);
    }
    assert!(code("arith", "gfx942").kernel("scratch").unwrap().descriptor.private_segment > 0);
}

#[test]
fn atomics_lose_no_update_between_parallel_workgroups() {
    let mut r = Random(9);
    let a: Vec<u32> = (0..2048).map(|_| r.u32()).collect();
    for arch in ARCHS {
        let code = code("arith", arch);
        let mut memory = Memory::new();
        let (counters, sum, wide) =
            (memory.alloc("counters", 68, 0), memory.alloc("sum", 4, 0), memory.alloc("wide", 8, 0));
        let pa = memory.alloc_from("a", &a.bytes());
        let args = [counters.into(), sum.into(), wide.into(), pa.into()];
        code.launch("atomics", &memory, Grid::linear(8, 256), &args, &Options::default()).unwrap();
        let got = read::<u32>(&memory, counters, 17);
        for bin in 0..16 {
            assert_eq!(got[bin as usize], a.iter().filter(|&&x| x & 15 == bin).count() as u32);
        }
        assert_eq!(got[16], *a.iter().max().unwrap());
        // Below 2^24, so every order of f32 sums is exact.
        assert_eq!(read::<f32>(&memory, sum, 1)[0], a.iter().map(|x| (x & 255) as f32).sum::<f32>());
        let total = a.iter().fold(0u64, |s, &x| s.wrapping_add(u64::from(x) << 20));
        assert_eq!(read::<u64>(&memory, wide, 1)[0], total);
    }
}

#[test]
fn barriers_hold_in_every_wave_order() {
    let a: Vec<f32> = (0..512).map(|i| (i % 37) as f32).collect();
    for arch in ARCHS {
        let code = code("arith", arch);
        for (order, seed) in
            [(Order::Forward, 0), (Order::Reverse, 0), (Order::Random, 1), (Order::Random, 2)]
        {
            let mut memory = Memory::new();
            let (pa, po) = (memory.alloc_from("a", &a.bytes()), memory.alloc("out", 8, 0xff));
            let options = Options { order, seed, races: true, traffic: true, ..Options::default() };
            let report = code
                .launch("reduce", &memory, Grid::linear(2, 256), &[pa.into(), po.into()], &options)
                .unwrap();
            let want = [a[..256].iter().sum::<f32>(), a[256..].iter().sum()];
            assert_eq!(read::<f32>(&memory, po, 2), want);
            assert_eq!(report.races, [], "{order:?}");
            assert_eq!((report.traffic.load_bytes, report.traffic.store_bytes), (2048, 8));
            assert_eq!((report.traffic.lines, report.traffic.lines_ideal), (18, 18));
        }
    }
}
