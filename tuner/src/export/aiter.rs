//! AITER's tuned tables, in the canonical order of each family's columns.

use tilewright_kernels::Format;

use super::Key;
use crate::import::aiter::Family;
use crate::import::{Element, Prior};

/// The file and key of a row.
pub(super) fn place(prior: &Prior) -> Result<(String, Key), String> {
    let Some(family) = Family::from_name(&prior.family) else {
        return Err("the file it is from does not say AITER's family".into());
    };
    if matches!(family, Family::BatchedA8w8 | Family::BatchedBf16 | Family::BatchedMxscale) {
        return Err("a batched family: its rows are not imported".into());
    }
    let units = prior.units.filter(|_| !prior.device.is_empty());
    let Some(units) = units else {
        return Err("the row does not say its gfx and cu_num, which AITER's key has".into());
    };
    let Prior { m, n, k, device, activation, out, bias, scaling, preshuffled, .. } = prior;
    let rest = format!("{device},{activation},{out},{bias},{scaling},{preshuffled}");
    Ok((prior.family.clone(), (vec![units, *n, *k, *m], rest)))
}

/// A family's file.
pub(super) fn write(family: &str, rows: &[&Prior]) -> (String, String) {
    let family = Family::from_name(family).expect("rows without one are left out");
    let columns = columns(family);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&columns).expect("writing to memory");
    for row in rows {
        writer.write_record(columns.iter().map(|column| field(column, row))).expect("writing to memory");
    }
    let text =
        String::from_utf8(writer.into_inner().expect("writing to memory")).expect("all fields are UTF-8");
    (format!("{}_tuned_gemm.csv", stem(family)), text)
}

/// How AITER's own file of a family begins.
fn stem(family: Family) -> &'static str {
    match family {
        Family::A4w4 => "a4w4_blockscale",
        Family::A6w6 => "a6w6_blockscale",
        Family::A6w4 => "a6w4_asm",
        Family::A4w6 => "a4w6_asm",
        other => other.name(),
    }
}

fn columns(family: Family) -> Vec<&'static str> {
    let key: &[&str] = match family {
        Family::Bf16 => &["bias", "dtype", "outdtype", "scaleAB", "bpreshuffle", "libtype", "solidx"],
        Family::A8w8 => &["q_dtype_w", "kernelId"],
        Family::A8w8Bpreshuffle => &["q_dtype_w", "libtype", "kernelId"],
        Family::A8w8Blockscale | Family::A8w8BlockscaleBpreshuffle => &["libtype", "kernelId"],
        _ => &["kernelId"],
    };
    let found: &[&str] = if family == Family::Bf16 {
        &["splitK", "us", "kernelName", "err_ratio", "tflops", "bw"]
    } else {
        &["splitK", "us", "kernelName", "tflops", "bw", "errRatio"]
    };
    [&["gfx", "cu_num", "M", "N", "K"], key, found].concat()
}

fn field(column: &str, row: &Prior) -> String {
    let us = row.time_ns.unwrap_or(f64::NAN) / 1e3;
    let [m, n, k] = [row.m, row.n, row.k].map(f64::from);
    match column {
        "gfx" => row.device.clone(),
        "cu_num" => row.units.unwrap_or(0).to_string(),
        "M" => row.m.to_string(),
        "N" => row.n.to_string(),
        "K" => row.k.to_string(),
        "bias" => truth(row.bias),
        "dtype" | "q_dtype_w" => torch(&row.format),
        "outdtype" => torch(&row.out),
        "scaleAB" => truth(row.scaling == "tensor"),
        "bpreshuffle" => truth(row.preshuffled),
        "libtype" => row.library.clone(),
        "solidx" | "kernelId" => row.index.unwrap_or(0).to_string(),
        "splitK" => row.split_k_written.unwrap_or(0).to_string(),
        "us" => us.to_string(),
        "kernelName" => row.kernel.clone(),
        "err_ratio" | "errRatio" => row.error_ratio.unwrap_or(0.0).to_string(),
        "tflops" => format!("{:.2}", 2.0 * m * n * k / us / 1e6),
        // What is left: `bw`, in GB/s.
        _ => {
            let bits = |name: &str| element(name).bits();
            let bytes =
                (m * k * bits(&row.activation) + n * k * bits(&row.format) + m * n * bits(&row.out)) / 8.0;
            format!("{:.2}", bytes / us / 1e3)
        }
    }
}

/// As pandas writes it.
fn truth(value: bool) -> String {
    if value { "True" } else { "False" }.to_owned()
}

fn element(name: &str) -> Element {
    Format::from_name(name).map_or_else(|| Element::parse(name), Element::Format)
}

/// torch's name of an element type.
fn torch(name: &str) -> String {
    match name {
        "bf16" => "torch.bfloat16".into(),
        "f32" => "torch.float32".into(),
        "fp8_e4m3" => "torch.float8_e4m3fn".into(),
        "fp8_e4m3fnuz" => "torch.float8_e4m3fnuz".into(),
        "fp8_e5m2" => "torch.float8_e5m2".into(),
        other => format!("torch.{other}"),
    }
}
