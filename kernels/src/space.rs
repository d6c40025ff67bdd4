//! The legal points of a set of families for one problem on one device.
//!
//! A space is enumerated under [`is_launchable`], the same predicate dispatch uses, so it holds exactly what could be
//! dispatched, less what its family calls redundant. Points are kept in canonical order (family, then positions), which makes every index into a space
//! reproducible within a run; indices are never written down.

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
    let mut positions = vec![0u8; family.params.len()];
    loop {
        let config = Config::at(family, &positions);
        if is_launchable(&config, problem, device).is_ok() && !(family.redundant)(&config, problem) {
            found.push(config);
        }
        // An odometer over the domains, last parameter fastest.
        let Some(turn) =
            (0..positions.len()).rev().find(|&p| (positions[p] as usize) + 1 < family.params[p].domain.len())
        else {
            return found;
        };
        positions[turn] += 1;
        positions[turn + 1..].fill(0);
    }
}
