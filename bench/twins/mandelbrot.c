/* The MPI twin of apps/mandelbrot: process 0 is the manager and hands out slices, all others keep asking for the next one.
 *
 *   mpirun -n 3 mandelbrot [--size WxH] [--slices N] [--max-iter N] [--patient 1] [--counts FILE.bin]
 */
#include "twin.h"

enum { WORK };

static void manage(uint32_t width, uint32_t height, uint32_t slices, int workers, bool patient, uint32_t *picture) {
    uint32_t next = 0, finished = 0;
    while (finished < slices || workers > 0) {
        MPI_Status status;
        wait_for_any(patient, &status);
        int slice = status.MPI_TAG, values;
        /* The tag is the slice that comes; one more than all of them asks for the first. */
        MPI_Get_count(&status, MPI_UINT32_T, &values);
        uint32_t *to = (uint32_t)slice < slices ? picture + (size_t)first_row(slice, slices, height) * width : NULL;
        MPI_Recv(to, values, MPI_UINT32_T, status.MPI_SOURCE, slice, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        finished += to != NULL;
        int order = next < slices ? (int)next : -1;
        MPI_Send(&order, 1, MPI_INT, status.MPI_SOURCE, WORK, MPI_COMM_WORLD);
        next += order >= 0;
        workers -= order < 0;
    }
}

static void work(uint32_t width, uint32_t height, uint32_t slices, uint32_t max_iter) {
    uint32_t *counts = malloc(((size_t)height / slices + 1) * width * sizeof *counts);
    int slice = (int)slices, values = 0;
    for (;;) {
        MPI_Send(counts, values, MPI_UINT32_T, 0, slice, MPI_COMM_WORLD);
        MPI_Recv(&slice, 1, MPI_INT, 0, WORK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (slice < 0)
            break;
        uint32_t first = first_row(slice, slices, height), last = first_row(slice + 1, slices, height);
        mandelbrot_counts(width, height, max_iter, first, last, counts);
        values = (int)((last - first) * width);
    }
    free(counts);
}

int main(int argc, char **argv) {
    int rank, processes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    uint32_t width, height;
    size_of(argc, argv, "600x600", &width, &height);
    uint32_t slices = (uint32_t)number(argc, argv, "--slices", "64"), max_iter = (uint32_t)number(argc, argv, "--max-iter", "17500");
    if (slices > height)
        slices = height;
    uint32_t *picture = rank == 0 ? malloc((size_t)width * height * sizeof *picture) : NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (rank == 0) {
        manage(width, height, slices, processes - 1, number(argc, argv, "--patient", "0"), picture);
        printf("%.4f s\n", MPI_Wtime() - start);
        save(option(argc, argv, "--counts", NULL), picture, (size_t)width * height * sizeof *picture);
    } else {
        work(width, height, slices, max_iter);
    }
    free(picture);
    MPI_Finalize();
    return 0;
}
