//! The finalists of one weight: each one's time relative to the winner's, with its interval.

use super::{Frame, cut};
use crate::report::axis::Axis;
use crate::report::svg::{Anchor, Svg};
use crate::table::{Finalist, Status};

const ROW: f64 = 17.0;
/// Beyond this an interval is cut off: how much slower a loser is does not matter.
const MOST: f64 = 3.0;
const LEAST: f64 = 0.5;

/// A line per finalist, grouped by M. `None` if none has a ratio.
pub(in crate::report) fn draw(id: &str, weight: &str, finalists: &[&Finalist]) -> Option<String> {
    let measured: Vec<&&Finalist> = finalists.iter().filter(|finalist| finalist.ratio.is_some()).collect();
    let first = measured.first()?;
    let groups = measured.chunk_by(|a, b| a.m == b.m).count();
    let height = 24.0 + ROW * (measured.len() + groups) as f64 + 42.0;
    let frame = Frame { left: 290.0, right: 628.0, top: 20.0, bottom: height - 42.0 };
    let ties = measured.iter().filter(|finalist| finalist.status == Status::Tied).count();
    let mut svg = Svg::new(
        id,
        [640.0, height],
        &format!("{weight}: finalists relative to the winner, with 95 % intervals"),
        &format!(
            "{} finalists at {groups} values of M, {ties} of them tied with a winner. The table below has them.",
            measured.len()
        ),
    );
    let bounded = |value: f64| value.clamp(LEAST, MOST);
    let ends = measured.iter().flat_map(|f| [f.ratio, f.ratio_low, f.ratio_high]).flatten().map(bounded);
    let axis = Axis::log(ends.chain([0.95, 1.05]), [frame.left, frame.right]);
    let ticks: Vec<_> = axis.ticks(8).into_iter().map(|value| (value, format!("{value:.1}x"))).collect();
    frame.x_axis(&mut svg, &axis, &ticks, "time relative to the winner's");
    let one = axis.at(1.0);
    svg.line("one", &[[one, frame.top], [one, frame.bottom]]);
    let (mut y, mut m) = (frame.top, first.m + 1);
    for finalist in measured {
        if finalist.m != m {
            m = finalist.m;
            y += ROW;
            svg.text("name", [4.0, y - 4.0], Anchor::Start, &format!("M = {m}"));
        }
        y += ROW;
        let middle = y - ROW / 2.0;
        let ratio = finalist.ratio.expect("those without are left out");
        let [low, high] = [finalist.ratio_low.unwrap_or(ratio), finalist.ratio_high.unwrap_or(ratio)];
        let class = match finalist.status {
            Status::Winner => "m s0",
            Status::Tied => "m s1",
            _ => "m base",
        };
        let name = short(&finalist.config, rivals(finalists, m));
        let name = if finalist.baseline { format!("default {name}") } else { name };
        svg.text("row", [frame.left - 8.0, middle + 4.0], Anchor::End, &cut(&name, 40));
        svg.line("interval", &[[axis.at(bounded(low)), middle], [axis.at(bounded(high)), middle]]);
        let tip = format!(
            "{} at M = {m}: {ratio:.3}x, {low:.3} to {high:.3}; {}",
            finalist.status.name(),
            finalist.config
        );
        svg.mark(class, 0, [axis.at(bounded(ratio)), middle], &tip);
    }
    Some(svg.finish())
}

/// The configs at one M.
fn rivals<'f>(finalists: &'f [&Finalist], m: u32) -> impl Iterator<Item = &'f str> {
    finalists.iter().filter(move |finalist| finalist.m == m).map(|finalist| finalist.config.as_str())
}

/// A config's family, its tile, and what else tells it from the rivals of its family.
fn short<'f>(config: &str, rivals: impl Iterator<Item = &'f str>) -> String {
    let (family, own) = parts(config);
    let others: Vec<_> = rivals.map(parts).filter(|(other, _)| *other == family).collect();
    let value = |name: &str| own.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
    let mut text = family.split('@').next().unwrap_or(family).to_owned();
    // The backend is the same for all.
    if let Some((_, name)) = text.split_once('.') {
        text = name.to_owned();
    }
    if let (Some(m), Some(n)) = (value("tile_m"), value("tile_n")) {
        text += &format!(" {m}x{n}");
    }
    for (name, value) in own.iter().filter(|(name, _)| !name.starts_with("tile_")) {
        if others.iter().any(|(_, other)| !other.contains(&(name, value))) {
            text += &format!(" {name}={value}");
        }
    }
    text
}

/// Family and parameters of a config's text.
fn parts(config: &str) -> (&str, Vec<(&str, &str)>) {
    let (family, parameters) = config.split_once('(').unwrap_or((config, ""));
    (family, parameters.trim_end_matches(')').split(',').filter_map(|part| part.split_once('=')).collect())
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_name_says_what_tells_it_from_its_rivals() {
        let rivals = [
            "cpu.a@1(kc=0,path=x,tile_m=1,tile_n=2)",
            "cpu.a@1(kc=8,path=x,tile_m=1,tile_n=2)",
            "cpu.b@1(kc=9)",
        ];
        assert_eq!(short(rivals[0], rivals.into_iter()), "a 1x2 kc=0");
        assert_eq!(short(rivals[2], rivals.into_iter()), "b");
    }
}
