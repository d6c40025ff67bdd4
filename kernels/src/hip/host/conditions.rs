//! Temperature and clock of a GPU, from the `amdgpu` driver's files under `/sys` (hwmon: `temp1_input` in thousandths
//! of a degree, `freq1_input` in Hz).

use std::fmt;
use std::path::Path;

/// What a GPU was like at one moment. A value that the operating system does not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Edge or junction temperature, in degrees Celsius.
    pub celsius: Option<f64>,
    /// Engine clock, in MHz.
    pub engine_mhz: Option<f64>,
}

impl Conditions {
    pub(super) fn read(pci: &str) -> Conditions {
        Conditions::below(&Path::new("/sys/bus/pci/devices").join(pci.to_ascii_lowercase()).join("hwmon"))
    }

    fn below(folder: &Path) -> Conditions {
        let Some(Ok(monitor)) = std::fs::read_dir(folder).ok().and_then(|mut monitors| monitors.next())
        else {
            return Conditions::default();
        };
        let number = |name: &str| {
            let text = std::fs::read_to_string(monitor.path().join(name)).ok()?;
            text.trim().parse::<f64>().ok()
        };
        Conditions {
            celsius: number("temp1_input").map(|n| n / 1e3),
            engine_mhz: number("freq1_input").map(|n| n / 1e6),
        }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.celsius {
            Some(celsius) => write!(f, "{celsius:.0} °C")?,
            None => f.write_str("temperature unknown")?,
        }
        match self.engine_mhz {
            Some(mhz) => write!(f, ", {mhz:.0} MHz"),
            None => f.write_str(", clock unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_writes_is_read_and_what_is_missing_is_said() {
        let folder = std::env::temp_dir().join(format!("tilewright-conditions-{}", std::process::id()));
        let monitor = folder.join("hwmon3");
        std::fs::create_dir_all(&monitor).unwrap();
        std::fs::write(monitor.join("temp1_input"), "61000\n").unwrap();
        let found = Conditions::below(&folder);
        assert_eq!(found, Conditions { celsius: Some(61.0), engine_mhz: None });
        assert_eq!(found.to_string(), "61 °C, clock unknown");
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(Conditions::below(&folder), Conditions::default());
    }
}
