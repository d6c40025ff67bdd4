//! Reading a Hugging Face `config.json`: keys with their types and bounds, faults collected with their lines.

use std::path::Path;

use serde_json::{Map, Value};

use crate::diag::{BadInput, Fault, line_of};
use crate::shapes::document::quoted;

/// Largest size in a config that is believed: products of four of them still fit u64.
const MOST: u64 = 1 << 20;

/// Largest vocabulary that is believed.
const MOST_WORDS: u64 = 1 << 24;

/// The object that describes the language model, with the faults found in it so far.
pub(super) struct Config<'t> {
    file: &'t Path,
    text: &'t str,
    root: Map<String, Value>,
    /// `text_config` where the language model is nested in a multi-modal one.
    nested: bool,
    faults: Vec<Fault>,
}

impl<'t> Config<'t> {
    /// Parses the text of a config.
    pub(super) fn parse(file: &'t Path, text: &'t str) -> Result<Self, BadInput> {
        let help = "give the config.json of a Hugging Face model";
        let value: Value = serde_json::from_str(text).map_err(|error| {
            let mut fault = Fault::of_file(file, format!("not JSON: {error}"), help);
            fault.line = Some(error.line().max(1));
            BadInput(vec![fault])
        })?;
        let Value::Object(root) = value else {
            return Err(BadInput::one(file, "not a JSON object", help));
        };
        let nested =
            !root.contains_key("hidden_size") && root.get("text_config").is_some_and(Value::is_object);
        Ok(Config { file, text, root, nested, faults: Vec::new() })
    }

    /// Whether the language model is nested in a multi-modal one.
    pub(super) fn is_nested(&self) -> bool {
        self.nested
    }

    /// A value of the language model or, where it has none, of the whole model. `null` counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let inner = if self.nested { self.root["text_config"].get(key) } else { None };
        inner.or_else(|| self.root.get(key)).filter(|value| !value.is_null())
    }

    /// A string, if there is one.
    pub(super) fn string(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// A size that has to be there. After a fault it is 1, and [`Config::finish`] fails.
    pub(super) fn size(&mut self, key: &str) -> u64 {
        match self.optional_size(key) {
            Some(size) => size,
            None => {
                if self.get(key).is_none() {
                    self.fault(key, "missing", "the config of this model type has it");
                }
                1
            }
        }
    }

    /// A size with the value that the model type's own configuration class assumes for it.
    pub(super) fn size_or(&mut self, key: &str, default: u64) -> u64 {
        self.optional_size(key).unwrap_or(default)
    }

    /// A size that may be absent or null.
    pub(super) fn optional_size(&mut self, key: &str) -> Option<u64> {
        let most = if key == "vocab_size" { MOST_WORDS } else { MOST };
        let value = self.get(key)?;
        match value.as_u64().filter(|size| (1..=most).contains(size)) {
            Some(size) => Some(size),
            None => {
                let message = format!("{} is no size", quoted(&value.to_string()));
                self.fault(key, message, format!("allowed: integers from 1 to {most}"));
                None
            }
        }
    }

    /// A count that may be 0, as numbers of layers and experts may; absent is 0.
    pub(super) fn number(&mut self, key: &str) -> u64 {
        if self.get(key).is_some_and(|value| value.as_u64() == Some(0)) {
            return 0;
        }
        self.optional_size(key).unwrap_or(0)
    }

    /// `true` or `false`, or the default where it is absent.
    pub(super) fn flag(&mut self, key: &str, default: bool) -> bool {
        let Some(value) = self.get(key) else { return default };
        let (flag, shown) = (value.as_bool(), quoted(&value.to_string()));
        if flag.is_none() {
            self.fault(key, format!("{shown} is neither true nor false"), "");
        }
        flag.unwrap_or(default)
    }

    /// Distinct layer numbers below `layers`; absent is none.
    pub(super) fn layer_list(&mut self, key: &str, layers: u64) -> Vec<u64> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let numbers =
            value.as_array().map(|list| list.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>());
        match numbers.flatten().filter(|list| list.iter().all(|layer| *layer < layers)) {
            Some(mut list) => {
                list.sort_unstable();
                list.dedup();
                list
            }
            None => {
                self.fault(key, "not a list of layer numbers", format!("layers are 0 to {}", layers - 1));
                Vec::new()
            }
        }
    }

    /// Notes a fault of a key.
    pub(super) fn fault(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.note(key, key, message.into(), help.into());
    }

    /// Notes a size that does not divide; the message names the key with its value.
    pub(super) fn indivisible(&mut self, key: &str, size: u64, by: &str, help: &str) {
        self.note(key, "", format!("{key} = {size} is not divisible by {by}"), help.into());
    }

    fn note(&mut self, key: &str, field: &str, message: String, help: String) {
        let (file, line, field) = (self.file.into(), self.line(key), field.into());
        let fault = Fault { file, line, field, message, help };
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    /// All faults so far, if there is one, in the order of their lines.
    pub(super) fn finish(&mut self) -> Result<(), BadInput> {
        if self.faults.is_empty() {
            return Ok(());
        }
        let mut faults = std::mem::take(&mut self.faults);
        faults.sort_by_key(|fault| fault.line);
        Err(BadInput(faults))
    }

    /// Where a key stands. JSON values carry no position; the first place that reads like the key is it.
    fn line(&self, key: &str) -> Option<usize> {
        let find = |from: usize, key: &str| {
            let quoted = format!("\"{key}\"");
            let mut at = from;
            loop {
                let found = at + self.text.get(at..)?.find(&quoted)?;
                at = found + quoted.len();
                if self.text[at..].trim_start().starts_with(':') {
                    return Some(found);
                }
            }
        };
        let from = if self.nested { find(0, "text_config").unwrap_or(0) } else { 0 };
        Some(line_of(self.text, find(from, key).or_else(|| find(0, key))?))
    }
}
