//! One word of each thread's own, 0 when the thread begins, for what hot paths of DECK have to find again.
//!
//! In a program, a thread-local is an instruction away. In a shared library the compiler calls the loader for it, which
//! takes 15 instructions and all registers that a call may change, in each call of a C program. A TLS descriptor (Oliva
//! and Araújo, "Speeding Up Thread-Local Storage Access in Dynamic Libraries in the ARM Platform", GCC Summit 2006)
//! leads there by five that change one register, and the linker of a program makes a constant of it. Stable Rust has no
//! word for that; so it is written down where it has been measured, and elsewhere the compiler does it its way.

#[cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    target_env = "gnu",
    not(target_feature = "avx512f"),
    not(miri)
))]
mod place {
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.deck_own_word, \"awT\", @nobits",
        ".balign 8",
        ".globl deck_own_word",
        ".hidden deck_own_word",
        ".type deck_own_word, @object",
        ".size deck_own_word, 8",
        "deck_own_word: .zero 8",
        ".popsection",
    );

    /// How far the word is from where fs points: the same for a thread each time, so that a call may find it once for
    /// all that asks.
    #[inline(always)]
    fn distance() -> usize {
        let distance: usize;
        // SAFETY:
        // - the descriptor's function takes its argument in rax, gives the distance there, and leaves all else as it
        //   is; only where the loader has to make room first, which is once in a thread and library, old ones use
        //   vector registers, which are given up here (all that there are without AVX-512);
        // - it aligns the stack for itself where it needs that (glibc from 2.26 on): the compiler does not promise an
        //   aligned one here;
        // - pure: it gives the same each time, as a function runs in one thread from its begin to its end; the memory
        //   that it may write is the loader's, which nothing of Rust's sees.
        unsafe {
            asm!(
                "lea rax, [rip + deck_own_word@TLSDESC]",
                "call [rax + deck_own_word@TLSCALL]",
                out("rax") distance,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(pure, nomem),
            );
        }
        distance
    }

    #[inline(always)]
    pub fn get() -> usize {
        let word: usize;
        // SAFETY: the word lives as long as the thread, which alone reaches it. It is not read before a `set` that
        // comes before: that is not pure.
        unsafe {
            asm!(
                "mov {word}, fs:[{distance}]",
                word = lateout(reg) word,
                distance = in(reg) distance(),
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        word
    }

    pub fn set(word: usize) {
        // SAFETY: as in `get`; the word is written whole.
        unsafe {
            asm!(
                "mov fs:[{distance}], {word}",
                word = in(reg) word,
                distance = in(reg) distance(),
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(
    target_arch = "x86_64",
    target_os = "linux",
    target_env = "gnu",
    not(target_feature = "avx512f"),
    not(miri)
)))]
mod place {
    use std::cell::Cell;

    thread_local!(static WORD: Cell<usize> = const { Cell::new(0) });

    #[inline]
    pub fn get() -> usize {
        WORD.get()
    }

    pub fn set(word: usize) {
        WORD.set(word);
    }
}

pub use place::{get, set};
