//! The control groups that this process is in, whose limits are less than the machine's.
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

/// As [`folders`], for a process whose groups are `told`, a line each: `NUMBER:CONTROLLERS:PATH`. Version 2 names no
/// controllers.
fn folders_of(told: &str, controller: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in told.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let root = match controllers {
            "" => "/sys/fs/cgroup".to_owned(),
            _ if controllers.split(',').any(|name| name == controller) => format!("/sys/fs/cgroup/{controller}"),
            _ => continue,
        };
        let innermost = format!("{root}{}", path.trim_end_matches('/'));
        let groups = Path::new(&innermost).ancestors().take_while(|folder| folder.starts_with(&root));
        folders.extend(groups.map(Path::to_owned));
    }
    folders
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
    fn a_line_that_cannot_be_read_names_no_group() {
        assert!(told("").is_empty() && told("nonsense\n0:\n").is_empty());
    }
}
