/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A log-linear histogram.
 *
 * Theory of operation
 *
 *   A duration's highest five bits choose its bucket: the position of the first gives the power of two, the four behind
 *   it one of 16 buckets of equal width. Durations below 32 ns have a bucket each. The index follows by a shift and an
 *   addition, since bucket 16 of one power of two is bucket 0 of the next.
 *
 *   There is one writer, so a plain load and store is enough to add. A reader that looks meanwhile may find a count and
 *   not yet the maximum that belongs to it; counts only grow, so what it summed up once is there the second time.
 */
#include "histogram.h"

#define HISTOGRAM_SUB_BITS  4u
#define HISTOGRAM_SUB_COUNT (1u << HISTOGRAM_SUB_BITS)

/* How many low bits the buckets of this power of two do not tell apart. */
static unsigned int histogram_shift(uint64_t duration_ns)
{
	return 63u - HISTOGRAM_SUB_BITS - (unsigned int)__builtin_clzll(duration_ns | HISTOGRAM_SUB_COUNT);
}

static unsigned int histogram_index(uint64_t duration_ns)
{
	unsigned int shift = histogram_shift(duration_ns);
	uint64_t index = (duration_ns >> shift) + (uint64_t)shift * HISTOGRAM_SUB_COUNT;

	return index < HISTOGRAM_BUCKETS ? (unsigned int)index : HISTOGRAM_BUCKETS;
}

/* The longest duration that belongs to this bucket. */
static uint64_t histogram_upper_ns(unsigned int index)
{
	unsigned int shift = index < HISTOGRAM_SUB_COUNT ? 0 : index / HISTOGRAM_SUB_COUNT - 1;
	uint64_t lower = (uint64_t)(index - shift * HISTOGRAM_SUB_COUNT) << shift;

	return index < HISTOGRAM_BUCKETS ? lower + (1ull << shift) - 1 : UINT64_MAX;
}

static uint64_t histogram_load(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

static void histogram_store(uint64_t *number, uint64_t value)
{
	__atomic_store_n(number, value, __ATOMIC_RELAXED);
}

void histogram_add(struct histogram *histogram, uint64_t duration_ns, uint64_t times)
{
	uint64_t *count = &histogram->counts[histogram_index(duration_ns)];

	if (times == 0)
		return;
	if (duration_ns > histogram->max_ns)
		histogram_store(&histogram->max_ns, duration_ns);
	histogram_store(count, *count + times);
}

uint64_t histogram_count(const struct histogram *histogram)
{
	uint64_t count = 0;

	for (unsigned int i = 0; i <= HISTOGRAM_BUCKETS; i++)
		count += histogram_load(&histogram->counts[i]);
	return count;
}

uint64_t histogram_max_ns(const struct histogram *histogram)
{
	return histogram_load(&histogram->max_ns);
}

/* Which of `count` durations in order it is, from 1 on. */
static uint64_t histogram_rank(uint64_t count, double quantile)
{
	double exact = quantile * (double)count;

	if (!(exact > 1))
		return 1;
	if (quantile >= 1)
		return count;
	uint64_t rank = (uint64_t)exact;
	return (double)rank < exact ? rank + 1 : rank;
}

uint64_t histogram_quantile_ns(const struct histogram *histogram, double quantile)
{
	uint64_t count = histogram_count(histogram);
	uint64_t rank = histogram_rank(count, quantile);
	uint64_t max_ns = histogram_max_ns(histogram);
	uint64_t below = 0;

	if (count == 0)
		return 0;
	for (unsigned int i = 0; i <= HISTOGRAM_BUCKETS; i++) {
		below += histogram_load(&histogram->counts[i]);
		if (below >= rank)
			return histogram_upper_ns(i) < max_ns ? histogram_upper_ns(i) : max_ns;
	}
	return max_ns;
}
