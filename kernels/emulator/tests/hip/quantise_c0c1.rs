//! Activations rotated, quantised and packed into AITER's layout by the kernel, bit for bit what the host makes of them.

use crate::harness::{Random, Rig};
use tilewright_emulator::{Grid, Memory, Options, Order};
use tilewright_kernels::format::e8m0::ScaleRule;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::hip::launch::Arg;
use tilewright_kernels::hip::{c0c1, gemm};
use tilewright_kernels::{Config, Format, Problem, Scaling, hip};

const E2M3: Format = Format::MxFp6E2m3;

/// Runs the packing step of a plan in layout `c0c1`; gives codes and scales.
fn pack(rig: &Rig, m: u32, k: u32, values: &[u16]) -> [Vec<u8>; 2] {
    let config = Config::from_values(&gemm::MXFP6, &[0, 1, 1, 1, 16, 0, 0, 0, 2, 0, 128, 64, 64, 2, 2]);
    let problem = Problem { a: E2M3, ..Problem::new(m, 64, k, E2M3) };
    let plan = hip::plan(&config, &problem, &rig.device).unwrap();
    let step = &plan.steps[0];
    assert!(step.packs_activation);
    let mut memory = Memory::new();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let from = memory.alloc_from("activation", &bytes);
    let scratch: Vec<u64> =
        plan.scratch.iter().map(|part| memory.alloc("packed", part.bytes, 0xa5)).collect();
    let args: Vec<_> = step
        .args
        .iter()
        .map(|arg| match *arg {
            Arg::Activation => from.into(),
            Arg::Scratch(part) => scratch[part].into(),
            Arg::U32(value) => value.into(),
            _ => panic!("{arg:?}"),
        })
        .collect();
    let grid = Grid { grid: [step.grid[0], step.grid[1], 1], block: [step.threads, 1, 1], dynamic_lds: 0 };
    let options = Options { order: Order::Random, ..Options::default() };
    rig.compile(&step.source).code.launch(step.source.entry, &memory, grid, &args, &options).unwrap();
    [0, 1].map(|part| memory.read(scratch[part], plan.scratch[part].bytes).unwrap())
}

#[test]
fn activations_are_rotated_and_packed_bit_for_bit_as_the_host_does_it() {
    let Some(rig) = Rig::new("gfx950") else { return };
    let mut random = Random(3);
    for (m, k) in [(1, 32), (17, 288), (258, 160), (5, 2080)] {
        let mut values: Vec<u16> = (0..m * k)
            .map(|i| {
                let exponent = (110 + 3 * (i / 32 % 7) + random.next() as usize % 5) as u16;
                (random.next() as u16 & 0x807f) | exponent << 7
            })
            .collect();
        // A block of zeros of both signs, one of the smallest numbers, one with an infinity, one with a NaN.
        values[..32].fill(0x8000);
        if m > 4 {
            values[k..k + 32].fill(0x0001);
            values[2 * k + 3] = 0x7f80;
            values[3 * k + 5] = 0xffc1;
            values[4 * k..4 * k + 32].fill(0x7f7f);
        }
        let decoded: Vec<f32> = values.iter().map(|v| Format::Bf16.decode(*v)).collect();
        let options = QuantizeOptions { rule: ScaleRule::Aiter, hadamard: true };
        let expected = Quantized::quantize(&decoded, m, k, E2M3, Scaling::Block32, &options).unwrap();
        let [codes, scales] = pack(&rig, m as u32, k as u32, &values);
        // What no row below the next multiple of 16 owns stays as it was.
        let expected = c0c1::pack(&expected).unwrap();
        let stored = k.div_ceil(128) + 2;
        for row in 0..m.next_multiple_of(16) {
            for block in 0..4 * k.div_ceil(128) {
                let step = row / 256 * stored + block / 4;
                let lane = row % 256 / 16 * 64 + block % 4 * 16 + row % 16;
                let at = format!("{m} x {k}, row {row}, block {block}");
                for i in
                    [step * 24576 + lane * 16, step * 24576 + lane * 16 + 8, step * 24576 + 16384 + lane * 8]
                {
                    assert_eq!(codes[i..i + 8], expected.codes[i..i + 8], "{at}");
                }
                let i = step * 1024 + row % 256 / 128 * 512 + block % 4 * 128 + row % 16 * 8 + row % 128 / 16;
                assert_eq!(scales[i], expected.scales[i], "scale of {at}");
            }
        }
    }
}
