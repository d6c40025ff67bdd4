//! Time against M of one weight: the winners with their intervals, coloured by kernel, and the default config.

use super::{Frame, colour, m_ticks, shape, time_ticks};
use crate::report::axis::Axis;
use crate::report::svg::Svg;
use crate::table::{Verdict, Weight};
use crate::units::time;

/// A mark per M; `kernels` numbers the winners by their text.
pub(in crate::report) fn draw(id: &str, weight: &Weight, kernels: &[&str]) -> String {
    let frame = Frame { left: 62.0, right: 376.0, top: 26.0, bottom: 208.0 };
    let told: Vec<String> = weight
        .rows
        .iter()
        .map(|row| {
            let [low, high] = row.interval_ns;
            format!("M = {}: {}, {} to {}", row.m, time(row.time_ns), time(low), time(high))
        })
        .collect();
    let mut svg = Svg::new(
        id,
        [384.0, 250.0],
        &format!("{}: time against M", weight.name),
        &format!(
            "{}. Vertical lines are 95 % intervals, the broken line is the default config.",
            told.join("; ")
        ),
    );
    let x = Axis::log(weight.rows.iter().map(|row| f64::from(row.m)), [frame.left, frame.right]);
    let times = weight
        .rows
        .iter()
        .flat_map(|row| [row.time_ns, row.default_ns, row.interval_ns[0], row.interval_ns[1]]);
    let y = Axis::log(times, [frame.bottom, frame.top]);
    let points: Vec<u32> = weight.rows.iter().map(|row| row.m).collect();
    frame.x_axis(&mut svg, &x, &m_ticks(&x, &points, 30.0), "M");
    frame.y_axis(&mut svg, &y, &time_ticks(&y, 6), "time");
    let at = |m: u32, ns: f64| [x.at(f64::from(m)), y.at(ns)];
    svg.line("default", &weight.rows.iter().map(|row| at(row.m, row.default_ns)).collect::<Vec<_>>());
    svg.line("tuned", &weight.rows.iter().map(|row| at(row.m, row.time_ns)).collect::<Vec<_>>());
    for row in &weight.rows {
        let series = kernels.iter().position(|kernel| *kernel == row.config).unwrap_or(0);
        let [low, high] = row.interval_ns;
        svg.line("interval", &[at(row.m, low), at(row.m, high)]);
        let open = if matches!(row.verdict, Verdict::Ambiguous(_)) { " open" } else { "" };
        let tip = format!("M = {}: {}, {}; {}", row.m, time(row.time_ns), row.verdict, row.config);
        svg.mark(&format!("{}{open}", colour(series)), shape(series), at(row.m, row.time_ns), &tip);
    }
    svg.finish()
}
