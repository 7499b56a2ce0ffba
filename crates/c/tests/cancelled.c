/* Threads that pthread_cancel ends: each has been cancelled before it makes a call of DECK, which does what it has to do, and is ended behind it. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>

enum { BYTES = 8 << 20 };

static deck_mbox_t *box;
static deck_msg_t *message;
static deck_group_t *group;
static deck_segment_t *segment;
static deck_thread_t *sleeper;
static char large[BYTES];

static void *sleep_a_while(void *semaphore) {
  EXPECT(DECK_E_TIMEOUT, deck_sem_wait(semaphore, 50));
  return NULL;
}

static void init(void) {
  EXPECT(DECK_OK, deck_init(NULL, NULL));
}

static void open_all(void) {
  EXPECT(DECK_OK, deck_msg_create(&message, 0));
  EXPECT(DECK_OK, deck_mbox_create(&box, "cancelled"));
  CHECK(deck_mbox_fd(box) >= 0);
  EXPECT(DECK_OK, deck_segment_create(&segment, "cancelled", BYTES, 0));
}

static void grow(void) {
  EXPECT(DECK_OK, deck_msg_pack(message, DECK_BYTE, large, BYTES));
}

static void post(void) {
  deck_mbox_t *to;
  EXPECT(DECK_OK, deck_mbox_clone(&to, "cancelled", 1000));
  EXPECT(DECK_OK, deck_mbox_post(to, message, 1000));
  EXPECT(DECK_OK, deck_mbox_retrv(box, message, 1000));
  EXPECT(DECK_E_TIMEOUT, deck_mbox_retrv(box, message, 10));
  EXPECT(DECK_OK, deck_mbox_destroy(to));
}

static void meet(void) {
  static double numbers[100000];
  EXPECT(DECK_OK, deck_group_join(&group, "cancelled", 1, 0, 1000));
  EXPECT(DECK_OK, deck_allreduce(group, numbers, numbers, 100000, DECK_DOUBLE, DECK_SUM, 1000));
  EXPECT(DECK_OK, deck_group_leave(group));
}

static void start(void) {
  deck_sem_t *semaphore;
  EXPECT(DECK_OK, deck_sem_create(&semaphore, 0));
  EXPECT(DECK_OK, deck_thread_create(&sleeper, sleep_a_while, semaphore));
  EXPECT(DECK_OK, deck_thread_join(sleeper, NULL));
  EXPECT(DECK_OK, deck_sem_destroy(semaphore));
}

static void close_all(void) {
  EXPECT(DECK_OK, deck_segment_close(segment));
  EXPECT(DECK_OK, deck_mbox_destroy(box));
  EXPECT(DECK_OK, deck_msg_destroy(message));
}

static void done(void) {
  EXPECT(DECK_OK, deck_done());
}

static void write_line(int level, const char *line, void *context) {
  (void)level;
  fprintf(context, "%s\n", line);
  fflush(context);
}

static void *run(void *arg) {
  void (*calls)(void) = *(void (**)(void))arg;
  CHECK(pthread_cancel(pthread_self()) == 0);
  calls();
  pthread_testcancel();
  return NULL;
}

int main(void) {
  start_watchdog();
  FILE *log = tmpfile();
  CHECK(log != NULL);
  CHECK(setenv("DECK_LOG", "debug", 1) == 0);
  deck_set_log(write_line, log);
  void (*all[])(void) = {init, open_all, grow, post, meet, start, close_all, done};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, run, &all[i]) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
  }
  return 0;
}
