/* UCX (UCP), with a worker for each thread: ping-pong, streams, fan-in and threads. The processes are forks of one another and
 * find their addresses in shared memory. In the environment: API is "tag" (tag matching) or "am" (active messages, up to EAGER_MAX
 * bytes); YIELD=1 gives the processor away whenever there is nothing to do. */
#include "peer.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>

enum { GO_ON = 0, END = 1, TAG = 7, MESSAGE = 1, THREADS_MAX = 16, SIDES_MAX = 64, ADDRESS_MAX = 4000, EAGER_MAX = 4096, HELD = 4 };

typedef struct {
  uint32_t has_address;
  uint32_t bytes;
  char address[ADDRESS_MAX];
} card_t;

typedef struct {
  card_t cards[SIDES_MAX];
  uint32_t met, done;
} shared_t;

/* A thread's end: its worker, the way to the other side, and what has come by active message. */
typedef struct {
  ucp_worker_h worker;
  ucp_ep_h to;
  void *into;
  uint64_t arrived, taken, ends;
  unsigned char held[HELD][EAGER_MAX];
  int is_stream;
  uint64_t begin_ns, time_ns;
  double rate;
} side_t;

static shared_t *shared;
static ucp_context_h context;
static int role, is_tag, is_yielding;
static side_t *sides;

static void check(ucs_status_t status, const char *what) {
  if (status == UCS_OK) return;
  fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
  exit(1);
}

static inline void progress(side_t *side) {
  if (ucp_worker_progress(side->worker) == 0 && is_yielding) sched_yield();
}

static inline void finish(side_t *side, ucs_status_ptr_t request, const char *what) {
  if (request == NULL) return;
  if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), what);
  while (ucp_request_check_status(request) == UCS_INPROGRESS) progress(side);
  check(ucp_request_check_status(request), what);
  ucp_request_free(request);
}

static ucs_status_t arrive(void *argument, const void *header, size_t header_bytes, void *data, size_t bytes,
                           const ucp_am_recv_param_t *parameters) {
  side_t *side = argument;
  (void)header, (void)header_bytes, (void)parameters;
  if (side->is_stream) {
    uint64_t what;
    memcpy(&what, data, sizeof what);
    side->ends += what == END;
  } else if (side->into != NULL && side->arrived == side->taken) {
    memcpy(side->into, data, bytes);
  } else if (side->arrived - side->taken < HELD && bytes <= EAGER_MAX) {
    memcpy(side->held[side->arrived % HELD], data, bytes);
  } else {
    return UCS_ERR_NO_MEMORY;
  }
  side->arrived++;
  return UCS_OK;
}

static inline void send_on(side_t *side, const void *data, size_t bytes) {
  ucp_request_param_t parameters = {.op_attr_mask = 0};
  if (is_tag) {
    finish(side, ucp_tag_send_nbx(side->to, data, bytes, TAG, &parameters), "ucp_tag_send_nbx");
  } else {
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_AM_SEND_FLAG_EAGER;
    finish(side, ucp_am_send_nbx(side->to, MESSAGE, NULL, 0, data, bytes, &parameters), "ucp_am_send_nbx");
  }
}

static inline void receive_on(side_t *side, void *data, size_t bytes) {
  if (is_tag) {
    ucp_request_param_t parameters = {.op_attr_mask = 0};
    finish(side, ucp_tag_recv_nbx(side->worker, data, bytes, TAG, ~(ucp_tag_t)0, &parameters), "ucp_tag_recv_nbx");
    return;
  }
  if (side->arrived == side->taken) {
    side->into = data;
    while (side->arrived == side->taken) progress(side);
    side->into = NULL;
  } else {
    memcpy(data, side->held[side->taken % HELD], bytes);
  }
  side->taken++;
}

static inline void peer_send(const void *data, size_t bytes) { send_on(&sides[0], data, bytes); }
static inline void peer_receive(void *data, size_t bytes) { receive_on(&sides[0], data, bytes); }

#include "pingpong.h"

static void open_context(void) {
  ucp_config_t *config;
  check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
  ucp_params_t parameters = {
      .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
      .features = UCP_FEATURE_TAG | UCP_FEATURE_AM,
      .mt_workers_shared = 1,
  };
  check(ucp_init(&parameters, config, &context), "ucp_init");
  ucp_config_release(config);
}

/* Makes a side and writes its address on a card. */
static void open_side(side_t *side, card_t *card) {
  ucp_worker_params_t parameters = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
  check(ucp_worker_create(context, &parameters, &side->worker), "ucp_worker_create");
  ucp_am_handler_param_t handler = {
      .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
      .id = MESSAGE,
      .cb = arrive,
      .arg = side,
  };
  check(ucp_worker_set_am_recv_handler(side->worker, &handler), "ucp_worker_set_am_recv_handler");
  ucp_address_t *address;
  size_t bytes;
  check(ucp_worker_get_address(side->worker, &address, &bytes), "ucp_worker_get_address");
  need(bytes <= ADDRESS_MAX, "an address of UCX that fits");
  memcpy(card->address, address, bytes);
  card->bytes = (uint32_t)bytes;
  __atomic_store_n(&card->has_address, 1, __ATOMIC_RELEASE);
  ucp_worker_release_address(side->worker, address);
}

static void connect_to(side_t *side, card_t *card) {
  while (!__atomic_load_n(&card->has_address, __ATOMIC_ACQUIRE)) sched_yield();
  ucp_ep_params_t parameters = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (ucp_address_t *)card->address};
  check(ucp_ep_create(side->worker, &parameters, &side->to), "ucp_ep_create");
}

/* All processes come here with all their sides; nobody goes on or away before the last has come. */
static void meet(uint32_t *word, uint32_t processes, size_t count) {
  __atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < processes) {
    for (size_t i = 0; i < count; i++) ucp_worker_progress(sides[i].worker);
    sched_yield();
  }
}

/* Posts 64 messages at a time; the last 64 all say END. */
static void stream_send(side_t *side) {
  uint64_t what = GO_ON, start = now_ns();
  while (what == GO_ON) {
    if (now_ns() - start >= stream_ns(side->time_ns)) what = END;
    for (int i = 0; i < STRIDE; i++) send_on(side, &what, sizeof what);
  }
  ucp_request_param_t parameters = {.op_attr_mask = 0};
  finish(side, ucp_ep_flush_nbx(side->to, &parameters), "ucp_ep_flush_nbx");
}

/* The window begins at the first messages, or at the begin that is given. */
static double stream_receive(side_t *side, uint64_t senders) {
  window_t window = window_of(side->begin_ns, side->time_ns);
  uint64_t what[STRIDE], count = 0, ends = 0, next_look = 0;
  ucs_status_ptr_t requests[STRIDE];
  while (ends < senders * STRIDE) {
    if (is_tag) {
      ucp_request_param_t parameters = {.op_attr_mask = 0};
      for (int i = 0; i < STRIDE; i++)
        requests[i] = ucp_tag_recv_nbx(side->worker, &what[i], sizeof what[i], TAG, ~(ucp_tag_t)0, &parameters);
      for (int i = 0; i < STRIDE; i++) finish(side, requests[i], "ucp_tag_recv_nbx");
      for (int i = 0; i < STRIDE; i++) ends += what[i] == END;
      count += STRIDE;
    } else {
      progress(side);
      count = side->arrived;
      ends = side->ends;
    }
    if (count < next_look && ends == 0) continue;
    if (count == 0) continue;
    uint64_t now = now_ns();
    if (next_look == 0 && side->begin_ns == 0) window = window_of(now, side->time_ns);
    next_look = count + STRIDE;
    if (ends > 0) window_close(&window, count, now);
    window_look(&window, count, now);
  }
  side->is_stream = 0;
  side->arrived = side->taken = side->ends = 0;
  return window_rate(&window);
}

static void *stream_thread(void *argument) {
  side_t *side = argument;
  if (role == 0) side->rate = stream_receive(side, 1);
  else stream_send(side);
  return NULL;
}

static void *pingpong_thread(void *argument) {
  side_t *side = argument;
  window_t window = window_of(side->begin_ns, side->time_ns);
  uint64_t what = GO_ON, rounds = 0;
  while (role != 0 && what == GO_ON) {
    receive_on(side, &what, sizeof what);
    if (what == GO_ON) send_on(side, &what, sizeof what);
  }
  if (role != 0) return NULL;
  while (!window_look(&window, rounds, now_ns())) {
    for (int i = 0; i < 16; i++) {
      send_on(side, &what, sizeof what);
      receive_on(side, &what, sizeof what);
    }
    rounds += 16;
  }
  what = END;
  send_on(side, &what, sizeof what);
  side->rate = 2 * window_rate(&window);
  return NULL;
}

static void each_thread(size_t count, void *(*run)(void *), const char *what) {
  pthread_t running[THREADS_MAX];
  double rates[THREADS_MAX];
  uint64_t begin = now_ns();
  for (size_t i = 0; i < count; i++) sides[i].begin_ns = begin;
  for (size_t i = 0; i < count; i++) need(pthread_create(&running[i], NULL, run, &sides[i]) == 0, "pthread_create");
  for (size_t i = 0; i < count; i++) {
    need(pthread_join(running[i], NULL) == 0, "pthread_join");
    rates[i] = sides[i].rate;
  }
  if (role == 0) tell_threads(count, what, rates);
}

/* What one process does: it has as many sides as threads, and side i talks to side i of the other process. */
static void take_part(const options_t *options, size_t at, uint32_t processes, size_t threads) {
  int is_fan_in = is(options->measure, "fan-in");
  if (is_fan_in) stay_together(options);
  else stay_apart(options, role);
  need((sides = calloc(threads, sizeof *sides)) != NULL, "calloc");
  open_context();
  for (size_t i = 0; i < threads; i++) {
    /* Before anybody can send: what comes early counts as well. */
    sides[i].is_stream = role == 0 && !is(options->measure, "pingpong");
    open_side(&sides[i], &shared->cards[(size_t)role * threads + i]);
  }
  for (size_t i = 0; i < threads; i++) {
    size_t other = role == 0 ? 1 : 0;
    sides[i].time_ns = options->time_ns;
    if (!is_fan_in || role != 0) connect_to(&sides[i], &shared->cards[other * threads + i]);
  }
  meet(&shared->met, processes, threads);
  if (is(options->measure, "pingpong")) {
    options_t one = *options;
    one.points = 1, one.at[0] = at;
    pingpong(&one, role);
  } else if (is(options->measure, "threads")) {
    for (size_t i = 0; i < threads; i++) sides[i].time_ns /= 2;
    each_thread(threads, stream_thread, "streams");
    each_thread(threads, pingpong_thread, "ping-pong");
  } else if (role == 0) {
    tell(at, is_fan_in ? "all senders together" : "stream", "messages/s", stream_receive(&sides[0], processes - 1));
  } else {
    stream_send(&sides[0]);
  }
  meet(&shared->done, processes, threads);
}

int main(int argc, char **argv) {
  options_t options = options_of(argc, argv);
  const char *api = getenv("API");
  is_tag = api == NULL || is(api, "tag");
  is_yielding = getenv("YIELD") != NULL;
  /* The network interfaces are none of a host's business. */
  setenv("UCX_TLS", "self,shm", 0);
  for (int i = 0; i < options.points; i++) {
    size_t at = options.at[i];
    uint32_t processes = is(options.measure, "fan-in") ? (uint32_t)at + 1 : 2;
    size_t threads = is(options.measure, "threads") ? at : 1;
    need(threads <= THREADS_MAX && threads * processes <= SIDES_MAX, "so few sides");
    if (is(options.measure, "pingpong") && !is_tag && at > EAGER_MAX) continue;
    if (is(options.measure, "rate") && at != 8) continue;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(shared != MAP_FAILED, "mmap");
    pid_t children[SIDES_MAX];
    for (role = 0; role < (int)processes; role++) {
      if ((children[role] = fork_bound()) == 0) {
        take_part(&options, at, processes, threads);
        _exit(0);
      }
    }
    int all = 1;
    for (uint32_t child = 0; child < processes; child++) {
      int status = 0;
      all &= waitpid(children[child], &status, 0) == children[child] && status == 0;
    }
    if (!all) return fprintf(stderr, "a process of the measurement did not reach its end\n"), 1;
    munmap(shared, sizeof *shared);
  }
  return 0;
}
