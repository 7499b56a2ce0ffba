/* What the twins share: the applications' own kernels, arguments, and the last line that tells the time. */
#ifndef TWIN_H
#define TWIN_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void mandelbrot_counts(uint32_t width, uint32_t height, uint32_t max_iter, uint32_t first, uint32_t last, uint32_t *counts);

typedef struct band band;
band *laplace_band(size_t width, size_t above, size_t rows);
double laplace_relax(band *b, size_t colour, size_t first, size_t last);
double *laplace_row(band *b, size_t colour, size_t row);
void laplace_temperatures(const band *b, size_t row, double *temperatures);

typedef struct povray_lines povray_lines;
povray_lines *povray_state(const char *state, uint32_t width, uint32_t first, uint32_t last);
void povray_news(povray_lines *lines, void (*tell)(uint32_t first, uint32_t last, const uint8_t *pixels));
void povray_forget(povray_lines *lines);
bool povray_rows(const char *picture, uint32_t width, uint32_t height, uint32_t first, uint32_t last, uint8_t *pixels);

uint32_t scheduler_priority(uint32_t producer, uint32_t number);
void scheduler_task(uint32_t producer, uint32_t number, uint8_t *bytes);
bool scheduler_run(const uint8_t *bytes, uint32_t *producer, uint32_t *number);

/* The value after an option, or the default. */
static inline const char *option(int argc, char **argv, const char *name, const char *otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return otherwise;
}

static inline long number(int argc, char **argv, const char *name, const char *otherwise) {
    return strtol(option(argc, argv, name, otherwise), NULL, 10);
}

/* WxH. */
static inline void size_of(int argc, char **argv, const char *otherwise, uint32_t *width, uint32_t *height) {
    if (sscanf(option(argc, argv, "--size", otherwise), "%ux%u", width, height) != 2) {
        fprintf(stderr, "use --size 600x600\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static inline void save(const char *path, const void *bytes, size_t count) {
    FILE *file = path ? fopen(path, "wb") : NULL;
    if (path && (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0)) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* The manager's wait for anybody. `patient`: it sleeps between looks, so that it takes no processor from those who compute;
 * otherwise MPI waits in its own way, which is to poll. */
static inline void wait_for_any(bool patient, MPI_Status *status) {
    if (!patient) {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status);
        return;
    }
    const struct timespec nap = {0, 20000};
    for (int there = 0;;) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, status);
        if (there)
            return;
        nanosleep(&nap, NULL);
    }
}

static inline uint32_t first_row(uint32_t slice, uint32_t slices, uint32_t height) {
    return (uint32_t)((uint64_t)slice * height / slices);
}

#endif
