//! What the system tells of a process or a thread in one line: its `stat` in `/proc` (proc_pid_stat(5)).

use std::fs::File;
use std::io;
use std::path::Path;

use deck_sync::uncancelled;

/// More than such a line has: some fifty numbers and a name.
const LONGEST: usize = 4096;

/// The line of the process with this number. Never waits.
///
/// # Errors
/// Those of the system: mostly that there is no such process.
pub fn of(process: u32) -> io::Result<Vec<u8>> {
    read(Path::new(&format!("/proc/{process}/stat")))
}

/// The line that stands there, by one read: until the end it would take half a dozen.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    uncancelled(|| {
        let (file, mut line) = (File::open(path)?, vec![0; LONGEST]);
        let bytes = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut line[..]))?;
        line.truncate(bytes);
        Ok(line)
    })
}

/// The name, and what is behind it. The name stands in brackets, may itself hold brackets and blanks, and need not be
/// text.
fn split(stat: &[u8]) -> Option<(&[u8], &[u8])> {
    let before = stat.iter().position(|&byte| byte == b'(')?;
    let behind = stat.iter().rposition(|&byte| byte == b')')?;
    Some((stat.get(before + 1..behind)?, &stat[behind + 1..]))
}

/// Its name, of which the system keeps the first 15 bytes.
pub fn name_of(stat: &[u8]) -> Option<&[u8]> {
    split(stat).map(|(name, _)| name)
}

/// The fields behind the name, the state first.
pub fn fields_behind_name(stat: &[u8]) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    str::from_utf8(split(stat)?.1).ok().map(str::split_ascii_whitespace)
}

/// What it does: 'R' if it runs, 'S' if it sleeps, 'T' if a signal has stopped it, 't' if a debugger has, 'Z' if it has
/// ended and nobody has waited for it.
pub fn state_of(stat: &[u8]) -> Option<char> {
    fields_behind_name(stat)?.next()?.chars().next()
}

/// The state of what a signal has stopped.
pub const STOPPED: char = 'T';

/// True of a state in which a signal or a debugger has stopped it.
pub fn is_stopped(state: char) -> bool {
    matches!(state, STOPPED | 't')
}

/// True of a state in which it has ended.
pub fn has_ended(state: char) -> bool {
    matches!(state, 'Z' | 'X' | 'x')
}

/// The process that started it, or has taken it over from there; 0 if none has.
pub fn parent_of(stat: &[u8]) -> Option<u32> {
    fields_behind_name(stat)?.nth(1)?.parse().ok()
}

/// When it began, in ticks of the system's clock since it was started.
pub fn begin_of(stat: &[u8]) -> Option<u64> {
    fields_behind_name(stat)?.nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_brackets_and_blanks_and_need_not_be_text() {
        let stat = b"42 (a) b (\xc3) S 7 42 42 0 -1";
        assert_eq!(name_of(stat), Some(&b"a) b (\xc3"[..]));
        assert_eq!(state_of(stat), Some('S'));
        assert_eq!(parent_of(stat), Some(7));
    }

    #[test]
    fn what_is_no_such_line_tells_nothing() {
        for stat in [&b""[..], b"42", b"42 (a", b"42 )a( S", b"42 (a) \xff"] {
            assert_eq!((state_of(stat), parent_of(stat)), (None, None), "{stat:?}");
        }
        assert_eq!(state_of(b"42 (a)"), None);
    }
}
