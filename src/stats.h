/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What happened: collected from workers, told as text and as JSON. */
#ifndef STATS_H
#define STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "nq.h"
#include "options.h"
#include "rt.h"
#include "worker.h"

/* What a thread cost. */
struct stats_usage {
	bool known;
	double user_s;
	double system_s;
	uint64_t minor_faults;
	uint64_t voluntary_switches;
	uint64_t involuntary_switches;
};

struct stats_latency {
	double p50_us;
	double p99_us;
	double p999_us;
	double max_us;
};

struct stats_queue {
	uint16_t queue;
	int cpu; /* RT_CPU_ANY = not pinned */
	struct nq_counters counters;
	uint32_t maxlen;
	uint32_t rcvbuf_bytes; /* as the kernel counts */
	bool kernel_known;
	uint64_t kernel_dropped;
	uint64_t kernel_user_dropped;
	bool ledger_known;
	struct nq_ledger ledger;
	struct stats_usage usage;
	bool latency_known;
	struct stats_latency receive_to_verdict;
	struct stats_latency verdict_call;
};

struct stats {
	double uptime_s;
	const struct options *options;
	bool sched_known;
	struct rt_policy sched; /* in force, as read from the first worker's thread */
	bool memory_locked;
	uint64_t restarts; /* of the process, with the queues kept */
	unsigned int count;
	struct stats_queue *queues;
};

/* Allocates the snapshot's queues; 0 or -ENOMEM. The caller calls stats_free(). */
int stats_init(struct stats *stats, const struct options *options);
void stats_free(struct stats *stats);

/* Copies the numbers of a snapshot of the same queues. */
void stats_copy(struct stats *to, const struct stats *from);

/* Takes a snapshot of `stats->count` workers, running or ended, whose queues are still open. */
void stats_collect(struct stats *stats, const struct worker workers[], double uptime_s);

/* Packets that did not arrive because of the queue: dropped by the kernel when full or when the socket buffer was, or
 * while they waited for a verdict. */
uint64_t stats_lost(const struct stats *stats);

/* One JSON object and a newline, flushed. 0 or a negative errno. */
int stats_write_json(const struct stats *stats, FILE *file);

#define STATS_SCHED_BYTES 32

/* The policy in force as --sched takes it, "rr:99"; "unknown" if it could not be read. */
const char *stats_describe_sched(const struct stats *stats, char text[STATS_SCHED_BYTES]);

/* The line of --interval: what changed since `before`. */
void stats_log_rates(const struct stats *stats, const struct stats *before);

/* The last lines: two a queue, what happened and the account, and the policy that was in force. */
void stats_log_summary(const struct stats *stats);

#endif
