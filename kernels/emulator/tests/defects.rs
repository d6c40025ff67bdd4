//! Defects that earlier emulators of these architectures had, one test each. Those on operand layouts, scales, sparse
//! products, FNUZ and OCP floats are in `matrix.rs`, on scratch, subnormals and division in `arithmetic.rs`, on DPP in
//! place in `programs.rs`, on transfers to LDS in `memory.rs`.

mod support;

use support::{Bytes, Random, object, read};
use tilewright_emulator::{CodeObject, Error, Grid, Memory, Options};

/// Assembles kernels of the given bodies; each finds its input at s[4:5], its output at s[6:7], and 4 · lane in v1.
fn assemble(name: &str, kernels: &[(&str, &str, &str)]) -> CodeObject {
    let mut text =
        String::from(".amdgcn_target \"amdgcn-amd-amdhsa--gfx950\"\n.amdhsa_code_object_version 5\n");
    for (kernel, body, directives) in kernels {
        text += &format!(
            ".text\n.globl {kernel}\n.p2align 8\n.type {kernel},@function\n{kernel}:\n\
             s_load_dwordx4 s[4:7], s[0:1], 0x0\n v_lshlrev_b32 v1, 2, v0\n s_waitcnt lgkmcnt(0)\n\
             {body}\n s_endpgm\n.size {kernel}, .-{kernel}\n.rodata\n.p2align 6\n.amdhsa_kernel {kernel}\n\
             .amdhsa_next_free_vgpr 128\n.amdhsa_next_free_sgpr 32\n.amdhsa_accum_offset 64\n\
             .amdhsa_group_segment_fixed_size 1024\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n\
             .amdhsa_kernarg_size 16\n{directives}\n.end_amdhsa_kernel\n"
        );
    }
    object(name, "gfx950", "assembler", &text)
}

fn run(code: &CodeObject, kernel: &str, input: &[u32], words: usize) -> Result<Vec<u32>, Error> {
    let mut memory = Memory::new();
    let (pi, po) = (memory.alloc_from("in", &input.bytes()), memory.alloc("out", 4 * words, 0xcc));
    code.launch_packed(kernel, &memory, Grid::linear(1, 64), &[pi, po].bytes(), &Options::default())?;
    Ok(read(&memory, po, words))
}

fn code() -> CodeObject {
    let agpr = "global_load_dword v4, v1, s[4:5]\n s_waitcnt vmcnt(0)\n v_accvgpr_write_b32 a0, v4\n\
        v_not_b32 v4, v4\n v_accvgpr_write_b32 a1, v4\n v_lshlrev_b32 v2, 3, v0\n ds_write_b64 v2, a[0:1]\n\
        ds_read_b64 a[4:5], v2\n s_waitcnt lgkmcnt(0)\n global_store_dwordx2 v2, a[4:5], s[6:7]\n\
        v_accvgpr_read_b32 v6, a5\n global_store_dword v1, v6, s[6:7] offset:512\n\
        global_load_dword a7, v1, s[4:5]\n s_waitcnt vmcnt(0)\n global_store_dword v1, a7, s[6:7] offset:768";
    // The same product three times: in VGPRs; with A, B, C and D in AGPRs; with few lanes active, in place.
    let mfma = "global_load_dword v4, v1, s[4:5]\n global_load_dword v5, v1, s[4:5] offset:256\n s_waitcnt vmcnt(0)\n\
        v_mfma_f32_16x16x4_f32 v[8:11], v4, v5, 1.0\n\
        v_accvgpr_write_b32 a4, v4\n v_accvgpr_write_b32 a5, v5\n v_mov_b32 v12, 1.0\n\
        v_accvgpr_write_b32 a8, v12\n v_accvgpr_write_b32 a9, v12\n v_accvgpr_write_b32 a10, v12\n v_accvgpr_write_b32 a11, v12\n\
        v_mfma_f32_16x16x4_f32 a[8:11], a4, a5, a[8:11]\n\
        s_mov_b64 exec, 5\n v_mfma_f32_16x16x4_f32 v[4:7], v4, v5, 1.0\n s_mov_b64 exec, -1\n s_nop 15\n\
        v_lshlrev_b32 v2, 4, v0\n global_store_dwordx4 v2, v[8:11], s[6:7]\n\
        global_store_dwordx4 v2, a[8:11], s[6:7] offset:1024\n global_store_dwordx4 v2, v[4:7], s[6:7] offset:2048";
    let modes = "global_load_dword v4, v1, s[4:5]\n s_waitcnt vmcnt(0)\n v_add_f32 v6, 0, v4\n\
        v_cmp_eq_u32 vcc, v0, v0\n v_cndmask_b32 v7, 0, v4, vcc\n v_mov_b32 v8, v4\n v_max_f32 v9, v4, v4\n\
        v_lshlrev_b32 v2, 4, v0\n global_store_dwordx4 v2, v[6:9], s[6:7]";
    let unknown = "s_cmp_eq_u32 s5, 0\n s_cbranch_scc1 1f\n .long 0x7e00c800\n1:";
    let skipped =
        "s_cmp_eq_u32 0, 0\n s_cbranch_scc1 2f\n .long 0x7e00c800\n2:\n global_store_dword v1, v0, s[6:7]";
    // Not the scale prefix, though the next opcode below it; then a prefix before something that takes no scales.
    let prefix = ".long 0xd3aa0000, 0\n v_mfma_f32_16x16x128_f8f6f4 v[8:11], v[16:23], v[24:31], 0\n\
        .long 0xd3ac0000, 0\n v_mfma_f32_16x16x4_f32 v[8:11], v4, v5, 0";
    let idle = "s_mov_b64 exec, 0xff\n v_mov_b32 v2, 0\n ds_read_b64_tr_b8 v[4:5], v2";
    let rounding = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 3";
    let flush = ".amdhsa_float_denorm_mode_32 0";
    assemble(
        "defects",
        &[
            ("agpr", agpr, ""),
            ("mfma", mfma, ""),
            ("keep", modes, ".amdhsa_float_denorm_mode_32 3"),
            ("flush", modes, flush),
            ("unknown", unknown, ""),
            ("skipped", skipped, ""),
            ("prefix", prefix, ""),
            ("idle", idle, ""),
            ("rounding", rounding, ""),
        ],
    )
}

#[test]
fn agprs_are_operands_of_lds_and_global_instructions() {
    let input: Vec<u32> = (0..64).map(|i| 0x100 + i).collect();
    let out = run(&code(), "agpr", &input, 256).unwrap();
    for i in 0..64 {
        assert_eq!(out[2 * i..2 * i + 2], [input[i], !input[i]]);
        assert_eq!((out[128 + i], out[192 + i]), (!input[i], input[i]));
    }
}

#[test]
fn matrix_instructions_take_agprs_ignore_exec_and_read_before_they_write() {
    let mut r = Random(3);
    let input: Vec<f32> = (0..128).map(|_| r.below(17) as f32 - 8.0).collect();
    let words: Vec<u32> = input.iter().map(|x| x.to_bits()).collect();
    let out = run(&code(), "mfma", &words, 768).unwrap();
    for lane in 0..64 {
        for register in 0..4 {
            let (row, column) = (4 * (lane / 16) + register, lane % 16);
            let sum: f32 = (0..4).map(|k| input[16 * k + row] * input[64 + 16 * k + column]).sum();
            for copy in 0..3 {
                let got = f32::from_bits(out[256 * copy + 4 * lane + register]);
                assert_eq!(got, sum + 1.0, "copy {copy}, row {row}, column {column}");
            }
        }
    }
}

#[test]
fn subnormals_follow_the_descriptors_mode_and_moves_never_flush() {
    let input: Vec<u32> = (0..64).map(|i| if i % 2 == 0 { 1 + i } else { 0x8000_0001 + i }).collect();
    let keep = run(&code(), "keep", &input, 256).unwrap();
    let flush = run(&code(), "flush", &input, 256).unwrap();
    for i in 0..64 {
        let x = input[i];
        assert_eq!(keep[4 * i..][..4], [x; 4]);
        // A sum with +0 has the sign of +0; the maximum keeps the sign of the flushed operand.
        assert_eq!(flush[4 * i..][..4], [0, x, x, x & 0x8000_0000]);
    }
}

#[test]
fn an_unknown_opcode_is_an_error_where_it_is_reached_and_nowhere_else() {
    let code = code();
    let error = run(&code, "unknown", &[0], 64).unwrap_err().to_string();
    for part in ["kernel `unknown`", "Vop1", "opcode 0x64", "7e00c800", "wave 0"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(run(&code, "skipped", &[0], 64).unwrap()[63], 63);
    let mut found: Vec<String> = code.scan().into_iter().map(|f| f.kernel).collect();
    found.sort();
    assert_eq!(found, ["prefix", "prefix", "skipped", "unknown"]);
}

#[test]
fn only_the_exact_scale_prefix_takes_the_next_two_words() {
    let code = code();
    let listing = code.listing();
    let first = listing.iter().position(|(_, m)| m == "v_mfma_f32_16x16x128_f8f6f4").unwrap();
    assert_eq!(listing[first - 1].1, "undecodable");
    assert_eq!(listing[first + 1].1, "undecodable");
    assert_eq!(listing[first + 2].1, "v_mfma_f32_16x16x4_f32");
}

#[test]
fn transposing_reads_with_idle_lanes_and_other_roundings_are_errors() {
    let code = code();
    let error = run(&code, "idle", &[0], 64).unwrap_err().to_string();
    assert!(error.contains("inactive lanes") && error.contains("ds_read_b64_tr_b8"), "{error}");
    let error = run(&code, "rounding", &[0], 64).unwrap_err().to_string();
    assert!(error.contains("nearest even"), "{error}");
}

#[test]
fn what_is_no_code_object_is_refused_with_a_reason() {
    let refused = |bytes: &[u8]| CodeObject::load(bytes).unwrap_err().to_string();
    assert!(refused(b"not an ELF").contains("not a 64-bit ELF"));
    let mut elf =
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gemm-gfx942.hsaco")).unwrap();
    elf[0x30] = 0x40;
    assert!(refused(&elf).contains("processor 0x40"), "e_flags names another processor");
    elf[0x12] = 62;
    assert!(refused(&elf).contains("another machine"));
}

#[test]
fn a_damaged_code_object_is_refused_or_faults_and_never_panics() {
    let whole =
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gemm-gfx942.hsaco")).unwrap();
    let mut r = Random(17);
    let mut loaded = 0;
    for _ in 0..1000 {
        let mut damaged = whole.clone();
        let at = r.below(damaged.len() as u32) as usize;
        damaged[at] ^= 1 << r.below(8);
        if r.below(10) == 0 {
            damaged.truncate(at);
        }
        let Ok(code) = CodeObject::load(&damaged) else { continue };
        code.scan();
        loaded += 1;
        if loaded % 32 == 0 {
            let memory = Memory::new();
            let options = Options { limit: 2000, ..Options::default() };
            for kernel in code.kernels() {
                // Addresses of nothing: whatever the damage, the first access faults.
                let _ = code.launch_packed(&kernel.name, &memory, Grid::linear(1, 256), &[0; 64], &options);
            }
        }
    }
    assert!(loaded > 300);
}
