/* What one thread writes before a call of the library and another reads after it, for ThreadSanitizer, which is told of the order
   as docs/guide/sanitizers.md says. With an argument it also does what is a race in any case. */
#include "check.h"

#include "deck-order.h"

enum { ROUNDS = 50, BYTES = 5000, NUMBERS = 10 };

static deck_mbox_t *there, *back;
static deck_sem_t *semaphore;
static deck_mutex_t *mutex;
static long by_semaphore, by_mutex, by_barrier[2], race;

static void meet(int index) {
  deck_group_t *group;
  EXPECT(DECK_OK, deck_group_join(&group, "both", 2, index, 10000));
  by_barrier[index] = 1;
  EXPECT(DECK_OK, deck_barrier(group, 10000));
  CHECK(by_barrier[1 - index] == 1);
  EXPECT(DECK_OK, deck_group_leave(group));
}

static void *other(void *nothing) {
  deck_mbox_t *clone;
  deck_msg_t *message;
  EXPECT(DECK_OK, deck_mbox_clone(&clone, "back", 10000));
  EXPECT(DECK_OK, deck_msg_create(&message, 0));
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t address;
    EXPECT(DECK_OK, deck_mbox_retrv(there, message, 10000));
    EXPECT(DECK_OK, deck_msg_unpack(message, DECK_UINT64, &address, 1));
    int *numbers = (int *)(uintptr_t)address;
    for (int at = 0; at < NUMBERS; at++) numbers[at]++;
    EXPECT(DECK_OK, deck_msg_resize(message, BYTES));
    memset(deck_msg_data(message), round, BYTES);
    EXPECT(DECK_OK, deck_mutex_lock(mutex, 10000));
    by_mutex++;
    EXPECT(DECK_OK, deck_mutex_unlock(mutex));
    EXPECT(DECK_OK, deck_mbox_post(clone, message, 10000));
  }
  meet(1);
  by_semaphore = 1;
  EXPECT(DECK_OK, deck_msg_destroy(message));
  EXPECT(DECK_OK, deck_mbox_destroy(clone));
  EXPECT(DECK_OK, deck_sem_post(semaphore));
  if (nothing != NULL) race++;
  return NULL;
}

int main(int argc, char **argv) {
  deck_mbox_t *clone;
  deck_msg_t *sent, *received;
  deck_thread_t *thread;
  start_watchdog();
  EXPECT(DECK_OK, deck_init(NULL, NULL));
  EXPECT(DECK_OK, deck_mbox_create(&there, "there"));
  EXPECT(DECK_OK, deck_mbox_create(&back, "back"));
  EXPECT(DECK_OK, deck_sem_create(&semaphore, 0));
  EXPECT(DECK_OK, deck_mutex_open(&mutex, "mutex"));
  EXPECT(DECK_OK, deck_thread_create(&thread, other, argc > 1 ? argv[1] : NULL));
  EXPECT(DECK_OK, deck_mbox_clone(&clone, "there", 10000));
  EXPECT(DECK_OK, deck_msg_create(&sent, 0));
  EXPECT(DECK_OK, deck_msg_create(&received, 0));
  for (int round = 0; round < ROUNDS; round++) {
    int *numbers = calloc(NUMBERS, sizeof *numbers);
    uint64_t address = (uintptr_t)numbers;
    EXPECT(DECK_OK, deck_msg_clear(sent));
    EXPECT(DECK_OK, deck_msg_pack(sent, DECK_UINT64, &address, 1));
    EXPECT(DECK_OK, deck_mbox_post(clone, sent, 10000));
    EXPECT(DECK_OK, deck_mutex_lock(mutex, 10000));
    by_mutex++;
    EXPECT(DECK_OK, deck_mutex_unlock(mutex));
    EXPECT(DECK_OK, deck_mbox_retrv(back, received, 10000));
    const unsigned char *bytes = deck_msg_data(received);
    CHECK(bytes[0] == round && bytes[BYTES - 1] == round && numbers[NUMBERS - 1] == 1);
    free(numbers);
  }
  meet(0);
  EXPECT(DECK_OK, deck_sem_wait(semaphore, 10000));
  CHECK(by_semaphore == 1 && by_mutex == 2 * ROUNDS);
  if (argc > 1) race++;
  EXPECT(DECK_OK, deck_thread_join(thread, NULL));
  EXPECT(DECK_OK, deck_done());
  return 0;
}
