//! The model's time per forward pass at each M, before and after.

use super::{Frame, time_ticks};
use crate::report::axis::Axis;
use crate::report::model::Pass;
use crate::report::svg::{Anchor, Svg};
use crate::units::time;

const ROW: f64 = 30.0;

/// A line per M from the default kernels' time to the tuned ones'.
pub(in crate::report) fn draw(id: &str, model: &str, passes: &[Pass]) -> String {
    let height = 30.0 + ROW * passes.len() as f64 + 42.0;
    let frame = Frame { left: 74.0, right: 560.0, top: 24.0, bottom: height - 42.0 };
    let told: Vec<String> = passes
        .iter()
        .map(|pass| format!("M = {}: {:.2} times as fast", pass.m, pass.default_ns / pass.tuned_ns))
        .collect();
    let mut svg = Svg::new(
        id,
        [640.0, height],
        &format!("Time of one forward pass of {model}, default and tuned kernels"),
        &format!("{}. The table below has the times.", told.join("; ")),
    );
    let axis =
        Axis::log(passes.iter().flat_map(|pass| [pass.default_ns, pass.tuned_ns]), [frame.left, frame.right]);
    frame.x_axis(&mut svg, &axis, &time_ticks(&axis, 7), "time of all GEMMs of one forward pass");
    for (index, pass) in passes.iter().enumerate() {
        let y = frame.top + ROW * (index as f64 + 0.5);
        let (default, tuned) = (axis.at(pass.default_ns), axis.at(pass.tuned_ns));
        svg.text("name", [frame.left - 8.0, y + 4.0], Anchor::End, &format!("M = {}", pass.m));
        svg.line("bridge", &[[default, y], [tuned, y]]);
        svg.mark("m base", 0, [default, y], &format!("default, M = {}: {}", pass.m, time(pass.default_ns)));
        svg.mark("m s0", 0, [tuned, y], &format!("tuned, M = {}: {}", pass.m, time(pass.tuned_ns)));
        let gain = format!("{:.2}x", pass.default_ns / pass.tuned_ns);
        svg.text("gain", [frame.right + 12.0, y + 4.0], Anchor::Start, &gain);
    }
    svg.finish()
}
