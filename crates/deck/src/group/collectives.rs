//! Each collective by name, waiting and started, from one [`Call`].

use std::time::Duration;

use deck_mudeck::{Element, Error, ErrorKind, Result};

use super::call::Call;
use super::pending::Pending;
use super::{Group, Operation};

impl Group {
    /// Waits until all members have come. Blocks until the deadline.
    ///
    /// # Errors
    /// As told at [`Group`].
    #[doc(alias = "deck_barrier")]
    pub fn barrier(&mut self, timeout: Duration) -> Result<()> {
        self.call(&Call::barrier(), &[], &mut [], timeout)
    }

    /// Starts a [`Group::barrier`]. Its result is empty.
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_barrier")]
    pub fn start_barrier(&mut self) -> Result<Pending<u8>> {
        self.start(&Call::barrier(), &[], Vec::new())
    }

    /// Gives every member the `data` of member `root`. It has the same length everywhere. Blocks until the deadline.
    ///
    /// # Errors
    /// As told at [`Group`].
    #[doc(alias = "deck_bcast")]
    pub fn bcast<T: Element>(&mut self, root: u32, data: &mut [T], timeout: Duration) -> Result<()> {
        let call = Call::bcast(root, T::TYPE, data.len());
        self.call(&call, &[], T::as_bytes_mut(data), timeout)
    }

    /// Starts a [`Group::bcast`]. `data` is sent at the root and only a length elsewhere; the result is the root's. It
    /// is not copied before; the others get it through a window of memory, and from a message without
    /// ([`Group::start_bcast_message`]).
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_bcast")]
    pub fn start_bcast<T: Element>(&mut self, root: u32, data: Vec<T>) -> Result<Pending<T>> {
        self.start(&Call::bcast(root, T::TYPE, data.len()), &[], data)
    }

    /// Gives member `root` the reduction of all inputs, element by element in the order of indexes. `output` matters at
    /// the root only, where it is as long as the input. Blocks until the deadline.
    ///
    /// # Errors
    /// As told at [`Group`].
    #[doc(alias = "deck_reduce")]
    pub fn reduce<T: Element>(
        &mut self,
        root: u32,
        input: &[T],
        output: &mut [T],
        operation: Operation,
        timeout: Duration,
    ) -> Result<()> {
        let call = Call::reduce(root, T::TYPE, input.len(), operation);
        self.call(&call, T::as_bytes(input), T::as_bytes_mut(output), timeout)
    }

    /// Starts a [`Group::reduce`]. The result is empty except at the root.
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_reduce")]
    pub fn start_reduce<T: Element>(&mut self, root: u32, input: &[T], operation: Operation) -> Result<Pending<T>> {
        self.start_sized(&Call::reduce(root, T::TYPE, input.len(), operation), input)
    }

    /// Gives every member the reduction of all inputs. Blocks until the deadline.
    ///
    /// # Errors
    /// As told at [`Group`].
    #[doc(alias = "deck_allreduce")]
    pub fn allreduce<T: Element>(
        &mut self,
        input: &[T],
        output: &mut [T],
        operation: Operation,
        timeout: Duration,
    ) -> Result<()> {
        let call = Call::allreduce(T::TYPE, input.len(), operation);
        self.call(&call, T::as_bytes(input), T::as_bytes_mut(output), timeout)
    }

    /// Starts a [`Group::allreduce`].
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_allreduce")]
    pub fn start_allreduce<T: Element>(&mut self, input: &[T], operation: Operation) -> Result<Pending<T>> {
        self.start_sized(&Call::allreduce(T::TYPE, input.len(), operation), input)
    }

    /// Gives member i the reduction of the inputs of members 0 to i, its own included. Blocks until the deadline.
    ///
    /// # Errors
    /// As told at [`Group`].
    #[doc(alias = "deck_scan")]
    pub fn scan<T: Element>(
        &mut self,
        input: &[T],
        output: &mut [T],
        operation: Operation,
        timeout: Duration,
    ) -> Result<()> {
        let call = Call::scan(T::TYPE, input.len(), operation);
        self.call(&call, T::as_bytes(input), T::as_bytes_mut(output), timeout)
    }

    /// Starts a [`Group::scan`].
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_scan")]
    pub fn start_scan<T: Element>(&mut self, input: &[T], operation: Operation) -> Result<Pending<T>> {
        self.start_sized(&Call::scan(T::TYPE, input.len(), operation), input)
    }

    /// Gives member `root` the inputs of all, in the order of indexes. `output` matters at the root only. Blocks until
    /// the deadline.
    ///
    /// # Errors
    /// As told at [`Group`].
    #[doc(alias = "deck_gather")]
    pub fn gather<T: Element>(&mut self, root: u32, input: &[T], output: &mut [T], timeout: Duration) -> Result<()> {
        let call = Call::gather(root, T::TYPE, input.len());
        self.call(&call, T::as_bytes(input), T::as_bytes_mut(output), timeout)
    }

    /// Starts a [`Group::gather`]. The result is empty except at the root.
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_gather")]
    pub fn start_gather<T: Element>(&mut self, root: u32, input: &[T]) -> Result<Pending<T>> {
        self.start_sized(&Call::gather(root, T::TYPE, input.len()), input)
    }

    /// Gives member i part i of the input of member `root`; all parts are as long as `output`. `input` matters at the
    /// root only. Blocks until the deadline.
    ///
    /// # Errors
    /// As told at [`Group`].
    #[doc(alias = "deck_scatter")]
    pub fn scatter<T: Element>(&mut self, root: u32, input: &[T], output: &mut [T], timeout: Duration) -> Result<()> {
        let call = Call::scatter(root, T::TYPE, output.len());
        self.call(&call, T::as_bytes(input), T::as_bytes_mut(output), timeout)
    }

    /// Starts a [`Group::scatter`] of `count` elements for each member. `input` matters at the root only.
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_scatter")]
    pub fn start_scatter<T: Element>(&mut self, root: u32, input: &[T], count: usize) -> Result<Pending<T>> {
        self.start_sized(&Call::scatter(root, T::TYPE, count), input)
    }

    /// Gives every member the inputs of all, in the order of indexes. Blocks until the deadline.
    ///
    /// # Errors
    /// As told at [`Group`].
    #[doc(alias = "deck_allgather")]
    pub fn allgather<T: Element>(&mut self, input: &[T], output: &mut [T], timeout: Duration) -> Result<()> {
        let call = Call::allgather(T::TYPE, input.len());
        self.call(&call, T::as_bytes(input), T::as_bytes_mut(output), timeout)
    }

    /// Starts a [`Group::allgather`].
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_allgather")]
    pub fn start_allgather<T: Element>(&mut self, input: &[T]) -> Result<Pending<T>> {
        self.start_sized(&Call::allgather(T::TYPE, input.len()), input)
    }

    /// Gives member i part i of every member's input, in the order of indexes. All parts have the same length. Blocks
    /// until the deadline.
    ///
    /// # Errors
    /// As told at [`Group`]; [`ErrorKind::Invalid`] also if the input cannot be divided by the size.
    #[doc(alias = "deck_alltoall")]
    pub fn alltoall<T: Element>(&mut self, input: &[T], output: &mut [T], timeout: Duration) -> Result<()> {
        let count = part(input.len(), self.size())?;
        self.call(&Call::alltoall(T::TYPE, count), T::as_bytes(input), T::as_bytes_mut(output), timeout)
    }

    /// Starts a [`Group::alltoall`].
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_alltoall")]
    pub fn start_alltoall<T: Element>(&mut self, input: &[T]) -> Result<Pending<T>> {
        let count = part(input.len(), self.size())?;
        self.start_sized(&Call::alltoall(T::TYPE, count), input)
    }

    /// As [`Group::gather`] with inputs of different lengths: `counts` has those of all members, and matters at the
    /// root only.
    ///
    /// # Errors
    /// As told at [`Group`]. Where an input is not as long as its count says, the root gets [`ErrorKind::Invalid`].
    #[doc(alias = "deck_gatherv")]
    pub fn gatherv<T: Element>(
        &mut self,
        root: u32,
        input: &[T],
        output: &mut [T],
        counts: &[usize],
        timeout: Duration,
    ) -> Result<()> {
        let call = Call::gatherv(root, T::TYPE, input.len(), counts);
        self.call(&call, T::as_bytes(input), T::as_bytes_mut(output), timeout)
    }

    /// Starts a [`Group::gatherv`]. The result is empty except at the root, where `counts` matters.
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_gatherv")]
    pub fn start_gatherv<T: Element>(&mut self, root: u32, input: &[T], counts: &[usize]) -> Result<Pending<T>> {
        self.start_sized(&Call::gatherv(root, T::TYPE, input.len(), counts), input)
    }

    /// As [`Group::scatter`] with parts of different lengths: `counts` has those of all members, and matters at the
    /// root only.
    ///
    /// # Errors
    /// As told at [`Group`]. A member whose output is not as long as its part gets [`ErrorKind::Invalid`].
    #[doc(alias = "deck_scatterv")]
    pub fn scatterv<T: Element>(
        &mut self,
        root: u32,
        input: &[T],
        counts: &[usize],
        output: &mut [T],
        timeout: Duration,
    ) -> Result<()> {
        let call = Call::scatterv(root, T::TYPE, output.len(), counts);
        self.call(&call, T::as_bytes(input), T::as_bytes_mut(output), timeout)
    }

    /// Starts a [`Group::scatterv`] of which this member gets `count` elements. `input` and `counts` matter at the root
    /// only.
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_scatterv")]
    pub fn start_scatterv<T: Element>(
        &mut self,
        root: u32,
        input: &[T],
        counts: &[usize],
        count: usize,
    ) -> Result<Pending<T>> {
        self.start_sized(&Call::scatterv(root, T::TYPE, count, counts), input)
    }

    /// As [`Group::allgather`] with inputs of different lengths: `counts` has those of all members.
    ///
    /// # Errors
    /// As told at [`Group`]. A member whose counts are not as the inputs are gets [`ErrorKind::Invalid`].
    #[doc(alias = "deck_allgatherv")]
    pub fn allgatherv<T: Element>(
        &mut self,
        input: &[T],
        output: &mut [T],
        counts: &[usize],
        timeout: Duration,
    ) -> Result<()> {
        let call = Call::allgatherv(T::TYPE, input.len(), counts);
        self.call(&call, T::as_bytes(input), T::as_bytes_mut(output), timeout)
    }

    /// Starts a [`Group::allgatherv`].
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_allgatherv")]
    pub fn start_allgatherv<T: Element>(&mut self, input: &[T], counts: &[usize]) -> Result<Pending<T>> {
        self.start_sized(&Call::allgatherv(T::TYPE, input.len(), counts), input)
    }

    /// As [`Group::alltoall`] with parts of different lengths: `send_counts` to each member, `recv_counts` from each.
    ///
    /// # Errors
    /// As told at [`Group`]. A member that is given another length than it expects gets [`ErrorKind::Invalid`].
    #[doc(alias = "deck_alltoallv")]
    pub fn alltoallv<T: Element>(
        &mut self,
        input: &[T],
        send_counts: &[usize],
        output: &mut [T],
        recv_counts: &[usize],
        timeout: Duration,
    ) -> Result<()> {
        let call = Call::alltoallv(T::TYPE, send_counts, recv_counts);
        self.call(&call, T::as_bytes(input), T::as_bytes_mut(output), timeout)
    }

    /// Starts a [`Group::alltoallv`].
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(alias = "deck_start_alltoallv")]
    pub fn start_alltoallv<T: Element>(
        &mut self,
        input: &[T],
        send_counts: &[usize],
        recv_counts: &[usize],
    ) -> Result<Pending<T>> {
        self.start_sized(&Call::alltoallv(T::TYPE, send_counts, recv_counts), input)
    }
}

/// The length of a part for each of `size` members.
fn part(elements: usize, size: u32) -> Result<usize> {
    let size = size as usize;
    if elements.is_multiple_of(size) {
        return Ok(elements / size);
    }
    let elements = if elements == 1 { "1 element does".to_owned() } else { format!("{elements} elements do") };
    Err(Error::new(ErrorKind::Invalid, format!("{elements} not divide into {size} parts"))
        .with_remedy("give a multiple of the group's size, or use alltoallv"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_divide_is_told_with_its_number() {
        assert_eq!(part(6, 3).ok(), Some(2));
        for (elements, told) in [(1, "1 element does not divide into 3 parts"), (4, "4 elements do not divide into 3")]
        {
            let error = part(elements, 3).unwrap_err();
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().starts_with(told), "{error}");
        }
    }
}
