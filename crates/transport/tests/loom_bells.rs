//! Models of bells: whoever has seen the notification of a ring hears its bell, whatever others ring meanwhile.
#![cfg(loom)]

mod loom_memory;

use deck_segment::Words;
use deck_transport::Bells;
use loom::thread;

use loom_memory::{Memory, bounded};

/// Two posters ring while the owner hears what has rung, whenever the count has changed. What was written before a bell
/// is seen by then.
///
/// Seen to fail: with a load and a store in place of the exchange that takes bells down; with a relaxed exchange; with
/// a bell that is set relaxed; with the notification before the bell.
#[test]
fn every_bell_is_heard() {
    bounded(3, || {
        let words = Words::model(Bells::BYTES / 8 + 2);
        let bells = Bells::new(words.clone());
        let content = |index: usize| Bells::BYTES / 8 + index;
        let posters = [0, 1].map(|index| {
            let memory = Memory(words.clone());
            thread::spawn(move || {
                memory.0.get(content(index)).store(1, loom::sync::atomic::Ordering::Relaxed);
                Bells::bell(index, 0).ring(&memory);
            })
        });
        let (mut seen, mut heard) = (0, [false; 2]);
        let mut hear = || {
            let count = bells.event().count();
            if count != seen {
                seen = count;
                bells.hear(heard.len(), |index| {
                    let content = words.get(content(index)).load(loom::sync::atomic::Ordering::Relaxed);
                    assert_eq!(content, 1, "a bell that has rung before there was something");
                    heard[index] = true;
                });
            }
        };
        hear();
        hear();
        posters.into_iter().for_each(|poster| poster.join().expect("it rings"));
        hear();
        assert_eq!(heard, [true; 2]);
    });
}
