//! Lookup and launch.
