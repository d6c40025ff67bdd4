//! Generated dispatch tables.
