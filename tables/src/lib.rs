//! Generated dispatch tables.
//!
//! Each table is three files in the folder of its device, `<device>/<model>.toml` (decisions), `.csv` (evidence) and
//! `.rs` (generated from the decisions). [`generated`] lists the modules; `tilewright compile` keeps it up to date.
//! This crate holds data only: lookup and launch are `tilewright_dispatch`'s.

pub mod generated;

use tilewright_dispatch::TableData;

/// The table of a model on a device, by the device's key.
pub fn find(device: &str, model: &str) -> Option<&'static TableData<'static>> {
    generated::TABLES.iter().copied().find(|table| table.device == device && table.model == model)
}

/// The tables of a model, on every device it was tuned on.
pub fn of_model(model: &str) -> impl Iterator<Item = &'static TableData<'static>> {
    generated::TABLES.iter().copied().filter(move |table| table.model == model)
}
