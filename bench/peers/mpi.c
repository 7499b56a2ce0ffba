/* MPI, whichever it is compiled against: ping-pong, streams, fan-in, threads, token ring, barrier, and collectives of processes and of
 * threads. A stream ends with a message that holds END. STREAM in the environment may be "isend": 64 sends and receives at a time
 * instead of one. */
#include "peer.h"
#include <mpi.h>
#include <pthread.h>

enum { GO_ON = 0, END = 1, THREADS_MAX = 64, TAG = 7 };

static int rank, size;

static void check(int code, const char *what) {
  if (code == MPI_SUCCESS) return;
  fprintf(stderr, "%s: MPI error %d\n", what, code);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static inline void send_to(int to, MPI_Comm comm, const void *data, size_t bytes) {
  check(MPI_Send(data, (int)bytes, MPI_BYTE, to, TAG, comm), "MPI_Send");
}

static inline void receive_from(int from, MPI_Comm comm, void *data, size_t bytes) {
  check(MPI_Recv(data, (int)bytes, MPI_BYTE, from, TAG, comm, MPI_STATUS_IGNORE), "MPI_Recv");
}

static inline void peer_send(const void *data, size_t bytes) { send_to(1 - rank, MPI_COMM_WORLD, data, bytes); }
static inline void peer_receive(void *data, size_t bytes) { receive_from(1 - rank, MPI_COMM_WORLD, data, bytes); }

#include "pingpong.h"

/* Posts 64 messages at a time; the last 64 all say END. */
static void stream_send(int to, MPI_Comm comm, uint64_t time_ns, int at_a_time) {
  uint64_t what = GO_ON, start = now_ns();
  MPI_Request requests[STRIDE];
  while (what == GO_ON) {
    if (now_ns() - start >= stream_ns(time_ns)) what = END;
    for (int i = 0; i < STRIDE; i++) {
      if (!at_a_time)
        send_to(to, comm, &what, sizeof what);
      else
        check(MPI_Isend(&what, sizeof what, MPI_BYTE, to, TAG, comm, &requests[i]), "MPI_Isend");
    }
    if (at_a_time) check(MPI_Waitall(STRIDE, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
  }
}

/* The window begins at the first messages, or at begin_ns if that is given. */
static double stream_receive(int from, MPI_Comm comm, uint64_t begin_ns, uint64_t time_ns, int senders, int at_a_time) {
  window_t window = window_of(begin_ns, time_ns);
  uint64_t what[STRIDE], count = 0, ends = 0;
  MPI_Request requests[STRIDE];
  while (ends < (uint64_t)senders * STRIDE) {
    for (int i = 0; i < STRIDE; i++) {
      if (!at_a_time)
        receive_from(from, comm, &what[i], sizeof what[i]);
      else
        check(MPI_Irecv(&what[i], sizeof what[i], MPI_BYTE, from, TAG, comm, &requests[i]), "MPI_Irecv");
    }
    if (at_a_time) check(MPI_Waitall(STRIDE, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    for (int i = 0; i < STRIDE; i++) ends += what[i] == END;
    uint64_t now = now_ns();
    if (count == 0 && begin_ns == 0) window = window_of(now, time_ns);
    count += STRIDE;
    if (ends > 0) window_close(&window, count, now);
    window_look(&window, count, now);
  }
  return window_rate(&window);
}

static void rate(const options_t *options, int at_a_time) {
  for (int i = 0; i < options->points; i++) {
    if (options->at[i] != 8) continue;
    if (rank == 0)
      tell(8, "stream", "messages/s", stream_receive(1, MPI_COMM_WORLD, 0, options->time_ns, 1, at_a_time));
    else
      stream_send(0, MPI_COMM_WORLD, options->time_ns, at_a_time);
  }
}

static void fan_in(const options_t *options) {
  if (rank == 0) {
    double found = stream_receive(MPI_ANY_SOURCE, MPI_COMM_WORLD, 0, options->time_ns, size - 1, 0);
    tell((size_t)size - 1, "all senders together", "messages/s", found);
  } else {
    stream_send(0, MPI_COMM_WORLD, options->time_ns, 0);
  }
}

typedef struct {
  MPI_Comm comm;
  uint64_t begin_ns, time_ns;
  double rate;
} thread_t;

static void *stream_thread(void *argument) {
  thread_t *thread = argument;
  if (rank == 0)
    thread->rate = stream_receive(1, thread->comm, thread->begin_ns, thread->time_ns, 1, 0);
  else
    stream_send(0, thread->comm, thread->time_ns, 0);
  return NULL;
}

static void *pingpong_thread(void *argument) {
  thread_t *thread = argument;
  window_t window = window_of(thread->begin_ns, thread->time_ns);
  uint64_t what = GO_ON, rounds = 0;
  while (rank != 0 && what == GO_ON) {
    receive_from(0, thread->comm, &what, sizeof what);
    if (what == GO_ON) send_to(0, thread->comm, &what, sizeof what);
  }
  if (rank != 0) return NULL;
  while (!window_look(&window, rounds, now_ns())) {
    for (int i = 0; i < 16; i++) {
      send_to(1, thread->comm, &what, sizeof what);
      receive_from(1, thread->comm, &what, sizeof what);
    }
    rounds += 16;
  }
  what = END;
  send_to(1, thread->comm, &what, sizeof what);
  thread->rate = 2 * window_rate(&window);
  return NULL;
}

static void each_thread(size_t count, thread_t *threads, void *(*run)(void *), const char *what) {
  pthread_t running[THREADS_MAX];
  double rates[THREADS_MAX];
  check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  uint64_t begin = now_ns();
  for (size_t i = 0; i < count; i++) threads[i].begin_ns = begin;
  for (size_t i = 0; i < count; i++) need(pthread_create(&running[i], NULL, run, &threads[i]) == 0, "pthread_create");
  for (size_t i = 0; i < count; i++) {
    need(pthread_join(running[i], NULL) == 0, "pthread_join");
    rates[i] = threads[i].rate;
  }
  if (rank == 0) tell_threads(count, what, rates);
}

static void threads(const options_t *options) {
  for (int i = 0; i < options->points; i++) {
    size_t count = options->at[i] < THREADS_MAX ? options->at[i] : THREADS_MAX;
    thread_t all[THREADS_MAX] = {0};
    for (size_t thread = 0; thread < count; thread++) {
      all[thread].time_ns = options->time_ns / 2;
      check(MPI_Comm_dup(MPI_COMM_WORLD, &all[thread].comm), "MPI_Comm_dup");
    }
    each_thread(count, all, stream_thread, "streams");
    each_thread(count, all, pingpong_thread, "ping-pong");
    for (size_t thread = 0; thread < count; thread++) check(MPI_Comm_free(&all[thread].comm), "MPI_Comm_free");
  }
}

static void token_round(uint64_t *what) {
  int next = (rank + 1) % size, last = (rank + size - 1) % size;
  if (rank == 0) send_to(next, MPI_COMM_WORLD, what, sizeof *what);
  receive_from(last, MPI_COMM_WORLD, what, sizeof *what);
  if (rank != 0) send_to(next, MPI_COMM_WORLD, what, sizeof *what);
}

/* Rank 0 announces how many barriers come next; only they are timed. */
static double barriers(uint64_t time_ns) {
  uint64_t begin = now_ns(), spent = 0, counted = 0, warm_up = time_ns / 5;
  for (int next = 16; next > 0;) {
    if (rank == 0 && now_ns() - begin >= warm_up + time_ns) next = 0;
    check(MPI_Bcast(&next, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    uint64_t start = now_ns();
    for (int i = 0; i < next; i++) check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    uint64_t now = now_ns();
    if (now - begin >= warm_up) spent += now - start, counted += (uint64_t)next;
  }
  return (double)spent / (double)(counted ? counted : 1);
}

static void oversubscribed(const options_t *options) {
  uint64_t what = GO_ON, time_ns = options->time_ns / 2, warm_up = time_ns / 5;
  check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  uint64_t begin = now_ns(), start = 0, rounds = 0, from = 0, end = 0;
  while (rank != 0 && what == GO_ON) token_round(&what);
  while (rank == 0 && what == GO_ON) {
    for (int i = 0; i < 16; i++) token_round(&what);
    rounds += 16;
    end = now_ns();
    if (start == 0 && end - begin >= warm_up) start = end, from = rounds;
    if (start != 0 && rounds > from && end - begin >= warm_up + time_ns) {
      what = END;
      token_round(&what);
    }
  }
  if (rank == 0) tell((size_t)size, "token, one hop", "ns", (double)(end - start) / (double)(rounds - from) / size);
  double barrier = barriers(time_ns);
  if (rank == 0) tell((size_t)size, "barrier", "ns", barrier);
}

#include "collectives.h"
#include "thread_collectives.h"

int main(int argc, char **argv) {
  options_t options = options_of(argc, argv);
  const char *early = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
  int is_apart = is(options.measure, "pingpong") || is(options.measure, "rate") || is(options.measure, "threads");
  /* On its processor before the library looks how many there are. */
  if (is_apart && early) stay_apart(&options, atoi(early));
  if (!is_apart) stay_together(&options);
  int wanted = MPI_THREAD_SINGLE, provided;
  if (is(options.measure, "threads")) wanted = MPI_THREAD_MULTIPLE;
  if (is(options.measure, "thread-collectives")) wanted = MPI_THREAD_SERIALIZED;
  check(MPI_Init_thread(&argc, &argv, wanted, &provided), "MPI_Init_thread");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (provided < wanted) return fprintf(stderr, "this MPI does not let several threads call it\n"), 1;
  /* Again: some libraries have bound the process to a place of their own choice. */
  if (is_apart) stay_apart(&options, rank);
  else stay_together(&options);
  const char *stream = getenv("STREAM");
  int at_a_time = stream && is(stream, "isend");
  if (is(options.measure, "pingpong")) pingpong(&options, rank);
  else if (is(options.measure, "rate")) rate(&options, at_a_time);
  else if (is(options.measure, "fan-in")) fan_in(&options);
  else if (is(options.measure, "threads")) threads(&options);
  else if (is(options.measure, "oversubscribed")) oversubscribed(&options);
  else if (is(options.measure, "collectives")) collectives(&options);
  else if (is(options.measure, "thread-collectives")) thread_collectives(&options);
  else return fprintf(stderr, "MPI does not do %s\n", options.measure), 2;
  MPI_Finalize();
  return 0;
}
