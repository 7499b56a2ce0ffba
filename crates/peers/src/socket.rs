//! Sockets between processes of a job: frames and file descriptors, in order, never blocking.
//!
//! They are unix sockets that keep the boundaries of frames (SOCK_SEQPACKET), close-on-exec. A frame that finds the
//! other side's buffer full (a frozen process) waits in an outbox until the control thread can send it. So does one
//! that the system has no room for, whoever reads: too many descriptors of this user are on their way, or memory is
//! short.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use deck_sync::descriptor::beyond_standard;
use deck_sync::locks::lock;
use deck_sync::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};

use crate::process::parent_only::ParentOnly;
use crate::wire::Frame;

/// With so many frames that wait for a process that does not read, it is frozen for long: nothing more is asked of it.
/// What it is to know when it runs again still waits for it: that is bounded by what there is to tell of.
const OUTBOX_MAX: usize = 4096;

/// Frames of one socket that are heard in a row: whoever sends without end keeps nobody from being heard, nor a node
/// from leaving. Whoever watches the socket is told of the rest.
pub const TURN: usize = 64;
/// More frames than lie in a socket (a few hundred, unless the system allows it megabytes): all that somebody has said
/// who has ended.
pub const LAST_WORDS: usize = 1 << 16;

/// One end of a connection.
#[derive(Debug)]
pub struct Socket {
    fd: ParentOnly,
    outbox: Mutex<VecDeque<(Vec<u8>, Option<OwnedFd>)>>,
}

/// What came out of a socket.
#[derive(Debug)]
pub enum Received {
    /// A frame, and what was passed with it.
    Frame(Frame, Option<OwnedFd>),
    /// Nothing now.
    Nothing,
    /// The other end is closed.
    End,
    /// Bytes that are no frame.
    Nonsense,
}

/// Two connected ends.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .and_then(|(one, other)| Ok((beyond_standard(one)?, beyond_standard(other)?)))
        .map_err(|errno| Error::system("making a pair of sockets", errno.raw_os_error()))
}

impl Socket {
    /// Takes over a connected socket.
    pub fn new(fd: OwnedFd) -> Socket {
        let _ = rustix::io::ioctl_fionbio(&fd, true);
        Socket { fd: ParentOnly::new(fd), outbox: Mutex::new(VecDeque::new()) }
    }

    /// Sends a frame, at once or as soon as the other side has room. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] if the other end is closed, [`ErrorKind::Timeout`] for a question if it has not read for
    /// very long; if what is passed has to wait, and there is no descriptor for that, [`ErrorKind::System`].
    pub fn send(&self, frame: &Frame, passed: Option<BorrowedFd<'_>>) -> Result<()> {
        let bytes = frame.encode();
        let mut outbox = lock(&self.outbox);
        if outbox.is_empty() {
            match send_now(self.fd.as_fd(), &bytes, passed) {
                Ok(()) => return Ok(()),
                Err(errno) if is_for_now(errno) => {}
                Err(errno) => {
                    return Err(Error::new(ErrorKind::PeerLost, "sending to it").with_os(errno.raw_os_error()));
                }
            }
        }
        if frame.is_said_once() && outbox.iter().any(|(waiting, _)| *waiting == bytes) {
            return Ok(());
        }
        if frame.is_question() && outbox.len() >= OUTBOX_MAX {
            return Err(Error::new(
                ErrorKind::Timeout,
                format!("{OUTBOX_MAX} frames wait for a process that does not read"),
            ));
        }
        let passed = passed.map(|fd| fd.try_clone_to_owned()).transpose();
        let passed = passed.map_err(|error| Error::io("keeping a descriptor to pass", &error))?;
        outbox.push_back((bytes, passed));
        Ok(())
    }

    /// Takes back such frames as still have to wait, with what was to be passed.
    pub fn take_back(&self, is_it: impl Fn(&Frame) -> bool) {
        lock(&self.outbox).retain(|(bytes, _)| !Frame::decode(bytes).is_some_and(|frame| is_it(&frame)));
    }

    /// How many such frames wait to be sent.
    pub fn waiting(&self, is_it: impl Fn(&Frame) -> bool) -> usize {
        lock(&self.outbox).iter().filter(|(bytes, _)| Frame::decode(bytes).is_some_and(|frame| is_it(&frame))).count()
    }

    /// Sends what had to wait; true if some of it still has to.
    pub fn send_waiting(&self) -> bool {
        let mut outbox = lock(&self.outbox);
        while let Some((bytes, passed)) = outbox.front() {
            match send_now(self.fd.as_fd(), bytes, passed.as_ref().map(AsFd::as_fd)) {
                Err(errno) if is_for_now(errno) => return true,
                // A closed end is noticed by whoever reads.
                _ => outbox.pop_front(),
            };
        }
        false
    }

    /// True if frames wait to be sent.
    pub fn is_backed_up(&self) -> bool {
        self.unread() > 0
    }

    /// How many frames wait to be sent.
    pub fn unread(&self) -> usize {
        lock(&self.outbox).len()
    }

    /// The other end reads what was sent, and then the end. Nothing is sent or received any more; descriptors that have
    /// come and were not read would stay open as long as this socket, and are closed. Never blocks.
    pub fn end(&self) {
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both);
        while matches!(self.receive(), Received::Frame(..) | Received::Nonsense) {}
    }

    /// The next frame, if there is one. Never blocks.
    pub fn receive(&self) -> Received {
        match self.receive_now() {
            // Said once if the other end was closed with frames in it that nobody read. What it had sent comes after
            // that.
            Err(Errno::CONNRESET) => self.receive_now().unwrap_or(Received::End),
            received => received.unwrap_or(Received::End),
        }
    }

    fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::RDHUP)];
        rustix::event::poll(&mut fds, Some(&Timespec::default())) != Ok(0)
    }

    fn receive_now(&self) -> Result<Received, Errno> {
        let mut bytes = [0u8; Frame::BYTES_MAX + 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let received =
            rustix::io::retry_on_intr(|| rustix::net::recvmsg(self.fd.as_fd(), &mut slices, &mut ancillary, flags));
        let count = match received {
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            received => received?.bytes,
        };
        let mut passed = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                // Anything but the last is closed here.
                for fd in descriptors {
                    // Where there is no other descriptor it is as lost as where there is none at all.
                    passed = beyond_standard(fd).ok();
                }
            }
        }
        // That is also what is read of a frame without bytes.
        if count == 0 && self.has_ended() {
            return Ok(Received::End);
        }
        Ok(match Frame::decode(&bytes[..count]) {
            Some(frame) => Received::Frame(frame, passed),
            None => Received::Nonsense,
        })
    }
}

/// True if the same may be sent later. Only of a full buffer does the socket tell when, so that all are tried again
/// from time to time.
fn is_for_now(errno: Errno) -> bool {
    matches!(errno, Errno::AGAIN | Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM)
}

fn send_now(fd: BorrowedFd<'_>, bytes: &[u8], passed: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = passed.into_iter().collect();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let slices = [IoSlice::new(bytes)];
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(fd, &slices, &mut ancillary, flags)).map(drop)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits until the other end is closed everywhere: a process that another test starts may have it, too, for a moment.
#[cfg(test)]
pub(crate) fn wait_for_the_end(socket: &Socket) {
    let mut ends = [PollFd::new(socket, PollFlags::empty())];
    assert_eq!(rustix::event::poll(&mut ends, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })), Ok(1), "it does not end");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone;

    #[test]
    fn frames_and_descriptors_arrive_in_order() {
        let (one, other) = pair().unwrap();
        let (one, other) = (Socket::new(one), Socket::new(other));
        assert!(matches!(other.receive(), Received::Nothing));
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        one.send(&Frame::Ping { count: 1 }, Some(file.as_fd())).unwrap();
        one.send(&Frame::Bye {}, None).unwrap();
        assert!(matches!(other.receive(), Received::Frame(Frame::Ping { count: 1 }, Some(_))));
        assert!(matches!(other.receive(), Received::Frame(Frame::Bye {}, None)));
        drop(one);
        wait_for_the_end(&other);
        assert!(matches!(other.receive(), Received::End));
        assert_eq!(other.send(&Frame::Bye {}, None).unwrap_err().kind(), ErrorKind::PeerLost);
    }

    #[test]
    fn what_was_said_before_the_end_arrives_though_nobody_read_the_answer() {
        let (one, other) = pair().unwrap();
        let (one, other) = (Socket::new(one), Socket::new(other));
        (1..=3).for_each(|count| one.send(&Frame::Ping { count }, None).unwrap());
        other.send(&Frame::Pong { count: 1 }, None).unwrap();
        drop(one);
        wait_for_the_end(&other);
        for expected in 1..=3 {
            let received = other.receive();
            assert!(
                matches!(received, Received::Frame(Frame::Ping { count }, None) if count == expected),
                "{received:?}"
            );
        }
        assert!(matches!(other.receive(), Received::End));
    }

    #[test]
    fn questions_to_a_process_that_does_not_read_wait_in_order_and_are_bounded_and_what_it_must_know_waits_behind() {
        let (one, other) = pair().unwrap();
        let (one, other) = (Socket::new(one), Socket::new(other));
        let question = |request| Frame::RingRequest { request, mailbox: 0, generation: 0, credit: 0 };
        let mut sent = 0u64;
        while one.send(&question(sent), None).is_ok() {
            sent += 1;
        }
        assert!(sent > OUTBOX_MAX as u64 && one.is_backed_up());
        (0..OUTBOX_MAX as u64).for_each(|ring| one.send(&Frame::RingClose { ring }, None).unwrap());
        let closed = (0..OUTBOX_MAX as u64).map(|ring| Frame::RingClose { ring });
        for expected in (0..sent).map(question).chain(closed) {
            let Received::Frame(frame, None) = other.receive() else { panic!("{expected:?} is missing") };
            assert_eq!(frame, expected);
            one.send_waiting();
        }
        assert!(!one.is_backed_up());
    }

    #[test]
    fn a_descriptor_waits_while_too_many_of_this_user_are_on_their_way_and_nobody_is_lost() {
        if !alone::is_alone(
            "socket::tests::a_descriptor_waits_while_too_many_of_this_user_are_on_their_way_and_nobody_is_lost",
        ) {
            return;
        }
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let (unread, unreading) = pair().unwrap();
        // Others of this user may have some on their way, too.
        let too_many = (0..=alone::DESCRIPTORS_MAX + 1)
            .find_map(|count| send_now(unread.as_fd(), &Frame::Ping { count }.encode(), Some(file.as_fd())).err());
        assert_eq!(too_many, Some(Errno::TOOMANYREFS));
        let (one, other) = pair().unwrap();
        let (one, other) = (Socket::new(one), Socket::new(other));
        one.send(&Frame::Ping { count: 1 }, Some(file.as_fd())).unwrap();
        one.send(&Frame::Bye {}, None).unwrap();
        assert!(one.is_backed_up() && one.send_waiting());
        assert!(matches!(other.receive(), Received::Nothing));
        let reading = Socket::new(unreading);
        while let Received::Frame(..) = reading.receive() {}
        assert!(!one.send_waiting());
        assert!(matches!(other.receive(), Received::Frame(Frame::Ping { count: 1 }, Some(_))));
        assert!(matches!(other.receive(), Received::Frame(Frame::Bye {}, None)));
    }

    #[test]
    fn what_is_no_frame_is_no_end() {
        let (one, other) = pair().unwrap();
        let other = Socket::new(other);
        for bytes in [&b""[..], b"hello", &[0xff; 500]] {
            send_now(one.as_fd(), bytes, None).unwrap();
            assert!(matches!(other.receive(), Received::Nonsense), "{bytes:?}");
        }
        assert!(matches!(other.receive(), Received::Nothing));
        drop(one);
        wait_for_the_end(&other);
        assert!(matches!(other.receive(), Received::End));
    }

    #[test]
    fn a_wish_that_waits_already_is_not_said_again() {
        let (one, other) = pair().unwrap();
        let (one, other) = (Socket::new(one), Socket::new(other));
        let mut sent = 0;
        while !one.is_backed_up() {
            one.send(&Frame::Bye {}, None).unwrap();
            sent += 1;
        }
        for ring in [1, 2, 1, 2, 1] {
            one.send(&Frame::RoomWanted { ring }, None).unwrap();
        }
        let heap = Frame::Heap { number: 1, seat: 1 };
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        (0..2).for_each(|_| one.send(&heap, Some(file.as_fd())).unwrap());
        let mut received = Vec::new();
        while let Received::Frame(frame, _) = other.receive() {
            received.push(frame);
            one.send_waiting();
        }
        let expected = [Frame::RoomWanted { ring: 1 }, Frame::RoomWanted { ring: 2 }, heap];
        assert_eq!(received[sent..], expected);
    }
}
