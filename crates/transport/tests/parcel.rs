//! Parcels against the simplest message there is: a list of typed bytes that every clone has for itself.
#![cfg(not(loom))]

use std::sync::Arc;

use deck_segment::layout::DATA;
use deck_segment::{HeapMemory, HeapOptions, Seat};
use deck_sync::NodeId;
use deck_transport::Parcel;
use proptest::prelude::*;

/// Content as pairs of element code and byte.
type Model = Vec<(u8, u8)>;

#[derive(Clone, Debug)]
enum Step {
    Append(u8, Vec<u8>),
    /// Appends a part of the parcel's own content.
    AppendOwn(u8, usize, usize),
    Edit(u8),
    Clear,
    Resize(usize),
    /// A clone takes the place of another parcel.
    Clone(usize),
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let content = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(any::<u8>(), 40..900),
    ];
    let step = prop_oneof![
        6 => (1u8..4, content).prop_map(|(element, content)| Step::Append(element, content)),
        1 => (1u8..4, 0usize..200, 0usize..200).prop_map(|(element, from, bytes)| Step::AppendOwn(element, from, bytes)),
        2 => any::<u8>().prop_map(Step::Edit),
        1 => Just(Step::Clear),
        1 => prop_oneof![0usize..100, 100usize..5000].prop_map(Step::Resize),
        2 => (0usize..3).prop_map(Step::Clone),
    ];
    (0usize..3, step)
}

/// What a reader sees.
fn read(parcel: &Parcel) -> Model {
    let mut from = 0;
    let mut model = Model::new();
    for index in 0..parcel.run_count() {
        let run = parcel.run(index).expect("there are so many runs");
        assert!(run.bytes > 0, "an empty run");
        model.extend(parcel.bytes()[from..from + run.bytes].iter().map(|byte| (run.element, *byte)));
        from += run.bytes;
    }
    assert_eq!(from, parcel.size(), "the runs do not add up to the size");
    model
}

fn heap() -> Arc<HeapMemory> {
    HeapMemory::create(NodeId(0), Seat(0), &HeapOptions::of(DATA + (16 << 20))).expect("there is memory")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 10 } else { 200 }, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_changes_is_seen_by_the_parcel_it_was_made_on_only(steps in prop::collection::vec(step(), 1..60)) {
        let heap = heap();
        let mut parcels: [Parcel; 3] = Default::default();
        let mut models: [Model; 3] = Default::default();
        for (at, step) in steps {
            match step {
                Step::Append(element, content) => {
                    // SAFETY: the vector is readable for its length.
                    unsafe { parcels[at].append(element, content.as_ptr(), content.len(), &heap) }.unwrap();
                    models[at].extend(content.into_iter().map(|byte| (element, byte)));
                }
                Step::AppendOwn(element, from, bytes) => {
                    let from = from.min(models[at].len());
                    let bytes = bytes.min(models[at].len() - from);
                    let data = parcels[at].bytes()[from..].as_ptr();
                    // SAFETY: `bytes` bytes from there are content of the parcel itself.
                    unsafe { parcels[at].append(element, data, bytes, &heap) }.unwrap();
                    let own: Vec<(u8, u8)> = models[at][from..from + bytes].iter().map(|(_, byte)| (element, *byte)).collect();
                    models[at].extend(own);
                }
                Step::Edit(byte) => {
                    parcels[at].edit(&heap).unwrap().fill(byte);
                    models[at].iter_mut().for_each(|(_, old)| *old = byte);
                }
                Step::Clear => {
                    parcels[at].clear();
                    models[at].clear();
                }
                Step::Resize(bytes) => {
                    parcels[at].resize(bytes, &heap).unwrap();
                    // The bytes are undefined until they are written.
                    parcels[at].edit(&heap).unwrap().fill(7);
                    models[at] = vec![(1, 7); bytes];
                }
                Step::Clone(other) => {
                    parcels[at] = parcels[other].clone();
                    models[at] = models[other].clone();
                }
            }
            for (parcel, model) in parcels.iter().zip(&models) {
                prop_assert_eq!(&read(parcel), model);
                prop_assert!(parcel.data().as_ptr().addr().is_multiple_of(64));
                prop_assert!(Parcel::needed(parcel.size(), parcel.runs()) <= parcel.capacity());
            }
        }
        drop(parcels);
        prop_assert_eq!(heap.usage().buffers, 0);
    }
}

#[test]
fn a_clone_shares_the_buffer_until_one_of_the_two_changes() {
    let heap = heap();
    let mut parcel = Parcel::default();
    parcel.set_capacity(1000, &heap).unwrap();
    parcel.resize(1000, &heap).unwrap();
    let address = parcel.data();
    let clone = parcel.clone();
    assert_eq!(clone.data(), address);
    assert_eq!(heap.usage().buffers, 1);
    parcel.edit(&heap).unwrap()[0] = 1;
    assert_ne!(parcel.data(), address);
    assert_eq!(clone.data(), address);
    drop(clone);
    let address = parcel.data();
    parcel.edit(&heap).unwrap()[0] = 2;
    assert_eq!(parcel.data(), address, "alone, and copied all the same");
    parcel.clear();
    // SAFETY: two readable bytes.
    unsafe { parcel.append(1, [1u8, 2].as_ptr(), 2, &heap) }.unwrap();
    assert_eq!(parcel.data(), address, "a cleared parcel keeps its memory");
}

#[test]
fn a_failed_change_changes_nothing() {
    let heap = heap();
    let mut parcel = Parcel::default();
    // SAFETY: three readable bytes.
    unsafe { parcel.append(5, [1u8, 2, 3].as_ptr(), 3, &heap) }.unwrap();
    assert!(parcel.resize(1 << 40, &heap).is_err());
    // SAFETY: never read: the length is refused first.
    assert!(unsafe { parcel.append(5, [0u8].as_ptr(), 1 << 40, &heap) }.is_err());
    // SAFETY: as above.
    assert!(unsafe { parcel.append(5, [0u8].as_ptr(), usize::MAX, &heap) }.is_err());
    assert_eq!(parcel.bytes(), [1, 2, 3]);
    assert_eq!(parcel.run(0).map(|run| run.element), Some(5));
}
