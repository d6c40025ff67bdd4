//! vLLM's and SGLang's JSON: a file per (N, K, device name, dtype), in it a Triton config per M. No times are stored.
//!
//! The shape is in the file's name, `N=512,K=7168,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128,128].json`;
//! files of the fused mixture-of-experts kernel have `E=` and no K.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use tilewright_kernels::Format;

use super::Source;
use super::foreign::{Element, Entry, Foreign, NONE, Operation, Scales};
use crate::diag::{BadInput, line_of};

/// Reads a file.
///
/// # Errors
/// If it is no JSON object, or its name does not say the shape.
pub(super) fn parse(path: &Path, text: &str) -> Result<Foreign, BadInput> {
    let mut foreign = Foreign::new(path, Source::Vllm);
    let configs = object(path, text)?;
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
    let said = name_fields(name);
    let get = |key: &str| said.get(key).map(String::as_str);
    let size = |key: &str| get(key).and_then(|value| value.parse::<u32>().ok()).filter(|value| *value > 0);
    let Some(n) = size("N") else {
        let help = "the file's name says the shape: N=…,K=…,device_name=…,dtype=….json";
        return Err(BadInput::one(path, "its name does not say N", help));
    };
    let device = get("device_name").unwrap_or("").to_owned();
    let scales = match get("block_shape").map(|shape| shape.replace(' ', "")) {
        Some(shape) if shape == "[128,128]" => Scales::Block128,
        Some(shape) => {
            foreign.fault(
                0,
                "block_shape",
                format!("{shape} is no block this knows"),
                "only [128,128] is read",
            );
            Scales::Usual
        }
        None => Scales::Usual,
    };
    let (a, b) = elements(get("dtype").unwrap_or(""), &device);
    let out = Element::Format(Format::Bf16);
    let operation = foreign.operation(Operation {
        arch: device,
        units: None,
        a,
        b,
        out,
        scales,
        bias: false,
        preshuffled: false,
        variant: String::new(),
    });
    let obstacle = match (size("E"), size("K")) {
        (Some(_), _) => Some("a grouped GEMM of a mixture of experts"),
        (None, None) => Some("its name does not say K"),
        _ => None,
    };
    let obstacle = obstacle.map_or(NONE, |reason| foreign.intern(reason));
    let library = foreign.intern("triton");
    for (key, config) in &configs {
        let line = line_of_key(text, key);
        // vLLM keeps the compiler's version beside the configs.
        if key == "triton_version" {
            foreign.software.push(format!("TRITON={}", config.as_str().unwrap_or("")));
            continue;
        }
        let Some(m) = key.parse::<u32>().ok().filter(|m| *m > 0) else {
            foreign.fault(line, key, "is no M", "keys are numbers of tokens");
            continue;
        };
        let Some((kernel, split_k)) = canonical(config) else {
            foreign.fault(line, key, "is no object of Triton parameters", "tune the row again");
            continue;
        };
        let kernel = foreign.intern(&kernel);
        foreign.push(Entry {
            line,
            operation,
            batch: 1,
            m,
            n,
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
    foreign.entries.sort_by_key(|entry| entry.m);
    Ok(foreign)
}

/// The top-level object of a JSON text.
pub(super) fn object(path: &Path, text: &str) -> Result<serde_json::Map<String, Value>, BadInput> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(BadInput::one(path, "is no JSON object", "such a file maps M to parameters")),
        Err(error) => Err(BadInput::one(path, error.to_string(), "restore the file")),
    }
}

/// The line a key stands in.
pub(super) fn line_of_key(text: &str, key: &str) -> u32 {
    text.find(&format!("\"{key}\"")).map_or(0, |offset| line_of(text, offset) as u32)
}

/// A config's parameters as one text, in the order of their names, and its split-K.
pub(super) fn canonical(config: &Value) -> Option<(String, Option<i32>)> {
    let mut parameters: Vec<(&String, &Value)> = config.as_object()?.iter().collect();
    parameters.sort_by_key(|(name, _)| *name);
    let mut text = String::from("triton(");
    for (index, (name, value)) in parameters.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(name);
        text.push('=');
        match value {
            Value::String(string) => text.push_str(string),
            other => text.push_str(&other.to_string()),
        }
    }
    text.push(')');
    let split = ["SPLIT_K", "NUM_KSPLIT"].iter().find_map(|name| config.get(name)?.as_i64());
    Some((text, split.and_then(|split| i32::try_from(split).ok())))
}

/// The tile of a canonical config.
pub(super) fn tile(kernel: &str) -> Option<String> {
    let value = |dimension: &str| {
        let names = [format!("BLOCK_SIZE_{dimension}="), format!("BLOCK_{dimension}=")];
        let at = names.iter().find_map(|name| Some(kernel.find(name)? + name.len()))?;
        kernel[at..].split([',', ')']).next()
    };
    let (m, n) = (value("M")?, value("N")?);
    Some(value("K").map_or(format!("{m}x{n}"), |k| format!("{m}x{n}x{k}")))
}

/// `key=value` pairs of a name, in which brackets hold commas together.
fn name_fields(name: &str) -> HashMap<String, String> {
    let mut fields = HashMap::new();
    let (mut depth, mut start) = (0, 0);
    for (at, byte) in name.bytes().chain([b',']).enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b',' if depth == 0 => {
                if let Some((key, value)) = name[start..at].split_once('=') {
                    fields.insert(key.trim().to_owned(), value.trim().to_owned());
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    fields
}

/// Activation and weight of vLLM's dtype names.
fn elements(dtype: &str, device: &str) -> (Element, Element) {
    let bf16 = Element::Format(Format::Bf16);
    match dtype {
        "" | "bf16" | "bfloat16" => (bf16.clone(), bf16),
        "fp8_w8a8" => (Element::fp8_of(device), Element::fp8_of(device)),
        "fp8_w8a16" => (bf16, Element::fp8_of(device)),
        "int8_w8a8" => (Element::Other("int8".into()), Element::Other("int8".into())),
        other => (Element::Other(other.into()), Element::Other(other.into())),
    }
}
