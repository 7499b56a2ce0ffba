use super::*;
use proptest::prelude::*;

fn label() -> impl Strategy<Value = Label> {
    prop_oneof![
        (1u8..13, 0u64..1 << 40).prop_map(|(element, size)| Label { element, size, runs: 0 }),
        (2u32..1000, 1000u64..1 << 40).prop_map(|(runs, size)| Label { element: MIXED, size, runs }),
    ]
}

fn packet() -> impl Strategy<Value = Packet> {
    let name = (any::<u32>(), any::<u16>(), any::<u32>(), any::<u64>())
        .prop_map(|(owner, seat, index, offset)| BufferName { owner, seat, index, offset, capacity: 1 << 50 });
    prop_oneof![
        (prop::array::uniform32(any::<u8>()), 0u8..=62).prop_map(|(half, size)| {
            let mut bytes = [0; PAYLOAD];
            bytes[..32].copy_from_slice(&half);
            Packet::Short { bytes, size }
        }),
        (1u8..13, 0u64..=56, any::<u8>()).prop_map(|(element, size, fill)| Packet::Typed {
            label: Label { element, size, runs: 0 },
            bytes: [fill; TYPED]
        }),
        (1u8..13, 0u64..=120).prop_map(|(element, size)| Packet::Wide { label: Label { element, size, runs: 0 } }),
        (2u32..8, 16u64..=56).prop_map(|(runs, size)| Packet::Wide { label: Label { element: MIXED, size, runs } }),
        (label(), any::<u32>(), any::<u32>()).prop_map(|(label, line, area_end)| Packet::Buffered {
            label,
            line,
            area_end
        }),
        (label(), name).prop_map(|(label, name)| Packet::HandOver { label, name }),
        label().prop_map(|label| Packet::Request { label }),
        (prop::collection::vec(0usize..=8, 1..8), 1u8..13, any::<[u64; 7]>()).prop_map(|(sizes, element, words)| {
            let first = Packed::first(sizes[0], element, Stamp::of(0, 64));
            let packed = sizes[1..].iter().fold(first, |packed, size| packed.and(*size, element).expect("room for 7"));
            Packet::Packed { packed: packed.content(), words }
        }),
    ]
}

proptest! {
    #[test]
    fn what_was_written_is_read(packet in packet(), position: u32) {
        let line = packet.write(position, 64);
        prop_assert!(Packet::has_arrived(line[7], position, 64));
        prop_assert!(!Packet::has_arrived(line[7], position.wrapping_add(64), 64));
        prop_assert_eq!(Packet::read(&line, position), Ok(packet));
        prop_assert!(Packet::read(&line, position.wrapping_add(1)).is_err());
    }

    #[test]
    fn the_hot_path_decodes_what_the_general_one_does(line: [u64; 8], position: u32, kind in 0u64..7, length in 61u64..64) {
        let mut line = line;
        line[7] = line[7] & !(255 << 56 | 255 << 48 | 255) | length << 56 | u64::from(position as u8) << 48 | kind;
        if let Some((size, element)) = simple(line[7], Stamp::of(position, 64)) {
            match Packet::read(&line, position) {
                Ok(Packet::Short { size: length, .. }) => prop_assert_eq!((usize::from(length), BYTES), (size, element)),
                Ok(Packet::Typed { label, .. }) => {
                    prop_assert_eq!((label.size as usize, label.element, label.runs), (size, element, 0));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
        if let Some(label) = wide(line[7], Stamp::of(position, 64)).filter(|_| length == 63) {
            prop_assert_eq!(Packet::read(&line, position), Ok(Packet::Wide { label }));
        }
    }

    #[test]
    fn the_hot_path_finds_what_lies_elsewhere_where_the_general_one_does(
        label in label(),
        capacity in 0u64..1 << 40,
        is_beside: bool,
        changed in prop::option::of((0usize..7, any::<u64>())),
        position: u32,
        ahead in 0u32..2,
    ) {
        let name = BufferName { owner: 1, seat: 2, index: 3, offset: 4096, capacity };
        let written = match is_beside {
            true => Packet::Buffered { label, line: 5, area_end: 6 },
            false => Packet::HandOver { label, name },
        };
        let mut line = written.write(position.wrapping_add(ahead), 64);
        if let Some((word, value)) = changed {
            line[word] = value;
        }
        let (words, stamp) = (line.map(AtomicU64::new), Stamp::of(position, 64));
        let found = match is_beside {
            true => buffered(&words, line[7], stamp)
                .map(|(label, line, area_end)| Packet::Buffered { label, line, area_end }),
            false => handed_over(&words, line[7], stamp).map(|(label, name)| Packet::HandOver { label, name }),
        };
        if let Some(found) = found {
            prop_assert_eq!(Packet::read(&line, position), Ok(found));
        }
        let is_plain = changed.is_none() && ahead == 0 && label.runs == 0 && (is_beside || label.size <= capacity);
        prop_assert!(found.is_some() || !is_plain, "left to the general one: {written:?}");
    }

    #[test]
    fn any_bytes_are_read_or_refused_and_never_panic(line: [u64; 8], position: u32) {
        if let Ok(Packet::HandOver { label, name }) = Packet::read(&line, position) {
            prop_assert!(needed(&label) <= name.capacity);
        }
    }
}
