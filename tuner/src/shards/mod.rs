//! Splitting a tuning job for a cluster: shards that know nothing of each other, and a merge at the end.
//!
//! A shard is a declaration of some of the GEMMs, for the same model, that is tuned into a folder of its own; a cluster's
//! scheduler runs them, restarts the ones it pre-empted (they go on where they were), and the last one merges. GEMMs that
//! ask the same question stay together, so nothing is measured twice. Sizes are balanced by the cost of the problems.

mod script;

use tilewright_kernels::BackendKind;

use crate::shapes::{Declaration, Gemm};
use crate::tune::{Costs, Settings, plan_work};

pub use script::{commands, sbatch};

/// Splits a declaration into at most `count` shards, none of them empty. The result depends on the declaration alone.
///
/// # Panics
/// If `count` is 0.
pub fn split(declaration: &Declaration, count: usize) -> Vec<Declaration> {
    assert!(count > 0, "no shards were asked for");
    // Which device will run them is not known; on each the same GEMMs ask the same question.
    let works = plan_work(declaration, BackendKind::Cpu, None).expect("only weights can be missing");
    let costs = Costs::new(&works, &Settings::default());
    let mut order: Vec<usize> = (0..works.len()).collect();
    order.sort_by(|x, y| costs.of(*y).total_cmp(&costs.of(*x)).then(x.cmp(y)));
    // The largest first, each to the shard that has least so far.
    let mut shards: Vec<(f64, Vec<usize>)> = vec![(0.0, Vec::new()); count.min(works.len())];
    for work in order {
        let least = shards.iter().enumerate().min_by(|(i, x), (j, y)| x.0.total_cmp(&y.0).then(i.cmp(j)));
        let least = least.expect("there is a shard").0;
        shards[least].0 += costs.of(work);
        shards[least].1.extend(&works[work].gemms);
    }
    let declaration_of = |(_, mut gemms): (f64, Vec<usize>)| {
        gemms.sort_unstable();
        let gemms: Vec<Gemm> = gemms.into_iter().map(|index| declaration.gemms[index].clone()).collect();
        let part = Declaration { gemms, ..declaration.clone() };
        let text = part.to_toml();
        Declaration::parse(&declaration.file, &text).expect("a part of a declaration is one")
    };
    shards.into_iter().map(declaration_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn shards_hold_every_gemm_once_and_equal_questions_together() {
        let gemm = |name: &str, n: u32| format!("[[gemm]]\nname = \"{name}\"\nn = {n}\nk = 64\nm = [1, 8]\n");
        let gemms = [("a", 4096), ("b", 64), ("c", 4096), ("d", 2048), ("e", 2048)];
        let text: String = gemms.iter().map(|(name, n)| gemm(name, *n)).collect();
        let whole =
            Declaration::parse(Path::new("m.toml"), &format!("[model]\nname = \"m\"\n{text}")).unwrap();
        let names = |count: usize| -> Vec<Vec<String>> {
            let shards = split(&whole, count);
            shards.iter().map(|shard| shard.gemms.iter().map(|gemm| gemm.name.clone()).collect()).collect()
        };
        assert_eq!(names(1).concat(), ["a", "b", "c", "d", "e"]);
        let two = names(2);
        assert_eq!(two.len(), 2);
        let mut all = two.concat();
        all.sort();
        assert_eq!(all, ["a", "b", "c", "d", "e"]);
        assert!(two.iter().any(|shard| shard.contains(&"a".into()) && shard.contains(&"c".into())));
        // There are three questions.
        assert_eq!(names(9).len(), 3);
    }
}
