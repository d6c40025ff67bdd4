//! A declaration as a table for people: each GEMM, and what its weight takes in each format.

use tilewright_kernels::format::MX_BLOCK;
use tilewright_kernels::{Format, Scaling};

use super::{Declaration, Gemm, MPoint};

/// Bytes of one weight (N x K) in a format, scales included: one byte per MX block, one f32 per output channel for FP8.
pub fn weight_bytes(n: u32, k: u32, format: Format) -> u128 {
    let (n, k) = (u128::from(n), u128::from(k));
    let codes = n * (k * format.bits() as u128).div_ceil(8);
    let scales = match Scaling::usual(format) {
        Scaling::None => 0,
        Scaling::Tensor => 4,
        Scaling::Channel => 4 * n,
        Scaling::Block32 => n * k.div_ceil(MX_BLOCK as u128),
    };
    codes + scales
}

/// The table, with a line for the model's totals. Bytes are those of one weight, in the totals times `count`; a format
/// that a GEMM does not allow has none.
pub fn listing(declaration: &Declaration) -> String {
    let Declaration { file, model, tensor_parallel, gemms, hash, .. } = declaration;
    let used: Vec<Format> = Format::ALL
        .iter()
        .copied()
        .filter(|format| gemms.iter().any(|gemm| gemm.formats.contains(format)))
        .collect();
    let mut header: Vec<String> = ["gemm", "n", "k", "count", "m", "a", "out"].map(str::to_owned).into();
    header.extend(used.iter().map(|format| format.name().to_owned()));
    let mut rows = vec![header];
    let mut totals = vec![None; used.len()];
    for gemm in gemms {
        let Gemm { name, n, k, count, m, activation, out, bias, formats, .. } = gemm;
        let out = if *bias { format!("{out}+bias") } else { out.to_string() };
        let mut row = vec![name.clone(), n.to_string(), k.to_string(), count.to_string(), points(m)];
        row.extend([activation.to_string(), out]);
        for (format, total) in used.iter().zip(&mut totals) {
            let bytes = formats.contains(format).then(|| weight_bytes(*n, *k, *format));
            if let Some(bytes) = bytes {
                *total = Some(total.unwrap_or(0) + bytes * u128::from(*count));
            }
            row.push(bytes.map_or("-".into(), size));
        }
        rows.push(row);
    }
    let calls: u128 = gemms.iter().map(|gemm| u128::from(gemm.count)).sum();
    let mut last = vec!["all".into(), String::new(), String::new(), calls.to_string()];
    last.resize(rows[0].len() - used.len(), String::new());
    last.extend(totals.into_iter().map(|total| total.map_or("-".into(), size)));
    rows.push(last);
    let devices = if *tensor_parallel == 1 { "" } else { ", each device's share" };
    let head = format!(
        "{model} ({}): tensor_parallel {tensor_parallel}{devices}, hash {hash:016x}\n",
        file.display()
    );
    head + &aligned(&rows)
}

/// The values of M, shortened where there are many.
fn points(points: &[MPoint]) -> String {
    let shown = |points: &[MPoint]| points.iter().map(|p| p.m.to_string()).collect::<Vec<_>>().join(" ");
    match points {
        [first, second, third, .., last] if points.len() > 5 => {
            format!("{} {} {} .. {} ({})", first.m, second.m, third.m, last.m, points.len())
        }
        few => shown(few),
    }
}

/// Bytes with a binary unit.
fn size(bytes: u128) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

/// Columns two spaces apart: the first and the M values to the left, the rest to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 | 4..=6 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}
