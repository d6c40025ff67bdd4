//! Writing a table as a Rust module.
//!
//! The module is data: statics of `tilewright_dispatch`'s types. It is skipped by rustfmt item by item, because
//! one row a line is what a diff should show and because another repository's rustfmt settings must not make it stale.
//! All text that comes from files is escaped to ASCII, in comments too, so no name can end a literal or a comment.

use handlebars::{Handlebars, no_escape};
use serde_json::json;
use tilewright_dispatch::TableData;
use tilewright_dispatch::table::{Group, Key, NO_KERNEL, PackedSegment, SecondCopy, WeightPlan};

use super::decisions::Decisions;
use super::lower::Lowered;
use super::write::regime_name;

const TEMPLATE: &str = include_str!("../../templates/table.rs.hbs");

/// The module's text. It depends on nothing but the decisions.
pub(super) fn emit(decisions: &Decisions, lowered: &Lowered<'_>) -> String {
    lowered.with(|data| render(decisions, data))
}

fn render(decisions: &Decisions, data: &TableData<'_>) -> String {
    let escaped = |text: &str| text.escape_default().to_string();
    let context = json!({
        "command": format!("tilewright compile {}/{}.toml", escaped(data.device), escaped(data.model)),
        "model": escaped(data.model),
        "tensor_parallel": data.tensor_parallel,
        "device": escaped(data.device),
        "fingerprint": escaped(data.fingerprint),
        "generator": escaped(&decisions.generator),
        "seed": decisions.seed,
        "regime": regime_name(decisions.regime),
        "schema": data.schema,
        "declaration": format!("{:016x}", data.declaration),
        "kernel_set": format!("{:016x}", data.kernel_set),
        "counts": {
            "kernels": data.kernels.len(),
            "weights": data.weights.len(),
            "groups": data.groups.len(),
            "segments": data.segments.len(),
            "displace": data.index.displace.len(),
            "slots": data.index.slots.len(),
        },
        "index": {
            "shape": format!("{:#018x}", data.index.shape),
            "traits": format!("{:#018x}", data.index.traits),
        },
        "kernels": lines(data.kernels, |kernel| {
            format!("Kernel {{ id: {:#018x}, text: \"{}\" }},", kernel.id, escaped(kernel.text))
        }),
        "weights": lines(data.weights, |weight| {
            let name = escaped(weight.name);
            let WeightPlan { count, deterministic, group, second, .. } = weight;
            let second = match second {
                None => "None".to_owned(),
                Some(SecondCopy { from, group }) => format!("Some(SecondCopy {{ from: {from}, group: {group} }})"),
            };
            format!(
                "WeightPlan {{ name: \"{name}\", count: {count}, deterministic: {deterministic}, group: {group}, second: {second} }},"
            )
        }),
        "second": data.weights.iter().any(|weight| weight.second.is_some()),
        "groups": lines(data.groups, group),
        "segments": lines(data.segments, segment),
        "displace": numbers(data.index.displace, |displace| format!("{displace:#010x}")),
        "slots": numbers(data.index.slots, |slot| position(*slot)),
    });
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(no_escape);
    handlebars.render_template(TEMPLATE, &context).expect("the template is part of this program")
}

fn lines<T>(items: &[T], line: impl Fn(&T) -> String) -> Vec<String> {
    items.iter().map(line).collect()
}

/// Eight numbers a line.
fn numbers<T>(items: &[T], text: impl Fn(&T) -> String) -> Vec<String> {
    let line =
        |chunk: &[T]| chunk.iter().map(|item| format!("{},", text(item))).collect::<Vec<_>>().join(" ");
    items.chunks(8).map(line).collect()
}

fn group(group: &Group) -> String {
    let Group {
        key: Key { n, k, a, b, scaling, layout, out, epilogue },
        first,
        len,
        measured: [least, most],
    } = group;
    // The variants' names are their `Debug` text.
    format!(
        "Group {{ key: Key {{ n: {n}, k: {k}, a: Format::{a:?}, b: Format::{b:?}, scaling: Scaling::{scaling:?}, \
         layout: Layout::{layout:?}, out: OutType::{out:?}, epilogue: Epilogue::{epilogue:?} }}, \
         first: {first}, len: {len}, measured: [{least}, {most}] }},"
    )
}

/// First M and measured M in decimal, then in hexadecimal weight and kernel, and the runners-up.
fn segment(&[from, m, place, others]: &PackedSegment) -> String {
    format!("[{from}, {m}, {place:#010x}, {others:#010x}],")
}

fn position(position: u16) -> String {
    if position == NO_KERNEL { "0xffff".to_owned() } else { position.to_string() }
}
