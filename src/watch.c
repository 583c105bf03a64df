/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The look at the queues.
 *
 * An overload is told at once, and then every ten seconds for as long as it lasts, with the numbers of the kernel. A
 * queue whose line in /proc names another socket, or which has none, was unbound by somebody who shares our socket: to
 * go on would look like service and be none.
 *
 * Of thousands of queues only some are looked at each time, since /proc is read from its beginning for each.
 */
#include "watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

#define WATCH_QUEUES_MAX 64
#define WATCH_REPEAT_NS	 10000000000
#define WATCH_CPU_NS	 30000000 /* less than what real-time throttling takes at once */

int watch_init(struct watch *watch, unsigned int count)
{
	*watch = (struct watch){ .count = count, .queues = calloc(count, sizeof(*watch->queues)) };
	return watch->queues ? 0 : -ENOMEM;
}

void watch_free(struct watch *watch)
{
	free(watch->queues);
	*watch = (struct watch){ 0 };
}

static int watch_tell_loss(const struct worker *worker, int error, const struct nq_status *status)
{
	struct nq_owner owner = { 0 };

	if (error == -ENOENT)
		log_error("queue %u: is bound no more: another process that holds its socket has unbound it",
			  worker->number);
	else if (nq_owner_find(worker->number, &owner) == 0 && owner.pid)
		log_error("queue %u: is not ours any more, but that of %s (pid %d)", worker->number, owner.command,
			  (int)owner.pid);
	else
		log_error("queue %u: is not ours any more, but that of netlink port %u", worker->number,
			  status->portid);
	return -ENODEV;
}

static void watch_tell_overload(struct watch_queue *seen, const struct worker *worker, int64_t now_ns)
{
	uint32_t full = seen->dropped - seen->told_dropped;
	uint32_t overrun = seen->user_dropped - seen->told_user_dropped;
	double seconds = seen->told_ns ? (double)(now_ns - seen->told_ns) / 1e9 : WATCH_INTERVAL_NS / 1e9;

	if (full)
		log_warning(
			"queue %u: overload: %u packets dropped within %.0f s, %u in all, because %u were waiting: "
			"raise --maxlen, let them pass by --fail-open, or spread them over more queues",
			worker->number, full, seconds, seen->dropped, nq_maxlen_granted(worker->queue));
	if (overrun)
		log_warning(
			"queue %u: overload: %u packets dropped within %.0f s, %u in all, because the socket "
			"buffer of %u bytes was full: raise --rcvbuf, use a smaller --copy, or let them pass by "
			"--fail-open",
			worker->number, overrun, seconds, seen->user_dropped, nq_rcvbuf_granted(worker->queue) / 2);
	seen->told_dropped = seen->dropped;
	seen->told_user_dropped = seen->user_dropped;
	seen->told_ns = now_ns;
}

static void watch_overload(struct watch_queue *seen, const struct worker *worker, const struct nq_status *status)
{
	int64_t now_ns = rt_now_ns();
	bool due = !seen->told_ns || now_ns - seen->told_ns >= WATCH_REPEAT_NS;

	if (!seen->seen) { /* what a predecessor lost is told already */
		seen->told_dropped = worker->adopted ? status->dropped : 0;
		seen->told_user_dropped = worker->adopted ? status->user_dropped : 0;
	}
	seen->dropped = status->dropped;
	seen->user_dropped = status->user_dropped;
	if (!due)
		return;
	if (seen->dropped != seen->told_dropped || seen->user_dropped != seen->told_user_dropped) {
		watch_tell_overload(seen, worker, now_ns);
	} else if (seen->told_ns) {
		seen->told_ns = 0;
		log_line("queue %u: the overload has ended", worker->number);
	}
}

/* How long the thread has waited for a CPU that others had; 0 if the kernel does not tell. */
static uint64_t watch_read_wait(pid_t tid)
{
	char path[64];
	uint64_t wait_ns = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)tid);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%*u %" SCNu64, &wait_ns) != 1)
		wait_ns = 0;
	fclose(file);
	return wait_ns;
}

/* A real-time thread waits for a CPU only if the kernel took it away, or another such thread has it. Told once. */
static void watch_cpu(struct watch_queue *seen, const struct worker *worker)
{
	struct rt_policy policy = { 0 };
	pid_t tid = worker_tid(worker);

	if (seen->cpu_told || !tid || rt_policy_read(tid, &policy) < 0 || !rt_policy_is_realtime(&policy))
		return;
	uint64_t wait_ns = watch_read_wait(tid);
	uint64_t waited_ns = seen->seen ? wait_ns - seen->wait_ns : 0;
	seen->wait_ns = wait_ns;
	if (waited_ns < WATCH_CPU_NS)
		return;
	seen->cpu_told = true;
	log_warning("queue %u: its real-time thread was kept from its CPU for %" PRIu64
		    " ms: real-time throttling "
		    "(kernel.sched_rt_runtime_us), or another real-time thread: see --cpu",
		    worker->number, waited_ns / 1000000);
}

static int watch_look_at(struct watch *watch, struct watch_queue *seen, const struct worker *worker)
{
	struct nq_status status = { 0 };
	struct nq_counters counters;
	int error = nq_status_read(worker->queue, &status);

	if (error == -ENOENT || (!error && status.portid != nq_portid(worker->queue)))
		return watch_tell_loss(worker, error, &status);
	watch_cpu(seen, worker);
	if (error)
		return 0; /* /proc cannot be read: nothing can be said */
	watch_overload(seen, worker, &status);
	nq_counters_read(worker->queue, &counters);
	watch->is_stuck |= seen->seen && status.waiting && counters.verdicts == seen->verdicts;
	seen->verdicts = counters.verdicts;
	seen->seen = true;
	return 0;
}

int watch_look(struct watch *watch, const struct worker workers[])
{
	unsigned int count = watch->count < WATCH_QUEUES_MAX ? watch->count : WATCH_QUEUES_MAX;
	int error = 0;

	watch->is_stuck = false;
	for (; count > 0 && !error; count--) {
		error = watch_look_at(watch, &watch->queues[watch->next], &workers[watch->next]);
		watch->next = (watch->next + 1) % watch->count;
	}
	return error;
}
