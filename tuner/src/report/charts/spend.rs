//! Where a run spent its launches.

use super::{Frame, cut};
use crate::report::axis::Axis;
use crate::report::session::Spend;
use crate::report::svg::{Anchor, Svg};

const ROW: f64 = 20.0;

/// A bar per contest: launches of the search, then of the finals.
pub(in crate::report) fn draw(id: &str, contests: &[Spend]) -> String {
    let height = 24.0 + ROW * contests.len() as f64 + 42.0;
    let frame = Frame { left: 190.0, right: 628.0, top: 20.0, bottom: height - 42.0 };
    let [search, finals] = [|spend: &Spend| spend.search, |spend: &Spend| spend.finals]
        .map(|part| contests.iter().map(part).sum::<u64>());
    let mut svg = Svg::new(
        id,
        [640.0, height],
        "Launches of each contest, by search and finals",
        &format!(
            "{search} launches of the search and {finals} of the finals in {} contests.",
            contests.len()
        ),
    );
    let most = contests.iter().map(|spend| (spend.search + spend.finals) as f64);
    let axis = Axis::linear(most.chain([0.0]), [frame.left, frame.right]);
    let ticks: Vec<_> = axis.ticks(6).into_iter().map(|value| (value, format!("{value:.0}"))).collect();
    frame.x_axis(&mut svg, &axis, &ticks, "launches");
    for (index, spend) in contests.iter().enumerate() {
        let y = frame.top + ROW * index as f64 + 3.0;
        let name = format!("{}, M = {}", spend.weight, spend.m);
        svg.text("row", [frame.left - 8.0, y + 11.0], Anchor::End, &cut(&name, 30));
        let (mut x, mut sum) = (frame.left, 0.0);
        for (class, launches, what) in [("s0", spend.search, "search"), ("s1", spend.finals, "finals")] {
            sum += launches as f64;
            let end = axis.at(sum);
            svg.bar(
                class,
                [x, y],
                [end - x, ROW - 6.0],
                &format!("{name}: {launches} launches of the {what}"),
            );
            x = end;
        }
    }
    svg.finish()
}
