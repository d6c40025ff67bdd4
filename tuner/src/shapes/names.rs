//! Names of models and GEMMs. They become file names, table keys and text in generated code, so the alphabet is small.

/// Longest name.
pub(super) const LONGEST: usize = 64;

/// Why a name is not allowed.
pub(super) fn fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > LONGEST {
        Some("is longer than 64 characters")
    } else if !name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-')) {
        Some("holds other characters than a-z, 0-9, '.', '_' and '-'")
    } else if !name.as_bytes()[0].is_ascii_alphanumeric() {
        Some("does not begin with a letter or digit")
    } else {
        None
    }
}

/// What to do about it.
pub(super) const HELP: &str = "names become file names and generated code: 1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit";

/// The nearest allowed name, or empty where nothing of it is allowed.
pub fn sanitised(name: &str) -> String {
    let replace = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let name: String = name.to_ascii_lowercase().chars().map(replace).collect();
    name.trim_matches(|c: char| !c.is_ascii_alphanumeric()).chars().take(LONGEST).collect()
}
