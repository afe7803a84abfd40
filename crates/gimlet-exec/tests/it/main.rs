//! The tests of this crate against real processes, with a harness of their own.
//!
//! The custodian is the running binary started again, and a test that kills "gimlet" needs a gimlet to kill; so this
//! `main` can be a custodian and a victim before it is a harness. It speaks what `cargo test` and `cargo nextest` ask.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and their harness; without the standard harness the lints cannot tell"
)]

mod captured_commands;
mod command_output;
mod common;
mod confined_commands;
mod helper_commands;
mod memory_limit;
mod prestarted_shells;
mod process_custody;
mod program_start;
mod sandbox_escapes;
mod sandbox_proxy;
mod sandboxed_commands;
mod shell_commands;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

type TestEntry = (&'static str, fn());

macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        const TESTS: &[TestEntry] = &[$((concat!(stringify!($module), "::", stringify!($name)), || common::block_on($module::$name()))),*];
    };
}

tests! {
    confined_commands::a_confined_command_reads_its_folder_and_the_system,
    confined_commands::a_confined_command_reads_no_secret_changes_nothing_and_sends_nothing,
    confined_commands::a_confined_shell_that_waited_is_confined_too,
    confined_commands::a_variable_that_leads_to_the_home_by_another_name_does_not_open_it,
    confined_commands::credentials_stay_closed_where_the_home_is_the_working_directory,
    confined_commands::no_hostile_command_has_an_effect,
    confined_commands::no_hostile_command_of_an_ordinary_user_has_an_effect,
    confined_commands::ordinary_commands_do_the_same_confined,
    process_custody::a_killed_command_takes_its_whole_tree_along,
    process_custody::a_polite_end_gets_its_grace,
    process_custody::dropping_a_running_command_ends_its_tree,
    process_custody::killing_gimlet_leaves_nothing,
    process_custody::killing_gimlet_many_times_leaves_nothing,
    process_custody::killing_the_custodian_alone_harms_no_command_and_the_next_one_gets_a_new_one,
    process_custody::killing_a_keeper_ends_what_it_kept,
    process_custody::killing_custodian_and_keeper_leaves_nothing,
    process_custody::a_command_that_stops_its_keepers_is_killed_like_any_other,
    process_custody::a_command_that_stops_its_keepers_ends_with_the_session,
    process_custody::a_command_that_stopped_its_keepers_ends_with_a_killed_gimlet,
    process_custody::a_stopped_custodian_is_continued_by_the_next_command,
    process_custody::killing_everything_is_swept_at_the_next_start,
    process_custody::a_sweep_leaves_a_living_run_in_a_container_alone,
    process_custody::neither_custodian_nor_keeper_is_named_like_gimlet,
    process_custody::custodian_and_keeper_have_no_environment_and_no_command_can_look_into_them,
    process_custody::shutdown_ends_what_was_released_and_refuses_more,
    process_custody::who_comes_to_a_shutdown_that_was_given_up_waits_for_its_end,
    process_custody::a_finished_command_leaves_no_keeper_behind,
    process_custody::a_killed_spare_keeper_is_replaced,
    process_custody::a_spare_keeper_leaves_with_its_custodian,
    process_custody::the_custodian_is_small,
    process_custody::a_custodian_that_was_made_ready_serves_the_first_command_and_leaves_without_one,
    process_custody::a_forked_custodian_keeps_as_well,
    process_custody::a_fork_storm_is_ended,
    captured_commands::input_goes_in_and_both_streams_come_back_apart,
    captured_commands::a_program_that_does_not_read_or_closes_its_input_is_not_waited_for,
    captured_commands::output_beyond_the_limit_is_counted_and_dropped,
    captured_commands::dropping_a_captured_run_ends_its_tree,
    captured_commands::a_child_left_behind_does_not_hold_up_the_end,
    captured_commands::a_program_that_is_missing_is_an_error,
    helper_commands::the_answer_is_what_was_printed_and_nothing_else,
    helper_commands::a_failure_says_how_it_ended_and_the_first_words_of_why,
    helper_commands::one_that_takes_too_long_or_prints_too_much_is_ended_with_its_tree,
    helper_commands::dropping_it_ends_its_tree,
    helper_commands::what_it_leaves_behind_does_not_hold_up_the_answer_and_may_go_on_printing,
    memory_limit::a_command_that_outgrows_the_group_is_ended_and_others_go_on,
    command_output::both_streams_interleave_as_written,
    command_output::a_background_grandchild_does_not_hold_the_call,
    command_output::a_survivor_that_prints_is_neither_stopped_nor_killed,
    command_output::a_timed_out_command_goes_on_in_the_background,
    command_output::a_background_command_can_be_killed,
    command_output::a_background_file_is_cut_when_its_command_is_over_or_dropped,
    command_output::five_megabytes_stay_within_memory_bounds,
    command_output::endless_output_is_ended_at_the_limit,
    command_output::bytes_that_are_no_text_are_kept_raw,
    command_output::redirecting_to_dev_stderr_does_not_truncate,
    command_output::progress_shows_the_last_lines_while_running,
    sandbox_escapes::no_way_out_is_open,
    sandbox_escapes::no_way_out_is_open_to_an_ordinary_user,
    sandbox_proxy::names_are_judged_by_list_and_by_where_they_lead,
    sandbox_proxy::a_host_that_a_person_allows_is_reached_from_then_on,
    sandbox_proxy::hosts_on_no_list_are_asked_about_and_answers_that_last_are_remembered,
    sandbox_proxy::connections_to_one_host_share_one_question_and_a_late_answer_serves_the_next,
    sandbox_proxy::a_flood_of_hosts_does_not_become_a_flood_of_questions,
    sandbox_proxy::a_proxy_of_the_persons_own_gets_every_byte,
    sandbox_proxy::a_single_request_reaches_its_server_without_the_words_for_proxies,
    sandbox_proxy::a_tunnel_that_greets_another_host_is_closed,
    sandbox_proxy::a_tunnel_whose_server_speaks_first_is_looked_at_all_the_same,
    sandbox_proxy::nothing_behind_a_single_request_reaches_its_server,
    sandbox_proxy::a_sandboxed_command_reaches_what_is_allowed_and_nothing_else,
    sandboxed_commands::ordinary_tools_work_inside,
    sandboxed_commands::a_command_has_three_descriptors_and_no_privilege_to_gain,
    sandboxed_commands::codes_and_signals_come_through_the_walls,
    sandboxed_commands::a_polite_end_reaches_the_command_inside,
    sandboxed_commands::killing_a_sandboxed_command_takes_its_whole_tree_along,
    sandboxed_commands::killing_gimlet_leaves_nothing_in_any_sandbox,
    sandboxed_commands::walls_that_cannot_be_put_up_stop_the_command,
    sandboxed_commands::what_is_missing_is_named,
    sandboxed_commands::namespaces_of_its_own_come_first_unless_somebody_wants_bubblewrap,
    sandboxed_commands::a_bubblewrap_that_commands_could_replace_is_not_used,
    sandboxed_commands::a_shell_reports_its_directory_from_inside,
    sandboxed_commands::a_closed_place_can_have_an_open_one_in_it,
    sandboxed_commands::a_closed_place_within_an_open_one_within_a_closed_one_stays_closed,
    sandboxed_commands::a_link_in_place_of_a_folder_that_may_be_written_opens_nothing,
    sandboxed_commands::a_link_to_a_closed_place_does_not_open_it_as_a_folder_to_read_or_to_begin_in,
    sandboxed_commands::with_files_open_everything_else_is_closed,
    sandboxed_commands::a_command_that_wants_more_memory_than_its_limit_does_not_get_it,
    sandboxed_commands::what_the_walls_refused_is_recognised,
    shell_commands::the_directory_is_reported_in_every_form_of_exit,
    shell_commands::exit_codes_and_signals_come_through,
    shell_commands::programs_see_three_descriptors_and_the_command_may_use_the_fourth,
    shell_commands::nothing_of_the_wrapper_can_be_seen,
    shell_commands::the_directory_is_not_the_commands_to_report,
    shell_commands::zsh_does_the_same_and_shows_nothing_of_the_wrapper,
    shell_commands::the_text_is_data_whatever_it_contains,
    shell_commands::a_text_beyond_the_limit_of_the_system_says_what_to_do,
    shell_commands::a_long_text_travels_outside_the_socket,
    shell_commands::an_env_file_that_ends_in_a_comment_does_not_swallow_the_command,
    shell_commands::start_up_variables_of_bash_have_no_effect,
    shell_commands::a_vanished_directory_falls_back_to_its_parent,
    shell_commands::a_prefix_wraps_the_whole_invocation,
    shell_commands::the_snapshot_carries_functions_and_leaves_plain_commands_plain,
    shell_commands::a_start_up_file_that_leaves_gives_a_plain_shell,
    program_start::a_command_starts_with_clean_signals_and_a_session_of_its_own,
    program_start::what_cannot_start_says_why,
    program_start::streams_can_be_split_and_input_piped,
    program_start::a_hundred_commands_at_once_all_report,
    program_start::a_custodian_outlives_the_thread_that_started_it,
    prestarted_shells::a_shell_that_waited_is_like_any_other,
    prestarted_shells::it_reports_its_directory_in_every_form_of_exit,
    prestarted_shells::it_is_used_once_and_the_next_one_follows,
    prestarted_shells::it_takes_a_command_that_comes_while_it_starts,
    prestarted_shells::one_that_is_gone_or_has_an_old_environment_is_not_used,
    prestarted_shells::it_keeps_nothing_busy_and_ends_with_the_session,
    prestarted_shells::a_long_command_and_an_odd_directory_are_no_trouble,
    prestarted_shells::where_something_stands_before_the_shell_none_waits,
}

fn main() -> ExitCode {
    gimlet_exec::run_custodian_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|argument| argument == common::VICTIM_ARGUMENT) {
        common::run_victim(&args[1..]);
    }
    if args.first().is_some_and(|argument| argument == sandbox_escapes::SUITE_ARGUMENT) {
        return sandbox_escapes::run_escape_suite();
    }
    if args.first().is_some_and(|argument| argument == confined_commands::hostile::SUITE_ARGUMENT) {
        return confined_commands::hostile::be_the_suite();
    }
    if let [argument, sleep] = args.as_slice()
        && argument == sandboxed_commands::VICTIM_ARGUMENT
    {
        sandboxed_commands::run_victim(sleep);
    }
    let has = |flag: &str| args.iter().any(|argument| argument == flag);
    if has("--list") {
        if !has("--ignored") {
            TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    let filter = args.iter().find(|argument| !argument.starts_with('-'));
    let chosen = |name: &str| {
        filter.is_none_or(|wanted| if has("--exact") { name == wanted } else { name.contains(wanted.as_str()) })
    };
    let failed: Vec<&str> =
        TESTS.iter().filter(|(name, _)| chosen(name)).filter(|test| !run_test(test)).map(|(name, _)| *name).collect();
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("failed: {failed:#?}");
    ExitCode::FAILURE
}

fn run_test((name, test): &TestEntry) -> bool {
    let passed = catch_unwind(AssertUnwindSafe(test)).is_ok();
    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    passed
}
