//! Operations on elements, one pair at a time in the order of indexes, so that results are the same bits in every run.
//!
//! Integers wrap. `Min` and `Max` of floats give NaN if either is NaN, and keep the element of the lower index where
//! two are equal (also 0.0 and -0.0). `And`, `Or` and `Xor` work on the bits of integers and do not exist for floats.

use deck_mudeck::{ElementType, Error, ErrorKind, Result};
use deck_segment::content::Content;
use deck_segment::wide::{Work, widest};

/// What reductions do with two elements.
#[doc(alias = "deck_op_t")]
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Their sum; integers wrap.
    Sum = 1,
    /// Their product; integers wrap.
    Prod = 2,
    /// The smaller; NaN if one is NaN.
    Min = 3,
    /// The larger; NaN if one is NaN.
    Max = 4,
    /// The bits that both have. Integers only.
    And = 5,
    /// The bits that either has. Integers only.
    Or = 6,
    /// The bits that one of them has. Integers only.
    Xor = 7,
}

impl Operation {
    /// Every operation.
    pub const ALL: &'static [Operation] = &[
        Operation::Sum,
        Operation::Prod,
        Operation::Min,
        Operation::Max,
        Operation::And,
        Operation::Or,
        Operation::Xor,
    ];

    /// The operation with this code, as in the C API.
    pub fn from_code(code: u8) -> Option<Operation> {
        Operation::ALL.iter().copied().find(|operation| *operation as u8 == code)
    }

    /// # Errors
    /// `Invalid` where `element` does not have this operation.
    pub(in super::super) fn check(self, element: ElementType) -> Result<()> {
        let is_float = matches!(element, ElementType::Float | ElementType::Double);
        if is_float && matches!(self, Operation::And | Operation::Or | Operation::Xor) {
            return Err(Error::new(ErrorKind::Invalid, format!("{self:?} of {element:?} elements"))
                .with_remedy("and, or and xor work on the bits of integers: use an integer type"));
        }
        Ok(())
    }
}

/// Bytes of a chunk that is folded at a time: whole elements of every type, and few enough for the registers' sake.
const CHUNK: usize = 64;
/// What is shorter is folded in the vectors that every processor has.
const WIDE_FROM: usize = 4 * CHUNK;

/// `first` operation `second`, element by element.
#[inline(always)]
fn fold_chunk<const BYTES: usize, T>(
    first: [u8; CHUNK],
    second: [u8; CHUNK],
    read: impl Fn([u8; BYTES]) -> T,
    write: impl Fn(T) -> [u8; BYTES],
    operate: impl Fn(T, T) -> T,
) -> [u8; CHUNK] {
    let mut into = [0; CHUNK];
    let elements = into.as_chunks_mut::<BYTES>().0.iter_mut();
    let (first, second) = (first.as_chunks::<BYTES>().0, second.as_chunks::<BYTES>().0);
    for ((into, first), second) in elements.zip(first).zip(second) {
        *into = write(operate(read(*first), read(*second)));
    }
    into
}

#[inline(always)]
fn fold<const BYTES: usize, T>(
    into: &mut [u8],
    from: From<'_>,
    read: impl Fn([u8; BYTES]) -> T,
    write: impl Fn(T) -> [u8; BYTES],
    operate: impl Fn(T, T) -> T,
) {
    let (chunks, rest) = into.as_chunks_mut::<CHUNK>();
    let end = chunks.len() * CHUNK;
    // Plain loops: what is called for each chunk would not be compiled for wider vectors.
    match from {
        From::One(second) => {
            for (chunk, into) in chunks.iter_mut().enumerate() {
                *into = fold_chunk(*into, second.chunk(chunk * CHUNK), &read, &write, &operate);
            }
        }
        From::Two(first, second) => {
            for (chunk, into) in chunks.iter_mut().enumerate() {
                let at = chunk * CHUNK;
                *into = fold_chunk(first.chunk(at), second.chunk(at), &read, &write, &operate);
            }
        }
    }
    if rest.is_empty() {
        return;
    }
    let padded = |content: Content<'_>, begin: usize| {
        let mut padded = [0; CHUNK];
        content.read(begin, &mut padded[..rest.len()]);
        padded
    };
    let (first, second) = match from {
        From::One(second) => (padded(Content::of(rest), 0), padded(second, end)),
        From::Two(first, second) => (padded(first, end), padded(second, end)),
    };
    rest.copy_from_slice(&fold_chunk(first, second, &read, &write, &operate)[..rest.len()]);
}

macro_rules! fold_as {
    ($rust:ty, $into:expr, $from:expr, $operate:expr) => {
        fold($into, $from, <$rust>::from_ne_bytes, <$rust>::to_ne_bytes, $operate)
    };
}

macro_rules! integers {
    ($rust:ty, $operation:expr, $into:expr, $from:expr) => {
        match $operation {
            Operation::Sum => fold_as!($rust, $into, $from, <$rust>::wrapping_add),
            Operation::Prod => fold_as!($rust, $into, $from, <$rust>::wrapping_mul),
            Operation::Min => fold_as!($rust, $into, $from, <$rust as Ord>::min),
            Operation::Max => fold_as!($rust, $into, $from, <$rust as Ord>::max),
            Operation::And => fold_as!($rust, $into, $from, |a, b| a & b),
            Operation::Or => fold_as!($rust, $into, $from, |a, b| a | b),
            Operation::Xor => fold_as!($rust, $into, $from, |a, b| a ^ b),
        }
    };
}

macro_rules! floats {
    ($rust:ty, $operation:expr, $into:expr, $from:expr) => {
        match $operation {
            Operation::Sum => fold_as!($rust, $into, $from, |a, b| a + b),
            Operation::Prod => fold_as!($rust, $into, $from, |a, b| a * b),
            Operation::Min => fold_as!($rust, $into, $from, |a, b| if b < a || b.is_nan() { b } else { a }),
            Operation::Max => fold_as!($rust, $into, $from, |a, b| if b > a || b.is_nan() { b } else { a }),
            // `Operation::check` has refused them.
            Operation::And | Operation::Or | Operation::Xor => {}
        }
    };
}

/// What is folded.
#[derive(Clone, Copy, Debug)]
pub enum From<'a> {
    /// What is there already, and this.
    One(Content<'a>),
    /// These two.
    Two(Content<'a>, Content<'a>),
}

/// Folds `from` to `into`, element by element. All are whole elements in native order, of the same length.
pub fn combine(operation: Operation, element: ElementType, into: &mut [u8], from: From<'_>) {
    let combination = Combination { operation, element, into, from };
    if combination.into.len() < WIDE_FROM { combination.run() } else { widest(combination) }
}

struct Combination<'a> {
    operation: Operation,
    element: ElementType,
    into: &'a mut [u8],
    from: From<'a>,
}

impl Work for Combination<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Combination { operation, element, into, from } = self;
        match element {
            ElementType::Byte | ElementType::Uint8 => integers!(u8, operation, into, from),
            // As the C compiler of this platform has it: signed on x86-64, unsigned on aarch64.
            ElementType::Char if std::ffi::c_char::MIN == 0 => integers!(u8, operation, into, from),
            ElementType::Char | ElementType::Int8 => integers!(i8, operation, into, from),
            ElementType::Int16 => integers!(i16, operation, into, from),
            ElementType::Int32 => integers!(i32, operation, into, from),
            ElementType::Int64 => integers!(i64, operation, into, from),
            ElementType::Uint16 => integers!(u16, operation, into, from),
            ElementType::Uint32 => integers!(u32, operation, into, from),
            ElementType::Uint64 => integers!(u64, operation, into, from),
            ElementType::Float => floats!(f32, operation, into, from),
            ElementType::Double => floats!(f64, operation, into, from),
        }
    }
}

#[cfg(test)]
mod tests {
    use deck_mudeck::Element;

    use super::*;

    fn of<T: Element>(operation: Operation, mut a: Vec<T>, b: &[T]) -> Vec<T> {
        let mut both = a.clone();
        let second = Content::of(T::as_bytes(b));
        combine(operation, T::TYPE, T::as_bytes_mut(&mut both), From::Two(Content::of(T::as_bytes(&a)), second));
        combine(operation, T::TYPE, T::as_bytes_mut(&mut a), From::One(second));
        assert_eq!(T::as_bytes(&a), T::as_bytes(&both));
        a
    }

    #[test]
    fn every_element_is_folded_wherever_chunks_end() {
        for count in [0, 1, 7, 8, 9, 21, 64, 255] {
            let (a, b): (Vec<f64>, Vec<f64>) = (0..count).map(|at| (f64::from(at), f64::from(at * at))).unzip();
            let expected: Vec<f64> = (0..count).map(|at| f64::from(at + at * at)).collect();
            assert_eq!(of(Operation::Sum, a, &b), expected);
            let bytes: Vec<u8> = (0..count as u8).collect();
            assert_eq!(of(Operation::Xor, bytes.clone(), &bytes), vec![0; bytes.len()]);
        }
    }

    #[test]
    fn integers_wrap_and_know_their_sign() {
        assert_eq!(of(Operation::Sum, vec![i32::MAX, -3], &[1, 5]), [i32::MIN, 2]);
        assert_eq!(of(Operation::Prod, vec![200u8], &[2]), [144]);
        assert_eq!(of(Operation::Min, vec![-1i8], &[1]), [-1]);
        assert_eq!(of(Operation::Min, vec![255u8], &[1]), [1]);
        assert_eq!(of(Operation::Xor, vec![0b1100u16], &[0b1010]), [0b0110]);
        assert_eq!(of(Operation::Or, vec![0b1100u16], &[0b1010]), [0b1110]);
        assert_eq!(of(Operation::And, vec![u64::MAX], &[7]), [7]);
    }

    #[test]
    fn the_ends_of_every_integer_type_are_its_least_and_its_greatest() {
        fn ends<T: Element + PartialEq + std::fmt::Debug>(least: T, most: T) {
            assert_eq!(of(Operation::Min, vec![least, most], &[most, least]), [least, least]);
            assert_eq!(of(Operation::Max, vec![least, most], &[most, least]), [most, most]);
        }
        ends(i8::MIN, i8::MAX);
        ends(i16::MIN, i16::MAX);
        ends(i32::MIN, i32::MAX);
        ends(i64::MIN, i64::MAX);
        ends(u8::MIN, u8::MAX);
        ends(u16::MIN, u16::MAX);
        ends(u32::MIN, u32::MAX);
        ends(u64::MIN, u64::MAX);
        // Those that C alone knows.
        let of_char = if std::ffi::c_char::MIN == 0 { 0x7f } else { 0x80 };
        for (element, least) in [(ElementType::Byte, 0x7f), (ElementType::Char, of_char)] {
            let mut into = [0x7f, 0x80];
            combine(Operation::Min, element, &mut into, From::One(Content::of(&[0x80, 0x7f])));
            assert_eq!(into, [least; 2], "{element:?}");
        }
    }

    #[test]
    fn floats_keep_nan_and_the_lower_index() {
        assert_eq!(of(Operation::Max, vec![1.0f64, -0.0], &[2.0, 0.0]).map_bits(), [2.0f64, -0.0].map(f64::to_bits));
        assert_eq!(of(Operation::Min, vec![0.0, -0.0], &[-0.0, 0.0]).map_bits(), [0.0f64, -0.0].map(f64::to_bits));
        for operation in [Operation::Min, Operation::Max] {
            assert!(of(operation, vec![f32::NAN, 1.0], &[1.0, f32::NAN]).iter().all(|value| value.is_nan()));
            assert!(of(operation, vec![f64::NAN, 1.0], &[1.0, f64::NAN]).iter().all(|value| value.is_nan()));
        }
    }

    trait Bits {
        fn map_bits(&self) -> Vec<u64>;
    }

    impl Bits for Vec<f64> {
        fn map_bits(&self) -> Vec<u64> {
            self.iter().map(|value| value.to_bits()).collect()
        }
    }

    #[test]
    fn floats_have_no_bits_to_combine() {
        assert_eq!(Operation::Or.check(ElementType::Double).unwrap_err().kind(), ErrorKind::Invalid);
        assert!(Operation::Or.check(ElementType::Int64).is_ok());
    }
}
