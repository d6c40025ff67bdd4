//! TunableOp's and hipBLASLt's files: the rows' own keys, under the versions that they hold for.

use super::{Key, Target};
use crate::import::Prior;

/// The versions, by which files are told apart, and the key of a row.
pub(super) fn place(target: Target, prior: &Prior) -> Result<(String, Key), String> {
    if prior.software.is_empty() {
        return Err(
            "the file it is from records no versions, without which its library takes nothing from it".into(),
        );
    }
    if prior.origin.is_empty() {
        return Err("the row's own key is not in the evidence".into());
    }
    let key = match target {
        // Results stand at the end of a row: the problem is what comes before them.
        Target::HipBlasLt => prior.origin.split(',').take(31).collect::<Vec<_>>().join(","),
        _ => prior.origin.clone(),
    };
    let Prior { m, n, k, .. } = *prior;
    Ok((prior.software.clone(), (vec![n, k, m], key)))
}

/// A file of results; its number is the device's in TunableOp's own names.
pub(super) fn tunableop(number: usize, rows: &[&Prior]) -> (String, String) {
    let mut text = String::new();
    for (name, value) in versions(&rows[0].software) {
        text += &format!("Validator,{name},{value}\n");
    }
    for row in rows {
        let ms = (row.time_ns.unwrap_or(f64::NAN) * 1e3).round() / 1e9;
        text += &format!("{},{},{ms}\n", row.origin, row.kernel);
    }
    (format!("tunableop_results{number}.csv"), text)
}

/// A tuning file.
pub(super) fn hipblaslt(number: usize, rows: &[&Prior]) -> (String, String) {
    let mut text = String::new();
    for (_, version) in versions(&rows[0].software) {
        text += &format!("Git Version: {version}\n");
    }
    for row in rows {
        text += &format!("{}\n", row.origin);
    }
    (format!("hipblaslt_tuning{number}.txt"), text)
}

/// `NAME=value` pairs between blanks; a value may hold blanks.
fn versions(software: &str) -> Vec<(&str, String)> {
    let mut versions: Vec<(&str, String)> = Vec::new();
    for word in software.split(' ') {
        match (word.split_once('='), versions.last_mut()) {
            (Some((name, value)), _) => versions.push((name, value.to_owned())),
            (None, Some((_, value))) => *value += &format!(" {word}"),
            (None, None) => {}
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::versions;

    #[test]
    fn versions_with_blanks_stay_whole() {
        let found = versions("A=1.2 B=x y,z C=3");
        assert_eq!(found, [("A", "1.2".into()), ("B", "x y,z".into()), ("C", "3".into())]);
    }
}
