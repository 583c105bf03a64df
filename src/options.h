/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line, as a struct. Reading it has no side effects. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nq.h"
#include "rt.h"

#define OPTIONS_CPUS_MAX     256
#define OPTIONS_ERROR_BYTES  256
#define OPTIONS_DELAY_US_MAX 10000000

/* What threads do about system calls that they have no need of. */
enum options_sandbox {
	OPTIONS_SANDBOX_ON,  /* refuse them */
	OPTIONS_SANDBOX_OFF, /* nothing */
	OPTIONS_SANDBOX_KILL /* end the process */
};

struct options {
	struct nq_config config; /* of the first queue; the others differ in the number only */
	uint16_t last_queue;
	const char *copy; /* as it was asked for */
	struct rt_policy sched;
	int cpus[OPTIONS_CPUS_MAX];
	unsigned int cpu_count; /* 0 = not pinned */
	uint32_t delay_us;
	const char *user; /* NULL = stay who we are */
	enum options_sandbox sandbox;
	bool adopt;
	bool latency;	     /* measure it */
	uint32_t interval_s; /* 0 = no rates */
	bool json;
	const char *json_file; /* NULL = stdout */
	bool trace;
	bool check;
	bool verbose;
};

enum options_result { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION, OPTIONS_BAD };

/* Strings in *options point into argv. With OPTIONS_BAD, `error` says what is wrong, why, and what would be right. */
enum options_result options_parse(int argc, char *argv[], struct options *options, char error[OPTIONS_ERROR_BYTES]);

/* The number of queues. */
unsigned int options_queue_count(const struct options *options);

/* The CPU of the i-th worker, RT_CPU_ANY without --cpu; a list shorter than the queues begins anew. */
int options_cpu(const struct options *options, unsigned int worker);

extern const char options_help[];

#endif
