//! Waiting for one of several mail boxes.

use std::time::Duration;

use deck_segment::FetchBack;
use deck_sync::atomic::{AtomicUsize, Ordering};
use deck_sync::{About, Deadline, Error, ErrorKind, Event, Goal, Result, Spot, Waiting};

use super::Mailbox;
use super::core::{Core, Meanwhile};

/// Where the next select begins to look, so that no mail box is always last.
static TURN: AtomicUsize = AtomicUsize::new(0);

struct Selecting<'a, 'b> {
    boxes: &'a [&'b Mailbox],
    turn: usize,
    fetch_back: Option<FetchBack>,
}

impl Selecting<'_, '_> {
    fn find(&self, has_work: fn(&Core) -> bool) -> Option<usize> {
        let count = self.boxes.len();
        (0..count).map(|step| (self.turn + step) % count).find(|index| has_work(&self.boxes[*index].core))
    }
}

impl Waiting for Selecting<'_, '_> {
    type Output = usize;

    fn look(&mut self) -> Option<usize> {
        self.find(Core::has_work)
    }

    fn look_everywhere(&mut self) -> Option<usize> {
        self.find(Core::has_work_anywhere)
    }

    fn meanwhile(&mut self) -> bool {
        self.fetch_back.go_on(self.boxes[0].node.heap())
    }

    fn arm(&mut self) {
        self.boxes.iter().for_each(|mailbox| mailbox.core.arm());
    }

    fn is_called_at(&mut self, spot: Spot) -> bool {
        self.boxes.iter().for_each(|mailbox| mailbox.core.be_called_at(Some(spot)));
        true
    }

    fn need_not_be_called(&mut self) {
        self.boxes.iter().for_each(|mailbox| mailbox.core.be_called_at(None));
    }

    fn about(&self) -> Option<About<'_>> {
        let name = self.boxes.iter().find_map(|mailbox| mailbox.name()).unwrap_or("");
        Some(About::new(Goal::Messages, name).with(self.boxes.iter().map(|mailbox| mailbox.core.id.to_word())))
    }
}

/// Waits until one of several mail boxes has something to retrieve (a message, a loss, or its end); returns its index.
/// Blocks until the deadline. Another thread may retrieve it first. A wait for more than 128 that lasts longer than
/// some 30 ms takes a thread for each further 127.
///
/// ```
/// use deck_mudeck::{ErrorKind, FOREVER, select};
/// # let node = deck_mudeck::Node::join()?;
/// let (questions, answers) = (node.mailbox("questions")?, node.mailbox("answers")?);
/// answers.post(node.message(), FOREVER)?;
/// assert_eq!(select(&[&questions, &answers], FOREVER)?, 1);
/// answers.retrieve(FOREVER)?;
///
/// // What ends a wait in one of them ends it here.
/// questions.close();
/// assert_eq!(select(&[&questions, &answers], FOREVER)?, 0);
/// assert_eq!(questions.retrieve(FOREVER).unwrap_err().kind(), ErrorKind::Closed);
/// # Ok::<(), deck_mudeck::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Timeout`], [`ErrorKind::Cancelled`], [`ErrorKind::Invalid`] without mail boxes,
/// [`ErrorKind::NotInitialized`] if a node of one of them has left.
#[doc(alias = "deck_mbox_select")]
pub fn select(boxes: &[&Mailbox], timeout: Duration) -> Result<usize> {
    let Some(first) = boxes.first() else {
        return Err(Error::new(ErrorKind::Invalid, "selecting from no mail box"));
    };
    boxes.iter().try_for_each(|mailbox| mailbox.node.check())?;
    let events: Vec<&Event> = boxes.iter().map(|mailbox| mailbox.core.event()).collect();
    let turn = TURN.fetch_add(1, Ordering::Relaxed) % boxes.len();
    let mut selecting = Selecting { boxes, turn, fetch_back: FetchBack::due(first.node.heap()) };
    let crowd = first.node.membership().crowd();
    let selected = deck_sync::wait(&mut selecting, &events, crowd, Deadline::after(timeout));
    selected.map_err(|interrupted| interrupted.error(format!("selecting from {} mail boxes", boxes.len())))
}
