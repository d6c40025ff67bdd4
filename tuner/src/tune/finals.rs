//! The finals of one contest: the plan's best configs, the default and the incumbent, raced in interleaved blocks.

use super::candidates::Plan;
use super::observe::{FieldBench, RaceLog, Shared};
use super::plan::Searched;
use super::progress::Progress;
use crate::journal::{ContestKey, Verdict, VerdictRow};
use crate::race::{Entrant, Preference, RaceOptions, RaceOutcome, Status, Verdict as RaceVerdict, race};
use crate::stats::{TRIM, yuen};

/// Configs of the plan that take part, at most.
const FINALISTS: usize = 8;
/// Those slower than this many times the plan's best stay out.
const SCREEN: f64 = 1.25;

/// Who takes part besides the best of the search.
pub(super) struct Bracket<'a> {
    /// The plan all but the default belong to.
    pub(super) plan: Plan,
    /// What the table says now, if it is a candidate of this plan.
    pub(super) incumbent: Option<usize>,
    /// Configs (canonical texts) that the weight's other Ms use.
    pub(super) neighbours: &'a [String],
}

/// Races the finals. Without measurements enough for a race the search's estimates stand, marked ambiguous.
pub(super) fn finals(
    shared: &Shared<'_, '_>,
    at: &Searched,
    key: &ContestKey,
    bracket: &Bracket<'_>,
    options: &RaceOptions,
    progress: &mut dyn Progress,
) -> Verdict {
    let field = &at.field;
    let in_plan = |point: &usize| field.candidates[*point].plan() == bracket.plan;
    let best = at.best_of(bracket.plan).map_or(1.0, |(_, ratio)| ratio);
    let fit = at.ranked.iter().filter(|(point, ratio, _)| in_plan(point) && *ratio <= SCREEN * best);
    let mut points: Vec<usize> = fit.map(|(point, ..)| *point).take(FINALISTS).collect();
    points.extend(bracket.incumbent);
    points.push(field.sentinel);
    points.sort_unstable();
    points.dedup();

    let mut by_text: Vec<(String, usize)> =
        points.iter().map(|point| (field.candidates[*point].to_string(), *point)).collect();
    by_text.sort();
    let entrants: Vec<Entrant> = by_text
        .iter()
        .enumerate()
        .map(|(rank, (_, point))| {
            let config = &field.candidates[*point].config;
            Entrant {
                point: *point,
                pinned: *point == field.sentinel,
                incumbent: Some(*point) == bracket.incumbent,
                preference: Preference {
                    splits_k: config.get("split_k").is_some_and(|parts| parts > 1),
                    workspace_bytes: 0,
                    new_to_neighbours: !bracket.neighbours.contains(&config.to_string()),
                    rank: rank as u32,
                },
            }
        })
        .collect();
    let options = RaceOptions { sentinel: Some(field.sentinel), ..options.clone() };
    let mut bench = FieldBench { shared, field };
    let outcome = race(&mut bench, &entrants, &options, &mut RaceLog { progress })
        .expect("entrants are distinct, ranked, and at most one is the incumbent");
    if outcome.entrants.iter().all(|entrant| entrant.trimmed_mean_ns.is_none()) {
        return by_search(at, key, bracket, "stopped before the finals");
    }
    verdict(&outcome, at, key, &in_plan)
}

/// A verdict that rests on the search alone.
pub(super) fn by_search(at: &Searched, key: &ContestKey, bracket: &Bracket<'_>, why: &str) -> Verdict {
    let in_plan = |point: &usize| at.field.candidates[*point].plan() == bracket.plan;
    let best = at.best_of(bracket.plan).map_or(1.0, |(_, ratio)| ratio);
    let row = |point: usize, ratio: f64, launches: usize, status: &str| VerdictRow {
        candidate: at.field.candidates[point].to_string(),
        launches,
        ns: ratio * at.sentinel_ns,
        interval_ns: [ratio * at.sentinel_ns; 2],
        ratio: [ratio / best; 3],
        status: status.into(),
        reason: String::new(),
        default: point == at.field.sentinel,
    };
    let mut finalists: Vec<VerdictRow> = at
        .ranked
        .iter()
        .filter(|(point, ..)| in_plan(point))
        .take(FINALISTS)
        .enumerate()
        .map(|(place, (point, ratio, launches))| {
            row(*point, *ratio, *launches, if place == 0 { "winner" } else { "tied" })
        })
        .collect();
    if !finalists.iter().any(|row| row.default) {
        finalists.push(row(at.field.sentinel, 1.0, 1, "eliminated"));
    }
    Verdict { key: key.clone(), m: at.m, verdict: format!("ambiguous({why})"), finalists }
}

fn verdict(
    outcome: &RaceOutcome,
    at: &Searched,
    key: &ContestKey,
    in_plan: &dyn Fn(&usize) -> bool,
) -> Verdict {
    let measured = |point: usize| {
        outcome.entrant(point).filter(|e| e.log_ratio.is_some() && failure(&e.status).is_none())
    };
    let tied: Vec<usize> = outcome.tie_set.iter().copied().filter(in_plan).collect();
    // The default may be of another plan and the fastest all the same; the row is the plan's best then.
    let fastest_in_plan = || {
        let fit = outcome.entrants.iter().filter(|e| in_plan(&e.point) && measured(e.point).is_some());
        fit.min_by(|x, y| x.log_ratio.unwrap_or(f64::MAX).total_cmp(&y.log_ratio.unwrap_or(f64::MAX)))
            .map(|e| e.point)
    };
    let Some(winner) = tied.first().copied().or_else(fastest_in_plan) else {
        return Verdict {
            key: key.clone(),
            m: at.m,
            verdict: "ambiguous(every finalist failed)".into(),
            finalists: vec![],
        };
    };
    let text = match &outcome.verdict {
        _ if tied.is_empty() => "ambiguous(the default of another plan was faster)".into(),
        RaceVerdict::Ambiguous(reason) => format!("ambiguous({})", reason.replace(['(', ')'], "")),
        RaceVerdict::Decided | RaceVerdict::Tied(_) if tied.len() == 1 => "decided".into(),
        RaceVerdict::Decided | RaceVerdict::Tied(_) => format!("tied({})", tied.len()),
    };
    let reference = outcome.entrant(winner).and_then(|e| e.log_ratio).unwrap_or(0.0);
    let mut finalists: Vec<VerdictRow> = outcome
        .entrants
        .iter()
        .map(|entrant| {
            let reason = failure(&entrant.status).unwrap_or_default().to_string();
            let centre = entrant.log_ratio.unwrap_or(0.0);
            let (low, high) = entrant.interval.map_or((centre, centre), |i| (i.low, i.high));
            let status = match &entrant.status {
                _ if entrant.point == winner => "winner",
                Status::Failed(_) => "failed",
                _ if tied.contains(&entrant.point) => "tied",
                _ => "eliminated",
            };
            let ns = entrant.trimmed_mean_ns.unwrap_or(0.0);
            // On logarithms, so that no end is negative.
            let logs: Vec<f64> = entrant.samples.iter().map(|ns| ns.ln()).collect();
            let spread = yuen(&logs, TRIM).map(|y| y.interval(0.95));
            VerdictRow {
                candidate: at.field.candidates[entrant.point].to_string(),
                launches: entrant.samples.len(),
                ns,
                interval_ns: spread.map_or([ns; 2], |i| [i.low.exp().min(ns), i.high.exp().max(ns)]),
                ratio: [centre, low, high].map(|log| (log - reference).exp()),
                status: status.into(),
                reason,
                default: entrant.point == at.field.sentinel,
            }
        })
        .collect();
    let place = |row: &VerdictRow| match row.status.as_str() {
        "winner" => 0,
        "tied" => 1,
        "eliminated" => 2,
        _ => 3,
    };
    finalists.sort_by(|x, y| {
        place(x).cmp(&place(y)).then(x.ratio[0].total_cmp(&y.ratio[0])).then(x.candidate.cmp(&y.candidate))
    });
    Verdict { key: key.clone(), m: at.m, verdict: text, finalists }
}

fn failure(status: &Status) -> Option<&str> {
    match status {
        Status::Failed(reason) => Some(reason),
        _ => None,
    }
}
