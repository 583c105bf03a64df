/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Durations, counted by size in fixed memory: one thread adds, any other may read meanwhile. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

/* Each power of two has 16 buckets, up to 2^36 ns, 68.7 s; one more takes what is longer. */
#define HISTOGRAM_BUCKETS 528u

/* All zero is empty. */
struct histogram {
	uint64_t max_ns;
	uint64_t counts[HISTOGRAM_BUCKETS + 1];
};

/* Counts a duration `times` times. For the one thread that writes; no loop, no lock, no allocation. */
void histogram_add(struct histogram *histogram, uint64_t duration_ns, uint64_t times);

/* The number of durations. */
uint64_t histogram_count(const struct histogram *histogram);

/* The longest duration, exactly; 0 if there is none. */
uint64_t histogram_max_ns(const struct histogram *histogram);

/*
 * The duration that the share `quantile` (0 to 1) of all does not exceed: at most one sixteenth above the true one, and
 * never above the longest. 0 if there is none.
 */
uint64_t histogram_quantile_ns(const struct histogram *histogram, double quantile);

#endif
