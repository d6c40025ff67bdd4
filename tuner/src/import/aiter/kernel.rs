//! The names of AITER's kernels: which ones its run time can parse or find, and the tile they speak of.
//!
//! A name that the run time cannot parse is no error there: the row silently runs a default kernel (49 rows of one shipped
//! table did so for weeks). Names are checked against the forms that the libraries use, `#` being a number.

/// The forms of each library's names.
const FORMS: &[(&str, &[&str])] = &[
    (
        "asm",
        &[
            "_ZN#aiter#I#gemm_bf#_perTokenI#_BpreShuffle_#x#E",
            "_ZN#aiter#bf#gemm_bf#_tn_#x#E",
            "_ZN#aiter#bf#gemm_fp#bf#_tn_#x#_pf#_splitkE",
            "_ZN#aiter#bf#gemm_fp#bf#_tn_#x#_splitk_cleanE",
            "_ZN#aiter#fp#gemm_bf#_blockscale_BpreShuffle_#x#E",
            "_ZN#aiter#f#gemm_bf#_per#x#Fp#_BpreShuffle_#x#E",
            "_ZN#aiter#f#gemm_bf#_per#x#Fp#*E",
            "_ZN#aiter#f#f#gemm_bf#_per#x#Fp#Fp#*E",
            "f#gemm_*_kernel_func",
            "f#gemm_*_kernel_func_*",
        ],
    ),
    (
        "ck",
        &[
            "a#w#_blockscale_#x#x#_#x#x#x#_#x#_#x#_#x#_#x#x#_#x#x#_#x#x#x#_#_#x#_intrawave_v#",
            "a#w#_blockscale_bpreshuffle_#x#x#_#x#x#x#_#x#_#x#_#x#x#_#x#x#_#x#x#x#_#_#x#_intrawave_v#",
            "a#w#_bpreshuffle_#x#x#x#_#x#_#x#_#x#x#_#x#x#_#x#x#x#_#x#x#_#x#_intrawave_v#",
            "a#w#_blockscale_#x#x#x#_#x#_#x#_#x#x#_#x#x#_#x#x#x#_#_#x#_intrawave_v#",
            "a#w#_rowwise_#x#x#x#_#x#_#x#_#x#x#_#x#x#_#x#x#x#_#x#x#_#x#_intrawave_v#",
            "a#w#_rowwise_#x#x#x#_#x#_#x#_#x#x#_#x#x#_#x#x#x#_#x#x#_#x#_interwave_v#",
            "a#w#_batched_rowwise_#x#x#x#_#x#_#x#_#x#x#_#x#x#_#x#x#x#_#x#x#_#x#_intrawave_v#",
            "a#w#_batched_rowwise_#x#x#x#_#x#_#x#_#x#x#_#x#x#_#x#x#x#_#x#x#_#x#_interwave_v#",
            "bf#_batched_#x#x#x#_#x#_#x#_#x#x#_#x#x#_#x#x#x#_#x#x#_#x#_intrawave_v#",
            "bf#_batched_#x#x#x#_#x#_#x#_#x#x#_#x#x#_#x#x#x#_#x#x#_#x#_interwave_v#",
        ],
    ),
    (
        "cktile",
        &[
            "a#w#_blockscale_cktile_#x#x#_#x#x#_#x#x#_intrawave_#x#x#_#",
            "a#w#_blockscale_cktile_#x#x#_#x#x#_#x#x#_intrawave_#x#x#_#_aqrm",
            "a#w#_bpreshuffle_cktile_#x#x#x#x#x#x#x#x#x#_#x#x#_#x#x#_#x#x#_default",
        ],
    ),
    (
        "flydsl",
        &[
            // Four switches: LDS stages, waves per EU, async copy, XCD swizzle. The spelling is the library's.
            "flydsl_bpreshuflle_#x#x#_F#_F#_B#_#x#x#x#_default",
            "flydsl_bpreshuffle_#w_#x#x#_F#_F#_B#_#x#",
            "flydsl_bpreshuffle_wmma_t#x#x#_mw#_nw#_nb#_sk#_cm#_cn#",
            "flydsl_mxfp#_#_bpreshuffle_wmma_t#x#x#_mw#_nw#_nb#_sk#_cm#_cn#",
            "flydsl_mxfp#_#_bpreshuffle_compute_wmma_t#x#x#_mw#_nw#_nb#_sk#_cm#_cn#",
            "flydsl_gemm#_abf#_wbf#_bf#_t#x#x#_split_k#_block_m_warp#_block_n_warp#_block_k_warp#_async_copy*",
        ],
    ),
    ("opus", &["opus_gemm_*#x#x#x#_#x#_#x#x#_#x#x#", "opus_gemm_*#x#x#x#_#x#_#x#x#_#x#x#_*"]),
    ("skinny", &["sol#"]),
    ("torch", &["native"]),
    ("triton", &["auto", "triton"]),
];

/// Whether a library's names are known, and, if so, whether this is one of them.
pub fn is_known(library: &str, name: &str) -> Option<bool> {
    let (_, forms) = FORMS.iter().find(|(known, _)| *known == library)?;
    Some(forms.iter().any(|form| matches(form.as_bytes(), name.as_bytes())))
}

/// Whether a name has a form: `#` is one or more digits, `*` anything, also nothing.
fn matches(form: &[u8], name: &[u8]) -> bool {
    match form.split_first() {
        None => name.is_empty(),
        Some((b'#', rest)) => {
            let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
            digits > 0 && matches(rest, &name[digits..])
        }
        Some((b'*', rest)) => (0..=name.len()).any(|skip| matches(rest, &name[skip..])),
        Some((byte, rest)) => name.first() == Some(byte) && matches(rest, &name[1..]),
    }
}

/// The tile a name speaks of, as `MxN` or `MxNxK`; what a search may begin with.
pub fn tile(library: &str, name: &str) -> Option<String> {
    // The first group of numbers joined by `x` is the tile; in CK's, the block size or block shape comes before.
    let (skip, take, before) = match library {
        "flydsl" if name.starts_with("flydsl_gemm") => (0, 3, "_t"),
        "flydsl" => (0, 3, ""),
        "asm" => (0, 2, "_"),
        "ck" => (1, 3, ""),
        "cktile" => (0, 3, ""),
        _ => return None,
    };
    let wanted = skip + take;
    let group = name.split('_').find_map(|part| {
        let part = if before == "_t" { part.strip_prefix('t')? } else { part.trim_end_matches('E') };
        let numbers: Vec<&str> = part.split('x').collect();
        let all = numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        (all && (numbers.len() == wanted || (library == "cktile" && numbers.len() > wanted)))
            .then_some(numbers)
    })?;
    Some(group[skip..wanted].join("x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_take_numbers_and_gaps() {
        assert!(matches(b"sol#", b"sol12") && !matches(b"sol#", b"sol") && !matches(b"sol#", b"sol1x"));
        assert!(matches(b"a*#b", b"a_1_22b") && matches(b"a*", b"a") && !matches(b"a*b", b"a"));
    }

    #[test]
    fn a_renamed_flydsl_kernel_is_not_known() {
        let name = "flydsl_bpreshuflle_16x64x512_F8_F8_B16_2x1x0x4";
        assert_eq!(is_known("flydsl", &format!("{name}_default")), Some(true));
        assert_eq!(is_known("flydsl", &format!("{name}x4_default")), Some(false));
        assert_eq!(is_known("their_own", "anything"), None);
    }

    #[test]
    fn tiles_are_read_from_names() {
        assert_eq!(
            tile("asm", "_ZN5aiter41I8gemm_bf16_perTokenI8_BpreShuffle_16x128E").as_deref(),
            Some("16x128")
        );
        let ck = "a8w8_rowwise_256x16x64x512_16x16_1x1_32x8x1_32x8x1_1x16x1x16_4x4x1_1x1_intrawave_v3";
        assert_eq!(tile("ck", ck).as_deref(), Some("16x64x512"));
        let flydsl = "flydsl_gemm4_abf16_wbf16_bf16_t16x64x256_split_k4_block_m_warp1";
        assert_eq!(tile("flydsl", flydsl).as_deref(), Some("16x64x256"));
        let other = "flydsl_bpreshuflle_16x64x512_F8_F8_B16_2x1x0x4_default";
        assert_eq!(tile("flydsl", other).as_deref(), Some("16x64x512"));
        assert_eq!(tile("torch", "native"), None);
    }
}
