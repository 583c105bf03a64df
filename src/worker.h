/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A worker: one thread, one queue. */
#ifndef WORKER_H
#define WORKER_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "histogram.h"
#include "nq.h"
#include "options.h"
#include "privilege.h"
#include "processor.h"
#include "rt.h"

/* Sent to the process, where main() waits, when a worker has ended. */
#define WORKER_SIGNAL_ENDED SIGUSR2

/* How long packets stay with us. */
struct worker_latency {
	struct histogram receive_to_verdict; /* of each packet: until its verdict's system call is done */
	struct histogram verdict_call;	     /* of each system call that sends verdicts */
};

struct worker {
	uint16_t number; /* of the queue */
	struct nq_config config;
	int cpu; /* RT_CPU_ANY = not pinned */
	uint32_t delay_us;
	unsigned int burst;
	struct rt_policy sched;
	const struct processor *processor;
	void *context; /* the processor's */
	const struct privilege_filter *filter;
	struct nq_queue *queue;
	struct nq_packet *packets;
	struct worker_latency *latency; /* NULL = not measured */
	void *stack;
	pthread_t thread;
	bool adopted; /* the queue was bound before */
	bool started;
	pid_t tid;	     /* atomic; 0 until the thread runs */
	bool ended;	     /* atomic; the following are set before it */
	int result;	     /* 0 or a negative errno */
	struct rusage usage; /* of the whole thread */
};

/*
 * Tries the policy, and each CPU that workers will have, before anything depends on them. 0, or a negative errno as
 * rt_thread_create() and in *index the worker that could not start.
 */
int worker_try(const struct options *options, unsigned int *index);

/*
 * Binds the worker's queue, or goes on with one that was left to us (NULL = none), and makes everything that it needs. 0
 * or a negative errno, of nq_open(), nq_adopt() or else.
 */
int worker_open(struct worker *worker, const struct options *options, unsigned int index,
		const struct nq_handover *inherited);

/* The processor that these options ask for. */
const struct processor *worker_processor(const struct options *options);

/* System calls that a worker makes beside its processor. */
extern const int worker_calls[];

/* Starts the thread, under this filter: from then on packets are answered. 0 or a negative errno, as
 * rt_thread_create(). */
int worker_start(struct worker *worker, const struct privilege_filter *filter);

/* Asks it to end without losing a packet. */
int worker_stop(struct worker *worker);

/* Asks it to end with nothing in hand, while the queue stays as it is: its result is -ECANCELED then. */
int worker_pause(struct worker *worker);

/* Starts the thread again after that. As worker_start(). */
int worker_resume(struct worker *worker);

/* Waits for its end. The queue stays bound and readable until worker_close(). */
void worker_join(struct worker *worker);

/* Frees all of it; also what worker_open() left half made. */
void worker_close(struct worker *worker);

bool worker_has_ended(const struct worker *worker);

/* The thread's id; 0 before it runs. */
pid_t worker_tid(const struct worker *worker);

#endif
