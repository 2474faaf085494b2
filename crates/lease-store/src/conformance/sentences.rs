//! The list of all tests, once: topics and the sentences under them, in the order of the files.

/// Every test, as topics and names, handed to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_list {
    ([$($then:tt)*] $args:tt) => {
        $($then)*! { $args
            acquire {
                a_free_key_is_granted a_grant_lasts_for_its_ttl the_same_token_again_gets_the_same_generation
                the_same_token_again_is_refreshed
                the_same_token_through_another_handle_gets_the_same_generation
                the_same_token_under_another_name_gets_the_same_generation
                duplicates_at_the_same_time_get_one_generation busy_names_the_holder
                busy_gives_the_remaining_time busy_gives_the_queue_position
                a_busy_answer_changes_nothing the_same_holder_with_another_token_is_busy
                another_handle_sees_the_grant an_expired_key_is_granted_with_a_greater_generation
                the_same_token_after_expiry_starts_a_new_generation
                a_live_key_is_not_granted_before_its_ttl_is_over keys_are_independent
            }
            renew {
                a_renewal_restores_the_ttl a_renewal_reports_no_more_than_the_remaining_time
                a_renewal_may_lengthen_the_ttl a_renewal_may_shorten_the_ttl
                renewing_is_idempotent a_renewal_never_moves_a_generation a_renewal_never_creates
                a_renewal_never_revives a_renewal_with_a_longer_ttl_never_revives
                after_a_stall_expired_is_expired a_wrong_token_renews_nothing
                a_wrong_generation_renews_nothing a_batch_is_answered_in_order a_batch_may_name_a_lease_twice
                a_lost_item_does_not_affect_the_others a_batch_may_mix_holders_ttls_and_changes_of_them
                an_empty_batch_has_no_answers
                another_handle_may_renew
            }
            end_reason {
                an_expired_reign_is_lost_as_expired an_expired_reign_is_lost_as_expired_though_another_began
                a_released_reign_is_lost_as_released
                a_released_reign_is_lost_as_released_though_another_began
                a_reign_released_to_a_successor_is_lost_as_released a_transferred_reign_is_lost_as_transferred
                a_revoked_reign_is_lost_as_revoked a_revoked_reign_is_lost_as_revoked_though_another_began
                a_replaced_reign_is_lost_as_superseded a_wiped_reign_is_lost_as_wiped
                a_loss_is_reported_the_same_again
            }
            release {
                a_release_frees_at_once the_token_alone_is_enough another_handle_may_release
                a_second_release_holds_nothing a_second_release_does_not_touch_the_next_reign
                a_wrong_token_releases_nothing a_wrong_generation_releases_nothing
                an_expired_lease_is_not_held a_release_to_a_successor_by_a_wrong_token_reserves_nothing
                a_release_grants_to_waiters_in_fifo_order
            }
            waiting {
                a_free_key_is_granted_without_waiting a_grant_from_the_queue_says_that_it_was_parked
                a_grant_from_the_queue_is_confirmed_by_a_renewal
                the_ttl_of_a_parked_claim_runs_from_the_grant inspect_counts_waiters
                a_timed_out_wait_is_busy_with_its_queue_position a_timed_out_wait_lasted_as_long_as_requested
                a_timed_out_wait_leaves_no_waiter a_timed_out_wait_does_not_block_the_next_waiter
                a_zero_wait_returns_at_once an_expiry_wakes_the_head_of_the_queue
                no_claim_overtakes_the_queue_at_a_release no_claim_overtakes_the_queue_at_an_expiry
                no_claim_overtakes_the_queue_after_a_stall a_waiter_stays_parked_while_the_holder_renews
                the_holder_is_not_put_into_its_own_queue a_parked_duplicate_gets_the_same_lease
                a_claim_waits_for_a_record_to_be_deleted a_claim_waits_for_the_ttl_of_a_record
                a_wait_for_a_record_that_stays_times_out
            }
            cancellation {
                a_dropped_waiter_leaves_the_queue a_dropped_waiter_does_not_block_the_next
                a_waiter_dropped_when_it_was_granted_frees_the_key_for_the_next
                a_waiter_dropped_when_it_was_granted_frees_the_key_for_any_claim
                a_waiter_dropped_while_it_is_granted_frees_the_key_for_the_next
                an_acquire_dropped_in_flight_leaves_nothing_held
                a_dropped_waiter_leaves_its_duplicate_queued
                a_claim_dropped_in_flight_takes_nothing_from_its_duplicate a_dropped_renewal_loses_nothing
            }
            transfer {
                a_transfer_grants_to_the_named_waiter a_transfer_is_done_when_it_is_answered
                a_transfer_gives_the_successor_its_own_ttl a_transfer_reaches_into_the_middle_of_the_queue
                a_transfer_without_a_parked_successor_changes_nothing
                a_transfer_to_a_waiter_that_left_changes_nothing
                a_transfer_to_a_waiter_of_another_key_changes_nothing only_the_holder_may_transfer
                an_ended_reign_cannot_be_transferred
            }
            reservation {
                a_parked_successor_is_granted_at_once a_key_is_reserved_for_a_successor_that_is_not_parked
                a_reserved_key_is_busy_for_others a_reserved_key_is_busy_for_its_former_holder
                a_reserved_key_is_granted_to_the_successor a_successor_comes_before_the_queue
                a_reservation_ends_for_others_and_not_before an_unused_reservation_goes_to_the_queue
                an_unused_reservation_becomes_free a_claim_may_wait_for_the_end_of_a_reservation
                a_record_may_use_a_key_whose_reservation_expired
            }
            replacement {
                exactly_the_named_generation_is_replaced another_generation_is_not_replaced
                a_free_key_cannot_be_replaced an_expired_reign_cannot_be_replaced
                a_revoked_reign_cannot_be_replaced a_replacement_skips_the_queue
                two_replacements_of_one_generation_have_one_winner
                the_same_token_again_gets_the_replacement_again
                a_replacement_does_not_wait_for_a_record
            }
            revocation {
                a_revocation_ends_the_reign a_stale_revocation_changes_nothing an_ended_reign_cannot_be_revoked
                a_second_revocation_is_stale_and_extends_nothing the_delay_defaults_to_the_remaining_ttl
                the_delay_is_as_requested inspect_shows_a_delay a_delayed_key_is_busy
                a_zero_delay_frees_at_once a_delayed_key_is_granted_after_the_delay_and_not_before
                an_expired_delay_needs_no_sweep a_waiter_is_granted_after_the_delay_and_not_before
                a_claim_may_wait_for_the_end_of_a_delay without_a_delay_the_head_of_the_queue_is_granted
                a_delayed_key_takes_no_record
            }
            token {
                a_token_is_spent_by_its_release a_spent_token_stays_spent_while_others_reign
                a_spent_token_is_spent_for_other_handles_too a_token_is_spent_by_a_release_to_a_successor
                a_token_is_spent_by_its_transfer a_token_is_spent_by_its_revocation
                a_token_is_spent_by_a_wipe a_token_is_spent_by_its_replacement
                a_released_token_that_held_nothing_cannot_be_granted_late
                a_token_released_on_a_busy_key_cannot_be_granted_late
                a_token_released_without_a_lease_stays_spent_for_a_minute a_released_token_that_expired_cannot_be_granted_again
                a_token_released_while_parked_is_not_granted
            }
            generation {
                generations_rise_over_releases generations_rise_over_expiries
                generations_rise_over_every_other_end generations_rise_over_all_handles
                a_free_key_remembers_its_last_generation only_a_grant_to_another_token_moves_the_generation
            }
            verify {
                a_live_token_is_live verify_never_refreshes a_released_token_has_ended
                an_expired_token_has_ended a_replaced_token_has_ended a_token_released_without_a_lease_has_ended
                an_unknown_token_is_wrong a_token_of_another_key_is_wrong verify_creates_nothing
            }
            inspect {
                a_key_that_was_never_held_is_free a_held_key_shows_its_holder a_renewal_keeps_since_and_meta
                a_released_key_shows_no_holder an_expired_key_is_free_without_any_sweep
                a_stalled_store_shows_no_expired_holder another_handle_shows_the_same
                inspect_does_not_refresh a_record_is_not_shown_as_a_lease
            }
            list {
                a_list_is_ordered_by_key a_list_shows_what_inspect_shows a_list_keeps_to_its_prefix
                a_list_omits_free_keys a_list_shows_delays_and_reservations pages_show_every_key_once
                a_page_begins_after_a_key_that_need_not_exist without_leases_a_page_is_empty
                records_are_not_listed_as_leases
            }
            history {
                a_key_that_was_never_held_has_no_history the_running_reign_is_the_last_and_has_no_end
                a_history_says_why_each_reign_ended an_expiry_is_in_the_history_within_the_lag
                an_expired_reign_ends_before_the_next_begins a_renewal_starts_no_reign
                only_the_last_reigns_are_kept another_handle_shows_the_same_history
            }
            watch {
                a_grant_and_its_end_are_seen a_watch_without_a_revision_starts_now a_renewal_is_not_seen
                a_call_without_effect_is_not_seen a_watch_keeps_to_its_prefix
                the_end_comes_before_the_next_grant an_expiry_is_seen_within_the_lag
                an_expiry_is_not_seen_early a_replaced_expiry_is_seen_before_the_grant records_are_seen_too
                an_entry_of_a_log_is_not_seen a_delete_of_nothing_is_not_seen
                all_watchers_see_the_same changes_through_another_handle_are_seen
                a_dropped_next_loses_nothing
            }
            watch_resume {
                a_resumed_watch_sees_everything_after_its_revision_once
                a_watch_resumes_in_the_middle_of_a_step a_resumed_watch_goes_on_with_what_is_new
                a_resumed_watch_keeps_to_its_prefix
                a_watch_of_several_prefixes_sees_each_of_them_in_order_and_nothing_else another_handle_may_resume
                a_list_and_a_watch_from_it_miss_nothing a_watch_from_a_list_has_the_next_change_first
                the_revision_of_a_list_rises a_watch_from_an_old_revision_lags
                a_slow_watcher_lags after_a_lag_a_list_and_a_watch_continue
            }
            record {
                a_written_record_is_read any_bytes_may_be_written every_write_has_a_greater_revision
                the_writes_of_a_commit_share_its_revision put_if_absent_writes_an_absent_record
                two_put_if_absent_have_one_winner put_if_revision_replaces_exactly_that_revision
                put_if_revision_refuses_an_absent_record a_delete_removes_the_record
                a_conflict_undoes_the_whole_commit a_record_expires_after_its_ttl
                a_record_shows_its_remaining_ttl a_write_without_a_ttl_stays
                an_expired_record_has_no_revision a_leased_key_is_not_written
                a_key_with_a_record_is_not_leased busy_gives_the_remaining_ttl_of_a_record
                a_key_written_twice_in_one_commit_is_refused
                a_record_put_if_absent_expires_after_its_ttl
            }
            log {
                a_log_that_was_never_written_is_empty entries_are_numbered_from_one
                a_log_keeps_its_newest_entries a_log_is_truncated_by_the_last_append
                a_log_is_read_after_a_number a_log_is_read_from_the_oldest_kept
                one_commit_may_append_more_than_once an_append_goes_with_its_commit
            }
            scan {
                a_scan_is_ordered_by_key a_scan_shows_what_get_shows a_scan_keeps_to_its_prefix
                a_scan_omits_deleted_records leases_are_not_scanned_as_records
                a_lease_is_not_read_as_a_record pages_show_every_record_once
                the_revision_of_a_scan_includes_what_it_shows
            }
            announcement {
                an_announcement_of_the_holder_is_stored nothing_is_announced_after_a_release
                nothing_is_announced_after_an_expiry an_announcement_of_an_older_owner_is_refused
                an_announcement_does_not_overwrite_a_lease an_announcement_raises_the_high_water_mark
                a_discovery_finds_every_record_under_its_prefix_in_order
                a_discovery_shows_values_and_revisions_and_no_leases
                a_prefix_with_glob_characters_is_literal
            }
            fence {
                the_holder_may_write a_fenced_write_does_not_refresh_the_lease
                nothing_is_written_after_a_release nothing_is_written_after_an_expiry
                nothing_is_written_after_a_stall_past_the_expiry nothing_is_written_after_a_replacement
                nothing_is_written_after_a_revocation nothing_is_written_after_a_transfer
                a_wrong_token_writes_nothing a_wrong_generation_writes_nothing
                a_key_that_was_never_held_writes_nothing a_conflict_under_a_fence_writes_nothing
                a_leased_key_is_not_written_under_a_fence another_handle_checks_the_same_fence
            }
            high_water_mark {
                an_older_generation_may_write_until_a_newer_one_did the_same_writer_may_write_again
                another_writer_with_the_same_generation_is_refused the_lease_may_have_ended
                a_strict_write_raises_the_mark the_mark_outlives_the_reign a_conflict_leaves_no_mark a_refused_write_leaves_no_mark
                a_fence_that_nothing_proves_is_refused_and_leaves_no_mark
                a_fenced_write_never_moves_the_generations_of_leases another_handle_sees_the_mark
            }
            wipe {
                a_wrong_token_wipes_nothing a_wrong_generation_wipes_nothing an_expired_gate_wipes_nothing
                a_released_gate_wipes_nothing a_proven_wipe_ends_everything_under_the_prefix
                a_wipe_keeps_to_its_prefix a_wipe_spares_its_gate a_wipe_leaves_generations_alone
                a_wipe_does_not_affect_later_leases a_wipe_counts_only_what_was_live
                a_wipe_leaves_records_alone a_wiped_key_goes_to_the_head_of_its_queue
            }
            limit {
                a_ttl_out_of_range_is_refused
                a_renewal_with_a_ttl_out_of_range_is_refused
                a_batch_may_be_as_long_as_the_limit a_batch_beyond_the_limit_is_refused
                a_commit_may_be_as_long_as_the_limit a_commit_beyond_the_limit_is_refused
                an_empty_commit_is_refused a_value_may_be_as_long_as_the_limit
                a_value_beyond_the_limit_is_refused a_commit_of_more_bytes_than_the_limit_is_refused
                a_log_of_no_length_is_refused a_page_of_no_length_or_beyond_the_limit_is_refused
                a_key_of_the_greatest_length_works a_meta_of_the_greatest_length_is_kept
            }
            bound {
                a_wait_beyond_the_limit_is_refused a_lock_delay_beyond_the_limit_is_refused
                a_full_queue_refuses_claims watchers_are_bounded a_wipe_beyond_the_limit_is_refused
            }
            capability {
                the_stated_bounds_make_sense the_stated_capabilities_are_those_of_the_contract
                the_shortest_and_the_longest_ttl_are_granted
                the_clock_advances_and_sleeps_no_less_than_requested
            }
            race {
                there_is_one_holder_at_a_time fenced_writes_never_go_back a_free_key_has_one_winner
                many_keys_go_in_parallel concurrent_appends_lose_nothing
            }
        }
    };
}

/// Every test that restarts the store.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_restart_list {
    ([$($then:tt)*] $args:tt) => {
        $($then)*! { $args
            restart {
                local_leases_end_with_their_process remote_leases_come_back
                remote_leases_come_back_with_the_time_their_holders_rely_on
                a_lengthened_lease_comes_back_with_its_longer_ttl generations_rise_over_restarts
                the_floor_is_raised_once_per_incarnation spent_tokens_stay_spent a_lock_delay_survives a_history_survives records_and_logs_survive
                a_record_with_a_ttl_survives_and_expires the_mark_of_a_fence_survives a_wiped_lease_stays_wiped revisions_rise_over_restarts
                a_watch_resumed_over_a_restart_misses_nothing_silently
            }
            restarted_record {
                a_record_with_a_ttl_comes_back_with_no_more_than_its_time
                a_record_ends_with_its_ttl_although_the_store_was_restarted
                a_new_key_begins_above_every_generation_of_before
            }
        }
    };
}

/// Every test that crashes the store.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_crash_list {
    ([$($then:tt)*] $args:tt) => {
        $($then)*! { $args
            durability {
                a_grant_is_durable_before_the_answer every_answered_grant_of_many_callers_is_durable
                a_longer_ttl_is_durable_before_the_answer a_release_is_durable_before_the_answer
                a_tombstone_is_durable_before_the_answer a_transfer_is_durable_before_the_answer
                a_revocation_is_durable_before_the_answer a_wipe_is_durable_before_the_answer
                a_commit_is_durable_before_the_answer
                a_fenced_write_and_its_mark_are_durable_before_the_answer
            }
        }
    };
}

/// Every test of a store that a restart puts into quarantine.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_quarantine_list {
    ([$($then:tt)*] $args:tt) => {
        $($then)*! { $args
            quarantine {
                a_free_key_is_not_granted_during_a_quarantine
                a_key_that_is_released_during_a_quarantine_is_not_granted
                a_claim_may_wait_for_the_end_of_a_quarantine
                a_release_during_a_quarantine_hands_nothing_on
                a_revocation_during_a_quarantine_hands_nothing_on
                a_reign_is_transferred_during_a_quarantine_only_after_a_renewal
                a_reign_is_replaced_during_a_quarantine_only_after_a_renewal
            }
        }
    };
}

/// Every test of a store whose replies may be lost on the way.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_lost_reply_list {
    ([$($then:tt)*] $args:tt) => {
        $($then)*! { $args
            lost_reply {
                a_write_may_have_happened a_revocation_may_have_happened a_release_may_have_happened
                a_renewal_is_an_unknown_of_its_item
            }
        }
    };
}
