/* Collectives of MPI, one process per member, as `deck bench collectives` has them. Included by mpi.c.
 *
 * Every member calls the same collective again and again, with another root each time, so that nobody runs ahead. Rank 0 tells
 * how many come next, and keeps the time of these alone. */
#pragma once

/* So many rounds of long blocks go before those that count, however long they take: the same for all whom we measure. */
enum { KINDS = 8, BLOCKS = 3, WARM_UPS = 128 };
static const char *const kind_names[KINDS] = {"bcast",  "reduce",  "allreduce", "scan",
                                              "gather", "scatter", "allgather", "alltoall"};
static const size_t blocks[BLOCKS] = {8, 4 << 10, 1 << 20};
static const char *const block_names[BLOCKS] = {"8 B", "4 KiB", "1 MiB"};

static int call_collective(int kind, int root, const double *in, double *out, int count) {
  MPI_Comm all = MPI_COMM_WORLD;
  switch (kind) {
  case -1: return MPI_Barrier(all);
  case 0: return MPI_Bcast(out, count, MPI_DOUBLE, root, all);
  case 1: return MPI_Reduce(in, out, count, MPI_DOUBLE, MPI_SUM, root, all);
  case 2: return MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, all);
  /* A scan has no root that could change: the barrier keeps the first from running ahead. */
  case 3: return MPI_Scan(in, out, count, MPI_DOUBLE, MPI_SUM, all) || MPI_Barrier(all);
  case 4: return MPI_Gather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, root, all);
  case 5: return MPI_Scatter(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, root, all);
  case 6: return MPI_Allgather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, all);
  default: return MPI_Alltoall(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, all);
  }
}

/* The mean time of a round, in rank 0. */
static double mean_ns(int kind, size_t bytes, uint64_t time_ns, const double *in, double *out) {
  int rounds = bytes < (64 << 10) ? 64 : 16, count = (int)(bytes / sizeof(double));
  uint64_t begin = now_ns(), warm_up = time_ns / 5, spent = 0, counted = 0;
  int warm_ups = bytes < (64 << 10) ? 0 : WARM_UPS;
  for (int next = rounds;;) {
    if (rank == 0) next = now_ns() - begin < warm_up + time_ns || counted == 0 ? rounds : 0;
    check(MPI_Bcast(&next, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    if (next == 0) return counted ? (double)spent / (double)counted : 0;
    uint64_t start = now_ns();
    for (int round = 0; round < next; round++) check(call_collective(kind, round % size, in, out, count), "a collective");
    if (warm_ups > 0) warm_ups -= next, begin = now_ns();
    else if (start - begin >= warm_up) spent += now_ns() - start, counted += (uint64_t)next;
  }
}

/* What one of so many members has at a place of its output in the end. */
static double expected(int kind, int member, int members, size_t place, size_t count) {
  switch (kind) {
  case 0: return 1;
  case 1: case 2: return members * (members + 1) / 2.0;
  case 3: return (member + 1) * (member + 2) / 2.0;
  case 5: return members;
  default: return (double)(place / count + 1);
  }
}

static void collectives(const options_t *options) {
  size_t largest = blocks[BLOCKS - 1] * (size_t)size;
  double *in = aligned_alloc(64, largest), *out = aligned_alloc(64, largest);
  need(in != NULL && out != NULL, "aligned_alloc");
  uint64_t time_ns = options->time_ns / (2 * (1 + KINDS * BLOCKS));
  double barrier = mean_ns(-1, 0, time_ns, in, out);
  if (rank == 0) tell((size_t)size, "barrier", "ns", barrier);
  for (int kind = 0; kind < KINDS; kind++) {
    for (int block = 0; block < BLOCKS; block++) {
      size_t count = blocks[block] / sizeof(double), outs = kind == 4 || kind >= 6 ? count * (size_t)size : count;
      for (size_t i = 0; i < largest / sizeof(double); i++) in[i] = out[i] = rank + 1;
      double ns = mean_ns(kind, blocks[block], time_ns, in, out);
      for (size_t i = 0; i < outs; i++) need(out[i] == expected(kind, rank, size, i, count), "a result");
      char what[64];
      snprintf(what, sizeof what, "%s, %s", kind_names[kind], block_names[block]);
      if (rank == 0) tell((size_t)size, what, "ns", ns);
    }
  }
  free(in);
  free(out);
}
