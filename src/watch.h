/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A look at the queues once a second: what goes wrong is said while it does. */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "worker.h"

#define WATCH_INTERVAL_NS 1000000000

struct watch_queue {
	bool seen;
	uint32_t dropped; /* as the kernel counts */
	uint32_t user_dropped;
	uint32_t told_dropped; /* the same when it was last told */
	uint32_t told_user_dropped;
	int64_t told_ns; /* 0 = no overload */
	uint64_t verdicts;
	uint64_t wait_ns; /* for the CPU */
	bool cpu_told;
};

struct watch {
	struct watch_queue *queues;
	unsigned int count;
	unsigned int next; /* queue to be looked at */
	bool is_stuck;	   /* packets wait and none was answered since the last look */
};

/* 0 or -ENOMEM. The caller calls watch_free(). */
int watch_init(struct watch *watch, unsigned int count);
void watch_free(struct watch *watch);

/* Looks. 0, or a negative errno that has been explained: a queue is no longer ours. */
int watch_look(struct watch *watch, const struct worker workers[]);

#endif
