/* Node 1 posts three numbers to the mail box "numbers" of node 0, which adds them up. */
#include <deck.h>
#include <stdio.h>

#define PATIENCE 10000 /* milliseconds */

/* DECK calls give DECK_OK, which is 0, or a negative code: the first failure ends a chain of ||. */
int main(int argc, char **argv) {
  deck_mbox_t *box;
  deck_msg_t *message;
  int32_t n[3] = {1, 2, 3};
  int failed = deck_init(&argc, &argv) || deck_msg_create(&message, 0);

  if (!failed && deck_node() == 0) {
    failed = deck_mbox_create(&box, "numbers") || deck_mbox_retrv(box, message, PATIENCE) ||
             deck_msg_unpack(message, DECK_INT32, n, 3);
    if (!failed)
      printf("node 0: %d + %d + %d = %d, from node %d\n", n[0], n[1], n[2], n[0] + n[1] + n[2],
             deck_msg_sender(message));
  } else if (!failed && deck_node() == 1) {
    failed = deck_msg_pack(message, DECK_INT32, n, 3) || deck_mbox_clone(&box, "numbers", PATIENCE) ||
             deck_mbox_post(box, message, PATIENCE);
  }
  if (failed) fprintf(stderr, "%s\n", deck_last_error());
  return deck_done() || failed;
}
