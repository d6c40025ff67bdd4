//! AITER's Triton JSON: per architecture and operation, a config for each range of M: `M_LEQ_x` up to x (from the bound
//! before it), `M_GEQ_x` from x, `any` for the rest. Only files specialised for a shape have N and K in their names
//! (`gfx950-GEMM-A8W8_BLOCKSCALE-N=512-K=7168.json`). No times are stored.

use std::path::Path;

use tilewright_kernels::Format;

use super::Source;
use super::foreign::{Element, Entry, Foreign, NONE, Operation, Scales};
use super::vllm::{canonical, line_of_key, object};
use crate::diag::BadInput;

/// Reads a file.
///
/// # Errors
/// If it is no JSON object, or its name does not say the operation.
pub(super) fn parse(path: &Path, text: &str) -> Result<Foreign, BadInput> {
    let mut foreign = Foreign::new(path, Source::Triton);
    let configs = object(path, text)?;
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
    let parts: Vec<&str> = name.split('-').collect();
    let size = |key: &str| {
        let value = parts.iter().find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
        value.and_then(|value| value.parse::<u32>().ok()).filter(|value| *value > 0)
    };
    let [arch, kind, ..] = parts.as_slice() else {
        let help = "the file's name says the operation: gfx950-GEMM-A8W8-N=…-K=….json";
        return Err(BadInput::one(path, "its name does not say the architecture and operation", help));
    };
    let types = parts.get(2).copied().unwrap_or("");
    let (operation, mut obstacle) = match operation(arch, types) {
        Some(operation) => (operation, None),
        None => (operation_unknown(arch, types), Some("operands of a kind this does not know")),
    };
    if *kind != "GEMM" {
        obstacle = Some("a batched or fused GEMM");
    } else if size("N").is_none() || size("K").is_none() {
        obstacle = Some("its name does not say N and K: defaults for every shape");
    }
    let operation = foreign.operation(operation);
    let library = foreign.intern("triton");
    for (key, config) in &configs {
        // Some files hold a remark.
        if key.starts_with('_') {
            continue;
        }
        let line = line_of_key(text, key);
        let Some((kernel, split_k)) = canonical(config) else {
            foreign.fault(line, key, "is no object of Triton parameters", "restore the file");
            continue;
        };
        let bound =
            ["M_LEQ_", "M_GEQ_"].iter().find_map(|prefix| key.strip_prefix(prefix)?.parse::<u32>().ok());
        let mut reason = obstacle;
        let m = match bound.filter(|bound| *bound > 0) {
            Some(bound) => bound,
            // Also the old names of ranges, small and large.
            None => {
                reason = reason.or(Some("a range without a bound: no M to declare"));
                0
            }
        };
        let kernel = foreign.intern(&kernel);
        let obstacle = reason.map_or(NONE, |reason| foreign.intern(reason));
        foreign.push(Entry {
            line,
            operation,
            batch: size("B").unwrap_or(1),
            m,
            n: size("N").unwrap_or(0),
            k: size("K").unwrap_or(0),
            library,
            kernel,
            split_k,
            time_us: None,
            error: None,
            tflops: None,
            index: None,
            origin: NONE,
            obstacle,
        });
    }
    foreign.entries.sort_by_key(|entry| (entry.m, entry.line));
    Ok(foreign)
}

fn operation(arch: &str, types: &str) -> Option<Operation> {
    let (fp8, bf16) = (Element::fp8_of(arch), Element::Format(Format::Bf16));
    let fp4 = Element::Format(Format::MxFp4);
    let preshuffled = types.contains("PRESHUFFLED");
    let scales = if types.contains("BLOCKSCALE") { Scales::Block128 } else { Scales::Usual };
    let base = types.split('_').next().unwrap_or("");
    let (a, b, usual) = match base {
        "A8W8" | "AFP8WFP8" => (fp8.clone(), fp8, Scales::Channel),
        "A16W16" => (bf16.clone(), bf16.clone(), Scales::Usual),
        "A16W8" => (bf16.clone(), fp8, Scales::Channel),
        "AFP4WFP4" => (fp4.clone(), fp4, Scales::Usual),
        "A16WFP4" => (bf16.clone(), fp4, Scales::Usual),
        "A8WFP4" => (fp8, fp4, Scales::Usual),
        _ => return None,
    };
    let scales = if scales == Scales::Block128 { scales } else { usual };
    Some(Operation {
        arch: arch.to_owned(),
        units: None,
        a,
        b,
        out: bf16,
        scales,
        bias: false,
        preshuffled,
        variant: String::new(),
    })
}

fn operation_unknown(arch: &str, types: &str) -> Operation {
    let other = Element::Other(types.to_ascii_lowercase());
    Operation {
        arch: arch.to_owned(),
        units: None,
        a: other.clone(),
        b: other,
        out: Element::Format(Format::Bf16),
        scales: Scales::Usual,
        bias: false,
        preshuffled: false,
        variant: String::new(),
    }
}
