//! `tilewright devices`: what can be tuned on here.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use tilewright_kernels::backend::Backend;

use crate::devices::{Listed, hip_toolchain, list};

/// List the devices that can be tuned on.
#[derive(Args)]
pub(super) struct DevicesArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl DevicesArgs {
    /// Prints the list.
    ///
    /// # Errors
    /// None; a machine without a GPU is not an error.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let listed = list();
        if self.json {
            let missing = listed.iter().filter_map(|Listed { name, backend }| {
                let why = backend.as_ref().err()?;
                Some(json!({ "backend": name, "reason": format!("{why:#}") }))
            });
            let devices = listed
                .iter()
                .filter_map(|Listed { name, backend }| Some(entry(name, backend.as_ref().ok()?.as_ref())));
            let all = json!({
                "devices": devices.collect::<Vec<_>>(),
                "missing": missing.collect::<Vec<_>>(),
                "hip_compiler": hip_toolchain().ok().map(|found| found.version().to_string()),
            });
            println!("{}", serde_json::to_string_pretty(&all)?);
            return Ok(ExitCode::SUCCESS);
        }
        for Listed { name, backend } in &listed {
            match backend {
                Ok(backend) => print(name, backend.as_ref()),
                Err(why) => println!("{name:<8} none: {why:#}"),
            }
        }
        match hip_toolchain() {
            Ok(found) => println!("HIP kernels are compiled by {}", found.version()),
            Err(missing) => println!("HIP kernels cannot be compiled: {missing}"),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn entry(name: &str, backend: &dyn Backend) -> Value {
    let (device, fingerprint) = (backend.device(), backend.fingerprint());
    json!({
        "name": name,
        "key": fingerprint.key(),
        "model": fingerprint.model,
        "features": fingerprint.features,
        "paths": device.caps.names().collect::<Vec<_>>(),
        "units": device.units,
        "caches_kib": [device.l1_kib, device.l2_kib, device.llc_kib],
    })
}

fn print(name: &str, backend: &dyn Backend) {
    let (device, fingerprint) = (backend.device(), backend.fingerprint());
    let caches = [device.l1_kib, device.l2_kib, device.llc_kib];
    println!("{name:<8} {}", fingerprint.model);
    println!("         key       {}", fingerprint.key());
    println!("         units     {}", device.units);
    println!("         caches    L1 {} KiB, L2 {} KiB, last level {} KiB", caches[0], caches[1], caches[2]);
    println!("         features  {}", fingerprint.features.join(" "));
    let families: Vec<&str> = backend.families().iter().map(|family| family.name).collect();
    println!("         families  {}", families.join(" "));
}
