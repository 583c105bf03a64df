/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The worker: receive, process, reply.
 *
 * Nothing in the loop allocates, logs or takes a lock; counting is the library's. It ends when the queue was stopped
 * and all of its packets are answered, or when the queue fails.
 */
#include "worker.h"

#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* How late a timer may be: one of a virtual machine, whose CPU had been halted, was 0.2 ms late. */
#define WORKER_AWAKE_NS 500000

#define WORKER_PATIENCE_MS 1000

/*
 * Holds a burst from now on; packets behind it wait in the kernel. A timer wakes late, by 50 us and more where the CPU
 * sleeps meanwhile, so the last part is spent awake.
 */
static void worker_delay(uint32_t delay_us)
{
	if (!delay_us)
		return;
	int64_t until_ns = rt_now_ns() + (int64_t)delay_us * 1000;
	int64_t sleep_ns = until_ns - WORKER_AWAKE_NS;
	const struct timespec wake = { .tv_sec = sleep_ns / 1000000000, .tv_nsec = sleep_ns % 1000000000 };
	if (delay_us * 1000LL > WORKER_AWAKE_NS)
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR)
			;
	while (rt_now_ns() < until_ns)
		;
}

/*
 * For a moment there may be no memory for a message to the kernel. The packets wait meanwhile, and would be lost if we
 * gave up. Returns whether to try again, after a millisecond; *ms is how many it have been.
 */
static bool worker_tries_again(int error, int *ms)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	if ((error != -ENOBUFS && error != -ENOMEM) || *ms == WORKER_PATIENCE_MS)
		return false;
	nanosleep(&pause, NULL);
	++*ms;
	return true;
}

static int worker_send(struct worker *worker, unsigned int count)
{
	int ms = 0;
	int error;

	do
		error = nq_reply(worker->queue, worker->packets, count);
	while (worker_tries_again(error, &ms));
	return error;
}

static int worker_reply(struct worker *worker, unsigned int count, int64_t received_ns)
{
	if (!worker->latency)
		return worker_send(worker, count);

	int64_t called_ns = rt_now_ns();
	int error = worker_send(worker, count);
	int64_t done_ns = rt_now_ns();
	histogram_add(&worker->latency->verdict_call, (uint64_t)(done_ns - called_ns), 1);
	histogram_add(&worker->latency->receive_to_verdict, (uint64_t)(done_ns - received_ns), count);
	return error;
}

static int worker_serve(struct worker *worker)
{
	struct rt_breath breath;

	rt_breath_init(&breath);
	for (;;) {
		int count = nq_receive(worker->queue, worker->packets, worker->burst);
		if (count < 0)
			return count == -ESHUTDOWN ? 0 : count;
		if (count == 0)
			continue;
		int64_t received_ns = worker->latency ? rt_now_ns() : 0;
		worker_delay(worker->delay_us);
		worker->processor->process(worker->context, worker->packets, (unsigned int)count);
		int error = worker_reply(worker, (unsigned int)count, received_ns);
		if (error)
			return error;
		rt_breathe(&breath, nq_socket(worker->queue));
	}
}

const int worker_calls[] = {
	/* the library: receive and reply, and the account after an adoption */
	SCMP_SYS(recvmmsg), SCMP_SYS(sendto), SCMP_SYS(getsockopt), SCMP_SYS(pread64),
	/* clocks and sleeping: delays, breaths */
	SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep), SCMP_SYS(ppoll), SCMP_SYS(poll),
	SCMP_SYS(getrusage), SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_getparam), SCMP_SYS(restart_syscall),
	/* its end */
	SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(kill), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(madvise), SCMP_SYS(munmap), SCMP_SYS(futex), SCMP_SYS(exit), SCMP_SYS(exit_group), PRIVILEGE_END
};

static void *worker_run(void *argument)
{
	struct worker *worker = argument;

	rt_thread_settle();
	__atomic_store_n(&worker->tid, gettid(), __ATOMIC_RELEASE);
	worker->result = privilege_filter_enter(worker->filter);
	if (!worker->result)
		worker->result = worker_serve(worker);
	getrusage(RUSAGE_THREAD, &worker->usage);
	__atomic_store_n(&worker->ended, true, __ATOMIC_RELEASE);
	kill(getpid(), WORKER_SIGNAL_ENDED);
	return NULL;
}

const struct processor *worker_processor(const struct options *options)
{
	return options->trace ? &processor_trace : &processor_noop;
}

int worker_try(const struct options *options, unsigned int *index)
{
	unsigned int count = options_queue_count(options);
	int error = 0;

	/* Workers differ in their CPUs only, and the list of those begins anew. */
	if (count > options->cpu_count)
		count = options->cpu_count ? options->cpu_count : 1;
	for (*index = 0; *index < count; ++*index) {
		error = rt_try(&options->sched, options_cpu(options, *index));
		if (error)
			break;
	}
	return error;
}

int worker_open(struct worker *worker, const struct options *options, unsigned int index,
		const struct nq_handover *inherited)
{
	struct nq_config config = options->config;

	config.queue = (uint16_t)(config.queue + index);
	*worker = (struct worker){
		.number = config.queue,
		.config = config,
		.cpu = options_cpu(options, index),
		.delay_us = options->delay_us,
		.burst = config.burst,
		.sched = options->sched,
		.processor = worker_processor(options),
		.adopted = inherited != NULL,
	};
	worker->packets = calloc(config.burst, sizeof(*worker->packets));
	if (options->latency)
		worker->latency = calloc(1, sizeof(*worker->latency));
	worker->stack = rt_stack_make();
	if (!worker->packets || !worker->stack || (options->latency && !worker->latency))
		return -ENOMEM;
	if (worker->processor->open) {
		int error = worker->processor->open(worker->number, &worker->context);
		if (error)
			return error;
	}
	/* Last: once it is bound, packets wait for an answer. */
	return inherited ? nq_adopt(&worker->queue, &config, inherited) : nq_open(&worker->queue, &config);
}

int worker_start(struct worker *worker, const struct privilege_filter *filter)
{
	worker->filter = filter;
	int error = rt_thread_create(&worker->thread, &worker->sched, worker->cpu, worker->stack, worker_run, worker);

	worker->started = !error;
	return error;
}

static int worker_ask(struct worker *worker, int (*what)(struct nq_queue *queue))
{
	int ms = 0;
	int error;

	do
		error = what(worker->queue);
	while (worker_tries_again(error, &ms));
	return error;
}

int worker_stop(struct worker *worker)
{
	return worker_ask(worker, nq_stop);
}

int worker_pause(struct worker *worker)
{
	return worker_ask(worker, nq_pause);
}

int worker_resume(struct worker *worker)
{
	worker_join(worker);
	nq_resume(worker->queue);
	worker->tid = 0;
	worker->result = 0;
	__atomic_store_n(&worker->ended, false, __ATOMIC_RELEASE);
	return worker_start(worker, worker->filter);
}

void worker_join(struct worker *worker)
{
	if (worker->started)
		pthread_join(worker->thread, NULL);
	worker->started = false;
}

void worker_close(struct worker *worker)
{
	nq_close(worker->queue);
	if (worker->context)
		worker->processor->close(worker->context);
	rt_stack_free(worker->stack);
	free(worker->latency);
	free(worker->packets);
	*worker = (struct worker){ 0 };
}

bool worker_has_ended(const struct worker *worker)
{
	return __atomic_load_n(&worker->ended, __ATOMIC_ACQUIRE);
}

pid_t worker_tid(const struct worker *worker)
{
	return __atomic_load_n(&worker->tid, __ATOMIC_ACQUIRE);
}
