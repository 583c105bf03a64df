/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The JSON that others read: every key, the right numbers, and null for what is not known. */
#include "unit.h"

#include <errno.h>
#include <jansson.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "stats.h"

static const char *const counter_keys[] = {
	"packets",
	"bytes",
	"gso_packets",
	"truncated_packets",
	"max_packet_bytes",
	"receive_calls",
	"spin_calls",
	"spin_receives",
	"send_calls",
	"verdicts",
	"overruns",
	"lost_ids",
	"verdict_errors",
	"flushed",
	"malformed",
	"kernel_dropped",
	"kernel_user_dropped",
	"user_s",
	"system_s",
	"minor_faults",
	"voluntary_switches",
	"involuntary_switches",
	"latency_us",
	"ledger",
};
#define COUNTER_KEYS (sizeof(counter_keys) / sizeof(counter_keys[0]))

static struct options options;
static struct stats stats;

static int setup(void **state)
{
	char *argv[] = { (char[]){ "nfq-noop" }, (char[]){ "--queue=4:5" }, (char[]){ "--cpu=1" }, NULL };
	char error[OPTIONS_ERROR_BYTES];

	assert_int_equal(options_parse(3, argv, &options, error), OPTIONS_RUN);
	assert_int_equal(stats_init(&stats, &options), 0);
	stats.uptime_s = 12.5;
	stats.sched_known = true;
	stats.sched = (struct rt_policy){ .policy = SCHED_RR, .priority = 99 };
	for (unsigned int i = 0; i < 2; i++)
		stats.queues[i] = (struct stats_queue){
			.queue = (uint16_t)(4 + i),
			.cpu = 1,
			.counters = { .packets = 10 + i,
				      .bytes = 1ull << 40,
				      .gso_packets = 3,
				      .truncated_packets = 2,
				      .max_packet_bytes = 1500 + i,
				      .receive_calls = 5,
				      .spin_calls = 50,
				      .spin_receives = 3,
				      .send_calls = 4,
				      .overruns = 1,
				      .lost_ids = 7,
				      .verdict_errors = 6,
				      .flushed = 8 },
			.maxlen = 1024,
			.rcvbuf_bytes = 851968,
			.kernel_known = true,
			.kernel_dropped = UINT32_MAX,
			.kernel_user_dropped = 1,
			.ledger_known = true,
			.ledger = { .queued = 15, .answered = 3, .flushed = 8, .refused = 6, .residue = -2 },
			.usage = { true, 1.5, 0.25, 100, 200, 300 },
			.latency_known = true,
			.receive_to_verdict = { 10.5, 20.25, 30, 40 },
			.verdict_call = { 1, 2, 3, 4 },
		};
	return 0;
}

static int teardown(void **state)
{
	stats_free(&stats);
	return 0;
}

static json_t *write_and_load(void)
{
	char *text = NULL;
	size_t size = 0;
	json_error_t error;
	FILE *file = open_memstream(&text, &size);

	assert_non_null(file);
	assert_int_equal(stats_write_json(&stats, file), 0);
	fclose(file);
	assert_int_equal(text[size - 1], '\n');
	assert_ptr_equal(strchr(text, '\n'), text + size - 1); /* one line */
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	free(text);
	assert_non_null(root);
	return root;
}

static json_int_t integer(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

static void object_has_the_documented_keys_in_order(void **state)
{
	static const char *const keys[] = { "schema", "version", "uptime_s",	  "restarts", "gso",	"copy",
					    "sched",  "spin_us", "memory_locked", "lost",     "queues", "total" };
	json_t *root = write_and_load();
	size_t at = 0;

	for (void *i = json_object_iter(root); i; i = json_object_iter_next(root, i))
		assert_string_equal(json_object_iter_key(i), keys[at++]);
	assert_int_equal(at, sizeof(keys) / sizeof(keys[0]));
	assert_int_equal(integer(root, "schema"), 1);
	assert_true(json_real_value(json_object_get(root, "uptime_s")) == 12.5);
	assert_true(json_is_true(json_object_get(root, "gso")));
	assert_string_equal(json_string_value(json_object_get(root, "copy")), "full");
	assert_string_equal(json_string_value(json_object_get(json_object_get(root, "sched"), "policy")), "rr");
	assert_int_equal(integer(json_object_get(root, "sched"), "priority"), 99);
	json_decref(root);
}

static void queues_and_total_have_every_counter(void **state)
{
	json_t *root = write_and_load();
	const json_t *queues = json_object_get(root, "queues");
	const json_t *total = json_object_get(root, "total");

	assert_int_equal(json_array_size(queues), 2);
	for (size_t i = 0; i < COUNTER_KEYS; i++) {
		assert_non_null(json_object_get(json_array_get(queues, 0), counter_keys[i]));
		assert_non_null(json_object_get(total, counter_keys[i]));
	}
	assert_int_equal(json_object_size(total), COUNTER_KEYS);
	assert_int_equal(json_object_size(json_array_get(queues, 0)), COUNTER_KEYS + 4);
	assert_int_equal(integer(json_array_get(queues, 1), "maxlen"), 1024);
	assert_int_equal(integer(json_array_get(queues, 1), "rcvbuf_bytes"), 851968);
	assert_int_equal(integer(json_array_get(queues, 1), "queue"), 5);
	assert_int_equal(integer(json_array_get(queues, 1), "cpu"), 1);
	json_decref(root);
}

static void total_is_the_sum_and_the_maximum(void **state)
{
	json_t *root = write_and_load();
	const json_t *total = json_object_get(root, "total");

	assert_int_equal(integer(total, "packets"), 21);
	assert_int_equal(integer(total, "bytes"), 2ll << 40);
	assert_int_equal(integer(total, "max_packet_bytes"), 1501);
	assert_int_equal(integer(total, "kernel_dropped"), 2ll * UINT32_MAX); /* beyond 32 bits */
	assert_true(json_real_value(json_object_get(total, "user_s")) == 3.0);
	assert_int_equal(integer(total, "voluntary_switches"), 400);
	assert_int_equal(integer(root, "lost"), 2ll * UINT32_MAX + 2 + 16);
	assert_int_equal(stats_lost(&stats), 2ll * UINT32_MAX + 2 + 16);
	json_decref(root);
}

static void ledger_is_told_by_queue_and_summed(void **state)
{
	json_t *root = write_and_load();
	const json_t *ledger = json_object_get(json_object_get(root, "total"), "ledger");

	assert_int_equal(integer(ledger, "queued"), 30);
	assert_int_equal(integer(ledger, "answered"), 6);
	assert_int_equal(integer(ledger, "residue"), -4);
	ledger = json_object_get(json_array_get(json_object_get(root, "queues"), 0), "ledger");
	assert_int_equal(integer(ledger, "flushed"), 8);
	assert_int_equal(integer(ledger, "waiting"), 0);
	json_decref(root);
	stats.queues[1].ledger_known = false;
	root = write_and_load();
	assert_true(json_is_null(json_object_get(json_object_get(root, "total"), "ledger")));
	json_decref(root);
}

static void counters_survive_being_written_and_read(void **state)
{
	struct nq_counters counters;
	json_t *object = json_object();

	counters_put_json(object, &stats.queues[1].counters, true);
	counters_get_json(object, &counters);
	assert_memory_equal(&counters, &stats.queues[1].counters, sizeof(counters));
	json_object_del(object, "packets");
	counters_get_json(object, &counters);
	assert_int_equal(counters.packets, 0);
	assert_int_equal(counters.flushed, 8);
	json_decref(object);
}

static void latency_is_told_by_queue_and_not_summed(void **state)
{
	json_t *root = write_and_load();
	const json_t *latency = json_object_get(json_array_get(json_object_get(root, "queues"), 0), "latency_us");
	const json_t *stay = json_object_get(latency, "receive_to_verdict");

	assert_true(json_real_value(json_object_get(stay, "p50")) == 10.5);
	assert_true(json_real_value(json_object_get(stay, "p99")) == 20.25);
	assert_true(json_real_value(json_object_get(stay, "p999")) == 30);
	assert_true(json_real_value(json_object_get(json_object_get(latency, "verdict_call"), "max")) == 4);
	assert_true(json_is_null(json_object_get(json_object_get(root, "total"), "latency_us")));
	json_decref(root);
}

static void unknown_numbers_are_null(void **state)
{
	stats.queues[0].latency_known = false;
	options.config.copy_bytes = NQ_COPY_META;
	options.copy = "meta";
	options.config.flags = 0;
	stats.sched_known = false;
	stats.queues[0].kernel_known = false;
	stats.queues[0].usage.known = false;
	stats.queues[0].cpu = RT_CPU_ANY;

	json_t *root = write_and_load();
	const json_t *queue = json_array_get(json_object_get(root, "queues"), 0);
	const json_t *other = json_array_get(json_object_get(root, "queues"), 1);
	static const char *const nulls[] = {
		"cpu",	  "bytes",    "max_packet_bytes", "kernel_dropped",	"kernel_user_dropped",
		"user_s", "system_s", "minor_faults",	  "voluntary_switches", "latency_us"
	};
	for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
		assert_true(json_is_null(json_object_get(queue, nulls[i])));
	assert_true(json_is_null(json_object_get(root, "sched")));
	assert_true(json_is_null(json_object_get(root, "lost")));
	assert_true(json_is_null(json_object_get(json_object_get(root, "total"), "kernel_dropped")));
	assert_true(json_is_false(json_object_get(root, "gso")));
	assert_int_equal(integer(other, "kernel_user_dropped"), 1);
	json_decref(root);
}

static void full_disk_is_an_error(void **state)
{
	FILE *full = fopen("/dev/full", "we");

	assert_non_null(full);
	assert_int_equal(stats_write_json(&stats, full), -ENOSPC);
	fclose(full);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(object_has_the_documented_keys_in_order),
		TEST(queues_and_total_have_every_counter),
		TEST(total_is_the_sum_and_the_maximum),
		TEST(ledger_is_told_by_queue_and_summed),
		TEST(counters_survive_being_written_and_read),
		TEST(latency_is_told_by_queue_and_not_summed),
		TEST(unknown_numbers_are_null),
		TEST(full_disk_is_an_error),
	};
	return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
