//! A control group with little memory, to see what nodes do when a container or a batch system gives them no more.
//!
//! It lies inside the group of the test, in version 1 or 2 of the kernel's interface, whichever has the memory
//! controller, and goes when it is dropped.

use std::fs;
use std::path::{Path, PathBuf};

use crate::look;

/// A control group whose processes have so much memory together.
pub struct MemoryGroup {
    folder: PathBuf,
}

/// The folder of this process's own group, and the names of the limit of memory and of the file that counts kills.
fn own() -> Result<(PathBuf, &'static str), String> {
    let text = fs::read_to_string("/proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup: {error}"))?;
    let group = |controllers: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines.find(|(found, _)| found.split(',').any(|name| name == controllers)).map(|(_, path)| path.to_string())
    };
    let inside = |root: &str, path: String| Path::new(root).join(path.trim_start_matches('/'));
    if let Some(path) = group("memory") {
        return Ok((inside("/sys/fs/cgroup/memory", path), "memory.limit_in_bytes"));
    }
    let path = group("").ok_or("this process is in no control group")?;
    Ok((inside("/sys/fs/cgroup", path), "memory.max"))
}

impl MemoryGroup {
    /// Makes a group of `bytes`.
    ///
    /// # Errors
    /// Why that cannot be done here, in words: no rights, no memory controller, a file system for reading only.
    pub fn new(name: &str, bytes: u64) -> Result<MemoryGroup, String> {
        let (own, limit) = own()?;
        let folder = own.join(format!("{name}-{}", std::process::id()));
        let why = |what: &Path, error: std::io::Error| format!("no control group here: {}: {error}", what.display());
        fs::create_dir(&folder).map_err(|error| why(&folder, error))?;
        let group = MemoryGroup { folder };
        let limit = group.folder.join(limit);
        // Missing where the memory controller is not passed on to groups inside this one.
        fs::write(&limit, bytes.to_string()).map_err(|error| why(&limit, error))?;
        Ok(group)
    }

    /// The wrapper that starts a program inside the group.
    pub fn wrapper(&self) -> Vec<String> {
        let enter = format!("echo $$ > '{}/cgroup.procs' && exec \"$0\" \"$@\"", self.folder.display());
        vec!["sh".into(), "-c".into(), enter]
    }

    /// How many processes of the group the kernel has killed for want of memory.
    pub fn kills(&self) -> u64 {
        let read = |file: &str| fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        // Version 2, then 1.
        let (events, control) = (read("memory.events"), read("memory.oom_control"));
        let line = events.lines().chain(control.lines()).find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Its processes have ended and are being taken out of it.
        for _ in 0..1000 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            look::pause();
        }
        eprintln!("{} stays behind", self.folder.display());
    }
}
