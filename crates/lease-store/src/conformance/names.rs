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
                duplicates_at_the_same_time_get_one_generation a_held_key_tells_who_holds_it
                a_held_key_tells_how_long a_held_key_tells_the_place_in_the_queue
                a_busy_answer_changes_nothing the_same_holder_with_another_token_is_busy
                another_handle_sees_the_grant an_expired_key_is_granted_with_a_greater_generation
                the_same_token_after_expiry_starts_a_new_generation
                a_live_key_is_not_granted_before_its_ttl_is_over keys_do_not_touch_each_other
            }
            renew {
                a_renewal_restores_the_ttl a_renewal_tells_no_more_than_the_store_has_left
                a_renewal_may_lengthen_the_ttl a_renewal_may_shorten_the_ttl
                renewing_twice_is_as_good_as_once a_renewal_never_moves_a_generation a_renewal_never_creates
                a_renewal_never_revives a_renewal_with_a_longer_ttl_never_revives
                after_a_stall_expired_is_expired a_wrong_token_renews_nothing
                a_wrong_generation_renews_nothing a_batch_is_answered_in_order a_batch_may_name_a_lease_twice
                a_lost_item_does_not_hold_up_the_others a_batch_may_mix_holders_ttls_and_changes_of_them
                an_empty_batch_has_no_answers
                another_handle_may_renew
            }
            loss {
                an_expired_reign_is_lost_as_expired an_expired_reign_is_lost_as_expired_though_another_began
                a_released_reign_is_lost_as_released
                a_released_reign_is_lost_as_released_though_another_began
                a_reign_given_to_an_heir_is_lost_as_released a_transferred_reign_is_lost_as_transferred
                a_revoked_reign_is_lost_as_revoked a_revoked_reign_is_lost_as_revoked_though_another_began
                a_replaced_reign_is_lost_as_superseded a_wiped_reign_is_lost_as_wiped
                a_loss_is_the_same_when_asked_again
            }
            release {
                a_release_frees_at_once the_token_alone_is_enough another_handle_may_release
                a_second_release_holds_nothing a_second_release_does_not_touch_the_next_reign
                a_wrong_token_releases_nothing a_wrong_generation_releases_nothing
                an_expired_lease_is_not_held a_release_to_an_heir_by_a_wrong_token_reserves_nothing
                a_release_wakes_the_waiters_in_the_order_they_came
            }
            waiting {
                a_free_key_is_granted_without_waiting a_grant_from_the_queue_says_that_it_was_parked
                a_grant_from_the_queue_is_confirmed_by_a_renewal
                the_ttl_of_a_parked_claim_runs_from_the_grant inspect_counts_those_who_wait
                a_wait_that_is_over_says_busy_and_its_place a_wait_that_is_over_was_as_long_as_asked
                a_wait_that_is_over_leaves_no_waiter a_wait_that_is_over_does_not_hold_up_the_next
                a_wait_of_nothing_is_answered_at_once an_expiry_wakes_the_head_of_the_queue
                nobody_overtakes_a_queue_at_a_release nobody_overtakes_a_queue_at_an_expiry
                nobody_overtakes_a_queue_after_a_stall a_waiter_stays_parked_while_the_holder_renews
                the_holder_is_not_put_into_its_own_queue a_parked_duplicate_gets_the_same_lease
                a_claim_waits_for_a_record_to_be_deleted a_claim_waits_for_the_ttl_of_a_record
                a_wait_for_a_record_that_stays_is_over_in_time
            }
            cancel {
                a_dropped_waiter_leaves_the_queue a_dropped_waiter_does_not_hold_up_the_next
                a_waiter_dropped_when_it_was_granted_frees_the_key_for_the_next
                a_waiter_dropped_when_it_was_granted_frees_the_key_for_anybody
                a_waiter_dropped_while_it_is_granted_frees_the_key_for_the_next
                an_acquire_dropped_on_its_way_leaves_nothing_held
                a_waiter_that_goes_leaves_the_queue_to_its_twin
                a_claim_dropped_on_its_way_takes_nothing_from_its_twin a_dropped_renewal_loses_nothing
            }
            transfer {
                a_transfer_grants_to_the_named_waiter a_transfer_is_done_when_it_is_answered
                a_transfer_gives_the_successor_its_own_ttl a_transfer_reaches_into_the_middle_of_the_queue
                a_transfer_to_nobody_changes_nothing
                a_transfer_to_somebody_who_left_the_queue_changes_nothing
                a_transfer_to_somebody_parked_on_another_key_changes_nothing only_the_holder_may_transfer
                what_is_over_cannot_be_transferred
            }
            reserve {
                a_parked_heir_is_granted_at_once a_key_is_reserved_for_an_heir_that_is_not_parked
                a_reserved_key_is_busy_for_others a_reserved_key_is_busy_for_the_one_who_gave_it
                a_reserved_key_is_granted_to_the_heir an_heir_goes_before_the_queue
                a_reservation_ends_for_others_and_not_before a_reservation_that_nobody_used_goes_to_the_queue
                a_reservation_that_nobody_used_is_free_again a_claim_may_wait_for_the_end_of_a_reservation
                a_record_may_be_called_like_an_heir_whose_time_is_over
            }
            replace {
                exactly_the_named_generation_is_replaced another_generation_is_not_replaced
                a_free_key_has_nobody_to_replace an_expired_reign_cannot_be_replaced
                a_revoked_reign_cannot_be_replaced a_replacement_skips_the_queue
                two_replacements_of_one_generation_have_one_winner
                the_same_token_again_gets_the_replacement_again
                a_replacement_does_not_wait_for_a_record_to_go
            }
            revoke {
                a_revocation_ends_the_reign a_stale_revocation_changes_nothing what_is_over_cannot_be_revoked
                a_second_revocation_is_stale_and_prolongs_nothing the_delay_is_what_was_left_of_the_ttl
                the_delay_is_what_was_asked_for a_delayed_key_says_so a_delayed_key_is_busy
                a_delay_of_nothing_frees_at_once a_delayed_key_is_granted_after_the_delay_and_not_before
                a_delay_that_is_over_needs_no_sweep a_waiter_is_granted_after_the_delay_and_not_before
                a_claim_may_wait_for_the_end_of_a_delay without_a_delay_the_head_of_the_queue_is_granted
                a_delayed_key_takes_no_record
            }
            token {
                a_token_is_spent_by_its_release a_spent_token_stays_spent_while_others_reign
                a_spent_token_is_spent_for_other_handles_too a_token_is_spent_by_a_release_to_an_heir
                a_token_is_spent_by_its_transfer a_token_is_spent_by_its_revocation
                a_token_is_spent_by_a_wipe a_token_is_spent_by_its_successor
                a_released_token_that_held_nothing_cannot_be_granted_late
                a_token_given_up_on_a_busy_key_cannot_be_granted_late
                a_token_given_up_stays_given_up_for_a_minute a_released_token_that_expired_cannot_come_back
                a_token_given_up_while_it_was_parked_is_not_granted
            }
            generation {
                generations_rise_over_releases generations_rise_over_expiries
                generations_rise_over_every_other_end generations_rise_over_all_handles
                a_free_key_remembers_its_last_generation only_a_grant_to_another_token_moves_the_generation
            }
            verify {
                a_live_token_is_live verify_never_refreshes a_released_token_has_ended
                an_expired_token_has_ended a_replaced_token_has_ended a_token_given_up_has_ended
                an_unknown_token_is_wrong a_token_of_another_key_is_wrong verify_creates_nothing
            }
            inspect {
                a_key_that_was_never_held_is_free a_held_key_shows_its_holder a_renewal_keeps_since_and_meta
                a_released_key_shows_nobody an_expired_key_is_free_without_any_sweep
                a_stalled_store_shows_no_expired_holder another_handle_shows_the_same
                looking_does_not_refresh a_record_is_no_lease_and_not_shown_as_one
            }
            list {
                a_list_is_ordered_by_key a_list_shows_what_inspect_shows a_list_keeps_to_its_prefix
                a_list_leaves_out_what_is_free a_list_shows_delays_and_reservations pages_show_every_key_once
                a_page_begins_after_a_key_that_need_not_exist nothing_held_is_an_empty_page
                records_are_not_listed_as_leases
            }
            history {
                a_key_that_was_never_held_has_no_history the_running_reign_is_the_last_and_has_no_end
                a_history_says_why_each_reign_ended an_expiry_is_in_the_history_within_the_lag
                an_expired_reign_ends_before_the_next_begins a_renewal_is_no_new_reign
                only_the_last_reigns_are_kept another_handle_tells_the_same_history
            }
            watch {
                a_grant_and_its_end_are_seen a_watch_begins_now_when_it_begins_nowhere a_renewal_is_not_seen
                what_changes_nothing_is_not_seen a_watch_keeps_to_its_prefix
                the_end_comes_before_the_next_grant an_expiry_is_seen_within_the_lag
                an_expiry_is_not_seen_early a_replaced_expiry_is_seen_before_the_grant records_are_seen_too
                an_entry_of_a_log_is_not_seen a_delete_of_nothing_is_not_seen
                all_watchers_see_the_same changes_through_another_handle_are_seen
                a_dropped_next_loses_nothing
            }
            resume {
                a_resumed_watch_sees_everything_after_its_revision_once
                a_watch_resumes_in_the_middle_of_a_step a_resumed_watch_goes_on_with_what_is_new
                a_resumed_watch_keeps_to_its_prefix
                a_watch_of_several_prefixes_sees_each_of_them_in_order_and_nothing_else another_handle_may_resume
                a_list_and_a_watch_from_it_miss_nothing a_watch_from_a_list_has_the_next_change_first
                the_revision_of_a_list_rises a_watch_from_long_ago_says_that_it_lagged
                a_slow_watcher_is_told_that_it_lagged after_a_lag_list_and_watch_go_on
            }
            record {
                what_was_written_is_read any_bytes_may_be_written every_write_has_a_greater_revision
                the_writes_of_a_commit_share_its_revision put_if_absent_writes_where_nothing_is
                two_put_if_absent_have_one_winner put_if_revision_writes_over_exactly_that_one
                put_if_revision_finds_nothing_where_nothing_is a_delete_removes_what_is_there
                a_conflict_undoes_the_whole_commit a_record_is_forgotten_after_its_ttl
                a_record_tells_what_is_left_of_its_ttl a_write_without_a_ttl_stays
                a_forgotten_record_has_no_revision_to_write_over a_leased_key_is_not_written
                a_key_with_a_record_is_not_leased a_key_with_a_record_tells_what_is_left_of_its_ttl
                a_key_written_twice_in_one_commit_is_refused
                a_record_put_where_nothing_is_is_forgotten_after_its_ttl
            }
            log {
                a_log_that_was_never_written_is_empty entries_are_numbered_from_one
                a_log_keeps_its_newest_entries a_log_is_cut_to_what_the_last_append_says
                a_log_is_read_after_a_number a_log_is_read_from_the_oldest_kept
                one_commit_may_append_more_than_once an_append_goes_with_its_commit
            }
            scan {
                a_scan_is_ordered_by_key a_scan_shows_what_get_shows a_scan_keeps_to_its_prefix
                a_scan_leaves_out_what_is_gone leases_are_not_scanned_as_records
                a_lease_is_not_read_as_a_record pages_show_every_record_once
                the_revision_of_a_scan_includes_what_it_shows
            }
            news {
                the_holder_s_news_is_kept nothing_is_announced_after_a_release
                nothing_is_announced_after_an_expiry an_older_owner_s_news_is_refused_beside_the_new_one_s
                news_does_not_overwrite_a_lease news_keeps_an_older_owner_s_writes_out
                a_discovery_finds_every_record_under_its_prefix_in_order
                a_discovery_shows_values_and_revisions_and_no_leases
                a_prefix_with_signs_of_a_pattern_means_itself
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
            mark {
                an_older_generation_may_write_until_a_newer_one_did the_same_writer_may_write_again
                another_writer_with_the_same_generation_is_refused the_lease_may_be_over
                a_strict_write_keeps_an_older_one_out the_mark_outlives_the_reign a_conflict_leaves_no_mark a_refused_write_leaves_no_mark
                a_fenced_write_never_moves_the_generations_of_leases another_handle_sees_the_mark
            }
            wipe {
                a_wrong_token_wipes_nothing a_wrong_generation_wipes_nothing an_expired_gate_wipes_nothing
                a_gate_that_was_given_back_wipes_nothing a_proven_wipe_ends_everything_under_the_prefix
                a_wipe_keeps_to_its_prefix a_wipe_spares_its_gate a_wipe_leaves_generations_alone
                a_wipe_does_not_touch_what_comes_after a_wipe_counts_only_what_was_live
                a_wipe_leaves_records_alone a_wiped_key_goes_to_the_head_of_its_queue
            }
            limit {
                a_ttl_that_the_engine_cannot_keep_is_refused
                a_renewal_with_a_ttl_that_the_engine_cannot_keep_is_refused
                a_batch_may_be_as_long_as_the_limit a_batch_beyond_the_limit_is_refused
                a_commit_may_be_as_long_as_the_limit a_commit_beyond_the_limit_is_refused
                an_empty_commit_is_refused a_value_may_be_as_long_as_the_limit
                a_value_beyond_the_limit_is_refused a_commit_of_more_bytes_than_the_limit_is_refused
                a_log_of_no_length_is_refused a_page_of_no_length_or_beyond_the_limit_is_refused
                a_key_of_the_greatest_length_is_as_good_as_any a_meta_of_the_greatest_length_is_kept
            }
            bound {
                a_wait_beyond_the_limit_is_refused a_lock_delay_beyond_the_limit_is_refused
                a_full_queue_takes_nobody watchers_are_bounded a_wipe_beyond_the_limit_is_refused
            }
            capability {
                the_stated_bounds_make_sense the_floors_are_those_of_the_contract
                the_shortest_and_the_longest_ttl_are_granted
                the_clock_goes_forward_and_sleeps_no_less_than_asked
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
                remote_leases_come_back_with_the_time_their_holders_believe_in
                a_lengthened_lease_comes_back_with_its_longer_ttl generations_rise_over_restarts
                spent_tokens_stay_spent a_lock_delay_survives a_history_survives records_and_logs_survive
                the_mark_of_a_fence_survives a_wiped_lease_stays_wiped revisions_rise_over_restarts
                a_watch_resumed_over_a_restart_misses_nothing_silently
            }
        }
    };
}
