//! What a message holds: packing and unpacking by turns, and whose buffer it keeps.

mod job;

use deck_mudeck::{Door, ErrorKind, Node, Refused};
use job::{SOON, expect_filled, filled, job_of, reuse_memory};

#[test]
fn what_is_packed_after_everything_was_unpacked_can_be_unpacked_as_well() {
    let (_broker, [node]) = job_of();
    let mut message = node.message();
    message.pack(&[1i32, 2]).unwrap();
    let mut two = [0i32; 2];
    message.unpack(&mut two).unwrap();
    assert_eq!(two, [1, 2]);
    // The same type again, another type, and the first one once more.
    let (mut one, mut real) = ([0i32], [0f64]);
    message.pack(&[3i32]).unwrap();
    message.unpack(&mut one).unwrap();
    assert_eq!(one, [3]);
    message.pack(&[0.5f64]).unwrap();
    message.pack(&[4i32]).unwrap();
    message.unpack(&mut real).unwrap();
    message.unpack(&mut one).unwrap();
    assert_eq!((real, one), ([0.5], [4]));
    assert_eq!(message.unpack(&mut one).unwrap_err().kind(), ErrorKind::Truncated);
}

#[test]
fn a_refused_unpack_consumes_nothing() {
    let (_broker, [node]) = job_of();
    let mut message = node.message();
    message.pack(&[1u32, 2]).unwrap();
    message.pack(&[3u64]).unwrap();
    let (mut three, mut two, mut long) = ([0u32; 3], [0u32; 2], [0u64]);
    assert_eq!(message.unpack(&mut long).unwrap_err().kind(), ErrorKind::Type);
    assert_eq!(message.unpack(&mut three).unwrap_err().kind(), ErrorKind::Truncated);
    message.unpack(&mut two).unwrap();
    message.unpack(&mut long).unwrap();
    assert_eq!((two, long), ([1, 2], [3]));
}

#[test]
fn a_cleared_message_gives_the_senders_buffer_back() {
    let (_broker, [here, poster]) = job_of();
    let mailbox = here.mailbox("box").unwrap();
    let clone = poster.clone_mailbox("box", SOON).unwrap();
    clone.post(filled(&poster, 1 << 20, 1), SOON).unwrap();
    let mut received = mailbox.retrieve(SOON).unwrap();
    received.clear();
    assert_eq!(received.size(), 0);
    assert!(received.capacity() < 1 << 20, "still has the sender's {} bytes", received.capacity());
    // It can be used like any other.
    received.pack(&[7u8; 5000]).unwrap();
    let mut content = [0u8; 5000];
    received.unpack(&mut content).unwrap();
    assert_eq!(content, [7; 5000]);
}

#[test]
fn a_message_cleared_after_post_leaves_the_posted_content_alone() {
    let (_broker, [here, poster]) = job_of();
    let mailbox = here.mailbox("box").unwrap();
    let clone = poster.clone_mailbox("box", SOON).unwrap();
    let mut message = filled(&poster, 4096, 1);
    clone.post_shared(&message, SOON).unwrap();
    message.clear();
    message.resize(4096).unwrap();
    message.edit().unwrap().fill(2);
    let _reused = reuse_memory(&poster);
    expect_filled(&mailbox.retrieve(SOON).unwrap(), 4096, 1);
    expect_filled(&message, 4096, 2);
}

#[test]
fn content_of_one_type_is_read_and_written_as_elements_where_it_lies() {
    let (_broker, [node]) = job_of();
    for count in [0, 1, 7, 8, 10_000] {
        let mut message = node.message();
        message.pack(&vec![1.5f64; count]).unwrap();
        let place = message.as_ptr();
        message.edit_elements::<f64>().unwrap().iter_mut().for_each(|number| *number += 1.0);
        assert_eq!(message.elements::<f64>().unwrap(), vec![2.5; count]);
        assert_eq!(message.as_ptr(), place);
        // It stays to be unpacked, as what it is.
        let mut unpacked = vec![0.0; count];
        message.unpack(&mut unpacked).unwrap();
        assert_eq!(unpacked, vec![2.5; count]);
        if count > 0 {
            assert_eq!(message.elements::<u64>().unwrap_err().kind(), ErrorKind::Type);
            message.pack(&[1u8]).unwrap();
            assert_eq!(message.elements::<f64>().unwrap_err().kind(), ErrorKind::Type);
            assert_eq!(message.edit_elements::<u8>().unwrap_err().kind(), ErrorKind::Type);
        }
    }
}

#[test]
fn raw_bytes_are_elements_of_any_type_if_they_are_a_whole_number_of_them() {
    let (_broker, [node]) = job_of();
    let mut message = node.message();
    message.resize(24).unwrap();
    message.edit().unwrap().fill(1);
    assert_eq!(message.elements::<u16>().unwrap(), [0x0101; 12]);
    assert_eq!(message.elements::<i64>().unwrap(), [0x0101_0101_0101_0101; 3]);
    message.resize(25).unwrap();
    assert_eq!(message.elements::<u16>().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(message.edit_elements::<u8>().unwrap().len(), 25);
}

#[test]
fn a_message_of_another_job_is_refused_and_one_that_is_retrieved_into_becomes_one_of_this() {
    let [first, second] = [(); 2].map(|()| Node::join_by(Door::Alone).unwrap());
    let [of_first, of_second] = [&first, &second].map(|node| node.mailbox("box").unwrap());
    for count in [1, 100, 100_000] {
        let mut message = first.message();
        message.pack(&vec![1u8; count]).unwrap();
        let Err(Refused { message, error }) = of_second.post(message, SOON) else { panic!("it is of another job") };
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let mut own = second.message();
        own.pack(&vec![2u8; count]).unwrap();
        of_second.post(own, SOON).unwrap();
        let mut into = message.clone();
        of_second.retrieve_into(&mut into, SOON).unwrap();
        assert_eq!((message.as_bytes(), into.as_bytes()), (&*vec![1; count], &*vec![2; count]));
        // Each belongs to where it came from.
        of_first.post(message, SOON).unwrap();
        of_second.post(into, SOON).unwrap();
        assert_eq!(of_second.retrieve(SOON).unwrap().as_bytes(), vec![2; count]);
        assert_eq!(of_first.retrieve(SOON).unwrap().as_bytes(), vec![1; count]);
    }
    // One that stays when this process has left is of another job, too, and stays readable.
    let mut kept = first.message();
    kept.pack(&[1u8; 5000]).unwrap();
    first.leave().unwrap();
    let again = Node::join_by(Door::Alone).unwrap();
    let inbox = again.mailbox("box").unwrap();
    assert_eq!(inbox.post_shared(&kept, SOON).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(kept.as_bytes(), [1; 5000]);
}

#[test]
fn an_address_of_another_job_is_no_address_here_though_a_mail_box_has_the_same_place() {
    let [first, second] = [(); 2].map(|()| Node::join_by(Door::Alone).unwrap());
    let [of_first, of_second] = [&first, &second].map(|node| node.mailbox("box").unwrap());
    assert_ne!(of_first.address(), of_second.address());
    assert_eq!(of_first.address(), of_first.clone_here().unwrap().address());
    let mut message = second.message();
    let refused = message.pack_mailbox(of_first.address()).unwrap_err();
    assert_eq!((refused.kind(), message.size()), (ErrorKind::Invalid, 0), "{refused}");
    message.pack_mailbox(of_second.address()).unwrap();
    assert_eq!(message.unpack_mailbox(SOON).unwrap().address(), of_second.address());
    // One that stays when this process has left, too.
    let kept = of_first.address();
    first.leave().unwrap();
    let again = Node::join_by(Door::Alone).unwrap();
    let _inbox = again.mailbox("box").unwrap();
    assert_eq!(again.message().pack_mailbox(kept).unwrap_err().kind(), ErrorKind::Invalid);
}
