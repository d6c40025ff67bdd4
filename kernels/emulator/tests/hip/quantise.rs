//! Activations quantised and packed by the kernel, bit for bit what the host makes of them.

use crate::harness::{Random, Rig};
use tilewright_emulator::{Grid, Memory, Options, Order};
use tilewright_kernels::format::e8m0::ScaleRule;
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::hip::launch::{Arg, Scratch, Step};
use tilewright_kernels::hip::{mfma16, quantise};
use tilewright_kernels::reference::snap_activation;
use tilewright_kernels::{Format, Scaling};

/// bf16 values of every magnitude: zeros of both signs, subnormals, blocks of one exponent, whole rows of zeros.
fn activation(m: usize, k: usize, random: &mut Random) -> Vec<u16> {
    let mut values = Vec::with_capacity(m * k);
    for row in 0..m {
        let mut base = 0;
        for column in 0..k {
            if column % 32 == 0 {
                base = (random.next() % 250) as u16;
            }
            let exponent = base + (random.next() % 5) as u16;
            let value = (random.next() as u16 & 0x807f) | exponent << 7;
            values.push(match (row % 5, random.next() % 8) {
                (2, _) => 0x8000,
                (3, 0) => 0,
                _ => value,
            });
        }
    }
    values
}

/// Runs a step on fresh buffers; gives codes and scales.
fn pack(rig: &Rig, step: &Step, parts: &[Scratch], values: &[u16]) -> [Vec<u8>; 2] {
    let mut memory = Memory::new();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let from = memory.alloc_from("activation", &bytes);
    let scratch: Vec<u64> = parts.iter().map(|part| memory.alloc("packed", part.bytes, 0xa5)).collect();
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
    let options = Options { order: Order::Random, races: true, ..Options::default() };
    let report = rig.compile(&step.source).code.launch("quantise", &memory, grid, &args, &options);
    assert_eq!(report.unwrap().races, []);
    let mut read = parts.iter().zip(&scratch).map(|(part, at)| memory.read(*at, part.bytes).unwrap());
    [read.next().unwrap_or_default(), read.next().unwrap_or_default()]
}

/// Compares what belongs to rows below the next multiple of 16.
fn agree(rig: &Rig, format: Format, m: usize, k: usize, values: &[u16]) {
    let (step, parts) =
        (quantise::step(format, m as u32, k as u32, 0), quantise::scratch(format, m as u32, k as u32));
    let [codes, scales] = pack(rig, &step, &parts, values);
    let decoded: Vec<f32> = values.iter().map(|v| Format::Bf16.decode(*v)).collect();
    let expected = mfma16::pack(&snap_activation(&decoded, m, k, format)).unwrap();
    let panels = m.div_ceil(16);
    let at = format!("{format} on {}, {m} x {k}", rig.arch);
    for row in 0..m.next_multiple_of(64) {
        let written = row / 16 < panels;
        for step in 0..mfma16::steps(k) {
            let base = (row / 64 * mfma16::steps(k) + step) * mfma16::step_bytes(format);
            for byte in 0..format.row_bytes(128) {
                let i = base + mfma16::place(format, row % 64, byte);
                let wanted = if written { expected.codes[i] } else { 0xa5 };
                assert_eq!(codes[i], wanted, "{at}: row {row}, step {step}, byte {byte}");
            }
            for block in 0..4 * usize::from(format.is_mx()) {
                let step = row / 64 * mfma16::steps(k) + step;
                let i = step * 256 + 4 * (16 * block + row % 16) + row % 64 / 16;
                let wanted = if written { expected.scales[i] } else { 0xa5 };
                assert_eq!(scales[i], wanted, "{at}: scale of row {row}, step {step}, block {block}");
            }
        }
        if !format.is_mx() && format != Format::Bf16 && written {
            let i = 4 * row..4 * row + 4;
            assert_eq!(scales[i.clone()], expected.scales[i], "{at}: scale of row {row}");
        }
    }
}

fn formats(arch: &str) -> &'static [Format] {
    match arch {
        "gfx942" => &[Format::Bf16, Format::Fp8E4m3Fnuz],
        _ => {
            use Format::*;
            &[Bf16, Fp8E4m3, MxFp8, MxFp6E2m3, MxFp6E3m2, MxFp4]
        }
    }
}

#[test]
fn activations_are_packed_bit_for_bit_as_the_host_packs_them() {
    for rig in ["gfx942", "gfx950"].into_iter().filter_map(Rig::new) {
        for &format in formats(rig.arch) {
            let mut random = Random(7);
            for (m, k) in [(1, 32), (17, 288), (66, 160), (5, 2080)] {
                agree(&rig, format, m, k, &activation(m, k, &mut random));
            }
            if format.is_mx() {
                continue;
            }
            // Rows that begin anywhere.
            for (m, k) in [(3, 1), (4, 133), (2, 250)] {
                agree(&rig, format, m, k, &activation(m, k, &mut random));
            }
        }
    }
}

#[test]
fn every_bf16_value_quantises_as_on_the_host() {
    for rig in ["gfx942", "gfx950"].into_iter().filter_map(Rig::new) {
        for &format in formats(rig.arch) {
            // Each value in a block (MX) or row (FP8) with one that sets the scale so that it is near the format's range.
            let (mut values, k) = (Vec::new(), 32 * 64);
            for bits in (0..=u16::MAX).filter(|bits| bits & 0x7f80 != 0x7f80) {
                if values.len() % 32 == 0 {
                    values.push((bits & 0x7f80).saturating_add(0x0080).min(0x7f00));
                }
                values.push(bits);
            }
            values.resize(values.len().next_multiple_of(k), 0);
            agree(&rig, format, values.len() / k, k, &values);
        }
    }
}

#[test]
fn what_is_not_finite_stays_visible() {
    for rig in ["gfx942", "gfx950"].into_iter().filter_map(Rig::new) {
        for &format in formats(rig.arch) {
            let (m, k) = (6, 96);
            let mut values = activation(m, k, &mut Random(9));
            for (row, strange) in [0x7f80, 0xff80, 0x7fc0, 0xffc0, 0].into_iter().enumerate() {
                values[row * k + 40 + row] = strange;
            }
            // A row of infinities alone.
            values[5 * k..].fill(0xff80);
            agree(&rig, format, m, k, &values);
        }
    }
}

#[test]
fn rotated_activations_are_packed_as_aiter_does() {
    let Some(rig) = Rig::new("gfx950") else { return };
    let mut random = Random(13);
    for (m, k) in [(1, 32), (35, 288), (259, 160)] {
        let mut values = activation(m, k, &mut random);
        values[k - 1] = 0x7f80;
        let (step, parts) =
            (quantise::c0c1_step(m as u32, k as u32, 0), quantise::c0c1_scratch(m as u32, k as u32));
        let [codes, scales] = pack(&rig, &step, &parts, &values);
        let decoded: Vec<f32> = values.iter().map(|v| Format::Bf16.decode(*v)).collect();
        let options = QuantizeOptions { rule: ScaleRule::Aiter, hadamard: true };
        let format = Format::MxFp6E2m3;
        let expected = Quantized::quantize(&decoded, m, k, format, Scaling::Block32, &options).unwrap();
        for row in 0..m {
            for block in 0..k / 32 {
                // Panels of 256 rows with two steps to spare; in a step 16 bytes of each lane, then 8 of each.
                let tile = row / 256 * (k.div_ceil(128) + 2) + block / 4;
                let (rows16, lane) = (row % 256 / 16, 16 * (block % 4) + row % 16);
                let at =
                    [16 * (64 * rows16 + lane), 16384 + 8 * (64 * rows16 + lane)].map(|at| at + 24576 * tile);
                let stream = [&codes[at[0]..at[0] + 16], &codes[at[1]..at[1] + 8]].concat();
                assert_eq!(stream, expected.row_codes(row)[24 * block..24 * block + 24], "{row} {block}");
                let (su, sub) = (row % 256 / 128, row % 128 / 16);
                let at = 1024 * tile + 512 * su + 128 * (block % 4) + 8 * (row % 16) + sub;
                assert_eq!(scales[at], expected.block_scales[row * (k / 32) + block], "{row} {block}");
            }
        }
    }
}
