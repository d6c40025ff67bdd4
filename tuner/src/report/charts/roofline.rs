//! What every row reaches, against what the device can do at most where that is known.

use super::{Frame, colour, shape};
use crate::report::axis::Axis;
use crate::report::model::{Point, Roof};
use crate::report::svg::{Anchor, Svg};

/// A mark per row: operations per byte against operations per second.
pub(in crate::report) fn draw(id: &str, points: &[Point], roofs: &[Roof]) -> String {
    let frame = Frame { left: 92.0, right: 628.0, top: 28.0, bottom: 330.0 };
    let limits = if roofs.is_empty() {
        "The device's limits are not known, so no roof is drawn.".to_owned()
    } else {
        let told: Vec<String> =
            roofs.iter().map(|roof| format!("{}: {} at most", roof.name, rate(roof.ops))).collect();
        format!("{} and {} of memory traffic at most.", told.join(", "), bandwidth(roofs[0].bandwidth))
    };
    let best = points.iter().map(Point::rate).fold(0.0, f64::max);
    let mut svg = Svg::new(
        id,
        [640.0, 376.0],
        "Roofline: operations per second against operations per byte, every row",
        &format!("{} rows, the fastest at {}. {limits} The table below has them.", points.len(), rate(best)),
    );
    let x = Axis::log(points.iter().map(Point::intensity), [frame.left, frame.right]);
    let [low, high] = x.ends();
    let ceilings = roofs.iter().flat_map(|roof| [roof.at(low), roof.at(high)]);
    let y = Axis::log(points.iter().map(Point::rate).chain(ceilings), [frame.bottom, frame.top]);
    let ticks: Vec<_> = x.ticks(8).into_iter().map(|value| (value, number(value))).collect();
    frame.x_axis(
        &mut svg,
        &x,
        &ticks,
        "operations per byte that must move (weight, activation, output, once)",
    );
    let ticks: Vec<_> = y.ticks(7).into_iter().map(|value| (value, rate(value))).collect();
    frame.y_axis(&mut svg, &y, &ticks, "reached");
    for roof in roofs {
        let ridge = roof.ops / roof.bandwidth;
        let mut corner: Vec<f64> = vec![low, high];
        if low < ridge && ridge < high {
            corner.insert(1, ridge);
        }
        let line: Vec<[f64; 2]> = corner.into_iter().map(|at| [x.at(at), y.at(roof.at(at))]).collect();
        svg.line("roof", &line);
        svg.text("tick", [frame.right, y.at(roof.at(high)) - 5.0], Anchor::End, &roof.name);
    }
    for point in points {
        let tip = format!(
            "{}, M = {}: {} at {} operations per byte",
            point.weight,
            point.m,
            rate(point.rate()),
            number(point.intensity())
        );
        let at = [x.at(point.intensity()), y.at(point.rate())];
        svg.mark(&colour(point.series), shape(point.series), at, &tip);
    }
    svg.finish()
}

/// Operations per second with a unit.
pub(in crate::report) fn rate(ops: f64) -> String {
    let (value, unit) = match ops {
        ops if ops >= 1e12 => (ops / 1e12, "TOP/s"),
        ops if ops >= 1e9 => (ops / 1e9, "GOP/s"),
        ops => (ops / 1e6, "MOP/s"),
    };
    format!("{} {unit}", number(value))
}

/// Bytes per second with a unit.
pub(in crate::report) fn bandwidth(bytes: f64) -> String {
    if bytes >= 1e12 {
        format!("{} TB/s", number(bytes / 1e12))
    } else {
        format!("{} GB/s", number(bytes / 1e9))
    }
}

/// Three digits.
pub(in crate::report) fn number(value: f64) -> String {
    let digits = match value {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
