/* Two nodes: node 1 posts a greeting to the mail box "hello" of node 0, which prints it.
   cc hello.c $(pkg-config --cflags --libs deck) -o hello && deck run -n 2 ./hello */
#include <deck.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  const char *greeting = "hello from the other side";
  deck_mbox_t *box;
  deck_msg_t *message;
  int failed = deck_init(&argc, &argv) || deck_msg_create(&message, 0);

  if (!failed && deck_node() == 0) {
    failed = deck_mbox_create(&box, "hello") || deck_mbox_retrv(box, message, 10000);
    if (!failed) {
      const char *text = deck_msg_data(message);
      printf("node %d says: %.*s\n", deck_msg_sender(message), (int)deck_msg_size(message), text);
    }
  } else if (!failed && deck_node() == 1) {
    failed = deck_mbox_clone(&box, "hello", 10000) || deck_msg_pack(message, DECK_CHAR, greeting, strlen(greeting)) ||
             deck_mbox_post(box, message, 10000);
  }
  if (failed) fprintf(stderr, "%s\n", deck_last_error());
  return deck_done() || failed;
}
