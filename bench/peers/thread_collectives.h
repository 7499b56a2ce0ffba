/* Collectives of MPI whose members are threads, as programs of MPI and threads make them: the threads of a process (a *team*) meet in
 * memory, and one of them calls MPI. Included by mpi.c, behind collectives.h.
 *
 * Members go by processes: member m is thread m % team of process m / team. What a team shares is there twice, and calls take turns: whoever writes it again
 * has met all others since they last read it. */
#pragma once
#include <stdatomic.h>

/* Looks before a waiting thread lets others run. */
enum { LOOKS = 64, SHORT_BYTES = 64 << 10 };

static int team;
static _Alignas(64) atomic_int arrived;
static _Alignas(64) atomic_int meeting;
/* What each thread gives and gets in this call. */
static _Alignas(64) const double *inputs[THREADS_MAX];
static _Alignas(64) double *outputs[THREADS_MAX];
/* What the team gives to others and has from them. */
static double *giving[2], *getting[2];

typedef struct {
  int thread, member;
  unsigned calls;
  uint64_t time_ns;
} member_t;

/* Opens when all threads of this process have come. */
static void meet(void) {
  int now = atomic_load_explicit(&meeting, memory_order_relaxed);
  if (atomic_fetch_add_explicit(&arrived, 1, memory_order_acq_rel) + 1 == team) {
    atomic_store_explicit(&arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&meeting, now + 1, memory_order_release);
    return;
  }
  for (int looks = 0; atomic_load_explicit(&meeting, memory_order_acquire) == now; looks++)
    if (looks >= LOOKS) sched_yield();
}

static void copy(double *to, const double *from, size_t count) { memcpy(to, from, count * sizeof *to); }

/* The place from which this thread works where all share the work. */
static size_t share(int thread, size_t count) { return (size_t)thread * count / (size_t)team; }

static void add(double *restrict to, const double *restrict from, size_t count) {
  for (size_t i = 0; i < count; i++) to[i] += from[i];
}

/* Elements that are folded at a time, so that what is added to stays in the nearest cache. */
enum { CHUNK = 512 };

/* This thread's share of the sum over the team; into each output what is there up to its thread, if there are outputs. */
static void fold(int thread, double *sum, size_t count, int into_outputs) {
  for (size_t from = share(thread, count), end = share(thread + 1, count); from < end; from += CHUNK) {
    size_t some = end - from < CHUNK ? end - from : CHUNK;
    copy(sum + from, inputs[0] + from, some);
    for (int other = 0; other < team; other++) {
      if (other > 0) add(sum + from, inputs[other] + from, some);
      if (into_outputs) copy(outputs[other] + from, sum + from, some);
    }
  }
}

/* The sum of the first contributions of a team, which lie one behind the other. */
static void fold_first(int contributions, const double *ours, double *sum, size_t count) {
  copy(sum, ours, count);
  for (int other = 1; other < contributions; other++) add(sum, ours + (size_t)other * count, count);
}

static int is_long(size_t count) { return count * sizeof(double) >= SHORT_BYTES; }

static void team_barrier(int leads) {
  meet();
  if (leads) check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  meet();
}

static void team_bcast(const member_t *me, int root, double *out, size_t count) {
  int leads = me->thread == root % team;
  double *shared = giving[me->calls % 2];
  if (is_long(count)) {
    /* Straight from the leader's array, which it keeps until all have read. */
    outputs[me->thread] = out;
    if (leads) check(MPI_Bcast(out, (int)count, MPI_DOUBLE, root / team, MPI_COMM_WORLD), "MPI_Bcast");
    meet();
    if (!leads) copy(out, outputs[root % team], count);
    meet();
    return;
  }
  if (leads) {
    check(MPI_Bcast(out, (int)count, MPI_DOUBLE, root / team, MPI_COMM_WORLD), "MPI_Bcast");
    copy(shared, out, count);
  }
  meet();
  if (!leads) copy(out, shared, count);
}

/* The sum over the team: long ones all fold together, short ones are folded by the leader, as a meeting costs more. It is there for the leader. */
static const double *team_sum(const member_t *me, int leads, const double *in, size_t count) {
  double *ours = giving[me->calls % 2], *sum = ours + (size_t)team * count;
  if (is_long(count)) {
    inputs[me->thread] = in;
    meet();
    fold(me->thread, ours, count, 0);
    meet();
    return ours;
  }
  copy(ours + (size_t)me->thread * count, in, count);
  meet();
  if (leads) fold_first(team, ours, sum, count);
  return sum;
}

static void team_reduce(const member_t *me, int root, const double *in, double *out, size_t count) {
  int leads = me->thread == root % team;
  const double *sum = team_sum(me, leads, in, count);
  if (leads) check(MPI_Reduce(sum, out, (int)count, MPI_DOUBLE, MPI_SUM, root / team, MPI_COMM_WORLD), "MPI_Reduce");
}

static void team_allreduce(const member_t *me, const double *in, double *out, size_t count) {
  int leads = me->thread == 0;
  const double *sum = team_sum(me, leads, in, count);
  double *all = is_long(count) ? out : getting[me->calls % 2];
  if (leads) {
    if (is_long(count)) outputs[0] = out;
    check(MPI_Allreduce(sum, all, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
  }
  meet();
  if (is_long(count)) all = outputs[0];
  if (out != all) copy(out, all, count);
  if (is_long(count)) meet();
}

static void team_scan(const member_t *me, const double *in, double *out, size_t count) {
  int leads = me->thread == 0;
  double *ours = giving[me->calls % 2], *before = getting[me->calls % 2];
  if (is_long(count)) {
    inputs[me->thread] = in;
    outputs[me->thread] = out;
    meet();
    fold(me->thread, ours, count, 1);
    meet();
    if (leads) check(MPI_Exscan(ours, before, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Exscan");
  } else {
    const double *sum = team_sum(me, leads, in, count);
    if (leads) check(MPI_Exscan(sum, before, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Exscan");
    fold_first(me->thread + 1, ours, out, count);
  }
  meet();
  if (rank > 0) add(out, before, count);
}

static void team_gather(const member_t *me, int root, const double *in, double *out, size_t count) {
  int leads = me->thread == root % team, is_here = rank == root / team, each = team * (int)count;
  double *ours = giving[me->calls % 2];
  if (is_long(count) && is_here) {
    /* Straight to where it belongs. */
    if (leads) outputs[me->thread] = out;
    meet();
    ours = outputs[root % team] + (size_t)rank * (size_t)each;
  }
  copy(ours + (size_t)me->thread * count, in, count);
  meet();
  const void *from = is_long(count) && is_here ? MPI_IN_PLACE : ours;
  if (leads) check(MPI_Gather(from, each, MPI_DOUBLE, out, each, MPI_DOUBLE, root / team, MPI_COMM_WORLD), "MPI_Gather");
}

static void team_scatter(const member_t *me, int root, const double *in, double *out, size_t count) {
  int leads = me->thread == root % team, is_here = rank == root / team, each = team * (int)count;
  int from_leader = is_long(count) && is_here;
  double *ours = getting[me->calls % 2];
  void *to = from_leader ? MPI_IN_PLACE : ours;
  if (leads) {
    inputs[me->thread] = in;
    check(MPI_Scatter(in, each, MPI_DOUBLE, to, each, MPI_DOUBLE, root / team, MPI_COMM_WORLD), "MPI_Scatter");
  }
  meet();
  const double *blocks_of_team = from_leader ? inputs[root % team] + (size_t)rank * (size_t)each : ours;
  copy(out, blocks_of_team + (size_t)me->thread * count, count);
  /* The leader keeps its array until all have read. */
  if (from_leader) meet();
}

static void team_allgather(const member_t *me, const double *in, double *out, size_t count) {
  int leads = me->thread == 0, each = team * (int)count;
  double *ours = giving[me->calls % 2], *all = getting[me->calls % 2];
  const void *from = ours;
  if (is_long(count)) {
    if (leads) outputs[0] = out;
    meet();
    all = outputs[0], ours = all + (size_t)rank * (size_t)each, from = MPI_IN_PLACE;
  }
  copy(ours + (size_t)me->thread * count, in, count);
  meet();
  if (leads) check(MPI_Allgather(from, each, MPI_DOUBLE, all, each, MPI_DOUBLE, MPI_COMM_WORLD), "MPI_Allgather");
  meet();
  if (out != all) copy(out, all, (size_t)each * (size_t)size);
  if (is_long(count)) meet();
}

/* Between two processes go the blocks of each thread of the one to each thread of the other; those of one process are copied at once. */
static void team_alltoall(const member_t *me, const double *in, double *out, size_t count) {
  double *ours = giving[me->calls % 2], *all = getting[me->calls % 2];
  size_t threads = (size_t)team, mine = (size_t)me->thread, here = (size_t)rank * threads;
  inputs[mine] = in;
  for (size_t to = 0; to < (size_t)size; to++)
    if (to != (size_t)rank) copy(ours + (to * threads + mine) * threads * count, in + to * threads * count, threads * count);
  meet();
  if (mine == 0) {
    int counts[THREADS_MAX], places[THREADS_MAX], each = team * team * (int)count;
    for (int other = 0; other < size; other++) counts[other] = other == rank ? 0 : each, places[other] = other * each;
    check(MPI_Alltoallv(ours, counts, places, MPI_DOUBLE, all, counts, places, MPI_DOUBLE, MPI_COMM_WORLD), "MPI_Alltoallv");
  }
  for (size_t from = 0; from < threads; from++) copy(out + (here + from) * count, inputs[from] + (here + mine) * count, count);
  meet();
  for (size_t from = 0; from < (size_t)size * threads; from++)
    if (from / threads != (size_t)rank) copy(out + from * count, all + (from * threads + mine) * count, count);
}

static void call_team(member_t *me, int kind, int root, const double *in, double *out, size_t count) {
  switch (kind) {
  case -1: team_barrier(me->thread == 0); break;
  case 0: team_bcast(me, root, out, count); break;
  case 1: team_reduce(me, root, in, out, count); break;
  case 2: team_allreduce(me, in, out, count); break;
  case 3: team_scan(me, in, out, count), team_barrier(me->thread == 0); break;
  case 4: team_gather(me, root, in, out, count); break;
  case 5: team_scatter(me, root, in, out, count); break;
  case 6: team_allgather(me, in, out, count); break;
  default: team_alltoall(me, in, out, count);
  }
  me->calls++;
}

/* The mean time of a round, in member 0. */
static double team_mean_ns(member_t *me, int kind, size_t bytes, const double *in, double *out) {
  int members = size * team, rounds = (bytes < (64 << 10) ? 64 : 16) / members * members + members;
  int warm_ups = bytes < (64 << 10) ? 0 : WARM_UPS;
  size_t count = bytes / sizeof(double);
  uint64_t begin = now_ns(), warm_up = me->time_ns / 5, spent = 0, counted = 0;
  for (double next = rounds;;) {
    /* Whoever was the last to call MPI is through with that. */
    meet();
    if (me->member == 0) next = now_ns() - begin < warm_up + me->time_ns || counted == 0 ? rounds : 0;
    call_team(me, 0, 0, NULL, &next, 1);
    if (next == 0) return counted ? (double)spent / (double)counted : 0;
    uint64_t start = now_ns();
    for (int round = 0; round < rounds; round++) call_team(me, kind, round % members, in, out, count);
    if (warm_ups > 0) warm_ups -= rounds, begin = now_ns();
    else if (start - begin >= warm_up) spent += now_ns() - start, counted += (uint64_t)rounds;
  }
}

static void *team_member(void *argument) {
  member_t *me = argument;
  size_t members = (size_t)(size * team), largest = blocks[BLOCKS - 1] * members;
  double *in = aligned_alloc(64, largest), *out = aligned_alloc(64, largest);
  need(in != NULL && out != NULL, "aligned_alloc");
  double barrier = team_mean_ns(me, -1, 0, in, out);
  if (me->member == 0) tell(members, "threads: barrier", "ns", barrier);
  for (int kind = 0; kind < KINDS; kind++) {
    for (int block = 0; block < BLOCKS; block++) {
      size_t count = blocks[block] / sizeof(double), outs = kind == 4 || kind >= 6 ? count * members : count;
      for (size_t i = 0; i < largest / sizeof(double); i++) in[i] = out[i] = me->member + 1;
      double ns = team_mean_ns(me, kind, blocks[block], in, out);
      for (size_t i = 0; i < outs; i++) need(out[i] == expected(kind, me->member, (int)members, i, count), "a result");
      char what[64];
      snprintf(what, sizeof what, "threads: %s, %s", kind_names[kind], block_names[block]);
      if (me->member == 0) tell(members, what, "ns", ns);
    }
  }
  free(in);
  free(out);
  return NULL;
}

/* Each point is a number of members, the same number of threads in every process. */
static void thread_collectives(const options_t *options) {
  for (int point = 0; point < options->points; point++) {
    team = (int)options->at[point] / size;
    if (team < 1 || team > THREADS_MAX || team * size != (int)options->at[point]) continue;
    /* All that a team may hold at once: the blocks of an alltoall. */
    size_t most = blocks[BLOCKS - 1] * (size_t)(size * team * team);
    for (int turn = 0; turn < 2; turn++) {
      giving[turn] = aligned_alloc(64, most), getting[turn] = aligned_alloc(64, most);
      need(giving[turn] != NULL && getting[turn] != NULL, "aligned_alloc");
    }
    pthread_t running[THREADS_MAX];
    member_t members[THREADS_MAX];
    for (int thread = 0; thread < team; thread++) {
      uint64_t time_ns = options->time_ns / (2 * (1 + KINDS * BLOCKS));
      members[thread] = (member_t){.thread = thread, .member = rank * team + thread, .time_ns = time_ns};
      need(pthread_create(&running[thread], NULL, team_member, &members[thread]) == 0, "pthread_create");
    }
    for (int thread = 0; thread < team; thread++) need(pthread_join(running[thread], NULL) == 0, "pthread_join");
    for (int turn = 0; turn < 2; turn++) free(giving[turn]), free(getting[turn]);
  }
}
