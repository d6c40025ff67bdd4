//! The finals of one contest: the plan's best configs, the default and the incumbent, raced in interleaved blocks.

use super::candidates::{Field, Plan};
use super::observe::{FieldBench, RaceLog, Shared};
use super::plan::Searched;
use super::progress::Progress;
use crate::journal::{ContestKey, Verdict, VerdictRow};
use crate::race::{Entrant, Preference, RaceOptions, RaceOutcome, Status, Verdict as RaceVerdict, race};
use crate::stats::{Looks, TRIM, trimmed_mean, yuen};

/// Configs of the plan that take part, at most.
const FINALISTS: usize = 8;
/// As many, where the contest was decided before: the winner and its nearest rivals.
const WARM_FINALISTS: usize = 3;
/// Blocks at which a race that confirms is looked at: its first look is its usual end, and has to see more than six
/// blocks would.
const CONFIRMING_LOOKS: [usize; 6] = [10, 16, 24, 40, 64, 100];
/// Those slower than this many times the plan's best stay out.
const SCREEN: f64 = 1.25;

/// Who takes part besides the best of the search.
pub(super) struct Bracket<'a> {
    /// The plan all but the default belong to.
    pub(super) plan: Plan,
    /// What the table says now, if it is a candidate of this plan.
    pub(super) incumbent: Option<usize>,
    /// What this contest was decided as before on this device.
    pub(super) earlier: Option<&'a Verdict>,
    /// Configs (canonical texts) that the weight's other Ms use.
    pub(super) neighbours: &'a [String],
}

/// Races the finals. Where the incumbent is the winner of an earlier verdict that was not ambiguous, the race only asks
/// whether anything speaks against it; if nothing does, the earlier verdict stands as it is, evidence included: it rests on
/// more blocks than were measured now. Without measurements enough for a race the search's estimates stand, marked ambiguous.
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
    let most = if at.warm { WARM_FINALISTS } else { FINALISTS };
    let mut points: Vec<usize> = fit.map(|(point, ..)| *point).take(most).collect();
    points.extend(bracket.incumbent);
    // A default of another plan is measured as the sentinel, but cannot win: the weight is not stored that way.
    if in_plan(&field.sentinel) {
        points.push(field.sentinel);
    }
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
    let standing = bracket.earlier.filter(|earlier| is_standing(earlier, field, bracket.incumbent));
    let mut options = RaceOptions { sentinel: Some(field.sentinel), ..options.clone() };
    if standing.is_some() {
        options.confirms = true;
        options.looks = Looks::new(CONFIRMING_LOOKS.to_vec(), 0.05).expect("the looks ascend");
    }
    let mut bench = FieldBench { shared, field };
    let mut log = RaceLog { progress, sentinel: field.sentinel, sentinel_ns: vec![] };
    let outcome = race(&mut bench, &entrants, &options, &mut log)
        .expect("entrants are distinct, ranked, and at most one is the incumbent");
    let sentinel_ns = log.sentinel_ns;
    if outcome.entrants.iter().all(|entrant| entrant.trimmed_mean_ns.is_none()) {
        return by_search(at, key, bracket, "stopped before the finals");
    }
    match standing {
        Some(earlier) if outcome.confirmed => earlier.clone(),
        _ => verdict(&outcome, at, key, &sentinel_ns),
    }
}

/// Whether an earlier verdict is one that a few blocks may confirm: it was clear, and the table still says the same.
fn is_standing(earlier: &Verdict, field: &Field, incumbent: Option<usize>) -> bool {
    let winner = earlier.finalists.first().and_then(|row| field.find(&row.candidate));
    !earlier.verdict.starts_with("ambiguous") && winner.is_some() && winner == incumbent
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

fn verdict(outcome: &RaceOutcome, at: &Searched, key: &ContestKey, sentinel_ns: &[f64]) -> Verdict {
    let Some(winner) = outcome.winner.and_then(|point| outcome.entrant(point)) else {
        let verdict = "ambiguous(every finalist failed)".into();
        return Verdict { key: key.clone(), m: at.m, verdict, finalists: vec![] };
    };
    let text = match &outcome.verdict {
        RaceVerdict::Decided => "decided".into(),
        RaceVerdict::Tied(n) => format!("tied({n})"),
        // Parentheses would end the reason when it is read back.
        RaceVerdict::Ambiguous(reason) => format!("ambiguous({})", reason.replace(['(', ')'], "")),
    };
    let reference = winner.log_ratio.unwrap_or(0.0);
    let mut finalists: Vec<VerdictRow> = outcome
        .entrants
        .iter()
        .map(|entrant| {
            let (status, reason) = match &entrant.status {
                _ if entrant.point == winner.point => ("winner", ""),
                Status::Failed(reason) => ("failed", reason.as_str()),
                _ if outcome.tie_set.contains(&entrant.point) => ("tied", ""),
                _ => ("eliminated", ""),
            };
            let centre = entrant.log_ratio.unwrap_or(0.0);
            let (low, high) = entrant.interval.map_or((centre, centre), |i| (i.low, i.high));
            let (ns, interval_ns) = location(&entrant.samples);
            VerdictRow {
                candidate: at.field.candidates[entrant.point].to_string(),
                launches: entrant.samples.len(),
                ns,
                interval_ns,
                ratio: [centre, low, high].map(|log| (log - reference).exp()),
                status: status.into(),
                reason: reason.into(),
                default: entrant.point == at.field.sentinel,
            }
        })
        .collect();
    if outcome.entrant(at.field.sentinel).is_none() {
        let (ns, interval_ns) = location(sentinel_ns);
        let (winner_ns, _) = location(&winner.samples);
        finalists.push(VerdictRow {
            candidate: at.field.candidates[at.field.sentinel].to_string(),
            launches: sentinel_ns.len(),
            ns,
            interval_ns,
            ratio: [ns, interval_ns[0], interval_ns[1]].map(|ns| ns / winner_ns),
            status: "eliminated".into(),
            reason: "of another plan".into(),
            default: true,
        });
    }
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

/// Trimmed mean of times with its 95 % interval, on logarithms so that no end is negative.
fn location(samples: &[f64]) -> (f64, [f64; 2]) {
    let logs: Vec<f64> = samples.iter().map(|ns| ns.ln()).collect();
    let Some(centre) = trimmed_mean(&logs, TRIM) else { return (0.0, [0.0; 2]) };
    let interval = yuen(&logs, TRIM).map_or([centre; 2], |yuen| {
        let interval = yuen.interval(0.95);
        [interval.low, interval.high]
    });
    (centre.exp(), interval.map(f64::exp))
}
