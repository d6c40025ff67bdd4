//! The sentinel's time over a session.

use super::Frame;
use crate::report::axis::Axis;
use crate::report::session::DriftBin;
use crate::report::svg::Svg;
use crate::units::time;

/// The median as a line in the band of the quartiles.
pub(in crate::report) fn draw(id: &str, bins: &[DriftBin]) -> String {
    let frame = Frame { left: 62.0, right: 628.0, top: 28.0, bottom: 208.0 };
    let worst = bins.iter().map(|bin| (bin.median - 1.0).abs()).fold(0.0, f64::max);
    let mut svg = Svg::new(
        id,
        [640.0, 250.0],
        "The default config's time over the session, relative to its median in the same contest",
        &format!(
            "{} stretches of time; the median of one is {:.1} % away from its contest's at most.",
            bins.len(),
            worst * 100.0
        ),
    );
    let x = Axis::linear(bins.iter().map(|bin| bin.at_s).chain([0.0]), [frame.left, frame.right]);
    let y = Axis::log(
        bins.iter().flat_map(|bin| bin.quartiles).map(|value| value.clamp(0.4, 2.5)).chain([0.95, 1.05]),
        [frame.bottom, frame.top],
    );
    let ticks: Vec<_> = x.ticks(8).into_iter().map(|value| (value, format!("{value:.0} s"))).collect();
    frame.x_axis(&mut svg, &x, &ticks, "since the run began");
    let ticks: Vec<_> = y.ticks(6).into_iter().map(|value| (value, format!("{value:.2}x"))).collect();
    frame.y_axis(&mut svg, &y, &ticks, "relative to the contest's median");
    let side = |which: usize| bins.iter().map(move |bin| (bin.at_s, bin.quartiles[which]));
    let band: Vec<[f64; 2]> = side(0)
        .chain(side(1).collect::<Vec<_>>().into_iter().rev())
        .map(|(at, value)| [x.at(at), y.at(value)])
        .collect();
    svg.area("band", &band);
    let one = y.at(1.0);
    svg.line("one", &[[frame.left, one], [frame.right, one]]);
    svg.line("tuned", &bins.iter().map(|bin| [x.at(bin.at_s), y.at(bin.median)]).collect::<Vec<_>>());
    for bin in bins {
        let tip = format!(
            "{} after the start: {:.3}x, {} launches",
            time(bin.at_s * 1e9),
            bin.median,
            bin.launches
        );
        svg.mark("m dot s0", 0, [x.at(bin.at_s), y.at(bin.median)], &tip);
    }
    svg.finish()
}
