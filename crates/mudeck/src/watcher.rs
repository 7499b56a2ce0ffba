//! The watcher: one thread that stands in for event loops and futures, which cannot sleep on a word in memory.
//!
//! A mail box is watched once: when something arrives, its descriptor becomes readable and its wakers are called; then
//! it is left alone until a retriever finds it empty and asks again. Mail boxes that nobody watches cost nothing.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;

use deck_peers::wakeup;
use deck_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use deck_sync::locks::lock;
use deck_sync::{Crowd, Deadline, Event, Result, Service, Waiting};

use crate::log::ignore_panics;
use crate::mailbox::Core;

/// What a mail box knows of being watched.
#[derive(Default)]
pub(crate) struct Watch {
    fd: Mutex<Option<Descriptor>>,
    has_fd: AtomicBool,
    /// Of the futures that wait, each by its number.
    wakers: Mutex<BTreeMap<u64, Waker>>,
    next_future: AtomicU64,
}

/// What an event loop watches.
struct Descriptor {
    fd: OwnedFd,
    is_readable: bool,
}

impl Watch {
    pub fn has_fd(&self) -> bool {
        // Acquire: pairs with: watcher/fd.
        self.has_fd.load(Ordering::Acquire)
    }

    pub fn open_fd(&self) -> Result<RawFd> {
        let mut fd = lock(&self.fd);
        if fd.is_none() {
            let new = wakeup::new().map_err(|error| error.context("making a descriptor for a mail box"))?;
            *fd = Some(Descriptor { fd: new, is_readable: false });
            // Release: pairs with: watcher/fd. Whoever sees it finds the descriptor.
            self.has_fd.store(true, Ordering::Release);
        }
        Ok(fd.as_ref().map_or(-1, |descriptor| descriptor.fd.as_raw_fd()))
    }

    /// There is something to retrieve: the descriptor, if there is one, is readable.
    pub fn show(&self) {
        if let Some(descriptor) = lock(&self.fd).as_mut().filter(|descriptor| !descriptor.is_readable) {
            descriptor.is_readable = wakeup::ring(&descriptor.fd);
        }
    }

    /// There is nothing to retrieve: the descriptor is not readable.
    pub fn hush(&self) {
        if let Some(descriptor) = lock(&self.fd).as_mut().filter(|descriptor| descriptor.is_readable) {
            wakeup::hush(&descriptor.fd);
            descriptor.is_readable = false;
        }
    }

    /// A number for a future that will wait.
    pub fn number_future(&self) -> u64 {
        self.next_future.fetch_add(1, Ordering::Relaxed)
    }

    /// Whatever `future` was to wake before, it is `waker` from now on.
    pub fn set_waker(&self, future: u64, waker: &Waker) {
        let waker = waker.clone();
        // Dropped outside the lock: with a waker its task may go, and with that other futures that wait here.
        let _before = lock(&self.wakers).insert(future, waker);
    }

    /// `future` is no more. If it had been woken, so had all others that waited then: none relies on it.
    pub fn forget_waker(&self, future: u64) {
        // Dropped outside the lock, as above.
        let _waker = lock(&self.wakers).remove(&future);
    }

    fn ring(&self) {
        self.show();
        let wakers = std::mem::take(&mut *lock(&self.wakers));
        // All: one of them may be dropped before it takes what has come. They are the program's, and one that panics is
        // no reason to forget the others.
        wakers.into_values().for_each(|waker| ignore_panics(|| waker.wake()));
    }
}

struct Watched {
    boxes: Mutex<Vec<Weak<Core>>>,
    changed: Event,
    is_over: AtomicBool,
}

/// The thread that watches the mail boxes of a node.
pub(crate) struct Watcher {
    watched: Arc<Watched>,
}

struct Watching<'a> {
    cores: &'a [Arc<Core>],
    watched: &'a Watched,
    seen: u32,
}

impl Waiting for Watching<'_> {
    type Output = ();

    fn look(&mut self) -> Option<()> {
        let has_changed = self.watched.changed.count() != self.seen;
        (has_changed || self.cores.iter().any(|core| core.has_work())).then_some(())
    }

    fn look_everywhere(&mut self) -> Option<()> {
        self.cores.iter().any(|core| core.has_work_anywhere()).then_some(()).or_else(|| self.look())
    }

    fn arm(&mut self) {
        self.cores.iter().for_each(|core| core.arm());
    }
}

impl Watcher {
    pub fn start(crowd: Arc<dyn Crowd>) -> Result<Watcher> {
        let watched =
            Arc::new(Watched { boxes: Mutex::default(), changed: Event::new(), is_over: AtomicBool::new(false) });
        let theirs = watched.clone();
        Service::Watcher.start(move || theirs.run(&crowd))?;
        Ok(Watcher { watched })
    }

    /// Rings `core` once when it has something to retrieve, which may be now.
    pub fn watch(&self, core: &Arc<Core>) {
        let mut boxes = lock(&self.watched.boxes);
        let core = Arc::downgrade(core);
        if !boxes.iter().any(|other| other.ptr_eq(&core)) {
            boxes.push(core);
        }
        drop(boxes);
        self.watched.changed.notify();
        // Acquire: pairs with: watcher/over. The thread may have rung all for the last time before it came.
        if self.watched.is_over.load(Ordering::Acquire) {
            self.watched.ring_all();
        }
    }

    /// The thread rings all that are watched, and ends: their node leaves, and they are closed.
    pub fn end(&self) {
        // Release: pairs with: watcher/over.
        self.watched.is_over.store(true, Ordering::Release);
        self.watched.changed.notify();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end();
    }
}

impl Watched {
    /// What is watched from now on finds under the lock that this was so.
    fn ring_all(&self) {
        let boxes = std::mem::take(&mut *lock(&self.boxes));
        boxes.iter().filter_map(Weak::upgrade).for_each(|core| core.watch.ring());
    }

    fn run(&self, crowd: &Arc<dyn Crowd>) {
        loop {
            // Before the look: what changes after it changes the count, too.
            let seen = self.changed.count();
            // Acquire: pairs with: watcher/over.
            if self.is_over.load(Ordering::Acquire) {
                return self.ring_all();
            }
            let cores: Vec<Arc<Core>> = lock(&self.boxes).iter().filter_map(Weak::upgrade).collect();
            {
                let mut events: Vec<&Event> = vec![&self.changed];
                events.extend(cores.iter().map(|core| core.event()));
                let mut watching = Watching { cores: &cores, watched: self, seen };
                let _ = deck_sync::wait(&mut watching, &events, crowd, Deadline::NEVER);
            }
            for core in cores.iter().filter(|core| core.has_work()) {
                lock(&self.boxes).retain(|other| other.as_ptr() != Arc::as_ptr(core));
                core.watch.ring();
            }
            lock(&self.boxes).retain(|core| core.strong_count() > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Wake};

    use deck_peers::Door;

    use super::*;
    use crate::mailbox::{Mailbox, MailboxOptions, Retrieve};
    use crate::message::Message;
    use crate::node::NodeShared;
    use crate::testing::SOON;

    /// A task that tells its number when it is woken.
    struct Task(usize, mpsc::Sender<usize>);

    impl Wake for Task {
        fn wake(self: Arc<Task>) {
            let _ = self.1.send(self.0);
        }
    }

    fn mailbox() -> (Arc<NodeShared>, Arc<Core>, Mailbox) {
        let node = NodeShared::join(Door::Alone).unwrap();
        let core = node.open(Some("box"), &MailboxOptions::default()).unwrap();
        (node.clone(), core.clone(), Mailbox::new(node, core))
    }

    #[track_caller]
    fn poll_in_vain(future: &mut Retrieve<'_>, task: Task) {
        assert!(pin!(future).poll(&mut Context::from_waker(&Waker::from(Arc::new(task)))).is_pending());
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_future_leaves_nothing_behind_however_many_tasks_poll_it() {
        let (_node, core, mailbox) = mailbox();
        let (woken, _) = mpsc::channel();
        let wakers = || lock(&core.watch.wakers).len();
        for task in 0..1000 {
            poll_in_vain(&mut mailbox.retrieve_async(), Task(task, woken.clone()));
        }
        assert_eq!(wakers(), 0);
        let mut future = mailbox.retrieve_async();
        for task in 0..1000 {
            poll_in_vain(&mut future, Task(task, woken.clone()));
        }
        assert_eq!(wakers(), 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_future_that_is_dropped_when_it_is_woken_keeps_the_message_from_no_other() {
        let (node, _core, mailbox) = mailbox();
        let (tell, woken) = mpsc::channel();
        let mut futures = [0, 1].map(|task| {
            let mut future = mailbox.retrieve_async();
            poll_in_vain(&mut future, Task(task, tell.clone()));
            Some(future)
        });
        mailbox.post(Message::empty(&node), SOON).unwrap();
        let first = woken.recv_timeout(SOON).unwrap();
        drop(futures[first].take());
        let second = woken.recv_timeout(SOON).unwrap();
        assert_eq!(second, 1 - first);
        let future = futures[second].as_mut().unwrap();
        assert!(pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn the_thread_ends_when_its_node_leaves_and_whoever_waits_is_woken() {
        let (node, _core, mailbox) = mailbox();
        let (tell, woken) = mpsc::channel();
        let mut future = mailbox.retrieve_async();
        poll_in_vain(&mut future, Task(0, tell));
        let watched = node.watcher().unwrap().watched.clone();
        node.leave();
        assert_eq!(woken.recv_timeout(SOON), Ok(0));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(pin!(&mut future).poll(&mut context), std::task::Poll::Ready(Err(_))));
        let soon = Deadline::after(SOON);
        // Here, in the watcher, and in its thread.
        while Arc::strong_count(&watched) > 2 {
            assert!(!soon.has_passed(), "the thread still runs");
            std::thread::yield_now();
        }
    }
}
