//! Numbers as people read them.

/// Nanoseconds with a unit, three to four digits.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_have_a_unit_and_three_to_four_digits() {
        assert_eq!(time(0.5), "0.50 ns");
        assert_eq!(time(999.4), "999 ns");
        assert_eq!(time(12_345.0), "12.3 µs");
        assert_eq!(time(2_500_000.0), "2.50 ms");
        assert_eq!(time(3.2e9), "3.20 s");
    }
}
