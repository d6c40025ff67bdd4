//! Which devices a run is for: `cuda:0-3`, `cuda:all`, `cpu:0-3,4-7`, `cuda:0,cuda:2`.
//!
//! A number or range of GPUs stands for as many devices. Cores of a CPU are partitioned: each range is one device, whose worker
//! stays on it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::cores;

/// A device to start a worker for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// What [`crate::devices::open`] takes.
    pub name: String,
    /// The cores it stays on, of a CPU.
    pub cores: Option<String>,
}

impl DeviceName {
    /// As people write it.
    pub fn text(&self) -> String {
        self.cores.as_ref().map_or_else(|| self.name.clone(), |cores| format!("{}:{cores}", self.name))
    }
}

/// Reads a list of devices. `all` is asked for the devices of a kind that this machine has.
///
/// # Errors
/// If it is no list, or names a device or a core twice.
pub fn parse(
    text: &str,
    all: impl Fn(&str) -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<Vec<DeviceName>> {
    let mut devices: Vec<DeviceName> = Vec::new();
    let mut kind = None;
    for part in text.split(',') {
        let (this, which) = match part.split_once(':') {
            Some((this, which)) => (this, which),
            // `cpu:0-3,4-7`: the second range is of the same kind.
            None if part.starts_with(|c: char| c.is_ascii_digit()) && kind.is_some() => {
                (kind.expect("just asked"), part)
            }
            None => {
                devices.push(DeviceName { name: part.into(), cores: None });
                continue;
            }
        };
        kind = Some(this);
        let refused = || format!("--device {text}");
        match (this, which) {
            ("cpu", which) => {
                cores::parse(which).with_context(refused)?;
                devices.push(DeviceName { name: this.into(), cores: Some(which.into()) });
            }
            (this, "all") => {
                let found = all(this)?;
                if found.is_empty() {
                    bail!("--device {text}: this machine has none (see `tilewright devices`)");
                }
                devices.extend(found.into_iter().map(|name| DeviceName { name, cores: None }));
            }
            (this, which) if which.contains('-') => {
                let numbers = cores::parse(which).with_context(refused)?;
                let named = numbers.into_iter().map(|number| format!("{this}:{number}"));
                devices.extend(named.map(|name| DeviceName { name, cores: None }));
            }
            (this, which) => devices.push(DeviceName { name: format!("{this}:{which}"), cores: None }),
        }
    }
    check(text, &devices)?;
    Ok(devices)
}

fn check(text: &str, devices: &[DeviceName]) -> anyhow::Result<()> {
    let mut cores_taken: Vec<usize> = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        if devices[..index].contains(device) {
            bail!("--device {text}: {} is named twice", device.text());
        }
        let own = device.cores.as_ref().map(|cores| cores::parse(cores)).transpose()?.unwrap_or_default();
        if let Some(core) = own.iter().find(|core| cores_taken.contains(core)) {
            bail!("--device {text}: core {core} is in two partitions");
        }
        cores_taken.extend(own);
    }
    Ok(())
}

/// The devices of a kind, as another process of this program lists them: opening a driver to count is not for the tuner.
///
/// # Errors
/// If they cannot be listed.
pub fn all_of(kind: &str, executable: &Path) -> anyhow::Result<Vec<String>> {
    let mut command = Command::new(executable);
    let output = command.args(["devices", "--json"]).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("{}: cannot be run", executable.display()))?;
    let listed: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("`tilewright devices` did not answer")?;
    let entries = listed["devices"].as_array().map_or(&[][..], Vec::as_slice).iter();
    let is_there = |entry: &&serde_json::Value| entry["key"].is_string();
    let names = entries.filter(is_there).filter_map(|entry| entry["name"].as_str());
    Ok(names.filter(|name| name.starts_with(&format!("{kind}:"))).map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> anyhow::Result<Vec<String>> {
        let all = |kind: &str| Ok((0..2).map(|number| format!("{kind}:{number}")).collect());
        Ok(parse(text, all)?.iter().map(DeviceName::text).collect())
    }

    #[test]
    fn lists_ranges_and_all_are_read() {
        assert_eq!(names("cpu").unwrap(), ["cpu"]);
        assert_eq!(names("cuda:0").unwrap(), ["cuda:0"]);
        assert_eq!(names("cuda:0-2").unwrap(), ["cuda:0", "cuda:1", "cuda:2"]);
        assert_eq!(names("hip:all").unwrap(), ["hip:0", "hip:1"]);
        assert_eq!(names("cpu:0-3,4-7").unwrap(), ["cpu:0-3", "cpu:4-7"]);
        assert_eq!(names("cuda:0,2,hip:1").unwrap(), ["cuda:0", "cuda:2", "hip:1"]);
    }

    #[test]
    fn a_device_or_core_that_is_named_twice_is_refused() {
        for bad in ["cuda:0,0", "cuda:0-2,1", "cpu:0-3,3-5", "cpu:3-1", "cpu:x"] {
            assert!(names(bad).is_err(), "{bad}");
        }
    }
}
