//! One point of a family's space, and its identity.
//!
//! The canonical text is `family@revision(param=value,…)` with parameters in name order, for instance
//! `cpu.skinny_bf16@1(layout=panel16,path=avx512_bf16,…)`. It depends on nothing but the family's own name, revision
//! and values: not on the order of families, parameters or domains. [`ConfigId`] is the 64-bit FNV-1a hash of that
//! text (Fowler, Noll, Vo; offset 0xcbf29ce484222325, prime 0x100000001b3). Tables, journal, generated code and
//! runtime carry text and id together, so that a collision is found when a table is compiled.

use core::fmt::{self, Write as _};
use core::hash::{Hash, Hasher};

use crate::family::{Domain, Family, MAX_PARAMS, family};
use crate::layout::Layout;

/// One point of a family's parameter space.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Config {
    family: &'static Family,
    values: [u32; MAX_PARAMS],
}

impl Config {
    /// A config from positions in each parameter's domain, in the family's parameter order.
    ///
    /// # Panics
    /// If there are too few positions or one is outside its domain.
    pub fn at(family: &'static Family, positions: &[u8]) -> Self {
        let mut values = [0; MAX_PARAMS];
        for (index, param) in family.params.iter().enumerate() {
            values[index] = param.domain.value(positions[index] as usize);
        }
        Config { family, values }
    }

    /// A config from stored values (numbers, or positions of names), in the family's parameter order.
    ///
    /// # Panics
    /// If a value is outside its parameter's domain or their number differs.
    pub fn from_values(family: &'static Family, given: &[u32]) -> Self {
        assert_eq!(given.len(), family.params.len(), "{} has other parameters", family.name);
        let mut values = [0; MAX_PARAMS];
        for (index, param) in family.params.iter().enumerate() {
            assert!(param.domain.position(given[index]).is_some(), "{}: {}", family.name, param.name);
            values[index] = given[index];
        }
        Config { family, values }
    }

    /// Reads canonical text. Parameters may come in any order; each must be there once.
    ///
    /// # Errors
    /// If the family, its revision, a parameter or a value is not known, or a parameter is missing or repeated.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let (head, rest) = text.split_once('(').ok_or(ConfigError::Syntax)?;
        let (name, revision) = head.split_once('@').ok_or(ConfigError::Syntax)?;
        let family = family(name).ok_or(ConfigError::UnknownFamily)?;
        if revision.parse() != Ok(family.revision) {
            return Err(ConfigError::OtherRevision);
        }
        let body = rest.strip_suffix(')').ok_or(ConfigError::Syntax)?;
        let mut values = [0; MAX_PARAMS];
        let mut seen = 0u32;
        for assignment in body.split(',').filter(|part| !part.is_empty()) {
            let (param, value) = assignment.split_once('=').ok_or(ConfigError::Syntax)?;
            let index = family.param_index(param).ok_or(ConfigError::UnknownParam)?;
            if seen & (1 << index) != 0 {
                return Err(ConfigError::RepeatedParam(family.params[index].name));
            }
            seen |= 1 << index;
            values[index] = match family.params[index].domain {
                Domain::Numbers(domain) => value.parse().ok().filter(|v| domain.contains(v)),
                Domain::Names(names) => names.iter().position(|n| *n == value).map(|p| p as u32),
            }
            .ok_or(ConfigError::UnknownValue(family.params[index].name))?;
        }
        match (0..family.params.len()).find(|index| seen & (1 << index) == 0) {
            Some(missing) => Err(ConfigError::MissingParam(family.params[missing].name)),
            None => Ok(Config { family, values }),
        }
    }

    /// The family it belongs to.
    pub const fn family(&self) -> &'static Family {
        self.family
    }

    /// Stored values, in the family's parameter order.
    pub fn values(&self) -> &[u32] {
        &self.values[..self.family.params.len()]
    }

    /// The stored value at a position of the family's parameter list.
    pub const fn value(&self, index: usize) -> u32 {
        self.values[index]
    }

    /// The stored value of a parameter, if the family has it.
    pub fn get(&self, param: &str) -> Option<u32> {
        self.family.param_index(param).map(|index| self.values[index])
    }

    /// The same config with one parameter changed.
    ///
    /// # Panics
    /// If the family has no such parameter, or the value is outside its domain.
    pub fn with(mut self, param: &str, value: u32) -> Self {
        let index = self.family.param_index(param).expect("the family has this parameter");
        assert!(
            self.family.params[index].domain.position(value).is_some(),
            "{param}={value}: not in its domain"
        );
        self.values[index] = value;
        self
    }

    /// The weight layout it reads: the value of its parameter `layout`.
    pub fn layout(&self) -> Layout {
        let index = self.family.param_index("layout").expect("every family has a layout parameter");
        match self.family.params[index].domain {
            Domain::Names(names) => Layout::from_name(names[self.values[index] as usize])
                .expect("layout domains hold layout names"),
            Domain::Numbers(_) => unreachable!("layout domains hold names"),
        }
    }

    /// The hash of the canonical text.
    pub fn id(&self) -> ConfigId {
        let mut hasher = Fnv1a::new();
        write!(hasher, "{self}").expect("hashing cannot fail");
        ConfigId(hasher.0)
    }
}

impl Hash for Config {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.family.name.hash(state);
        self.values().hash(state);
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}(", self.family.name, self.family.revision)?;
        for (index, param) in self.family.params.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match param.domain {
                Domain::Numbers(_) => write!(f, "{comma}{}={}", param.name, self.values[index])?,
                Domain::Names(names) => {
                    write!(f, "{comma}{}={}", param.name, names[self.values[index] as usize])?
                }
            }
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The short content hash of a config, written as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConfigId(pub u64);

impl ConfigId {
    /// The id of a canonical text.
    pub const fn of_text(text: &str) -> Self {
        ConfigId(fnv1a(text.as_bytes()))
    }

    /// Reads 16 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok().map(ConfigId)).flatten()
    }
}

impl fmt::Display for ConfigId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ConfigId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a canonical text does not name a config of this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Not of the form `family@revision(param=value,…)`.
    Syntax,
    /// No family of that name is built in.
    UnknownFamily,
    /// The family is built in at another revision.
    OtherRevision,
    /// The family has no such parameter.
    UnknownParam,
    /// The value is not in this parameter's domain.
    UnknownValue(&'static str),
    /// This parameter is missing.
    MissingParam(&'static str),
    /// This parameter stands there twice.
    RepeatedParam(&'static str),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Syntax => f.write_str("not of the form family@revision(param=value,…)"),
            ConfigError::UnknownFamily => f.write_str("no kernel family of that name is built in"),
            ConfigError::OtherRevision => f.write_str("the kernel family is built in at another revision"),
            ConfigError::UnknownParam => f.write_str("the kernel family has no such parameter"),
            ConfigError::UnknownValue(param) => write!(f, "the value of {param} is not in its domain"),
            ConfigError::MissingParam(param) => write!(f, "parameter {param} is missing"),
            ConfigError::RepeatedParam(param) => write!(f, "parameter {param} stands there twice"),
        }
    }
}

impl core::error::Error for ConfigError {}

/// FNV-1a, 64 bits.
pub const fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hasher = Fnv1a::new();
    let mut i = 0;
    while i < bytes.len() {
        hasher = hasher.byte(bytes[i]);
        i += 1;
    }
    hasher.0
}

struct Fnv1a(u64);

impl Fnv1a {
    const fn new() -> Self {
        Fnv1a(0xcbf2_9ce4_8422_2325)
    }

    const fn byte(self, byte: u8) -> Self {
        Fnv1a((self.0 ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3))
    }
}

impl fmt::Write for Fnv1a {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = Fnv1a(self.0).byte(byte).0;
        }
        Ok(())
    }
}
