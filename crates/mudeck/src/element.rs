//! The element types of messages.

use deck_transport::parcel::BYTES;

/// Code of a mail box's address in a message; not an element type that users name.
pub(crate) const MAILBOX: u8 = 13;

macro_rules! elements {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $bytes:literal, $($rust:ty)?;)*) => {
        /// Type of the elements of a message. Sizes are those of C on the platforms DECK runs on.
        #[doc(alias = "deck_type_t")]
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ElementType { $($(#[$doc])* $name = $code,)* }

        impl ElementType {
            /// Every type.
            pub const ALL: &'static [ElementType] = &[$(ElementType::$name),*];

            /// Bytes of one element: a power of two.
            #[inline]
            pub fn size(self) -> usize {
                // In this form a division by it is a shift.
                1 << match self { $(ElementType::$name => const { usize::ilog2($bytes) },)* }
            }

            /// The type with this code, as in the C API.
            #[inline]
            pub fn from_code(code: u8) -> Option<ElementType> {
                match code {
                    $($code => Some(ElementType::$name),)*
                    _ => None,
                }
            }
        }

        $($(impl Element for $rust { const TYPE: ElementType = ElementType::$name; })?)*
    };
}

/// A Rust type that messages carry. Implemented for the integers of 8 to 64 bits and the two floats; raw bytes and
/// characters of C are packed with [`crate::Message::pack_raw`].
pub trait Element: Copy + Default + private::Plain {
    /// Its element type.
    const TYPE: ElementType;

    /// The bytes of `elements`, in native order.
    fn as_bytes(elements: &[Self]) -> &[u8] {
        // SAFETY: a slice is readable for its size, and these types (`Plain`) have no padding.
        unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
    }

    /// The bytes of `elements` for writing, in native order.
    fn as_bytes_mut(elements: &mut [Self]) -> &mut [u8] {
        // SAFETY: as in `as_bytes`; the borrow is exclusive, and any bytes make valid elements (`Plain`).
        unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
    }

    /// The elements that `bytes` are, in native order.
    ///
    /// # Panics
    /// If they are no whole number of elements, or not aligned for them.
    fn of_bytes(bytes: &[u8]) -> &[Self] {
        // SAFETY: any bytes make valid elements (`Plain`).
        let (before, elements, behind) = unsafe { bytes.align_to() };
        assert!(before.is_empty() && behind.is_empty(), "elements begin and end elsewhere");
        elements
    }

    /// The same, for writing.
    ///
    /// # Panics
    /// As with [`Element::of_bytes`].
    fn of_bytes_mut(bytes: &mut [u8]) -> &mut [Self] {
        // SAFETY: as in `of_bytes`, and every byte of an element is set (`Plain`).
        let (before, elements, behind) = unsafe { bytes.align_to_mut() };
        assert!(before.is_empty() && behind.is_empty(), "elements begin and end elsewhere");
        elements
    }
}

mod private {
    /// Any bit pattern of the right size is a value, and every byte of a value is set.
    pub trait Plain: Send + Sync + 'static {}
    macro_rules! plain { ($($rust:ty)*) => { $(impl Plain for $rust {})* }; }
    plain!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
}

const _: () = assert!(ElementType::Byte as u8 == BYTES);

elements! {
    /// Raw bytes.
    Byte = 1, 1,;
    /// Characters of C.
    Char = 2, 1,;
    /// `i8`.
    Int8 = 3, 1, i8;
    /// `i16`.
    Int16 = 4, 2, i16;
    /// `i32`.
    Int32 = 5, 4, i32;
    /// `i64`.
    Int64 = 6, 8, i64;
    /// `u8`.
    Uint8 = 7, 1, u8;
    /// `u16`.
    Uint16 = 8, 2, u16;
    /// `u32`.
    Uint32 = 9, 4, u32;
    /// `u64`.
    Uint64 = 10, 8, u64;
    /// `f32`.
    Float = 11, 4, f32;
    /// `f64`.
    Double = 12, 8, f64;
}
