//! Recordings: what is read, what is refused, and that a replay through the real search and race repeats.

use std::path::Path;

use tilewright::bench::Bench;
use tilewright::race::RaceOptions;
use tilewright::replay::{
    Plan, RecordedBench, Recording, device_race, render, replay_race, replay_search, replay_tuning,
};

/// Three parameters, timings in between them, values not in order.
const SMALL: &str = "\
tile,t0_ms,t1_ms,order,t2_ms,split
64,3.0,3.1,row,3.2,1
8,9.0,9.1,row,9.2,1
128,1.0,1.1,col,1.2,1
64,2.0,2.1,col,2.2,16
64,2.5,2.6,col,2.7,2
";

fn parse(text: &str) -> Recording {
    Recording::parse(Path::new("spaces/small.csv.gz"), text.as_bytes()).unwrap()
}

fn faults(text: &str) -> Vec<String> {
    let bad = Recording::parse(Path::new("small.csv"), text.as_bytes()).unwrap_err();
    bad.0.iter().map(ToString::to_string).collect()
}

#[test]
fn parameters_and_timings_are_told_apart_by_the_header() {
    let recording = parse(SMALL);
    assert_eq!(recording.name, "small");
    assert_eq!(recording.parameters, ["tile", "order", "split"]);
    assert_eq!(recording.samples[2], [1e6, 1.1e6, 1.2e6]);
    let space = recording.space();
    // Numbers in the order of their values (8 before 64, 2 before 16), words alphabetically.
    assert_eq!(space.position(0), [1, 1, 0]);
    assert_eq!(space.position(1), [0, 1, 0]);
    assert_eq!(space.position(2), [2, 0, 0]);
    assert_eq!(space.position(3), [1, 0, 2]);
    assert_eq!(space.position(4), [1, 0, 1]);
}

#[test]
fn all_faults_of_a_recording_come_together_with_their_lines() {
    let found = faults("tile,t0_ms,t1_ms\n8,1.0,0\n16,fast,2.0\n8,1.0,1.0\n");
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].starts_with("small.csv:2: t1_ms: `0` is no time in milliseconds"), "{}", found[0]);
    assert!(found[1].starts_with("small.csv:3: t0_ms: `fast`"), "{}", found[1]);
    assert!(found[2].starts_with("small.csv:4: the config of line 2 again"), "{}", found[2]);
    assert!(faults("tile,time\n8,1.0\n")[0].contains("has no timing column"));
    assert!(faults("t0_ms\n1.0\n")[0].contains("has no parameter column"));
    assert!(faults("tile,t0_ms\n")[0].contains("has no config"));
    assert!(faults("tile,t0_ms\n8\n")[0].contains("is no csv"));
    assert!(
        Recording::read(Path::new("no/such/file.csv")).unwrap_err().to_string().contains("cannot read it")
    );
}

#[test]
fn seeds_of_another_device_are_found_by_name_whatever_the_columns_order() {
    let here = parse(SMALL);
    let there = parse("split,order,tile,t0_ms\n2,col,64,5\n1,col,256,1\n1,row,8,2\n1,col,128,3\n");
    let times: Vec<f64> = there.samples.iter().map(|samples| samples[0]).collect();
    // The best there does not exist here.
    assert_eq!(here.seeds_from(&there, &times, 10), [1, 2, 4]);
    assert_eq!(here.seeds_from(&there, &times, 2), [1]);
    let other = parse("tile,waves,t0_ms\n8,1,5\n");
    assert!(here.seeds_from(&other, &[5.0], 10).is_empty());
}

#[test]
fn a_recorded_bench_serves_a_trace_in_its_order_over_and_over() {
    let traces = vec![vec![1.0, 2.0, 3.0], vec![7.0]];
    let serve = |seed: u64| {
        let mut bench = RecordedBench::new(&traces, 0.1, seed);
        (0..6).map(|slot| bench.measure(0, slot).unwrap().ns).collect::<Vec<_>>()
    };
    let served = serve(1);
    assert_eq!(served[..3], served[3..]);
    assert!(served.windows(2).all(|pair| pair[1] == pair[0] % 3.0 + 1.0), "{served:?}");
    assert_eq!(served, serve(1));
    assert!((0..20).any(|seed| serve(seed) != served));
    let mut bench = RecordedBench::new(&traces, 0.1, 1);
    bench.measure(1, 0).unwrap();
    assert_eq!(bench.measure(1, 1).unwrap().at_ns, 14.0);
}

/// 256 configs with a smooth optimum, twelve timings each that wander by a few tenths of a per cent.
fn synthetic(shift: f64) -> Recording {
    let mut text = String::from("a,b,c,d");
    (0..20).for_each(|sample| text += &format!(",t{sample}_ms"));
    for code in 0..256u32 {
        let digit = |index: u32| (code >> (2 * index)) & 3;
        let at = |index: u32| f64::from(digit(index));
        let log =
            0.3 * (at(0) - shift).abs() + 0.2 * (at(1) + at(2) - 3.0).abs() + 0.11 * at(3) + 0.013 * at(1);
        text += &format!("\n{},{},{},{}", 8 << digit(0), digit(1), digit(2), digit(3));
        for sample in 0..20u32 {
            let wander = f64::from((code * 7 + sample * 13) % 11) * 4e-4;
            text += &format!(",{:.6}", log.exp() * (1.0 + wander));
        }
    }
    parse(&text)
}

fn plan(strategy: &str) -> Plan {
    Plan { strategy: strategy.to_owned(), seeds: 12, first_seed: 0, max_evaluations: 256, skip: 4, warm: 10 }
}

#[test]
fn a_replay_repeats_and_ranks_strategies() {
    let recording = synthetic(2.0);
    let guided = replay_search(&recording, None, &plan("guided"));
    assert_eq!(guided, replay_search(&recording, None, &plan("guided")), "threads do not change it");
    let random = replay_search(&recording, None, &plan("random"));
    assert_eq!(guided.configs, 256);
    assert!(guided.within[2] >= 1 && guided.within[0] >= guided.within[1]);
    assert!(guided.median[2].unwrap() < random.median[2].unwrap(), "{guided:?} {random:?}");
    assert!(guided.median[0] <= guided.median[1] && guided.median[2] <= guided.p90[2]);
    assert!(guided.launches_per_config >= 1.0);
}

#[test]
fn another_devices_best_shorten_a_search() {
    let cold = replay_search(&synthetic(2.0), None, &plan("guided"));
    let warm = replay_search(&synthetic(2.0), Some(&synthetic(1.9)), &plan("guided"));
    assert!(warm.median[2].unwrap() <= 3, "{warm:?}");
    assert!(warm.median[2] < cold.median[2]);
    assert_eq!(warm.warm_from.as_deref(), Some("small"));
}

#[test]
fn races_pick_well_and_are_reported() {
    let recording = synthetic(2.0);
    let races = replay_race(&recording, 12, 40, &device_race(), &plan("guided"));
    assert!(races.regret_mean < 0.002, "{races:?}");
    assert!(races.samples_per_entrant < 12.0, "{races:?}");
    let slow = replay_race(&recording, 12, 40, &RaceOptions::default(), &plan("guided"));
    assert!(slow.samples_per_entrant > races.samples_per_entrant);
    let report = tilewright::replay::Report {
        searches: vec![replay_search(&recording, None, &plan("ils"))],
        races: vec![races],
        tunings: vec![replay_tuning(&recording, &device_race(), &plan("guided"))],
    };
    let tuning = &report.tunings[0];
    assert!(tuning.regret_mean < 0.002 && tuning.to_optimum_median < 0.01, "{tuning:?}");
    assert!(tuning.evaluations > 60.0 && tuning.evaluations <= 200.0, "{tuning:?}");
    let text = render(&report);
    assert!(text.contains("small") && text.contains("12 of the best 40"), "{text}");
    assert!(serde_json::to_string(&report).unwrap().contains("\"regret_mean\""));
}
