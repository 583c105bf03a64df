/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Durations are counted in the right bucket, and quantiles are as near to the true ones as promised. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "histogram.h"

#define LIMIT_NS (1ull << 36)

static struct histogram histogram;

static int setup(void **state)
{
	memset(&histogram, 0, sizeof(histogram));
	return 0;
}

static uint64_t quantile(double share)
{
	return histogram_quantile_ns(&histogram, share);
}

/* What the histogram makes of one duration, when a longer one does not bound it. */
static uint64_t edge(uint64_t duration_ns)
{
	setup(NULL);
	histogram_add(&histogram, duration_ns, 1);
	histogram_add(&histogram, UINT64_MAX, 1);
	return quantile(0.5);
}

static void empty_is_zero(void **state)
{
	assert_int_equal(histogram_count(&histogram), 0);
	assert_int_equal(histogram_max_ns(&histogram), 0);
	assert_int_equal(quantile(0), 0);
	assert_int_equal(quantile(0.5), 0);
	assert_int_equal(quantile(1), 0);
}

static void short_durations_are_exact(void **state)
{
	for (uint64_t ns = 0; ns < 32; ns++)
		assert_int_equal(edge(ns), ns);
}

/* From 16 ns on: the buckets of a power of two, one behind the other without a gap. */
static void every_bucket_has_its_edges(void **state)
{
	uint64_t lower = 16;

	for (unsigned int power = 4; power < 36; power++) {
		uint64_t width = 1ull << (power - 4);
		for (unsigned int i = 0; i < 16; i++) {
			uint64_t upper = lower + width - 1;
			assert_int_equal(edge(lower), upper);
			assert_int_equal(edge(upper), upper);
			assert_true((width - 1) * 16 <= lower); /* the error is at most one sixteenth */
			lower += width;
		}
	}
	assert_int_equal(lower, LIMIT_NS);
}

static void longest_of_all_are_in_one_bucket(void **state)
{
	assert_int_equal(edge(LIMIT_NS - 1), LIMIT_NS - 1);
	assert_int_equal(edge(LIMIT_NS), UINT64_MAX);
	setup(NULL);
	histogram_add(&histogram, LIMIT_NS, 1);
	histogram_add(&histogram, LIMIT_NS * 3, 1);
	assert_int_equal(quantile(0.1), LIMIT_NS * 3);
	assert_int_equal(histogram_max_ns(&histogram), LIMIT_NS * 3);
	assert_int_equal(histogram_count(&histogram), 2);
}

static void maximum_is_exact_and_bounds_quantiles(void **state)
{
	histogram_add(&histogram, 1001, 1);
	histogram_add(&histogram, 1000, 1);
	assert_int_equal(histogram_max_ns(&histogram), 1001);
	assert_int_equal(quantile(0), 1001);
	assert_int_equal(quantile(0.5), 1001);
	assert_int_equal(quantile(1), 1001);
}

static void times_count(void **state)
{
	histogram_add(&histogram, 10, 98);
	histogram_add(&histogram, 20, 1);
	histogram_add(&histogram, 30, 1);
	assert_int_equal(histogram_count(&histogram), 100);
	assert_int_equal(quantile(0), 10);
	assert_int_equal(quantile(0.98), 10);
	assert_int_equal(quantile(0.985), 20);
	assert_int_equal(quantile(0.99), 20);
	assert_int_equal(quantile(0.999), 30);
	assert_int_equal(quantile(1), 30);
}

static void no_times_change_nothing(void **state)
{
	histogram_add(&histogram, 10, 1);
	histogram_add(&histogram, 1000, 0);
	assert_int_equal(histogram_count(&histogram), 1);
	assert_int_equal(histogram_max_ns(&histogram), 10);
}

static void large_counts_keep_their_order(void **state)
{
	histogram_add(&histogram, 10, 1ull << 62);
	histogram_add(&histogram, 20, 1ull << 62);
	assert_int_equal(quantile(0.25), 10);
	assert_int_equal(quantile(0.75), 20);
	assert_int_equal(quantile(1), 20);
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left;
	uint64_t b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/* Durations of all sizes, the same in every run. */
static void fill(uint64_t durations[], size_t count)
{
	uint64_t random = 1;

	for (size_t i = 0; i < count; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		durations[i] = (random >> 28) >> (random >> 20) % 36;
		histogram_add(&histogram, durations[i], 1);
	}
	qsort(durations, count, sizeof(durations[0]), compare);
}

static void quantiles_are_near_those_of_a_sorted_array(void **state)
{
	static uint64_t durations[10000];
	size_t count = sizeof(durations) / sizeof(durations[0]);

	fill(durations, count);
	assert_int_equal(histogram_count(&histogram), count);
	assert_int_equal(histogram_max_ns(&histogram), durations[count - 1]);
	for (size_t rank = 1; rank <= count; rank++) {
		uint64_t exact = durations[rank - 1];
		uint64_t got = quantile(((double)rank - 0.5) / (double)count);
		assert_in_range(got, exact, exact + exact / 16);
	}
	assert_int_equal(quantile(1), durations[count - 1]);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(empty_is_zero),
		TEST(short_durations_are_exact),
		TEST(every_bucket_has_its_edges),
		TEST(longest_of_all_are_in_one_bucket),
		TEST(maximum_is_exact_and_bounds_quantiles),
		TEST(times_count),
		TEST(no_times_change_nothing),
		TEST(large_counts_keep_their_order),
		TEST(quantiles_are_near_those_of_a_sorted_array),
	};
	return cmocka_run_group_tests_name("histogram", tests, NULL, NULL);
}
