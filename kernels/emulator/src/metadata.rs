//! The AMDGPU metadata note: MessagePack that describes each kernel's arguments.

use rmpv::Value;

/// Note type NT_AMDGPU_METADATA.
const NT_AMDGPU_METADATA: u32 = 32;

/// What the metadata say about a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelMetadata {
    /// Name of the descriptor symbol.
    pub(crate) symbol: String,
    /// Arguments in order, the hidden ones last.
    pub args: Vec<Arg>,
    /// Most work-items that a workgroup may have.
    pub max_flat_workgroup_size: Option<u32>,
    /// Bytes of the argument segment.
    pub kernarg_size: u32,
    /// VGPRs, AGPRs among them, and SGPRs.
    pub registers: [u32; 3],
    /// VGPR and SGPR spills.
    pub spills: [u32; 2],
}

/// One kernel argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arg {
    /// Name in the source, if recorded.
    pub name: Option<String>,
    /// Byte offset in the argument segment.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// `by_value`, `global_buffer`, `dynamic_shared_pointer`, `hidden_…`.
    pub kind: String,
}

/// Finds and decodes the metadata in a note section.
pub(crate) fn parse(section: &[u8]) -> Result<Vec<KernelMetadata>, String> {
    let mut at = 0;
    while at + 12 <= section.len() {
        let word = |i: usize| u32::from_le_bytes(section[at + i..at + i + 4].try_into().expect("four bytes"));
        let (name, desc, kind) = (word(0) as usize, word(4) as usize, word(8));
        let data = at + 12 + name.next_multiple_of(4);
        let Some(bytes) = section.get(data..data + desc) else {
            return Err("a note ends outside its section".into());
        };
        if kind == NT_AMDGPU_METADATA {
            let value = rmpv::decode::read_value(&mut &bytes[..]).map_err(|e| format!("metadata: {e}"))?;
            return kernels(&value);
        }
        at = data + desc.next_multiple_of(4);
    }
    Ok(Vec::new())
}

fn get<'a>(map: &'a Value, key: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(k, _)| k.as_str() == Some(key)).map(|(_, v)| v)
}

fn number(map: &Value, key: &str) -> Option<u32> {
    get(map, key)?.as_u64().and_then(|n| u32::try_from(n).ok())
}

fn text(map: &Value, key: &str) -> Option<String> {
    get(map, key)?.as_str().map(String::from)
}

fn kernels(root: &Value) -> Result<Vec<KernelMetadata>, String> {
    let list = get(root, "amdhsa.kernels").and_then(Value::as_array).ok_or("metadata: no amdhsa.kernels")?;
    list.iter().map(kernel).collect()
}

fn kernel(value: &Value) -> Result<KernelMetadata, String> {
    let symbol = text(value, ".symbol").ok_or("metadata: a kernel without .symbol")?;
    let args = get(value, ".args").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let args = args
        .iter()
        .map(|arg| {
            let missing = |key: &str| format!("metadata of {symbol}: an argument without {key}");
            Ok(Arg {
                name: text(arg, ".name"),
                offset: number(arg, ".offset").ok_or_else(|| missing(".offset"))?,
                size: number(arg, ".size").ok_or_else(|| missing(".size"))?,
                kind: text(arg, ".value_kind").ok_or_else(|| missing(".value_kind"))?,
            })
        })
        .collect::<Result<_, String>>()?;
    let count = |key: &str| number(value, key).unwrap_or(0);
    Ok(KernelMetadata {
        args,
        max_flat_workgroup_size: number(value, ".max_flat_workgroup_size"),
        kernarg_size: count(".kernarg_segment_size"),
        registers: [count(".vgpr_count"), count(".agpr_count"), count(".sgpr_count")],
        spills: [count(".vgpr_spill_count"), count(".sgpr_spill_count")],
        symbol,
    })
}
