//! Which namespaces this process is in: nodes of different network namespaces must not take one job for another, and
//! the number of a process means nothing in another process namespace. Asked of the calling thread: `/proc/self` tells
//! nothing once the first one has ended.

use std::sync::OnceLock;

/// The network namespace's inode, 0 where it cannot be read.
pub fn network() -> u64 {
    rustix::fs::stat("/proc/thread-self/ns/net").map(|stat| stat.st_ino).unwrap_or(0)
}

/// The process namespace's inode, 0 where it cannot be read.
pub fn processes() -> u32 {
    static INODE: OnceLock<u32> = OnceLock::new();
    *INODE.get_or_init(|| rustix::fs::stat("/proc/thread-self/ns/pid").map(|stat| stat.st_ino as u32).unwrap_or(0))
}
