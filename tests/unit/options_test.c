/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line: what each option sets, and that nothing else is accepted. */
#include "unit.h"

#include <sched.h>
#include <string.h>

#include "options.h"

static struct options options;
static char error[OPTIONS_ERROR_BYTES];

#define PARSE(...) parse((char *[]){ (char[]){ "nfq-noop" }, __VA_ARGS__, NULL })

static enum options_result parse(char *argv[])
{
	int argc = 0;

	while (argv[argc])
		argc++;
	error[0] = '\0';
	return options_parse(argc, argv, &options, error);
}

static void defaults_are_the_documented_ones(void **state)
{
	assert_int_equal(parse((char *[]){ (char[]){ "nfq-noop" }, NULL }), OPTIONS_RUN);
	assert_int_equal(options.config.queue, 0);
	assert_int_equal(options.last_queue, 0);
	assert_int_equal(options_queue_count(&options), 1);
	assert_int_equal(options.config.flags, NQ_F_GSO);
	assert_int_equal(options.config.copy_bytes, NQ_COPY_FULL);
	assert_string_equal(options.copy, "full");
	assert_int_equal(options.config.maxlen, NQ_MAXLEN_BY_SIZE);
	assert_int_equal(options.config.spin_us, 0);
	assert_false(options.latency);
	assert_int_equal(options.config.rcvbuf_bytes, NQ_RCVBUF_BY_SIZE);
	assert_int_equal(options.config.burst, 32);
	assert_true(options.sched.inherit);
	assert_int_equal(options_cpu(&options, 0), RT_CPU_ANY);
	assert_int_equal(options.delay_us, 0);
	assert_int_equal(options.interval_s, 0);
	assert_false(options.json || options.trace || options.check || options.verbose);
}

static void queues_are_a_number_or_a_range(void **state)
{
	assert_int_equal(PARSE("-q", "7"), OPTIONS_RUN);
	assert_int_equal(options.config.queue, 7);
	assert_int_equal(options.last_queue, 7);
	assert_int_equal(PARSE("--queue=4:6"), OPTIONS_RUN);
	assert_int_equal(options.config.queue, 4);
	assert_int_equal(options_queue_count(&options), 3);
	assert_int_equal(PARSE("--queue", "0:65535"), OPTIONS_RUN);
	assert_int_equal(options_queue_count(&options), 65536);
	assert_int_equal(PARSE("--queue", "65535"), OPTIONS_RUN);
}

static void bad_queues_are_refused_with_their_reason(void **state)
{
	static const char *const bad[] = {
		"", "x", "-1", "+1", " 1", "1x", "1:", ":1", "1:2:3", "1:x", "99999999999999999999"
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(PARSE("-q", (char *)(uintptr_t)bad[i]), OPTIONS_BAD);
		assert_non_null(strstr(error, "--queue"));
	}
	assert_int_equal(PARSE("-q", "65536"), OPTIONS_BAD);
	assert_non_null(strstr(error, "65535"));
	assert_int_equal(PARSE("-q", "65530:65540"), OPTIONS_BAD);
	assert_non_null(strstr(error, "65535"));
	assert_int_equal(PARSE("-q", "6:5"), OPTIONS_BAD);
	assert_non_null(strstr(error, "lower"));
}

static void copy_is_a_word_or_bytes(void **state)
{
	assert_int_equal(PARSE("--copy", "full"), OPTIONS_RUN);
	assert_int_equal(options.config.copy_bytes, NQ_COPY_FULL);
	assert_int_equal(PARSE("--copy", "headers"), OPTIONS_RUN);
	assert_int_equal(options.config.copy_bytes, 128);
	assert_int_equal(PARSE("--copy", "meta"), OPTIONS_RUN);
	assert_int_equal(options.config.copy_bytes, NQ_COPY_META);
	assert_int_equal(PARSE("--copy", "1500"), OPTIONS_RUN);
	assert_int_equal(options.config.copy_bytes, 1500);
	assert_string_equal(options.copy, "1500");
	assert_int_equal(PARSE("--copy", "0"), OPTIONS_BAD);
	assert_int_equal(PARSE("--copy", "65532"), OPTIONS_BAD);
	assert_int_equal(PARSE("--copy", "half"), OPTIONS_BAD);
	assert_non_null(strstr(error, "full, headers, meta"));
}

static void numbers_have_bounds(void **state)
{
	assert_int_equal(PARSE("--maxlen", "1", "--rcvbuf", "4096", "--burst", "1024", "--delay", "250", "--interval",
			       "2"),
			 OPTIONS_RUN);
	assert_int_equal(options.config.maxlen, 1);
	assert_int_equal(options.config.rcvbuf_bytes, 4096);
	assert_int_equal(options.config.burst, 1024);
	assert_int_equal(options.delay_us, 250);
	assert_int_equal(options.interval_s, 2);
	assert_int_equal(PARSE("--maxlen", "0"), OPTIONS_BAD);
	assert_int_equal(PARSE("--maxlen", "4294967296"), OPTIONS_BAD);
	assert_int_equal(PARSE("--rcvbuf", "2147483648"), OPTIONS_BAD);
	assert_int_equal(PARSE("--burst", "0"), OPTIONS_BAD);
	assert_int_equal(PARSE("--burst", "1025"), OPTIONS_BAD);
	assert_non_null(strstr(error, "1024"));
	assert_int_equal(PARSE("--delay", "-1"), OPTIONS_BAD);
	assert_int_equal(PARSE("--delay", "1.5"), OPTIONS_BAD);
	assert_int_equal(PARSE("--interval", "0"), OPTIONS_BAD);
}

static void scheduling_is_a_policy_with_its_priority(void **state)
{
	assert_int_equal(PARSE("--sched", "rr:99"), OPTIONS_RUN);
	assert_int_equal(options.sched.policy, SCHED_RR);
	assert_int_equal(options.sched.priority, 99);
	assert_false(options.sched.inherit);
	assert_int_equal(PARSE("--sched", "fifo:1"), OPTIONS_RUN);
	assert_int_equal(options.sched.policy, SCHED_FIFO);
	assert_int_equal(PARSE("--sched", "other"), OPTIONS_RUN);
	assert_int_equal(options.sched.policy, SCHED_OTHER);
	assert_false(options.sched.inherit);
	assert_int_equal(PARSE("--sched", "inherit"), OPTIONS_RUN);
	assert_true(options.sched.inherit);
	assert_int_equal(PARSE("--sched", "rr"), OPTIONS_BAD);
	assert_int_equal(PARSE("--sched", "rr:0"), OPTIONS_BAD);
	assert_int_equal(PARSE("--sched", "rr:100"), OPTIONS_BAD);
	assert_int_equal(PARSE("--sched", "fifo:"), OPTIONS_BAD);
	assert_int_equal(PARSE("--sched", "deadline"), OPTIONS_BAD);
	assert_non_null(strstr(error, "rr:PRIO"));
}

static void cpus_are_a_list_that_begins_anew(void **state)
{
	assert_int_equal(PARSE("--cpu", "3,0-1"), OPTIONS_RUN);
	assert_int_equal(options_cpu(&options, 0), 3);
	assert_int_equal(options_cpu(&options, 1), 0);
	assert_int_equal(options_cpu(&options, 2), 1);
	assert_int_equal(options_cpu(&options, 3), 3);
	assert_int_equal(PARSE("--cpu", ""), OPTIONS_BAD);
	assert_int_equal(PARSE("--cpu", "1,"), OPTIONS_BAD);
	assert_int_equal(PARSE("--cpu", "2-1"), OPTIONS_BAD);
	assert_int_equal(PARSE("--cpu", "0;1"), OPTIONS_BAD);
	assert_int_equal(PARSE("--cpu", "0-1023"), OPTIONS_BAD);
	assert_int_equal(PARSE("--cpu", "1024"), OPTIONS_BAD);
}

static void segments_get_a_longer_queue(void **state)
{
	assert_int_equal(PARSE("--no-gso"), OPTIONS_RUN);
	assert_int_equal(options.config.maxlen, 65536);
	assert_int_equal(PARSE("--no-gso", "--maxlen=5"), OPTIONS_RUN);
	assert_int_equal(options.config.maxlen, 5);
	assert_int_equal(PARSE("--maxlen=5", "--no-gso"), OPTIONS_RUN);
	assert_int_equal(options.config.maxlen, 5);
	assert_int_equal(PARSE("--rcvbuf=1000000", "--no-gso"), OPTIONS_RUN);
	assert_int_equal(options.config.maxlen, NQ_MAXLEN_BY_SIZE);
}

static void spinning_has_a_bound(void **state)
{
	assert_int_equal(PARSE("--spin", "50", "--latency"), OPTIONS_RUN);
	assert_int_equal(options.config.spin_us, 50);
	assert_true(options.latency);
	assert_int_equal(PARSE("--spin", "1000000"), OPTIONS_RUN);
	assert_int_equal(PARSE("--spin", "1000001"), OPTIONS_BAD);
	assert_non_null(strstr(error, "--spin"));
	assert_int_equal(PARSE("--spin", "-1"), OPTIONS_BAD);
}

static void flags_and_outputs_are_set(void **state)
{
	assert_int_equal(PARSE("--no-gso", "--fail-open", "--json", "--trace", "--check", "-v"), OPTIONS_RUN);
	assert_int_equal(options.config.flags, NQ_F_FAIL_OPEN);
	assert_true(options.json && options.trace && options.check && options.verbose);
	assert_null(options.json_file);
	assert_int_equal(PARSE("--json=out.json"), OPTIONS_RUN);
	assert_string_equal(options.json_file, "out.json");
	assert_int_equal(PARSE("--json="), OPTIONS_BAD);
}

static void safety_is_on_unless_told_otherwise(void **state)
{
	assert_int_equal(PARSE("-v"), OPTIONS_RUN);
	assert_int_equal(options.sandbox, OPTIONS_SANDBOX_ON);
	assert_null(options.user);
	assert_false(options.adopt);
	assert_int_equal(PARSE("--sandbox", "kill", "--user", "nobody", "--adopt"), OPTIONS_RUN);
	assert_int_equal(options.sandbox, OPTIONS_SANDBOX_KILL);
	assert_string_equal(options.user, "nobody");
	assert_true(options.adopt);
	assert_int_equal(PARSE("--sandbox=off"), OPTIONS_RUN);
	assert_int_equal(options.sandbox, OPTIONS_SANDBOX_OFF);
	assert_int_equal(PARSE("--sandbox=no"), OPTIONS_BAD);
	assert_non_null(strstr(error, "on, off or kill"));
	assert_int_equal(PARSE("--user", ""), OPTIONS_BAD);
	assert_int_equal(PARSE("--adopt=3"), OPTIONS_BAD);
}

static void help_and_version_end_the_parsing(void **state)
{
	assert_int_equal(PARSE("--help", "--nonsense"), OPTIONS_HELP);
	assert_int_equal(PARSE("-V"), OPTIONS_VERSION);
	assert_int_equal(PARSE("--version"), OPTIONS_VERSION);
}

static void unknown_words_are_named(void **state)
{
	assert_int_equal(PARSE("--nonsense"), OPTIONS_BAD);
	assert_non_null(strstr(error, "--nonsense"));
	assert_int_equal(PARSE("-x"), OPTIONS_BAD);
	assert_non_null(strstr(error, "-x"));
	assert_int_equal(PARSE("--no-gso=1"), OPTIONS_BAD);
	assert_non_null(strstr(error, "no value"));
	assert_int_equal(PARSE("--maxlen"), OPTIONS_BAD);
	assert_non_null(strstr(error, "needs a value"));
	assert_int_equal(PARSE("3"), OPTIONS_BAD);
	assert_non_null(strstr(error, "3"));
}

static void help_names_every_option(void **state)
{
	static const char *const names[] = { "--queue",	  "--no-gso",	 "--copy",     "--maxlen", "--rcvbuf",
					     "--burst",	  "--fail-open", "--sched",    "--cpu",	   "--delay",
					     "--spin",	  "--latency",	 "--interval", "--json",   "--trace",
					     "--user",	  "--sandbox",	 "--adopt",    "--check",  "--verbose",
					     "--version", "--help" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_non_null(strstr(options_help, names[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_the_documented_ones),
		cmocka_unit_test(queues_are_a_number_or_a_range),
		cmocka_unit_test(bad_queues_are_refused_with_their_reason),
		cmocka_unit_test(copy_is_a_word_or_bytes),
		cmocka_unit_test(numbers_have_bounds),
		cmocka_unit_test(scheduling_is_a_policy_with_its_priority),
		cmocka_unit_test(cpus_are_a_list_that_begins_anew),
		cmocka_unit_test(segments_get_a_longer_queue),
		cmocka_unit_test(spinning_has_a_bound),
		cmocka_unit_test(flags_and_outputs_are_set),
		cmocka_unit_test(safety_is_on_unless_told_otherwise),
		cmocka_unit_test(help_and_version_end_the_parsing),
		cmocka_unit_test(unknown_words_are_named),
		cmocka_unit_test(help_names_every_option),
	};
	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
