//! Operations on elements, one pair at a time in the order of indexes, so that results are the same bits in every run.
//!
//! Integers wrap. `Min` and `Max` of floats give NaN if either is NaN, and keep the element of the lower index where two are
//! equal (also 0.0 and -0.0). `And`, `Or` and `Xor` work on the bits of integers and do not exist for floats.

use deck_mudeck::{ElementType, Error, ErrorKind, Result};

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
    pub(super) fn check(self, element: ElementType) -> Result<()> {
        let is_float = matches!(element, ElementType::Float | ElementType::Double);
        if is_float && matches!(self, Operation::And | Operation::Or | Operation::Xor) {
            return Err(Error::new(ErrorKind::Invalid, format!("{self:?} of {element:?} elements"))
                .with_remedy("and, or and xor work on the bits of integers: use an integer type"));
        }
        Ok(())
    }
}

/// `first` operation `second` to `into`, which are of the same length.
fn fold_two<const BYTES: usize, T>(
    into: &mut [u8],
    (first, second): (&[u8], &[u8]),
    read: impl Fn([u8; BYTES]) -> T,
    write: impl Fn(T) -> [u8; BYTES],
    operate: impl Fn(T, T) -> T,
) {
    let (into, _) = into.as_chunks_mut::<BYTES>();
    let ((first, _), (second, _)) = (first.as_chunks::<BYTES>(), second.as_chunks::<BYTES>());
    for ((into, first), second) in into.iter_mut().zip(first).zip(second) {
        *into = write(operate(read(*first), read(*second)));
    }
}

fn fold<const BYTES: usize, T>(
    into: &mut [u8],
    from: From<'_>,
    read: impl Fn([u8; BYTES]) -> T,
    write: impl Fn(T) -> [u8; BYTES],
    operate: impl Fn(T, T) -> T,
) {
    let from = match from {
        From::Two(first, second) => return fold_two(into, (first, second), read, write, operate),
        From::One(from) => from,
    };
    let (into, _) = into.as_chunks_mut::<BYTES>();
    let (from, _) = from.as_chunks::<BYTES>();
    for (into, from) in into.iter_mut().zip(from) {
        *into = write(operate(read(*into), read(*from)));
    }
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
    One(&'a [u8]),
    /// These two.
    Two(&'a [u8], &'a [u8]),
}

/// Folds `from` to `into`, element by element. All are whole elements in native order, of the same length.
pub fn combine(operation: Operation, element: ElementType, into: &mut [u8], from: From<'_>) {
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

#[cfg(test)]
mod tests {
    use deck_mudeck::Element;

    use super::*;

    fn of<T: Element>(operation: Operation, mut a: Vec<T>, b: &[T]) -> Vec<T> {
        let mut both = a.clone();
        combine(operation, T::TYPE, T::as_bytes_mut(&mut both), From::Two(T::as_bytes(&a), T::as_bytes(b)));
        combine(operation, T::TYPE, T::as_bytes_mut(&mut a), From::One(T::as_bytes(b)));
        assert_eq!(T::as_bytes(&a), T::as_bytes(&both));
        a
    }

    #[test]
    fn integers_wrap_and_know_their_sign() {
        assert_eq!(of(Operation::Sum, vec![i32::MAX, -3], &[1, 5]), [i32::MIN, 2]);
        assert_eq!(of(Operation::Prod, vec![200u8], &[2]), [144]);
        assert_eq!(of(Operation::Min, vec![-1i8], &[1]), [-1]);
        assert_eq!(of(Operation::Min, vec![255u8], &[1]), [1]);
        assert_eq!(of(Operation::Xor, vec![0b1100u16], &[0b1010]), [0b0110]);
        assert_eq!(of(Operation::And, vec![u64::MAX], &[7]), [7]);
    }

    #[test]
    fn floats_keep_nan_and_the_lower_index() {
        assert_eq!(of(Operation::Max, vec![1.0f64, -0.0], &[2.0, 0.0]).map_bits(), [2.0f64, -0.0].map(f64::to_bits));
        assert!(of(Operation::Min, vec![f32::NAN, 1.0], &[1.0, f32::NAN]).iter().all(|value| value.is_nan()));
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
