//! What every way of moving a message has to keep, in one suite.
//!
//! Each test is written once against [`world::Fabric`] and runs over host memory and over the test fabric, where
//! packets land late and in any order, there with many seeds. A failure names the fabric; the seed is in its message.
#![cfg(not(loom))]

mod batons;
mod buffers;
mod content;
mod endings;
mod hostile;
mod interleavings;
mod room;
mod world;

macro_rules! conformance {
    ($($module:ident { $($(#[$slow:meta])? $name:ident,)* })*) => {
        mod host_memory {
            $($(
                #[test]
                $(#[$slow])?
                fn $name() {
                    super::$module::$name::<super::world::HostMemory>(0);
                }
            )*)*
        }

        // Without mapped memory there is less for Miri to see, and more to do.
        #[cfg(not(miri))]
        mod test_fabric {
            $($(
                #[test]
                fn $name() {
                    for seed in 0..super::world::SEEDS {
                        super::world::with_seed(seed, || super::$module::$name::<super::world::TestFabric>(seed));
                    }
                }
            )*)*
        }
    };
}

conformance! {
    content {
        #[cfg_attr(miri, ignore = "minutes")]
        every_size_arrives_intact_and_with_its_type,
        short_content_takes_one_line_wherever_it_lies,
        #[cfg_attr(miri, ignore = "minutes")]
        large_messages_arrive_intact,
        content_of_several_types_arrives_with_its_runs,
        #[cfg_attr(miri, ignore = "minutes")]
        messages_arrive_in_the_order_posted_across_protocols,
        #[cfg_attr(miri, ignore = "minutes")]
        laps_sequences_and_the_area_wrap_without_a_trace,
        #[cfg_attr(miri, ignore = "minutes")]
        positions_and_area_lines_wrap_at_the_end_of_their_counters,
        a_message_that_finds_the_area_full_goes_another_way,
    }
    room {
        #[cfg_attr(miri, ignore = "minutes")]
        a_full_ring_refuses_and_accepts_again_after_one_take,
        #[cfg_attr(miri, ignore = "minutes")]
        a_ring_of_one_message_takes_one_after_the_other,
        #[cfg_attr(miri, ignore = "minutes")]
        bytes_are_limited_but_an_empty_ring_takes_any_size,
        the_budget_is_shared_by_the_rings_of_a_node,
        what_a_ring_has_left_of_the_budget_is_there_for_others,
        what_would_be_copied_is_larger_than_the_budget_too_whoever_posts,
        more_than_the_budget_can_never_be_posted,
        several_threads_post_and_each_keeps_its_order,
        a_sender_that_asked_for_room_is_told_of_every_credit,
        a_receiver_is_rung_for_while_its_ring_is_cold_only,
        a_receiver_of_a_hot_ring_is_called_where_it_says_until_it_is_cold,
    }
    buffers {
        a_retrieved_buffer_is_let_go_of_though_only_short_messages_follow_it,
        whoever_comes_by_lets_go_of_buffers_only_where_nobody_has_posted_any_since,
        #[cfg_attr(miri, ignore = "minutes")]
        memory_comes_back_when_everything_was_retrieved_and_dropped,
        #[cfg_attr(miri, ignore = "minutes")]
        a_retrieved_buffer_comes_back_however_many_short_messages_followed_it,
        #[cfg_attr(miri, ignore = "minutes")]
        a_buffer_is_used_again_once_nobody_holds_it,
        #[cfg_attr(miri, ignore = "minutes")]
        content_that_is_replaced_after_post_is_written_elsewhere_while_it_rests,
        content_that_is_changed_after_post_arrives_as_it_was_posted,
        a_sender_that_is_alone_again_changes_in_place,
        a_message_that_is_posted_again_and_again_is_shared_while_somebody_has_it,
        a_message_that_goes_to_and_fro_is_one_buffer_and_nobodys_at_the_end,
        one_message_is_posted_to_several_rings,
        #[cfg_attr(miri, ignore = "minutes")]
        a_received_message_is_posted_on_to_a_third_node,
        #[cfg_attr(miri, ignore = "minutes")]
        a_message_that_went_around_comes_home,
    }
    endings {
        a_closed_ring_refuses_and_gives_back_what_was_on_its_way,
        what_was_taken_over_is_given_back_once_when_the_ring_closes,
        a_ring_whose_node_died_says_so,
        what_was_posted_before_the_sender_died_is_delivered,
        buffers_of_a_dead_sender_are_taken_over_before_it_is_forgotten,
        what_was_posted_on_by_a_node_that_left_is_held_although_it_let_go_of_the_message,
        what_could_not_be_taken_over_from_a_dead_sender_is_passed_over,
        a_ring_is_quiet_when_everything_that_was_reserved_has_arrived,
        a_receiver_knows_when_it_has_taken_all,
        a_drained_slot_is_not_written_again_before_it_was_left,
        a_ring_is_quiet_although_its_receiver_is_still_at_a_drained_slot,
    }
    batons {
        nothing_is_heard_where_pages_are_not_mapped,
    }
    hostile {
        a_slot_with_another_sequence_is_corrupt,
        a_tag_that_does_not_exist_is_corrupt,
        small_messages_that_cannot_be_are_corrupt,
        content_that_is_too_long_for_a_slot_is_corrupt,
        random_slots_are_read_or_refused,
        impossible_lengths_places_and_names_are_corrupt,
        impossible_names_are_corrupt_in_place_of_the_last_message_too,
        a_slot_that_changes_after_it_was_answered_is_corrupt,
        credits_that_are_ahead_are_corrupt,
        credits_that_are_ahead_let_go_of_nothing,
        impossible_addresses_are_corrupt,
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 100, ..Default::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn any_interleaving_on_host_memory_is_that_of_a_queue((shape, steps) in interleavings::shapes_and_steps()) {
        interleavings::run::<world::HostMemory>(shape, &steps, 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn any_interleaving_on_the_test_fabric_is_that_of_a_queue(
        (shape, steps) in interleavings::shapes_and_steps(),
        seed: u64,
    ) {
        interleavings::run::<world::TestFabric>(shape, &steps, seed);
    }
}
