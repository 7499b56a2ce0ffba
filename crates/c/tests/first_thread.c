/* The first thread may end before all others (pthread_exit in main): the process is a node all the same, and ends with the last thread behind
 * deck_done, whatever was left. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>

static pthread_t first;

static void *work(void *arg) {
  deck_mbox_t *box;
  deck_msg_t *message;
  CHECK(pthread_join(first, NULL) == 0);
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  CHECK(deck_node() == 0);
  EXPECT(DECK_OK, deck_mbox_create(&box, "first"));
  EXPECT(DECK_OK, deck_msg_create(&message, 0));
  CHECK(deck_mbox_fd(box) >= 0);
  EXPECT(DECK_E_TIMEOUT, deck_mbox_retrv(box, message, 0));
  EXPECT(DECK_OK, deck_done());
  return arg;
}

int main(void) {
  pthread_t thread;
  start_watchdog();
  first = pthread_self();
  CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
  pthread_exit(NULL);
}
