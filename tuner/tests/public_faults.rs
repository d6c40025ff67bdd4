//! Faults that users of GEMM tuners reported in public, as far as they concern files, keys, merging or reporting, and the tests
//! that this project does not have them. Repositories: A ROCm/aiter, L ROCm/rocm-libraries, H ROCm/hipBLASLt, P pytorch/pytorch,
//! V vllm, S sglang, F ROCm/FlyDSL, M NVIDIA/Megatron-LM. Faults of measuring, of kernels and of workers are tested where those are.
//!
//! | report | fault | test |
//! |---|---|---|
//! | A#5263, A#882 | an interrupted run loses a batch of results | `tune_command.rs::killing_a_run_twenty_times_loses_no_finished_measurement` |
//! | A#5263 | a torn file loses more than its last record | `../src/journal/file.rs::cutting_the_file_anywhere_loses_at_most_the_line_that_was_cut` |
//! | A#5267 | shapes that no table has are not logged, near misses least of all | `dispatch_misses.rs::what_was_missed_is_a_declaration_that_the_tuner_reads` |
//! | A#5267 | hits are not logged either, so that nobody knows what weighs | `capture_record.rs::hits_and_misses_are_recorded_with_their_rungs_when_the_engine_ends` |
//! | A#5380 | a table has no row for a device, and coverage is counted, not weighed | `lint_rules.rs::coverage_follows_the_ladder_and_weighs_by_time` |
//! | A#4634 | rows of another CU count never match, silently | `lint_rules.rs::cu_counts_that_no_device_has_or_not_this_one_are_found` |
//! | A#4634, A#5341 | a row names a kernel that is not built, and the engine aborts | `dispatch_lookup.rs::kernels_this_build_lacks_are_faults_and_fall_down_the_ladder` |
//! | A#4735 | a second CU count of an architecture is taken for a fault | `public_faults.rs::every_cu_count_that_an_architecture_is_sold_with_is_one` |
//! | A#5668 | a key without CU count crosses devices | `lint_rules.rs::problems_that_differ_in_bias_output_or_cu_count_alone_are_no_duplicates` |
//! | A#5069, A#3432, A#2817 | renamed kernels run a default for weeks | `lint_rules.rs::renamed_kernels_are_found` |
//! | A#5069 | our own table names a family that is gone | `table_cases.rs::faulty_tables_are_refused_with_every_fault_and_its_line` |
//! | A#3075 | kernels are numbers, which change | `table_files.rs::decisions_read_back_as_written` |
//! | A#2645 | N and K swapped collide | `../../dispatch/src/key.rs::n_and_k_do_not_commute` |
//! | A#2645 | two architectures overwrite each other in one build | `compile_command.rs::two_devices_do_not_overwrite_each_other_in_one_folder` |
//! | A#2645 | the same table compiles to other bytes elsewhere | `compile_command.rs::generation_gives_the_same_bytes_from_every_folder` |
//! | A#4017, A#4013, A#3974 | two model files have one key | `lint_rules.rs::a_key_in_two_files_of_a_family_is_found_whatever_the_kernel` |
//! | A#4017 | the rule of merging depends on the order of files | `export_round_trip.rs::of_two_rows_of_one_key_the_faster_is_written_whatever_their_order` |
//! | A#2376, A#2502, A#2503 | merging rewrites its inputs | `public_faults.rs::inputs_that_cannot_be_written_are_read_all_the_same` |
//! | A#1327 | a placeholder time of 0 wins every merge | `export_round_trip.rs::placeholders_doubtful_rows_and_rows_without_a_device_are_left_out_and_listed` |
//! | A#1327 | placeholder times go unnoticed | `lint_rules.rs::placeholder_times_are_found_and_never_dominate` |
//! | A#3360, A#1583 | a reader sees a file half written | `public_faults.rs::sixteen_processes_that_write_one_table_leave_it_whole` |
//! | A#5315 | tables without an architecture have one guessed for them | `lint_rules.rs::a_table_without_architectures_is_found` |
//! | A#2335, A#4448 | split-K is recorded and not passed on | `export_round_trip.rs::aiters_tables_come_back_row_by_row` |
//! | A#2335 | a recorded parameter means something else when read | `import_sources.rs::every_header_variant_of_aiter_is_read` |
//! | A#671, V#54773 | the weight's layout is not in the key | `../../dispatch/src/key.rs::every_key_decodes_to_itself_and_has_its_own_code` |
//! | A#5360, A#5078, A#5281 | a row answers for an M that another row is better at | `dispatch_lookup.rs::generated_bound_and_naive_lookup_agree_for_every_m` |
//! | A#5360 | a row is slower than one of a larger M | `lint_rules.rs::a_row_slower_than_a_larger_m_is_found_beyond_noise` |
//! | A#1689, A#2519 | a request without a row ends the program | `dispatch_proof.rs::every_answer_on_every_device_is_launchable_and_the_row_s_first_that_is` |
//! | A#3300, A#4301, A#4194 | rows of an older kernel pass for new ones | `compile_command.rs::check_names_stale_and_missing_files_and_writes_nothing` |
//! | H#1587 | problems that differ in bias or type share a key | `import_sources.rs::tunableop_calls_are_turned_round_and_what_is_strided_is_listed` |
//! | H#2200, L#6557 | the writer's key is not the reader's | `dispatch_shipped.rs::generated_loaded_and_naive_lookup_agree_on_every_shipped_weight` |
//! | H#2200 | an exported row is not the row that was read | `export_round_trip.rs::tunableops_and_hipblaslts_own_keys_come_back_as_they_were` |
//! | L#12243, L#8119, L#10766 | an override has no effect and nothing is said | `capture_record.rs::a_record_that_cannot_be_written_is_an_error_and_harms_no_engine` |
//! | P#153462 | other shapes are tuned than were declared | `chain_aiter.rs::aiters_untuned_list_is_imported_tuned_compiled_and_dispatched` |
//! | P#139116 | a dimension overflows | `public_faults.rs::dimensions_that_no_declaration_holds_are_listed_not_wrapped` |
//! | P#132464, P#132173, P#135396 | one difference discards a whole file, and which is not said | `compare_tables.rs::rows_of_one_table_only_other_kernels_and_other_devices_are_named` |
//! | P#132464 | one damaged record discards a whole file | `../src/journal/file.rs::a_damaged_line_is_named_and_the_others_are_read` |
//! | P#144942 | noise is reported as a change | `compare_tables.rs::intervals_that_overlap_are_noise_and_what_costs_most_comes_first` |
//! | V#57492, S#3418, S#3492 | files are keyed by a product's name, which differs | `public_faults.rs::a_products_name_is_kept_as_evidence_and_matches_no_device` |
//! | V#52752 | two workers overwrite each other's results | `../src/journal/file.rs::a_second_writer_is_refused_with_a_clear_message` |
//! | A#5443 | a switch of the kernel is not part of what was tuned | `race_verdict.rs::the_same_trace_and_seed_give_the_same_outcome` |
//! | M#6966, V#42425 | ranks choose differently | `tune_command.rs::a_replay_of_the_journal_gives_the_same_table_byte_for_byte` |
//! | A#3109 | an empty table is shipped | `public_faults.rs::an_empty_table_is_found` |
//! | F#411 | what was tuned on one architecture is used on another | `import_sources.rs::int8_rows_are_listed_and_the_others_become_priors_that_say_where_they_are_from` |

mod table_fixture;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use table_fixture::decisions;
use tilewright::import::{self, Source, declare};
use tilewright::lint::{Options, Rule, lint};
use tilewright::table;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import").join(name)
}

fn rules(paths: &[PathBuf], options: &Options) -> Vec<Rule> {
    lint(paths, options).unwrap().0.findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn every_test_that_the_list_names_is_there() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let own = fs::read_to_string(here.join("public_faults.rs")).unwrap();
    let named: Vec<&str> =
        own.lines().filter_map(|line| line.strip_prefix("//! |")?.rsplit('`').nth(1)).collect();
    assert!(named.len() > 40, "{}", named.len());
    for name in named {
        let (file, test) = name.split_once("::").unwrap();
        let text = fs::read_to_string(here.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("fn {test}(")), "{name}");
    }
}

#[test]
fn every_cu_count_that_an_architecture_is_sold_with_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a4w4_blockscale_tuned_gemm.csv");
    let table = |units: u32| {
        let text = fs::read_to_string(fixture("aiter/a4w4_blockscale_tuned_gemm.csv")).unwrap();
        fs::write(&path, text.replace("gfx950,256,", &format!("gfx950,{units},"))).unwrap();
        rules(std::slice::from_ref(&path), &Options::default())
    };
    for units in [128, 256] {
        assert!(!table(units).contains(&Rule::CuCount), "{units}");
    }
    assert!(table(250).contains(&Rule::CuCount));
}

#[test]
fn inputs_that_cannot_be_written_are_read_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let name = "a8w8_bpreshuffle_tuned_gemm.csv";
    let input = folder.path().join(name);
    fs::copy(fixture(&format!("aiter/{name}")), &input).unwrap();
    let mut permissions = fs::metadata(&input).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&input, permissions).unwrap();
    let before = (fs::read(&input).unwrap(), fs::metadata(&input).unwrap().modified().unwrap());
    for arguments in [&["import", "aiter", name, "--out", "made"][..], &["lint", name]] {
        let run = Command::new(env!("CARGO_BIN_EXE_tilewright"))
            .current_dir(folder.path())
            .args(arguments)
            .output();
        // Lint exits with 1, for the table has faults.
        assert!(run.unwrap().status.code().is_some_and(|code| code < 2), "{arguments:?}");
    }
    assert_eq!((fs::read(&input).unwrap(), fs::metadata(&input).unwrap().modified().unwrap()), before);
}

#[test]
fn sixteen_processes_that_write_one_table_leave_it_whole() {
    let folder = tempfile::tempdir().unwrap();
    let decisions = decisions();
    let compiled = table::write_all(folder.path(), &decisions, &[]).unwrap();
    let module = folder.path().join(format!("{}.rs", decisions.model));
    let start = || {
        Command::new(env!("CARGO_BIN_EXE_tilewright"))
            .current_dir(folder.path())
            .args(["compile", &format!("{}.toml", decisions.model), "--out", "together"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut processes: Vec<_> = (0..16).map(|_| start()).collect();
    let written = folder.path().join("together").join(module.file_name().unwrap());
    // Whatever is there at any moment is whole.
    while processes.iter_mut().any(|process| process.try_wait().unwrap().is_none()) {
        if let Ok(text) = fs::read_to_string(&written) {
            assert_eq!(text, compiled.rs);
        }
    }
    assert!(processes.iter_mut().all(|process| process.wait().unwrap().success()));
    assert_eq!(fs::read_to_string(&written).unwrap(), compiled.rs);
    assert_eq!(fs::read_dir(folder.path().join("together")).unwrap().count(), 1, "a temporary file was left");
}

#[test]
fn dimensions_that_no_declaration_holds_are_listed_not_wrapped() {
    let text = "M,N,K\n3000000000,64,64\n7200000,64,64\n5000000000,64,64\n";
    let foreign = import::parse(Source::Aiter, Path::new("bf16_untuned_gemm.csv"), text).unwrap();
    assert_eq!(foreign.faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [Some(4)]);
    let converted = declare(&[foreign], "model").unwrap();
    assert!(converted.unexpressed.iter().any(|left| !left.declared && left.lines == [2]));
    assert_eq!(converted.declaration.unwrap().gemms[0].m[0].m, 7_200_000);
}

#[test]
fn a_products_name_is_kept_as_evidence_and_matches_no_device() {
    let folder = tempfile::tempdir().unwrap();
    let original = fixture(
        "other/N=512,K=7168,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128,128].json",
    );
    let text = fs::read_to_string(&original).unwrap();
    for product in ["0x75b0", "AMD_Radeon_Graphics"] {
        let path = folder.path().join(format!("N=512,K=7168,device_name={product},dtype=fp8_w8a8.json"));
        fs::write(&path, &text).unwrap();
        let foreign = import::parse(Source::Vllm, &path, &text).unwrap();
        let converted = declare(&[foreign], "model").unwrap();
        assert!(converted.priors.iter().all(|prior| prior.device == product && prior.time_ns.is_none()));
        let device = Some("gfx950:256".parse().unwrap());
        assert!(rules(&[path], &Options { device, ..Options::default() }).contains(&Rule::CuCount));
    }
}

#[test]
fn an_empty_table_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bf16_tuned_gemm.csv");
    let text = fs::read_to_string(fixture("aiter/gptoss_bf16_tuned_gemm.csv")).unwrap();
    fs::write(&path, format!("{}\n", text.lines().next().unwrap())).unwrap();
    assert_eq!(rules(&[path], &Options::default()), [Rule::EmptyTable]);

    let mut decisions = decisions();
    decisions.weights.clear();
    let own = folder.path().join("own.toml");
    fs::write(&own, decisions.to_toml()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tilewright")).arg("lint").arg(&own).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("the table has no weight"), "{said}");
}
