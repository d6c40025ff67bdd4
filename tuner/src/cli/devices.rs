//! `tilewright devices`: what can be tuned on here.

use std::process::ExitCode;

use clap::Args;
use tilewright_kernels::backend::Backend;
use tilewright_kernels::cpu::Cpu;

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
        let cpu = Cpu::detect();
        let (device, fingerprint) = (cpu.device(), cpu.fingerprint());
        let caps: Vec<&str> = device.caps.names().collect();
        if self.json {
            let entry = serde_json::json!({
                "name": "cpu",
                "key": fingerprint.key(),
                "model": fingerprint.model,
                "features": fingerprint.features,
                "paths": caps,
                "units": device.units,
                "caches_kib": [device.l1_kib, device.l2_kib, device.llc_kib],
            });
            println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "devices": [entry] }))?);
            return Ok(ExitCode::SUCCESS);
        }
        println!("cpu    {}", fingerprint.model);
        println!("       key       {}", fingerprint.key());
        println!("       cores     {}", device.units);
        println!(
            "       caches    L1 {} KiB, L2 {} KiB, last level {} KiB",
            device.l1_kib, device.l2_kib, device.llc_kib
        );
        println!("       features  {}", fingerprint.features.join(" "));
        let families: Vec<&str> = cpu.families().iter().map(|family| family.name).collect();
        println!("       families  {}", families.join(" "));
        println!("hip    not part of this build: the backend for AMD GPUs does not exist yet");
        println!(
            "cuda   kernels and host exist (feature cuda of tilewright-kernels); the tuner does not use them yet"
        );
        Ok(ExitCode::SUCCESS)
    }
}
