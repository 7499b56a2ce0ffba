/* DECK as C programs have it: what goes out is packed, what comes in is unpacked, as others send from and receive into memory of the
 * program. `deck bench pingpong` measures it in Rust, with messages that are used as they are. Started by `deck run -n 2`. */
#include "peer.h"

#include <deck.h>

static deck_mbox_t *own, *other;
static deck_msg_t *message;

static void done(int code) {
  if (code == DECK_OK) return;
  fprintf(stderr, "%s\n", deck_last_error());
  exit(1);
}

enum { LOST_MS = 10000 };

static inline void peer_send(const void *data, size_t bytes) {
  done(deck_msg_clear(message));
  done(deck_msg_pack(message, DECK_BYTE, data, bytes));
  done(deck_mbox_post(other, message, LOST_MS));
}

static inline void peer_receive(void *data, size_t bytes) {
  done(deck_mbox_retrv(own, message, LOST_MS));
  done(deck_msg_unpack(message, DECK_BYTE, data, bytes));
}

#include "pingpong.h"

int main(int argc, char **argv) {
  options_t options = options_of(argc, argv);
  if (!is(options.measure, "pingpong")) return fprintf(stderr, "DECK in C does pingpong only\n"), 2;
  done(deck_init(&argc, &argv));
  int role = deck_node();
  stay_apart(&options, role);
  done(deck_msg_create(&message, 0));
  done(deck_mbox_create(&own, role == 0 ? "ping" : "pong"));
  done(deck_mbox_clone(&other, role == 0 ? "pong" : "ping", LOST_MS));
  pingpong(&options, role);
  done(deck_done());
  return 0;
}
