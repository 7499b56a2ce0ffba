//! How much a process may have (`ulimit`).

/// What there are limits of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of address space.
    AddressSpace,
    /// Bytes of a file.
    FileSize,
    /// Bytes of a stack.
    Stack,
}

impl Limit {
    /// The limit that holds now; `None` if there is none, or if the system does not tell it: a filter of system calls
    /// may refuse the question. Never blocks.
    pub fn now(self) -> Option<u64> {
        // Miri has no call for it.
        if cfg!(miri) {
            return None;
        }
        let kind = match self {
            Limit::AddressSpace => libc::RLIMIT_AS,
            Limit::FileSize => libc::RLIMIT_FSIZE,
            Limit::Stack => libc::RLIMIT_STACK,
        };
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the place is the caller's own, of the size that is written.
        let code = unsafe { libc::getrlimit(kind, &raw mut limit) };
        (code == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Has the system refuse to tell limits to the calling thread.
    fn refuse() {
        let step =
            |code: u32, yes: u8, no: u8, value: u32| libc::sock_filter { code: code as u16, jt: yes, jf: no, k: value };
        let question = libc::SYS_prlimit64 as u32;
        let mut steps = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, question),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: takes integers only.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
        // SAFETY: the filter and its steps outlive the call, which copies them.
        let code = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
        assert_eq!(code, 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "seccomp")]
    fn what_the_system_does_not_tell_is_no_limit() {
        let told = || [Limit::AddressSpace, Limit::FileSize, Limit::Stack].map(Limit::now);
        // A filter is its thread's alone.
        let refused = std::thread::spawn(move || {
            refuse();
            told()
        });
        assert_eq!(refused.join().expect("it ends"), [None; 3]);
    }
}
