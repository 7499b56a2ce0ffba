//! The control groups that a process is in, whose limits are less than the machine's, and which may be frozen.
//!
//! Whoever asks for a limit reads files in these folders and knows what they are called; in version 1 they have other
//! names than in version 2.

use std::path::{Path, PathBuf};

use super::told::told;

/// The folders of the groups that `controller` works in, from the one that this process is in to the root: a limit of
/// any of them binds.
///
/// A group of version 2 is among them whether or not `controller` is switched on there: files that are not there limit
/// nothing.
pub fn folders(controller: &str) -> impl Iterator<Item = PathBuf> + use<> {
    // A kernel without control groups has no such file, and no limits. `/proc/self` tells less once the first thread
    // has ended.
    folders_of(&told("/proc/thread-self/cgroup").unwrap_or_default(), controller).into_iter()
}

/// True if a group that this process is in is frozen, as `docker pause` and batch systems do: it stands still as if a
/// signal had stopped it, but its state in `/proc` does not say so.
pub fn are_frozen(process: u32) -> bool {
    let told = told(format!("/proc/{process}/cgroup")).unwrap_or_default();
    groups_of(&told, "freezer").any(|(_, folder)| is_frozen(&folder))
}

/// Version 1 has a file with the state alone, version 2 one with a line each for this and that. Both go by the groups
/// around it, too.
fn is_frozen(folder: &Path) -> bool {
    let files = ["cgroup.events", "freezer.state"];
    files.iter().filter_map(|file| told(folder.join(file))).any(|text| says_frozen(&text))
}

fn says_frozen(text: &str) -> bool {
    text.lines().any(|line| matches!(line, "frozen 1" | "FROZEN"))
}

/// As [`folders`], for a process of which the system has `told` so.
fn folders_of(told: &str, controller: &str) -> Vec<PathBuf> {
    let to_the_root = |(root, folder): (String, PathBuf)| {
        let groups = folder.ancestors().take_while(|folder| folder.starts_with(&root));
        groups.map(Path::to_owned).collect::<Vec<_>>()
    };
    groups_of(told, controller).flat_map(to_the_root).collect()
}

/// The groups that `controller` works in, each after the root that it is under. A line of `told` is
/// `NUMBER:CONTROLLERS:PATH`; version 2 names no controllers.
fn groups_of(told: &str, controller: &str) -> impl Iterator<Item = (String, PathBuf)> {
    told.lines().filter_map(move |line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let root = match controllers {
            "" => "/sys/fs/cgroup".to_owned(),
            _ if controllers.split(',').any(|name| name == controller) => format!("/sys/fs/cgroup/{controller}"),
            _ => return None,
        };
        let folder = format!("{root}{}", path.trim_end_matches('/')).into();
        Some((root, folder))
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        folders_of(text, "cpu").iter().map(|folder| folder.display().to_string()).collect()
    }

    #[test]
    fn every_group_on_the_way_to_the_root_counts() {
        let want = ["/sys/fs/cgroup/batch/job 7", "/sys/fs/cgroup/batch", "/sys/fs/cgroup"];
        assert_eq!(told("0::/batch/job 7\n"), want);
        assert_eq!(told("0::/\n"), ["/sys/fs/cgroup"]);
    }

    #[test]
    fn of_version_1_only_the_groups_of_the_controller_count() {
        let text = "5:cpuset:/a\n4:cpuacct,cpu:/b\n3:memory:/c\n1:name=systemd:/d\n";
        assert_eq!(told(text), ["/sys/fs/cgroup/cpu/b", "/sys/fs/cgroup/cpu"]);
    }

    #[test]
    fn a_group_is_frozen_once_the_system_says_that_it_stands_still() {
        assert!(says_frozen("FROZEN\n") && says_frozen("populated 1\nfrozen 1\n"));
        assert!(!says_frozen("THAWED\n") && !says_frozen("FREEZING\n") && !says_frozen("populated 1\nfrozen 0\n"));
    }

    #[test]
    fn a_line_that_cannot_be_read_names_no_group() {
        assert!(told("").is_empty() && told("nonsense\n0:\n").is_empty());
    }
}
