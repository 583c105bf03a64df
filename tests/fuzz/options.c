/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command line, and the lines of rule sets: words are what is between zero bytes. Whatever is accepted is in bounds,
 * and whatever is not has a message of one line.
 */
#include <string.h>

#include "options.h"
#include "replay.h"
#include "rules.h"

#define WORDS_MAX 64
#define BYTES_MAX 4096

static void options_check_numbers(const struct options *options)
{
	const struct nq_config *config = &options->config;

	PROMISE(options->last_queue >= config->queue);
	PROMISE(options_queue_count(options) >= 1 && options_queue_count(options) <= 65536);
	PROMISE(config->copy_bytes <= NQ_COPY_FULL);
	PROMISE(config->burst >= 1 && config->burst <= NQ_BURST_MAX);
	PROMISE(config->spin_us <= NQ_SPIN_US_MAX);
	PROMISE(config->rcvbuf_bytes <= INT32_MAX / 2);
	PROMISE(!(config->flags & ~(uint32_t)(NQ_F_GSO | NQ_F_FAIL_OPEN)));
	PROMISE(options->delay_us <= OPTIONS_DELAY_US_MAX && options->interval_s <= 86400);
}

static void options_check_words(const struct options *options)
{
	PROMISE(options->copy);
	PROMISE(options->sandbox <= OPTIONS_SANDBOX_KILL);
	PROMISE(!options->json_file || (options->json && *options->json_file));
	PROMISE(!options->user || *options->user);
	PROMISE(options->cpu_count <= OPTIONS_CPUS_MAX);
	for (unsigned int i = 0; i < options->cpu_count; i++)
		PROMISE(options_cpu(options, i) >= 0);
	PROMISE(options->sched.inherit || rt_policy_name(options->sched.policy));
	PROMISE(options->sched.priority >= 0 && options->sched.priority <= 99);
}

static void options_check_message(const char *error)
{
	PROMISE(*error);
	PROMISE(memchr(error, '\0', OPTIONS_ERROR_BYTES));
}

static void options_try(char text[], size_t bytes)
{
	char *argv[WORDS_MAX + 2] = { (char[]){ "nfq-noop" } };
	char error[OPTIONS_ERROR_BYTES] = "";
	struct options options;
	int argc = 1;

	for (size_t at = 0; at < bytes && argc <= WORDS_MAX; at += strlen(text + at) + 1)
		argv[argc++] = text + at;
	enum options_result result = options_parse(argc, argv, &options, error);
	if (result == OPTIONS_BAD)
		options_check_message(error);
	if (result != OPTIONS_RUN)
		return;
	options_check_numbers(&options);
	options_check_words(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char text[BYTES_MAX + 1];
	struct rules_queue queue;

	if (bytes > BYTES_MAX)
		bytes = BYTES_MAX;
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (rules_parse(text, &queue))
		PROMISE(queue.first <= queue.last);
	options_try(text, bytes);
	return 0;
}

REPLAY("tests/fuzz/corpus/options")
