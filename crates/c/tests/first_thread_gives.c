/* A program whose first thread has ended gives an array to another node, which has the kernel read it: two processes,
 * by DECK_JOB. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

enum { PATIENCE_MS = 10000, BYTES = 1 << 20, GIVER = 1 };

static volatile int giver_thread;
static deck_sem_t *about_to_give;

/* The letter by which the kernel tells how a thread is. */
static char state_of(int process, int thread) {
  char path[64], line[256] = "";
  snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, thread);
  FILE *file = fopen(path, "r");
  CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
  fclose(file);
  return strrchr(line, ')')[2];
}

static void *member(void *arg) {
  static unsigned char array[BYTES];
  deck_group_t *group;
  int me = deck_node();
  int32_t giver = me == GIVER ? (int32_t)getpid() : 0;
  EXPECT(DECK_OK, deck_group_join(&group, "g", 2, me, PATIENCE_MS));
  EXPECT(DECK_OK, deck_bcast(group, GIVER, &giver, 1, DECK_INT32, PATIENCE_MS));
  if (me == GIVER) {
    memset(array, 7, BYTES);
    giver_thread = (int)syscall(SYS_gettid);
    EXPECT(DECK_OK, deck_sem_post(about_to_give));
  } else {
    while (state_of(giver, giver) != 'Z') sched_yield();
  }
  for (int i = 0; i < 3; i++) {
    EXPECT(DECK_OK, deck_bcast(group, GIVER, array, BYTES, DECK_UINT8, PATIENCE_MS));
    CHECK(array[0] == 7 && array[BYTES - 1] == 7);
  }
  EXPECT(DECK_OK, deck_barrier(group, PATIENCE_MS));
  EXPECT(DECK_OK, deck_group_leave(group));
  EXPECT(DECK_OK, deck_done());
  return arg;
}

int main(void) {
  pthread_t thread;
  start_watchdog();
  CHECK(setenv("DECK_ATTACH", "always", 1) == 0);
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  EXPECT(DECK_OK, deck_sem_create(&about_to_give, 0));
  CHECK(pthread_create(&thread, NULL, member, NULL) == 0);
  if (deck_node() == GIVER) {
    EXPECT(DECK_OK, deck_sem_wait(about_to_give, PATIENCE_MS));
    /* It sleeps in the call, as the other node comes later. */
    while (state_of(getpid(), giver_thread) != 'S') sched_yield();
    pthread_exit(NULL);
  }
  CHECK(pthread_join(thread, NULL) == 0);
  return 0;
}
