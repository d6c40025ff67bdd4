//! A declaration as TOML text that people read: what most GEMMs share goes under `[defaults]`, one key a line.

use std::fmt::Write as _;

use super::{Declaration, Gemm, MPoint};

/// Longest line that is written without need.
const WIDTH: usize = 110;

/// Comments to write into a declaration's file. They are not part of it.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Lines at the head of the file.
    pub header: Vec<String>,
    /// A comment for each GEMM, in their order; empty for none.
    pub gemms: Vec<String>,
}

/// The whole file.
pub(super) fn declaration(declaration: &Declaration, notes: &Notes) -> String {
    let Declaration { model, tensor_parallel, source, gemms, .. } = declaration;
    let mut text = String::new();
    for line in &notes.header {
        comment(&mut text, line);
    }
    if !notes.header.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "[model]\nname = {}\ntensor_parallel = {tensor_parallel}", string(model));
    if let Some(source) = source {
        let _ = writeln!(text, "source = {}", string(source));
    }
    let keys: Vec<[Option<String>; SHARED.len()]> = gemms.iter().map(shared).collect();
    let defaults: Vec<Option<String>> = (0..SHARED.len()).map(|index| default_of(&keys, index)).collect();
    if defaults.iter().any(Option::is_some) {
        text.push_str("\n[defaults]\n");
        for value in defaults.iter().flatten() {
            let _ = writeln!(text, "{value}");
        }
    }
    for (index, gemm) in gemms.iter().enumerate() {
        text.push('\n');
        comment(&mut text, notes.gemms.get(index).map_or("", String::as_str));
        let Gemm { name, n, k, count, bias, tensors, .. } = gemm;
        let _ = writeln!(text, "[[gemm]]\nname = {}\nn = {n}\nk = {k}\ncount = {count}", string(name));
        if *bias {
            text.push_str("bias = true\n");
        }
        for (own, default) in keys[index].iter().zip(&defaults) {
            if let Some(own) = own.as_ref().filter(|_| own != default) {
                let _ = writeln!(text, "{own}");
            }
        }
        if !tensors.is_empty() {
            let _ = writeln!(text, "{}", array("tensors", tensors.iter().map(|tensor| string(tensor))));
        }
    }
    text
}

/// The keys that `[defaults]` may hold.
const SHARED: [&str; 7] = ["m", "formats", "activation", "out", "max_error", "deterministic", "copies"];

/// A GEMM's values of them, as lines.
fn shared(gemm: &Gemm) -> [Option<String>; SHARED.len()] {
    let Gemm { m, formats, activation, out, max_error, deterministic, two_copies_mib, .. } = gemm;
    [
        Some(array(SHARED[0], m.iter().map(point))),
        Some(array(SHARED[1], formats.iter().map(|format| string(format.name())))),
        Some(format!("{} = {}", SHARED[2], string(activation.name()))),
        Some(format!("{} = {}", SHARED[3], string(out.name()))),
        max_error.map(|error| format!("{} = {error:?}", SHARED[4])),
        Some(format!("{} = {deterministic}", SHARED[5])),
        // The two are always written together.
        two_copies_mib.map(|mib| format!("{} = 2\nmemory_budget_mib = {mib}", SHARED[6])),
    ]
}

/// The most frequent value of a key (the first of equals), if every GEMM has one: a default cannot be taken back.
fn default_of(keys: &[[Option<String>; SHARED.len()]], index: usize) -> Option<String> {
    let values: Option<Vec<&String>> = keys.iter().map(|gemm| gemm[index].as_ref()).collect();
    let mut counts: Vec<(&String, usize)> = Vec::new();
    for value in values? {
        match counts.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(value, _)| value.clone())
}

fn point(point: &MPoint) -> String {
    let MPoint { m, weight } = point;
    if *weight == 1.0 { m.to_string() } else { format!("{{ m = {m}, weight = {weight:?} }}") }
}

/// `key = [a, b]`, over several lines where it is long.
fn array(key: &str, items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let short = format!("{key} = [{}]", items.join(", "));
    if short.len() <= WIDTH {
        return short;
    }
    let mut text = format!("{key} = [");
    let mut width = WIDTH;
    for item in items {
        if width + item.len() + 2 > WIDTH {
            text.push_str("\n   ");
            width = 3;
        }
        let _ = write!(text, " {item},");
        width += item.len() + 2;
    }
    text + "\n]"
}

fn string(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A comment over as many lines as it needs. Line breaks and control characters cannot end it.
fn comment(text: &mut String, words: &str) {
    let mut line = String::new();
    for word in words.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(text, "#{line}");
            line.clear();
        }
        let _ = write!(line, " {word}");
    }
    if !line.is_empty() {
        let _ = writeln!(text, "#{line}");
    }
}
