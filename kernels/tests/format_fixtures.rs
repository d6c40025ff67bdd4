//! The codecs and quantisers against fixtures made by ml_dtypes and numpy (`ci/make_format_fixtures.py`).

use std::fmt::Write as _;

use tilewright_kernels::format::e8m0::{self, ScaleRule};
use tilewright_kernels::format::quantize::{QuantizeOptions, Quantized};
use tilewright_kernels::{Format, Scaling};

/// Low halves of the f32 inputs of `encode.csv`, as in the script.
const LOW_HALVES: [u32; 6] = [0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff];

/// The rows of a fixture below its comment and header, split at commas.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().skip(2).map(|line| line.split(',').collect())
}

fn hex(text: &str) -> u32 {
    u32::from_str_radix(text, 16).expect("a hexadecimal number")
}

fn format(name: &str) -> Format {
    Format::from_name(name).expect("a format")
}

/// The bits of a value, with every NaN as the quiet NaN of its sign.
fn canonical(value: f32) -> u32 {
    if value.is_nan() { value.to_bits() & 0x8000_0000 | 0x7fc0_0000 } else { value.to_bits() }
}

#[test]
fn every_code_of_every_format_has_its_value() {
    let mut checked = 0;
    for row in rows(include_str!("fixtures/decode.csv")) {
        let format = format(row[0]);
        if row[1] == "crc32" {
            let bytes: Vec<u8> =
                (0..=u16::MAX).flat_map(|code| canonical(format.decode(code)).to_le_bytes()).collect();
            assert_eq!(crc32fast::hash(&bytes), hex(row[2]), "{format}");
            checked += 1 << 16;
            continue;
        }
        let code = hex(row[1]) as u16;
        assert_eq!(canonical(format.decode(code)), hex(row[2]), "{format} {code:#04x}");
        let table = format.table().expect("formats of at most 8 bits have a table");
        for high in (0..256).step_by(1 << format.bits()) {
            assert_eq!(canonical(table[high + code as usize]), hex(row[2]), "{format} {code:#04x}");
        }
        checked += 1;
    }
    let codes: usize = Format::ALL.iter().map(|format| 1 << format.bits()).sum();
    assert_eq!(checked, codes, "the fixture holds every code");
}

#[test]
fn every_bf16_value_midpoint_and_neighbour_is_encoded_to_the_nearest_code() {
    let inputs = || (0..=0xffff_u32).flat_map(|high| LOW_HALVES.map(|low| high << 16 | low));
    for &format in Format::ALL {
        let runs: Vec<_> =
            rows(include_str!("fixtures/encode.csv")).filter(|row| row[0] == format.name()).collect();
        if runs[0][1] == "crc32" {
            let bytes: Vec<u8> =
                inputs().flat_map(|bits| format.encode(f32::from_bits(bits)).to_le_bytes()).collect();
            assert_eq!(crc32fast::hash(&bytes), hex(runs[0][2]), "{format}");
            continue;
        }
        let mut runs = runs.iter().map(|run| (hex(run[1]), hex(run[2]) as u16)).peekable();
        let mut expected = None;
        for bits in inputs() {
            if let Some((_, code)) = runs.next_if(|(first, _)| *first == bits) {
                expected = Some(code);
            }
            let value = f32::from_bits(bits);
            assert_eq!(Some(format.encode(value)), expected, "{format} {value:e} ({bits:#010x})");
        }
        assert!(runs.next().is_none(), "{format}: every run was used");
    }
}

#[test]
fn every_e8m0_code_has_its_value() {
    let mut checked = 0;
    for row in rows(include_str!("fixtures/e8m0.csv")) {
        let code = hex(row[0]) as u8;
        assert_eq!(canonical(e8m0::decode(code)), hex(row[1]), "{code}");
        assert_eq!(canonical(e8m0::decode_f64(code) as f32), hex(row[1]), "{code}");
        if code != e8m0::NAN {
            assert_eq!(e8m0::decode(code) * e8m0::reciprocal(code), 1.0, "{code}");
        }
        checked += 1;
    }
    assert_eq!(checked, 256);
}

/// The next `count` lines, joined.
fn joined(lines: &mut impl Iterator<Item = &'static str>, count: usize) -> String {
    lines.take(count).collect()
}

/// Bytes as the fixture writes them.
fn text(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes.into_iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

#[test]
fn whole_matrices_are_quantised_as_by_numpy() {
    let mut lines = include_str!("fixtures/quantize.txt").lines().skip(1);
    let (mut values, mut height, mut k, mut cases) = (Vec::new(), 0, 0, 0);
    while let Some(line) = lines.next() {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "input" {
            (height, k) = (words[1].parse().expect("rows"), words[2].parse().expect("K"));
            let digits = joined(&mut lines, height);
            values = (0..height * k).map(|i| f32::from_bits(hex(&digits[8 * i..][..8]))).collect();
            continue;
        }
        let (format, scaling) = (format(words[1]), Scaling::from_name(words[2]).expect("a granularity"));
        let rule = if words[3] == "aiter" { ScaleRule::Aiter } else { ScaleRule::Ocp };
        let options = QuantizeOptions { rule, hadamard: words[4] == "hadamard" };
        let quantized = Quantized::quantize(&values, height, k, format, scaling, &options).expect("fits");
        let expected = joined(&mut lines, 1);
        let scales = match scaling {
            Scaling::None => "-".into(),
            Scaling::Block32 => text(quantized.block_scales.iter().copied()),
            _ => text(quantized.scales.iter().flat_map(|scale| scale.to_bits().to_be_bytes())),
        };
        assert_eq!(scales, expected, "{line}: scales");
        for row in 0..height {
            let expected = joined(&mut lines, 1);
            assert_eq!(text(quantized.row_codes(row).iter().copied()), expected, "{line}: row {row}");
        }
        cases += 1;
    }
    assert_eq!(cases, 26, "both inputs in every format, granularity and rule");
}
