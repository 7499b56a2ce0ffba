/* Messages: what is packed comes out, in order and with its types; a failed unpack consumes nothing. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <sched.h>

#define ROUND_TRIP(type, ctype)                                                          \
  do {                                                                                   \
    ctype in[5] = {(ctype)1, (ctype)2, (ctype)3, (ctype)120, (ctype)-1}, out[5] = {0};   \
    EXPECT(DECK_OK, deck_msg_pack(m, type, in, 2));                                      \
    EXPECT(DECK_OK, deck_msg_pack(m, type, in + 2, 3));                                  \
    EXPECT(DECK_OK, deck_msg_unpack(m, type, out, 4));                                   \
    EXPECT(DECK_OK, deck_msg_unpack(m, type, out + 4, 1));                               \
    CHECK(memcmp(in, out, sizeof in) == 0);                                              \
  } while (0)

static void every_type(deck_msg_t *m) {
  ROUND_TRIP(DECK_BYTE, unsigned char);
  ROUND_TRIP(DECK_CHAR, char);
  ROUND_TRIP(DECK_INT8, int8_t);
  ROUND_TRIP(DECK_INT16, int16_t);
  ROUND_TRIP(DECK_INT32, int32_t);
  ROUND_TRIP(DECK_INT64, int64_t);
  ROUND_TRIP(DECK_UINT8, uint8_t);
  ROUND_TRIP(DECK_UINT16, uint16_t);
  ROUND_TRIP(DECK_UINT32, uint32_t);
  ROUND_TRIP(DECK_UINT64, uint64_t);
  ROUND_TRIP(DECK_FLOAT, float);
  ROUND_TRIP(DECK_DOUBLE, double);
  char past_the_end;
  EXPECT(DECK_E_TRUNCATED, deck_msg_unpack(m, DECK_CHAR, &past_the_end, 1));
  EXPECT(DECK_OK, deck_msg_clear(m));
  CHECK(deck_msg_size(m) == 0);
}

static void wrong_orders(deck_msg_t *m) {
  int32_t integers[3] = {1, 2, 3}, out[4] = {9, 9, 9, 9};
  double real = 2.5, real_out = 0;
  EXPECT(DECK_OK, deck_msg_pack(m, DECK_INT32, integers, 3));
  EXPECT(DECK_OK, deck_msg_pack(m, DECK_DOUBLE, &real, 1));
  EXPECT(DECK_E_TYPE, deck_msg_unpack(m, DECK_DOUBLE, &real_out, 1));
  EXPECT(DECK_E_TYPE, deck_msg_unpack(m, DECK_UINT32, out, 1));
  EXPECT(DECK_E_TRUNCATED, deck_msg_unpack(m, DECK_INT32, out, 4));
  CHECK(out[0] == 9 && real_out == 0);
  EXPECT(DECK_OK, deck_msg_unpack(m, DECK_INT32, out, 3));
  CHECK(memcmp(integers, out, sizeof integers) == 0);
  EXPECT(DECK_E_TYPE, deck_msg_unpack(m, DECK_INT32, out, 1));
  deck_mbox_t *no_mailbox = NULL;
  EXPECT(DECK_E_TYPE, deck_msg_unpack_mbox(m, &no_mailbox, 0));
  CHECK(no_mailbox == NULL);
  EXPECT(DECK_OK, deck_msg_unpack(m, DECK_DOUBLE, &real_out, 1));
  CHECK(real_out == real);
  EXPECT(DECK_E_TRUNCATED, deck_msg_unpack(m, DECK_DOUBLE, &real_out, 1));
  EXPECT(DECK_OK, deck_msg_clear(m));
}

static void growing(void) {
  deck_msg_t *m;
  enum { COUNT = 100000 };
  EXPECT(DECK_OK, deck_msg_create(&m, 0));
  for (uint32_t i = 0; i < COUNT; i++) EXPECT(DECK_OK, deck_msg_pack(m, DECK_UINT32, &i, 1));
  CHECK(deck_msg_size(m) == COUNT * sizeof(uint32_t));
  CHECK(deck_msg_capacity(m) >= deck_msg_size(m));
  uint32_t *all = calloc(COUNT, sizeof *all);
  EXPECT(DECK_OK, deck_msg_unpack(m, DECK_UINT32, all, COUNT));
  for (uint32_t i = 0; i < COUNT; i++) CHECK(all[i] == i);
  free(all);
  EXPECT(DECK_OK, deck_msg_destroy(m));
}

static void direct_use(deck_msg_t *m) {
  EXPECT(DECK_OK, deck_msg_resize(m, 1000));
  CHECK(deck_msg_size(m) == 1000 && deck_msg_capacity(m) >= 1000);
  unsigned char *content = deck_msg_data(m), out[1000];
  CHECK(content != NULL && (uintptr_t)content % 64 == 0);
  for (int i = 0; i < 1000; i++) content[i] = (unsigned char)i;
  unsigned char *same = deck_msg_edit(m);
  CHECK(same != NULL);
  same[0] = 77;
  EXPECT(DECK_OK, deck_msg_unpack(m, DECK_BYTE, out, 1000));
  CHECK(out[0] == 77 && out[999] == (unsigned char)999);
  EXPECT(DECK_OK, deck_msg_clear(m));
}

/* Post leaves the content with the sender; what either side does to it afterwards, the other does not see. */
static void sender_keeps_content(deck_msg_t *m) {
  deck_mbox_t *b;
  deck_msg_t *received;
  int32_t one = 1, two = 2, out[2] = {0, 0};
  EXPECT(DECK_OK, deck_mbox_create(&b, NULL));
  EXPECT(DECK_OK, deck_msg_create(&received, 0));
  EXPECT(DECK_OK, deck_msg_pack(m, DECK_INT32, &one, 1));
  EXPECT(DECK_OK, deck_mbox_post(b, m, 1000));
  EXPECT(DECK_OK, deck_msg_pack(m, DECK_INT32, &two, 1));
  EXPECT(DECK_OK, deck_mbox_post(b, m, 1000));
  EXPECT(DECK_OK, deck_msg_clear(m));

  EXPECT(DECK_OK, deck_mbox_retrv(b, received, 1000));
  EXPECT(deck_node(), deck_msg_sender(received));
  CHECK(deck_msg_size(received) == sizeof one);
  EXPECT(DECK_OK, deck_msg_unpack(received, DECK_INT32, out, 1));
  CHECK(out[0] == 1);
  EXPECT(DECK_OK, deck_mbox_post(b, received, 1000)); /* posted on */

  EXPECT(DECK_OK, deck_mbox_retrv(b, received, 1000));
  EXPECT(DECK_OK, deck_msg_unpack(received, DECK_INT32, out, 2));
  CHECK(out[0] == 1 && out[1] == 2);
  int32_t *writable = deck_msg_edit(received);
  CHECK(writable != NULL);
  writable[0] = 5;

  EXPECT(DECK_OK, deck_mbox_retrv(b, received, 1000));
  EXPECT(DECK_OK, deck_msg_unpack(received, DECK_INT32, out, 1));
  CHECK(out[0] == 1 && deck_msg_size(received) == sizeof one);
  EXPECT(DECK_E_TIMEOUT, deck_mbox_retrv(b, received, 0));
  EXPECT(DECK_OK, deck_msg_clear(received));
  EXPECT(DECK_E_INVALID, deck_msg_sender(received));
  EXPECT(DECK_OK, deck_msg_destroy(received));
  EXPECT(DECK_OK, deck_mbox_destroy(b));
}

typedef struct {
  deck_mbox_t *box;
  deck_msg_t *message;
} pair_t;

static void *retrieve(void *arg) {
  pair_t *pair = arg;
  int code;
  do code = deck_mbox_retrv(pair->box, pair->message, DECK_FOREVER);
  while (code == DECK_E_INVALID); /* the other thread was in the message at that moment */
  EXPECT(DECK_E_CLOSED, code);
  return NULL;
}

/* While one thread waits with a message, others are told so. */
static void one_thread_at_a_time(deck_msg_t *m) {
  deck_thread_t *t;
  pair_t pair = {NULL, m};
  EXPECT(DECK_OK, deck_mbox_create(&pair.box, NULL));
  EXPECT(DECK_OK, deck_thread_create(&t, retrieve, &pair));
  while (deck_msg_clear(m) == DECK_OK) sched_yield();
  SAYS("another thread is using the message");
  EXPECT(DECK_E_INVALID, deck_msg_destroy(m));
  CHECK(deck_msg_data(m) == NULL);
  EXPECT(DECK_OK, deck_mbox_destroy(pair.box));
  EXPECT(DECK_OK, deck_thread_join(t, NULL));
  EXPECT(DECK_OK, deck_msg_clear(m));
}

int main(int argc, char **argv) {
  deck_msg_t *m;
  start_watchdog();
  EXPECT(DECK_OK, deck_init(&argc, &argv));
  EXPECT(DECK_OK, deck_msg_create(&m, 16));
  every_type(m);
  wrong_orders(m);
  growing();
  direct_use(m);
  sender_keeps_content(m);
  one_thread_at_a_time(m);
  EXPECT(DECK_OK, deck_msg_destroy(m));
  EXPECT(DECK_OK, deck_done());
  return 0;
}
