/* What posting and retrieving costs besides time: no allocation and no system call once a mail box is in use. Allocations are
   counted by a malloc of this program's own; system calls are found by strict computing mode, in which a thread is killed at its
   first one but reading, writing and ending. */
#define _GNU_SOURCE
#include "check.h"

#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

enum { ROUNDS = 1000, SIZES = 6 };
/* One for each protocol: in the slot (in a word, one line, two lines), copied, handed over; and one whose buffers rest before they are used again. */
static const size_t sizes[SIZES] = {8, 62, 100, 300, 5000, 20000};

static atomic_long allocated;
static _Thread_local int is_counted;

/* The C library's own, under the names that it keeps for programs like this one. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
  allocated += is_counted;
  return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
  allocated += is_counted;
  return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
  allocated += is_counted;
  return __libc_realloc(old, bytes);
}

int posix_memalign(void **into, size_t alignment, size_t bytes) {
  allocated += is_counted;
  *into = __libc_memalign(alignment, bytes);
  return 0;
}

static deck_mbox_t *mailbox, *clone_of_it;
static deck_msg_t *sent[SIZES], *received;
static atomic_int failures, rounds_in_jail;

/* Without the checks of check.h, which print. */
static void go(void) {
  for (int round = 0; round < ROUNDS; round++) {
    for (int at = 0; at < SIZES; at++) {
      failures += deck_msg_resize(sent[at], sizes[at]) != DECK_OK;
      failures += deck_mbox_post(clone_of_it, sent[at], 10000) != DECK_OK;
      failures += deck_mbox_retrv(mailbox, received, 10000) != DECK_OK;
      failures += deck_msg_size(received) != sizes[at];
    }
  }
}

static void *in_jail(void *unused) {
  (void)unused;
  /* In use by this thread, too. */
  go();
  is_counted = 1;
  go();
  is_counted = 0;
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
  go();
  rounds_in_jail = ROUNDS;
  syscall(SYS_exit, 0);
  return NULL;
}

int main(void) {
  start_watchdog();
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  EXPECT(DECK_OK, deck_mbox_create(&mailbox, "short path"));
  EXPECT(DECK_OK, deck_mbox_clone(&clone_of_it, "short path", 10000));
  EXPECT(DECK_OK, deck_msg_create(&received, 0));
  for (int at = 0; at < SIZES; at++) {
    EXPECT(DECK_OK, deck_msg_create(&sent[at], sizes[at]));
  }
  /* The counter counts. */
  is_counted = 1;
  free(malloc(1));
  is_counted = 0;
  CHECK(allocated == 1);
  allocated = 0;

  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, in_jail, NULL) == 0);
  /* A thread that is killed says nothing: its end is all there is to wait for. */
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(rounds_in_jail == ROUNDS && "a system call ended the rounds: strace -f tells which");
  CHECK(failures == 0);
  CHECK(allocated == 0);
  EXPECT(DECK_OK, deck_done());
  return 0;
}
