/* DECK as C programs have it: what goes out comes from memory of the program, and what comes in goes there, as with others. It is packed and
 * unpacked, or with CONTENT=in-place copied to where the message has it. `deck bench pingpong` measures it in Rust, with messages that are used as
 * they are. Started by `deck run -n 2`. */
#include "peer.h"

#include <deck.h>

static deck_mbox_t *own, *other;
static deck_msg_t *message;
static int is_in_place;
static size_t size;

static void done(int code) {
  if (code == DECK_OK) return;
  fprintf(stderr, "%s\n", deck_last_error());
  exit(1);
}

enum { LOST_MS = 10000 };

static inline void *there(void *place) {
  if (place == NULL) done(DECK_E_SYSTEM);
  return place;
}

static inline void peer_send(const void *data, size_t bytes) {
  if (is_in_place) {
    if (size != bytes) done(deck_msg_resize(message, size = bytes));
    memcpy(there(deck_msg_edit(message)), data, bytes);
  } else {
    done(deck_msg_clear(message));
    done(deck_msg_pack(message, DECK_BYTE, data, bytes));
  }
  done(deck_mbox_post(other, message, LOST_MS));
}

/* What comes is as long as what went out. */
static inline void peer_receive(void *data, size_t bytes) {
  done(deck_mbox_retrv(own, message, LOST_MS));
  if (is_in_place) {
    memcpy(data, there(deck_msg_data(message)), bytes);
    size = bytes;
  } else {
    done(deck_msg_unpack(message, DECK_BYTE, data, bytes));
  }
}

#include "pingpong.h"

int main(int argc, char **argv) {
  options_t options = options_of(argc, argv);
  if (!is(options.measure, "pingpong")) return fprintf(stderr, "DECK in C does pingpong only\n"), 2;
  done(deck_init(&argc, &argv));
  int role = deck_node();
  is_in_place = getenv("CONTENT") != NULL && is(getenv("CONTENT"), "in-place");
  stay_apart(&options, role);
  done(deck_msg_create(&message, 0));
  done(deck_mbox_create(&own, role == 0 ? "ping" : "pong"));
  done(deck_mbox_clone(&other, role == 0 ? "pong" : "ping", LOST_MS));
  pingpong(&options, role);
  done(deck_done());
  return 0;
}
