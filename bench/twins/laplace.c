/* The MPI twin of apps/laplace: every process has a band of the slab. Outer rows first, then the rows between while the outer
 * ones travel; the verdict on a sweep counts two sweeps later.
 *
 *   mpirun -n 2 laplace [--size WxH] [--tolerance T] [--max-sweeps N] [--temperatures FILE.bin]
 */
#include "twin.h"

enum { LAG = 2 };

struct verdict {
    double mine, all;
    MPI_Request request;
};

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Relaxes one colour and exchanges it with the neighbours. */
static double relax(band *b, size_t colour, size_t rows, int half, int above, int below) {
    MPI_Request requests[4];
    MPI_Irecv(laplace_row(b, colour, 0), half, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(laplace_row(b, colour, rows + 1), half, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &requests[1]);
    double change = laplace_relax(b, colour, 1, 2);
    if (rows > 1)
        change = larger(change, laplace_relax(b, colour, rows, rows + 1));
    MPI_Isend(laplace_row(b, colour, 1), half, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(laplace_row(b, colour, rows), half, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[3]);
    if (rows > 2)
        change = larger(change, laplace_relax(b, colour, 2, rows));
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    return change;
}

int main(int argc, char **argv) {
    int rank, processes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    uint32_t width, height;
    size_of(argc, argv, "600x600", &width, &height);
    double tolerance = atof(option(argc, argv, "--tolerance", "1e-3"));
    long most = number(argc, argv, "--max-sweeps", "1000000"), sweep = 0;
    uint32_t inner = height - 2, first = first_row(rank, processes, inner);
    size_t rows = first_row(rank + 1, processes, inner) - first;
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank + 1 < processes ? rank + 1 : MPI_PROC_NULL;
    int half = (int)((width + 1) / 2);
    double *slab = rank == 0 ? calloc((size_t)width * height, sizeof *slab) : NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();

    band *b = laplace_band(width, first, rows);
    struct verdict verdicts[LAG + 1];
    for (bool is_end = false; !is_end;) {
        sweep++;
        struct verdict *own = &verdicts[sweep % (LAG + 1)];
        own->mine = relax(b, 0, rows, half, above, below);
        own->mine = larger(own->mine, relax(b, 1, rows, half, above, below));
        MPI_Iallreduce(&own->mine, &own->all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &own->request);
        if (sweep > LAG) {
            struct verdict *judged = &verdicts[(sweep - LAG) % (LAG + 1)];
            MPI_Wait(&judged->request, MPI_STATUS_IGNORE);
            is_end = judged->all < tolerance || sweep >= most;
        }
    }
    for (long left = sweep - LAG + 1; left <= sweep; left++)
        MPI_Wait(&verdicts[left % (LAG + 1)].request, MPI_STATUS_IGNORE);

    /* The first and the last band bring the edge beside them. */
    size_t from = rank > 0, to = rows + (rank + 1 == processes);
    double *own = malloc((to - from + 1) * width * sizeof *own);
    for (size_t row = from; row <= to; row++)
        laplace_temperatures(b, row, own + (row - from) * width);
    int count = (int)((to - from + 1) * width), *counts = NULL, *places = NULL;
    if (rank == 0) {
        counts = malloc(2 * (size_t)processes * sizeof *counts);
        places = counts + processes;
        for (int other = 0; other < processes; other++) {
            uint32_t begin = first_row(other, processes, inner), end = first_row(other + 1, processes, inner);
            places[other] = (int)((begin + (other > 0)) * width);
            counts[other] = (int)((end - begin + (other == 0) + (other + 1 == processes)) * width);
        }
    }
    MPI_Gatherv(own, count, MPI_DOUBLE, slab, counts, places, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%.4f s, %ld sweeps\n", MPI_Wtime() - start, sweep);
        save(option(argc, argv, "--temperatures", NULL), slab, (size_t)width * height * sizeof *slab);
    }
    free(own);
    free(counts);
    free(slab);
    MPI_Finalize();
    return 0;
}
