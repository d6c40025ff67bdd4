//! PyTorch TunableOp: result files and lists of untuned problems.
//!
//! `Validator,NAME,VALUE` lines, which are the versions that the rest holds for; then
//! `Operation_Types_Transposes,parameters,solution,milliseconds`, without the last two fields in an untuned list.
//! Parameters are `tn_m_n_k[_B_batch][_ld_a_b_c][_rw_0|1][_bias_type]`.

use std::path::Path;

use super::Source;
use super::blas::{Call, Row, lines};
use super::foreign::{Element, Foreign, Operation, Scales};
use crate::diag::BadInput;

/// Reads a file.
///
/// # Errors
/// None of its lines is TunableOp's.
pub(super) fn parse(path: &Path, text: &str) -> Result<Foreign, BadInput> {
    let mut foreign = Foreign::new(path, Source::TunableOp);
    let mut arch = String::new();
    for (number, _, fields) in lines(text) {
        match fields.as_slice() {
            ["Validator", name, value @ ..] => {
                if *name == "GCN_ARCH_NAME" {
                    arch = value.first().and_then(|v| v.split(':').next()).unwrap_or("").to_owned();
                }
                foreign.software.push(format!("{name}={}", value.join(",")));
            }
            [signature, parameters, rest @ ..] if signature.contains("TunableOp_") => {
                match row(signature, parameters, &arch) {
                    Ok(read) => {
                        push(&mut foreign, number, read, &format!("{signature},{parameters}"), rest);
                    }
                    Err((field, message)) => {
                        foreign.fault(number, field, message, "record the operation again")
                    }
                }
            }
            _ => foreign.fault(number, "", "is neither a validator nor an operation", "remove the line"),
        }
    }
    if foreign.entries.is_empty() && foreign.software.is_empty() {
        let help = "such a file has lines like GemmTunableOp_BFloat16_TN,tn_4096_16_4096,Gemm_Rocblas_1,0.01";
        return Err(BadInput::one(path, "is no file of TunableOp", help));
    }
    foreign.names_arch = !arch.is_empty() || foreign.entries.iter().all(|entry| entry.time_us.is_none());
    Ok(foreign)
}

fn push(foreign: &mut Foreign, line: u32, (operation, batch, call): Read, origin: &str, rest: &[&str]) {
    let solution = rest.first().copied().unwrap_or("");
    let time = rest.get(1).copied().unwrap_or("");
    let time_us = time.parse::<f64>().ok().map(|ms| ms * 1e3);
    // An untuned list may have the call's parameters in the solution's place.
    let kernel = if solution.starts_with("BLAS_PARAMS") { "" } else { solution };
    if !kernel.is_empty() && time_us.is_none() {
        foreign.fault(line, "time", format!("{time:?} is no number of milliseconds"), "tune the row again");
    }
    // `Gemm_Hipblaslt_TN_52565`: the part after Gemm is the library, the last one its number.
    let library = kernel.split('_').nth(1).unwrap_or("default").to_ascii_lowercase();
    let index = kernel.rsplit('_').next().and_then(|number| number.parse().ok());
    Row { line, call, batch, kernel, library: &library, index, time_us, origin, obstacle: None }
        .push(foreign, operation);
}

type Read = (Operation, u32, Call);

fn row(signature: &str, parameters: &str, arch: &str) -> Result<Read, (&'static str, String)> {
    let unknown = || ("operation", format!("{signature:?} is no operation this reads"));
    let (kind, rest) = signature.split_once("TunableOp_").ok_or_else(unknown)?;
    let (types, transposes) = rest.rsplit_once('_').ok_or_else(unknown)?;
    let transposed = transposes_of(transposes).ok_or_else(unknown)?;
    let types = types_of(types).filter(|types| !types.is_empty()).ok_or_else(unknown)?;
    let scaled = kind.starts_with("Scaled");

    let fault = || ("parameters", format!("{parameters:?} cannot be read"));
    let parts: Vec<&str> = parameters.split('_').collect();
    let number = |index: usize| parts.get(index).and_then(|part| part.parse::<u64>().ok());
    let size = |index: usize| {
        number(index).and_then(|v| u32::try_from(v).ok()).filter(|value| *value > 0).ok_or_else(fault)
    };
    let sizes = [size(1)?, size(2)?, size(3)?];
    let after = |key: &str| parts.iter().position(|part| *part == key).map(|index| index + 1);
    let batch = after("B").map_or(Ok(1), size)?;
    let leading = match after("ld") {
        Some(at) => Some([number(at + 1).ok_or_else(fault)?, number(at + 2).ok_or_else(fault)?]),
        None => None,
    };
    let bias = kind.contains("Bias") || after("bias").is_some_and(|at| parts.get(at) != Some(&"None"));
    let row_wise = after("rw").and_then(number) == Some(1);
    let scales = match (scaled, row_wise) {
        (false, _) => Scales::Usual,
        (true, true) => Scales::Channel,
        (true, false) => Scales::Tensor,
    };
    let call = Call { transposed, sizes, leading };
    // A is the weight. One type stands for all of them.
    let element = |index: usize| types.get(index).unwrap_or(&types[0]).clone();
    let out = match types.len() {
        1 if scaled => Element::parse("bf16"),
        1 => element(0),
        _ => element(types.len() - 1),
    };
    let operation = Operation {
        arch: arch.to_owned(),
        units: None,
        a: if types.len() > 2 { element(1) } else { element(0) },
        b: element(0),
        out,
        scales,
        bias,
        preshuffled: false,
        variant: call.variant(),
    };
    Ok((operation, batch, call))
}

fn transposes_of(text: &str) -> Option<[bool; 2]> {
    let one = |byte: u8| match byte.to_ascii_uppercase() {
        b'T' | b'C' => Some(true),
        b'N' => Some(false),
        _ => None,
    };
    match text.as_bytes() {
        [a, b] => Some([one(*a)?, one(*b)?]),
        _ => None,
    }
}

/// The types of an operation's name, of which some hold underscores.
fn types_of(mut text: &str) -> Option<Vec<Element>> {
    const NAMES: [&str; 9] = [
        "Float8_e4m3fnuz",
        "Float8_e4m3fn",
        "Float8_e5m2fnuz",
        "Float8_e5m2",
        "BFloat16",
        "Half",
        "float",
        "double",
        "c10::complex<float>",
    ];
    let mut types = Vec::new();
    while !text.is_empty() {
        let name = NAMES.iter().find(|name| text.starts_with(**name))?;
        types.push(Element::parse(name));
        text = text[name.len()..].trim_start_matches('_');
    }
    Some(types)
}
