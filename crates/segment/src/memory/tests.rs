use std::cell::Cell;
use std::os::fd::AsRawFd;

use super::*;

#[test]
fn a_file_that_has_the_descriptors_number_by_now_stays_as_it_is() {
    let segment = Segment::create("test", 4 << 20).unwrap();
    segment.allocate(0, 1 << 20).unwrap();
    let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&file, &[7; 8192]).unwrap();
    // As if the program had closed it, and opened its own.
    // SAFETY: both are open; the segment finds that what is there by now is not its own.
    assert!(unsafe { libc::dup2(file.as_raw_fd(), segment.fd.as_raw_fd()) } >= 0);
    segment.release(0, 1 << 20);
    assert_eq!(segment.allocate(1 << 20, 1 << 20).unwrap_err().kind(), ErrorKind::NoMemory);
    let mut content = vec![0; 10_000];
    assert_eq!(rustix::io::pread(&file, &mut content, 0), Ok(8192));
    assert!(content[..8192].iter().all(|byte| *byte == 7));
}

#[test]
fn a_new_segment_is_sparse_and_every_access_is_bounded() {
    let segment = Segment::create("test", 1 << 30).unwrap();
    assert_eq!(segment.bytes(), 1 << 30);
    assert!(segment.at(0, 1 << 30).is_some());
    assert!(segment.at(1, 1 << 30).is_none());
    assert!(segment.at(usize::MAX, 2).is_none());
}

#[test]
fn a_second_mapping_sees_what_the_first_wrote() {
    let mine = Segment::create("test", 8192).unwrap();
    mine.allocate(0, 8192).unwrap();
    let theirs = Segment::adopt(mine.as_fd().try_clone_to_owned().unwrap()).unwrap();
    // SAFETY: both pointers are inside live mappings, allocated, and nobody else uses them.
    unsafe {
        mine.at(100, 1).unwrap().write_volatile(7);
        assert_eq!(theirs.at(100, 1).unwrap().read_volatile(), 7);
    }
    mine.release(0, 4096);
    // SAFETY: as above.
    assert_eq!(unsafe { theirs.at(100, 1).unwrap().read_volatile() }, 0);
}

#[test]
fn content_and_bounds_are_the_same_in_huge_pages() {
    for wanted in [HugePages::Never, HugePages::Auto, HugePages::Always] {
        let mine = Segment::create("test", 16 << 20).unwrap();
        mine.use_huge_pages(wanted, PAGE);
        mine.allocate(0, 3 << 20).unwrap();
        mine.store_bytes((3 << 20) - 8, &[7; 8]).unwrap();
        mine.allocate(4 << 20, 8 << 20).unwrap();
        let theirs = Segment::adopt(mine.as_fd().try_clone_to_owned().unwrap()).unwrap();
        theirs.store_bytes(5 << 20, &[9; 8]).unwrap();
        let mut bytes = [0; 8];
        theirs.read((3 << 20) - 8, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 8], "{wanted:?}");
        mine.read(5 << 20, &mut bytes).unwrap();
        assert_eq!(bytes, [9; 8], "{wanted:?}");
        mine.release((5 << 20) - 4096, 8192);
        mine.read(5 << 20, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 8], "{wanted:?}");
        assert_eq!(mine.has_huge_pages(), wanted.way() != Way::None);
    }
}

/// What `line` tells, a line about one of this process's mappings, summed up over those with this label.
fn sum(label: &str, mut line: impl FnMut(&str) -> Option<usize>) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut is_it, mut sum) = (false, 0);
    for text in maps.lines() {
        if text.split_once(' ').is_some_and(|(range, _)| range.contains('-')) {
            is_it = text.contains(&format!("/memfd:{label} "));
        }
        sum += if is_it { line(text).unwrap_or(0) } else { 0 };
    }
    sum
}

fn bytes(line: &str, what: &str) -> Option<usize> {
    Some(line.strip_prefix(what)?.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10)
}

fn huge_bytes(label: &str) -> usize {
    sum(label, |line| bytes(line, "ShmemPmdMapped:"))
}

/// What a dump of this process has of them.
fn dumped_bytes(label: &str) -> usize {
    let mut size = 0;
    sum(label, |line| {
        size = bytes(line, "Size:").unwrap_or(size);
        let flags = line.strip_prefix("VmFlags:")?;
        Some(if flags.split(' ').any(|flag| flag == "dd") { 0 } else { size })
    })
}

#[test]
fn a_dump_has_what_is_allocated_and_allocates_nothing() {
    let mine = Segment::create("test-dump", 1 << 30).unwrap();
    let theirs = Segment::adopt(mine.as_fd().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(dumped_bytes("test-dump"), 0);
    mine.allocate(PAGE + 1, 3 << 20).unwrap();
    assert_eq!(dumped_bytes("test-dump"), (3 << 20) + PAGE);
    mine.release(1 << 20, 1 << 20);
    assert_eq!(dumped_bytes("test-dump"), (2 << 20) + PAGE);
    mine.release(2 << 20, PAGE);
    assert_eq!(dumped_bytes("test-dump"), (2 << 20) + PAGE, "too small to be a mapping of its own");
    drop(theirs);
    let whole = Segment::create("test-dump-whole", 3 * PAGE).unwrap();
    whole.allocate(0, 3 * PAGE).unwrap();
    let _theirs = Segment::adopt(whole.as_fd().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(dumped_bytes("test-dump-whole"), 6 * PAGE);
}

#[test]
fn huge_pages_that_are_asked_for_are_there_unless_the_kernel_has_none() {
    let probe = Segment::create("probe", 4 << 20).unwrap();
    probe.allocate(0, 4 << 20).unwrap();
    // SAFETY: as in `allocate_huge`.
    let can = unsafe { libc::madvise(probe.at(0, 4 << 20).unwrap().as_ptr().cast(), 4 << 20, MADV_COLLAPSE) };
    for wanted in [HugePages::Auto, HugePages::Always] {
        let segment = Segment::create("test-huge", 16 << 20).unwrap();
        segment.use_huge_pages(wanted, 0);
        let is_worth_it = PACE.is_worth_it(now_ns());
        // Neither begins nor ends with a huge page.
        segment.allocate(3 << 20, 8 << 20).unwrap();
        segment.store_bytes(4 << 20, &[1; 8]).unwrap();
        let found = huge_bytes("test-huge");
        let is_worth_it = is_worth_it && PACE.is_worth_it(now_ns());
        if can == 0 && is_worth_it && segment.huge.get() == Some(&Way::Collapse) {
            assert!(found >= HUGE, "{wanted:?}: {found} bytes of 8 MiB are huge pages");
        } else {
            println!("{wanted:?}: {found} bytes of huge pages; collapsing returns {can}");
        }
    }
}

#[test]
fn memory_that_could_shrink_or_grow_or_has_no_whole_pages_is_refused() {
    let both = SealFlags::SHRINK | SealFlags::GROW;
    let adopt = |size: usize, seals: SealFlags| {
        let fd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, size as u64).unwrap();
        rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
        Segment::adopt(fd)
    };
    assert_eq!(adopt(2 * PAGE, both).unwrap().bytes(), 2 * PAGE);
    for (size, seals) in [
        (PAGE, SealFlags::empty()),
        (PAGE, SealFlags::SHRINK),
        (PAGE, SealFlags::GROW),
        (0, both),
        (1, both),
        (PAGE - 8, both),
        (PAGE + 1, both),
    ] {
        assert_eq!(adopt(size, seals).unwrap_err().kind(), ErrorKind::Corrupt, "{size} bytes, {seals:?}");
    }
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert_eq!(Segment::adopt(file.into()).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn nobody_who_is_passed_a_segment_keeps_others_from_mapping_it_and_no_program_inherits_it() {
    let mine = Segment::create("test", PAGE).unwrap();
    let passed = mine.as_fd().try_clone_to_owned().unwrap();
    assert_eq!(rustix::fs::fcntl_add_seals(&passed, SealFlags::FUTURE_WRITE), Err(Errno::PERM));
    Segment::adopt(passed).unwrap();
    assert!(rustix::io::fcntl_getfd(&mine).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
}

#[test]
fn what_does_not_go_on_is_not_allocated_to_its_end() {
    let segment = Segment::create("test", 4 * AT_A_TIME).unwrap();
    let allocated = || rustix::fs::fstat(&segment).unwrap().st_blocks as usize * BLOCK;
    let asked = Cell::new(0);
    let goes_on = || {
        asked.set(asked.get() + 1);
        if asked.get() < 2 { Ok(()) } else { Err(Error::new(ErrorKind::Cancelled, "on purpose")) }
    };
    // It begins in the middle of what is allocated at a time.
    let error = segment.allocate_while(AT_A_TIME / 2, 3 * AT_A_TIME, goes_on).unwrap_err();
    assert_eq!((error.kind(), asked.get(), allocated()), (ErrorKind::Cancelled, 2, 3 * AT_A_TIME / 2));
    segment.allocate(0, 4 * AT_A_TIME).unwrap();
    assert_eq!(allocated(), 4 * AT_A_TIME);
}

#[test]
fn too_little_memory_is_an_error_with_a_remedy() {
    let segment = Segment::create("test", 1 << 46).unwrap();
    let error = segment.allocate(0, 1 << 45).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMemory);
    assert!(error.to_string().contains("wanted"), "{error}");
}
