//! The legal points of a set of families for one problem on one device.
//!
//! A space is enumerated under [`is_launchable`], the same predicate dispatch uses, so it holds exactly what could be
//! dispatched, less what its family calls redundant. Points are kept in canonical order (family, then positions), which
//! makes every index into a space reproducible within a run; indices are never written down.
//!
//! Of a domain the first 256 values are enumerated. Only a library's algorithm descriptions have longer ones, and those
//! are not enumerated but [suggested](crate::backend::Backend::suggest).

use crate::config::Config;
use crate::device::Device;
use crate::family::{Family, is_launchable};
use crate::problem::Problem;

/// Every launchable, not redundant config of `family` for a problem, in canonical order.
pub fn enumerate(family: &'static Family, problem: &Problem, device: &Device) -> Vec<Config> {
    let mut found = Vec::new();
    if family.backend != device.backend || !family.formats.contains(&problem.b) {
        return found;
    }
    let narrowed: Vec<Vec<u8>> = (0..family.params.len())
        .map(|param| {
            let domain = &family.params[param].domain;
            let is_hopeful = |p: &u8| (family.narrow)(param, domain.value(*p as usize), problem, device);
            (0..=u8::MAX).take(domain.len()).filter(is_hopeful).collect()
        })
        .collect();
    if narrowed.iter().any(Vec::is_empty) {
        return found;
    }
    let mut turns = vec![0; narrowed.len()];
    let mut positions: Vec<u8> = narrowed.iter().map(|positions| positions[0]).collect();
    loop {
        let config = Config::at(family, &positions);
        if is_launchable(&config, problem, device).is_ok() && !(family.redundant)(&config, problem, device) {
            found.push(config);
        }
        // An odometer over the domains, last parameter fastest.
        let Some(turn) = (0..turns.len()).rev().find(|&p| turns[p] + 1 < narrowed[p].len()) else {
            return found;
        };
        turns[turn] += 1;
        turns[turn + 1..].fill(0);
        for p in turn..turns.len() {
            positions[p] = narrowed[p][turns[p]];
        }
    }
}
