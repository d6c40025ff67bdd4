//! Between declared Ms: changes of kernel are located by measuring, and rows that a larger M beats are measured again.

mod model_rig;
mod table_fixture;

use std::cell::Cell;
use std::rc::Rc;

use model_rig::{ModelRig, config_factor, replay, run};
use tilewright::tune::{Candidate, Rig};
use tilewright_kernels::family::fallback;
use tilewright_kernels::{Format, Layout, OutType, Problem};

fn shapes(m: &str) -> String {
    format!(
        "[model]\nname = \"crossing\"\n[[gemm]]\nname = \"w\"\nn = 64\nk = 64\nm = {m}\nformats = [\"bf16\"]\n"
    )
}

fn is_alone(candidate: &Candidate) -> bool {
    candidate.config.get("threads") == Some(1)
}

/// One thread is faster below M = 25, several are above.
fn crossing(candidate: &Candidate) -> f64 {
    let m = f64::from(candidate.problem.m);
    let ns = if is_alone(candidate) { 1000.0 + 100.0 * m } else { 3000.0 + 20.0 * m };
    ns * (1.0 + (config_factor(candidate) - 1.0) / 20.0)
}

#[test]
fn a_change_of_kernel_is_located_to_a_quarter_or_a_tie() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("crossing.journal");
    let shapes = shapes("[1, 256]");
    let tuned = run(&shapes, Box::new(ModelRig::new(crossing)), Some(&journal), None);
    let weight = &tuned.decisions.weights[0];
    let rows: Vec<(u32, bool, bool)> =
        weight.rows.iter().map(|row| (row.m, row.config.contains("threads=1"), row.weight > 0.0)).collect();
    assert!(rows.len() > 3 && rows.len() < 9, "{rows:?}");
    assert!(
        rows.iter().all(|(m, _, share)| *share == [1, 256].contains(m)),
        "only declared M have a share: {rows:?}"
    );
    for (m, alone, _) in &rows {
        if !(22..=28).contains(m) {
            assert_eq!(*alone, *m < 25, "{rows:?}");
        }
    }
    let last = rows.iter().rfind(|(_, alone, _)| *alone).unwrap().0;
    let first = rows.iter().find(|(_, alone, _)| !alone).unwrap().0;
    assert!(last >= 16 && first <= 32, "changes between {last} and {first}");
    assert_eq!(replay(&shapes, &journal, None).files, tuned.files, "and a replay does the same");
    // Without measurements between, the change would be at M = 17.
    assert!(tuned.files[2].contains(&format!("    [{}, {first}, 0x", first.isqrt().max(1))) || first > 16);
}

#[test]
fn what_does_not_change_is_not_measured_between() {
    // The default, which takes part in every final, is the fastest at both Ms.
    let problem = Problem { out: OutType::F32, ..Problem::new(16, 64, 64, Format::Bf16) };
    let default = fallback(&problem, Layout::Panel16, &table_fixture::device()).unwrap();
    let alike = move |candidate: &Candidate| if candidate.config == default { 1000.0 } else { 2000.0 };
    let tuned = run(&shapes("[16, 256]"), Box::new(ModelRig::new(alike)), None, None);
    let ms: Vec<u32> = tuned.decisions.weights[0].rows.iter().map(|row| row.m).collect();
    assert_eq!(ms, [16, 256]);
}

#[test]
fn a_row_that_a_larger_m_beats_is_measured_again() {
    // How often measuring went on from M = 4 to M = 5, and the M of the last launch.
    let course = Rc::new(Cell::new((0u64, 0u32)));
    let shapes = shapes("[4, 5]");
    // M = 4 has a bad day until measuring has gone on that often.
    let rig = |well: u64| -> Box<dyn Rig> {
        let course = course.clone();
        course.set((0, 0));
        Box::new(ModelRig::new(move |candidate: &Candidate| {
            let (steps, before) = course.get();
            let m = candidate.problem.m;
            course.set((steps + u64::from((before, m) == (4, 5)), m));
            let ill = m == 4 && steps < well;
            (10_000.0 + f64::from(m)) * config_factor(candidate) * if ill { 3.0 } else { 1.0 }
        }))
    };
    let sound = run(&shapes, rig(0), None, None);
    let (steps, last) = course.get();
    assert_eq!(last, 5, "nothing is measured again on a good day");
    let mended = run(&shapes, rig(steps), None, None);
    assert_eq!(course.get(), (steps, 4), "M = 4 was measured again");
    let times = |tuned: &model_rig::Tuned| -> Vec<f64> {
        tuned.decisions.weights[0].rows.iter().map(|row| row.time_ns).collect()
    };
    for (mended, sound) in times(&mended).into_iter().zip(times(&sound)) {
        assert!((mended / sound - 1.0).abs() < 0.03, "{mended} {sound}");
    }
    let ill = run(&shapes, rig(u64::MAX), None, None);
    assert!(times(&ill)[0] > 2.5 * times(&ill)[1], "what stays slow is not talked away");
}
