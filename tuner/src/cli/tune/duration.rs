//! Times as people write them.

/// Reads `90s`, `2m`, `1h30m`, or plain seconds.
pub(in crate::cli) fn parse_duration(text: &str) -> Result<f64, String> {
    let help = || format!("{text:?} is not a time such as 90s, 2m or 1h30m");
    let mut seconds = 0.0;
    let mut number = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() || c == '.' {
            number.push(c);
            continue;
        }
        let unit = match c {
            's' => 1.0,
            'm' => 60.0,
            'h' => 3600.0,
            _ => return Err(help()),
        };
        seconds += unit * number.parse::<f64>().map_err(|_| help())?;
        number.clear();
    }
    if !number.is_empty() {
        seconds += number.parse::<f64>().map_err(|_| help())?;
    }
    if seconds > 0.0 && seconds.is_finite() { Ok(seconds) } else { Err(help()) }
}

#[cfg(test)]
mod tests {
    use super::parse_duration;

    #[test]
    fn durations_are_read_and_nonsense_is_refused() {
        assert_eq!(parse_duration("90s"), Ok(90.0));
        assert_eq!(parse_duration("2m"), Ok(120.0));
        assert_eq!(parse_duration("1h30m"), Ok(5400.0));
        assert_eq!(parse_duration("1.5"), Ok(1.5));
        for bad in ["", "0s", "-1s", "2 m", "m", "1d", "1e9"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
