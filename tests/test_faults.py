"""What a run must survive, fault by fault, and the tests that show it: a fault whose test is gone is noticed here."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FAULTS = """
CUDA is out of memory: oom_device, and no number, never 0
    worker/test_isolate.py::test_each_end_of_a_child_has_its_status_and_the_next_errand_is_clean
    worker/test_confine.py::test_a_gpu_that_is_full_is_out_of_memory_whoever_asked_for_more
    measure/test_memory.py::test_more_memory_than_the_gpu_has_is_an_out_of_memory_error
    report/test_frame.py::test_a_failed_row_has_a_reason_and_no_number
the kernel kills for lack of memory: oom_host where it counted one, else crashed (signal 9)
    worker/test_isolate.py::test_each_end_of_a_child_has_its_status_and_the_next_errand_is_clean
    worker/test_isolate.py::test_a_kill_is_out_of_memory_only_where_the_kernel_counted_one_or_cpp_says_so
MemoryError, and torch's own RuntimeError on a CPU: oom_host
    worker/test_isolate.py::test_each_end_of_a_child_has_its_status_and_the_next_errand_is_clean
    cli/test_run.py::test_a_suite_of_faults_costs_each_method_its_own_cells_and_no_other
    worker/test_isolate.py::test_a_kill_is_out_of_memory_only_where_the_kernel_counted_one_or_cpp_says_so
    worker/test_confine.py::test_a_cell_gets_what_it_is_allowed_beside_what_its_process_holds
a segmentation fault, an abort: crashed, with the last lines of the traceback
    worker/test_isolate.py::test_each_end_of_a_child_has_its_status_and_the_next_errand_is_clean
    worker/test_isolate.py::test_a_server_that_cannot_start_warm_falls_back_to_fresh_interpreters
an illegal access of CUDA, which spoils its process: that is replaced, the next cell is clean
    worker/test_isolate.py::test_each_end_of_a_child_has_its_status_and_the_next_errand_is_clean
    worker/test_isolate.py::test_every_errand_has_a_process_of_its_own_forked_from_a_server_of_one_thread
    worker/test_confine.py::test_a_gpu_that_is_full_is_out_of_memory_whoever_asked_for_more
a hang that ignores SIGTERM and forks: all of its processes end in time
    worker/test_isolate.py::test_a_hang_times_out_shows_where_and_ends_with_all_that_it_started_whatever_it_ignores
    worker/test_isolate.py::test_processes_that_a_method_leaves_behind_are_ended_and_its_times_do_not_count
the runner is killed with -9: its children die too, and the run goes on with no cell twice
    cli/test_run.py::test_a_second_run_is_refused_and_names_the_first
    schedule/test_rounds.py::test_a_run_that_was_cut_anywhere_and_goes_on_has_the_cells_of_an_undisturbed_one_none_twice
    cli/test_run.py::test_runs_under_random_faults_end_whole_and_with_the_numbers_of_undisturbed_ones
the server or a child of it is killed: the cell in hand has its record, and the others go on
    worker/test_isolate.py::test_a_child_dies_with_its_server_and_the_next_errand_finds_a_new_one
    cli/test_run.py::test_runs_under_random_faults_end_whole_and_with_the_numbers_of_undisturbed_ones
what a killed process leaves among temporary files is removed with the next
    store/test_lock.py::test_what_a_killed_process_left_is_removed_with_the_next_and_what_a_living_one_uses_stays
    places/test_checkout.py::test_what_a_killed_process_left_is_removed_and_git_keeps_no_note_of_it
    cli/test_run.py::test_runs_under_random_faults_end_whole_and_with_the_numbers_of_undisturbed_ones
Ctrl-C once: saved, exit 130; twice: at once, and still consistent
    cli/test_run.py::test_an_interrupted_run_saves_says_how_to_go_on_and_can
SIGTERM: saved, exit 143
    cli/test_run.py::test_an_interrupted_run_saves_says_how_to_go_on_and_can
power fails in the middle of a write, a flush or a renaming: nothing lost, nothing torn
    store/test_killed_writers.py::test_a_run_that_is_killed_at_its_kth_call_can_be_continued
    store/test_killed_writers.py::test_no_record_is_lost_torn_or_glued_by_twenty_kills
    store/test_run_folder.py::test_a_record_is_on_the_disk_before_append_returns
    store/test_run_json.py::test_run_json_is_replaced_as_a_whole_or_not_at_all
the disk is full: a clear error, what was recorded is whole, and the run goes on once there is room
    cli/test_run.py::test_a_full_disk_is_told_and_the_run_can_go_on
    cli/test_full_disks.py::test_a_disk_that_fills_during_a_report_leaves_records_and_the_old_page
    store/test_killed_writers.py::test_a_disk_that_is_full_at_the_kth_record_ends_the_run_in_words_and_keeps_the_others
    store/test_run_folder.py::test_a_disk_that_fills_in_the_middle_of_a_line_leaves_no_half_line
a record that is spoilt, cut or of a newer version: set aside with the reason, and that cell measured again
    cli/test_run.py::test_a_spoilt_record_is_set_aside_with_the_reason_and_its_cell_measured_again
    store/test_run_folder.py::test_a_last_line_torn_at_any_byte_is_set_aside_and_the_rest_is_kept
    store/test_run_folder.py::test_a_spoilt_line_between_others_is_set_aside_as_it_was_and_with_the_reason
two runs in one folder: the second is refused, and told process and host of the first
    cli/test_run.py::test_a_second_run_is_refused_and_names_the_first
    store/test_lock.py::test_a_second_process_is_refused_until_the_first_is_gone
the lock of a process that is gone: taken over, and said
    cli/test_run.py::test_a_second_run_is_refused_and_names_the_first
    store/test_lock.py::test_a_second_process_is_refused_until_the_first_is_gone
    store/test_lock.py::test_a_lock_file_with_garbage_is_an_unknown_process
two runs on one device: one waits and says for whom, or leaves at once
    cli/test_side_by_side.py::test_a_run_that_waits_says_for_whom_and_goes_on
    cli/test_side_by_side.py::test_who_does_not_wait_leaves_at_once
the clock jumps: durations do not
    measure/test_loop.py::test_a_wall_clock_that_jumps_changes_nothing
NVML is missing, does not fit its driver, or loses the GPU: n/a with the reason
    measure/test_nvml.py::test_a_missing_package_and_a_silent_driver_are_said_in_words
    measure/test_nvml.py::test_a_device_that_is_lost_before_the_call_is_unavailable_and_during_it_gives_no_numbers_but_the_reason
    workloads/test_footprint.py::test_what_nvml_does_not_tell_is_empty_with_the_reason
NVML knows no memory of a process, says 0, or tells another's process id: flagged or n/a, never 0
    measure/test_nvml.py::test_the_memory_of_this_process_is_a_number_or_none_but_never_zero_and_others_are_counted_without_it
    measure/test_nvml.py::test_a_hidden_process_has_no_number_but_a_reason_and_the_device_delta_is_flagged
    workloads/test_footprint.py::test_what_nvml_does_not_tell_is_empty_with_the_reason
a dtype, a width or a device that a method does not have: unsupported, apart from what failed
    worker/test_isolate.py::test_each_end_of_a_child_has_its_status_and_the_next_errand_is_clean
    cli/test_run.py::test_a_suite_of_faults_costs_each_method_its_own_cells_and_no_other
    schedule/test_rounds.py::test_a_refused_cell_and_one_that_cannot_fit_its_budget_by_the_roof_are_rows_and_not_started
    worker/test_isolate.py::test_a_survey_of_a_device_that_is_not_there_says_so
a plugin raises, exits or hangs at import, prints 100 MB, changes folder or environment: only its own cells fail
    worker/test_isolate.py::test_each_end_of_a_child_has_its_status_and_the_next_errand_is_clean
    worker/test_isolate.py::test_a_hang_times_out_shows_where_and_ends_with_all_that_it_started_whatever_it_ignores
    worker/test_isolate.py::test_a_method_that_prints_100_megabytes_is_measured_and_its_last_64_kibibytes_are_kept
    cli/test_doors.py::test_methods_still_lists_the_others_where_one_cannot_be_imported
    cli/test_run.py::test_a_suite_of_faults_costs_each_method_its_own_cells_and_no_other
a plugin gives NaN, a wrong shape or wrong values, or sees the future: incorrect, and not ranked
    cli/test_run.py::test_a_suite_of_faults_costs_each_method_its_own_cells_and_no_other
    workloads/test_check.py::test_one_nan_is_too_many_and_no_reference_that_overflows_or_is_zero_excuses_one
    workloads/test_check.py::test_a_wrong_shape_is_incorrect_and_names_both
    workloads/test_check.py::test_wrong_values_are_incorrect
    workloads/test_check.py::test_a_causal_call_that_sees_the_future_is_incorrect
    report/test_tables.py::test_a_wrong_method_is_never_the_best
    cli/test_kinds_of_runs.py::test_cheats_are_shown_and_neither_ranked_nor_named_in_the_result
hostile YAML: alias bombs, deep nesting, a thousand million cells, keys twice, objects of Python, a gibibyte
    suite/test_hostile_files.py::test_a_hostile_file_is_a_suite_error_that_names_it
    suite/test_hostile_files.py::test_a_file_of_a_gibibyte_is_refused_without_being_read
    suite/test_expand.py::test_a_thousand_million_cells_are_refused_before_any_is_built
    suite/test_suite_errors.py::test_an_unknown_key_or_a_value_that_does_not_fit_is_placed_and_told_what_fits
hostile names: ../../x, absolute, NUL, very long, unicode: files stay in the folder, the name is kept as data
    store/test_run_json.py::test_any_name_becomes_one_plain_part_of_a_path
    store/test_run_json.py::test_a_run_of_any_name_stays_in_the_folder_of_its_suite
code in names: inert in HTML, LaTeX, CSV, Markdown, on a terminal and in exports
    report/hostile/test_pages.py::test_a_browser_runs_nothing_of_a_name
    report/hostile/test_pages.py::test_the_page_holds_the_names_as_text_and_no_more
    report/hostile/test_texts.py::test_latex_has_no_command_of_a_name
    report/hostile/test_texts.py::test_no_cell_of_the_table_is_a_formula
    report/hostile/test_texts.py::test_markdown_shows_every_name_as_it_is
    report/hostile/test_texts.py::test_a_terminal_gets_no_control_character
    report/hostile/test_texts.py::test_exports_are_whole_and_their_names_plain
    cli/test_strange_folders.py::test_what_a_run_says_of_itself_gives_a_terminal_no_commands
a pickle in a run folder: nobody opens it, and no source knows how
    test_floors.py::test_nothing_is_pickled
    cli/test_strange_folders.py::test_what_is_pickled_in_a_run_folder_is_never_run
a worker or a node dies: every cell ends as it does on one machine
    cli/test_everywhere.py::test_the_cells_end_alike_everywhere
    cli/test_everywhere.py::test_what_is_killed_loses_nothing
    places/test_place.py::test_a_lane_that_is_lost_hands_on_all_its_bundles_and_the_job_in_hand_counts_as_a_try
    places/test_place.py::test_a_job_by_which_place_after_place_is_lost_becomes_a_row
a folder that is read-only, a file system without locks: a clear refusal
    store/test_lock.py::test_a_file_system_without_locks_is_refused_in_words
    places/test_lane.py::test_a_place_without_locks_is_told_in_words
    store/test_lock.py::test_a_folder_that_is_read_only_is_refused_in_words
    store/test_run_json.py::test_a_place_that_cannot_be_written_is_a_store_error
the C locale, no terminal, NO_COLOR, 40 columns: no crash, and files are UTF-8
    cli/test_run.py::test_a_run_leaves_records_tables_and_plots_whatever_the_locale_and_terminal
somebody else comes to the GPU in mid-run: flagged as shared, and measured again
    measure/test_nvml.py::test_somebody_who_comes_in_mid_run_makes_the_measurement_shared
    schedule/test_rounds.py::test_a_throttled_or_shared_replicate_is_taken_again_twice_at_most_and_a_training_never
"""


@cache
def names_in(file: Path) -> set[str]:
    """The names of the tests in a file; none where there is no such file."""
    if not file.exists():
        return set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("entry", re.split(r"\n(?=\S)", FAULTS.strip()), ids=lambda entry: entry.partition("\n")[0])
def test_every_fault_has_tests_and_they_are_there(entry: str) -> None:
    fault, *tests = map(str.strip, entry.splitlines())
    assert tests
    missing = [each for each in tests if each.partition("::")[2] not in names_in(TESTS / each.partition("::")[0])]
    assert missing == [], f"{fault}: no such test; if it was renamed, name it here as well"
