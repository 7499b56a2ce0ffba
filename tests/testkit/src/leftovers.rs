//! What a job must not leave behind: processes, files, shared memory, names of sockets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The variable by which processes of a job are recognized, those that its nodes started included.
pub const JOB_MARK: &str = "DECK_TEST_JOB";

const SHARED_MEMORY: &str = "/dev/shm";

fn names_in(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeSet::new() };
    entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect()
}

/// What was there before a job began.
pub struct Before {
    shared_memory: BTreeSet<String>,
}

impl Before {
    /// Looks around.
    pub fn look() -> Before {
        Before { shared_memory: names_in(Path::new(SHARED_MEMORY)) }
    }

    /// Everything that the job with this mark left behind, one sentence each; `temporary` was its folder for files.
    pub fn left_behind(&self, mark: &str, temporary: &Path) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(names_in(temporary).into_iter().map(|name| format!("a file in the temporary folder: {name}")));
        // Other programs of the machine use the folder too; what is DECK's says so, or carries the job's name.
        let new = names_in(Path::new(SHARED_MEMORY)).into_iter().filter(|name| !self.shared_memory.contains(name));
        let ours = new.filter(|name| name.to_lowercase().contains("deck") || name.contains(mark));
        found.extend(ours.map(|name| format!("named shared memory: {SHARED_MEMORY}/{name}")));
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let ours = sockets.lines().filter(|line| line.contains(mark));
        found.extend(ours.map(|line| format!("a socket with a name: {line}")));
        // Those that were killed a moment ago may still be on their way out.
        let until = Instant::now() + Duration::from_secs(2);
        let mut running = processes(mark);
        while !running.is_empty() && Instant::now() < until {
            running = processes(mark);
        }
        found.extend(running.into_iter().map(|process| format!("a process: {process}")));
        found
    }
}

/// The processes whose environment carries the mark.
fn processes(mark: &str) -> Vec<String> {
    let wanted = format!("{JOB_MARK}={mark}");
    let is_marked = |folder: &Path| {
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let marked = folders.filter(|folder| is_marked(folder));
    marked
        .map(|folder| {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            format!("{} ({})", folder.display(), name.trim())
        })
        .collect()
}
