//! Ranges of cores: `0-3`, or `5`.

use anyhow::Context;

/// More cores than this no machine has.
const MOST: usize = 1024;

/// The cores of a range, in order.
///
/// # Errors
/// If it is no range.
pub fn parse(text: &str) -> anyhow::Result<Vec<usize>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<usize>().ok().filter(|core| *core < MOST);
    let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
    let (first, last) = range.with_context(|| format!("{text:?} is no range of cores such as 0-3"))?;
    Ok((first..=last).collect())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn ranges_are_read_and_nonsense_is_refused() {
        assert_eq!(parse("0-3").unwrap(), [0, 1, 2, 3]);
        assert_eq!(parse("5").unwrap(), [5]);
        for bad in ["", "-", "3-1", "a", "0-", "0-99999999999", "1-2-3", "-1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
