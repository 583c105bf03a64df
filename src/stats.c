/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happened.
 *
 * The library counts what user space saw, /proc what the kernel did, and the thread's usage what it cost. A number that
 * could not be had is null in JSON, never 0.
 */
#include "stats.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "log.h"

#define STATS_SCHEMA 1

/* ---- collect ---- */

int stats_init(struct stats *stats, const struct options *options)
{
	*stats = (struct stats){ .options = options, .count = options_queue_count(options) };
	stats->queues = calloc(stats->count, sizeof(*stats->queues));
	return stats->queues ? 0 : -ENOMEM;
}

void stats_free(struct stats *stats)
{
	free(stats->queues);
	stats->queues = NULL;
}

void stats_copy(struct stats *to, const struct stats *from)
{
	memcpy(to->queues, from->queues, from->count * sizeof(*from->queues));
	to->uptime_s = from->uptime_s;
}

/* A running thread's usage is in two files of /proc: times in clock ticks, and context switches. */
static bool stats_read_stat(pid_t tid, struct stats_usage *usage)
{
	char path[64];
	char text[1024];
	unsigned long user_ticks;
	unsigned long system_ticks;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	size_t length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';

	const char *fields = strrchr(text, ')'); /* the command before it may hold anything */
	if (!fields || sscanf(fields, ") %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %*u %*u %lu %lu",
			      &usage->minor_faults, &user_ticks, &system_ticks) != 3)
		return false;
	double ticks_per_s = (double)sysconf(_SC_CLK_TCK);
	usage->user_s = (double)user_ticks / ticks_per_s;
	usage->system_s = (double)system_ticks / ticks_per_s;
	return true;
}

static bool stats_read_switches(pid_t tid, struct stats_usage *usage)
{
	char path[64];
	char line[256];
	int found = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		found += sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &usage->voluntary_switches) == 1;
		found += sscanf(line, "nonvoluntary_ctxt_switches: %" SCNu64, &usage->involuntary_switches) == 1;
	}
	fclose(file);
	return found == 2;
}

static double stats_seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void stats_collect_usage(struct stats_usage *usage, const struct worker *worker)
{
	*usage = (struct stats_usage){ 0 };
	if (worker_has_ended(worker)) {
		*usage = (struct stats_usage){
			.known = true,
			.user_s = stats_seconds(worker->usage.ru_utime),
			.system_s = stats_seconds(worker->usage.ru_stime),
			.minor_faults = (uint64_t)worker->usage.ru_minflt,
			.voluntary_switches = (uint64_t)worker->usage.ru_nvcsw,
			.involuntary_switches = (uint64_t)worker->usage.ru_nivcsw,
		};
		return;
	}
	pid_t tid = worker_tid(worker);
	usage->known = tid && stats_read_stat(tid, usage) && stats_read_switches(tid, usage);
}

static struct stats_latency stats_read_latency(const struct histogram *histogram)
{
	return (struct stats_latency){
		.p50_us = (double)histogram_quantile_ns(histogram, 0.5) / 1e3,
		.p99_us = (double)histogram_quantile_ns(histogram, 0.99) / 1e3,
		.p999_us = (double)histogram_quantile_ns(histogram, 0.999) / 1e3,
		.max_us = (double)histogram_max_ns(histogram) / 1e3,
	};
}

static void stats_collect_latency(struct stats_queue *queue, const struct worker_latency *latency)
{
	queue->latency_known = latency && histogram_count(&latency->verdict_call) > 0;
	if (!queue->latency_known)
		return;
	queue->receive_to_verdict = stats_read_latency(&latency->receive_to_verdict);
	queue->verdict_call = stats_read_latency(&latency->verdict_call);
}

void stats_collect(struct stats *stats, const struct worker workers[], double uptime_s)
{
	pid_t tid = worker_has_ended(&workers[0]) ? 0 : worker_tid(&workers[0]);

	stats->uptime_s = uptime_s;
	/* An ended thread has no policy any more: the last one read while it ran stays. */
	if (tid && rt_policy_read(tid, &stats->sched) == 0)
		stats->sched_known = true;
	for (unsigned int i = 0; i < stats->count; i++) {
		struct stats_queue *queue = &stats->queues[i];
		struct nq_status status;
		queue->queue = workers[i].number;
		queue->cpu = workers[i].cpu;
		queue->maxlen = nq_maxlen_granted(workers[i].queue);
		queue->rcvbuf_bytes = nq_rcvbuf_granted(workers[i].queue);
		nq_counters_read(workers[i].queue, &queue->counters);
		stats_collect_latency(queue, workers[i].latency);
		queue->kernel_known = nq_status_read(workers[i].queue, &status) == 0;
		if (queue->kernel_known) {
			queue->kernel_dropped = status.dropped;
			queue->kernel_user_dropped = status.user_dropped;
		}
		queue->ledger_known = nq_ledger_read(workers[i].queue, &queue->ledger) == 0;
		stats_collect_usage(&queue->usage, &workers[i]);
	}
}

static void stats_add_ledger(struct stats_queue *total, const struct stats_queue *queue)
{
	struct nq_ledger *sum = &total->ledger;
	const struct nq_ledger *ledger = &queue->ledger;

	sum->queued += ledger->queued;
	sum->answered += ledger->answered;
	sum->flushed += ledger->flushed;
	sum->refused += ledger->refused;
	sum->dropped += ledger->dropped;
	sum->passed += ledger->passed;
	sum->waiting += ledger->waiting;
	sum->residue += ledger->residue;
	total->ledger_known = total->ledger_known && queue->ledger_known;
}

static void stats_add(struct stats_queue *total, const struct stats_queue *queue)
{
	counters_add(&total->counters, &queue->counters);
	total->kernel_dropped += queue->kernel_dropped;
	total->kernel_user_dropped += queue->kernel_user_dropped;
	total->kernel_known = total->kernel_known && queue->kernel_known;
	stats_add_ledger(total, queue);
	total->usage.known = total->usage.known && queue->usage.known;
	total->usage.user_s += queue->usage.user_s;
	total->usage.system_s += queue->usage.system_s;
	total->usage.minor_faults += queue->usage.minor_faults;
	total->usage.voluntary_switches += queue->usage.voluntary_switches;
	total->usage.involuntary_switches += queue->usage.involuntary_switches;
}

static struct stats_queue stats_total(const struct stats *stats)
{
	struct stats_queue total = { .kernel_known = true, .ledger_known = true, .usage.known = true };

	for (unsigned int i = 0; i < stats->count; i++)
		stats_add(&total, &stats->queues[i]);
	return total;
}

static uint64_t stats_queue_lost(const struct stats_queue *queue)
{
	return queue->kernel_dropped + queue->kernel_user_dropped + queue->counters.flushed;
}

uint64_t stats_lost(const struct stats *stats)
{
	struct stats_queue total = stats_total(stats);

	return stats_queue_lost(&total);
}

/* ---- JSON ---- */

static void stats_put_integer(json_t *object, const char *key, bool known, uint64_t value)
{
	json_object_set_new(object, key, known ? json_integer((json_int_t)value) : json_null());
}

static void stats_put_real(json_t *object, const char *key, bool known, double value)
{
	json_object_set_new(object, key, known ? json_real(value) : json_null());
}

static json_t *stats_json_quantiles(const struct stats_latency *latency)
{
	return json_pack("{s:f, s:f, s:f, s:f}", "p50", latency->p50_us, "p99", latency->p99_us, "p999",
			 latency->p999_us, "max", latency->max_us);
}

/* null if nobody asked, and in the total, since quantiles cannot be summed. */
static json_t *stats_json_latency(const struct stats_queue *queue)
{
	if (!queue->latency_known)
		return json_null();
	return json_pack("{s:o, s:o}", "receive_to_verdict", stats_json_quantiles(&queue->receive_to_verdict),
			 "verdict_call", stats_json_quantiles(&queue->verdict_call));
}

static json_t *stats_json_ledger(const struct stats_queue *queue)
{
	const struct nq_ledger *ledger = &queue->ledger;

	if (!queue->ledger_known)
		return json_null();
	json_t *object = json_object();
	stats_put_integer(object, "queued", true, ledger->queued);
	stats_put_integer(object, "answered", true, ledger->answered);
	stats_put_integer(object, "flushed", true, ledger->flushed);
	stats_put_integer(object, "refused", true, ledger->refused);
	stats_put_integer(object, "dropped", true, ledger->dropped);
	stats_put_integer(object, "passed", true, ledger->passed);
	stats_put_integer(object, "waiting", true, ledger->waiting);
	stats_put_integer(object, "residue", true, (uint64_t)ledger->residue);
	return object;
}

/* What a queue and the total have in common, in the documented order. */
static void stats_put_counters(json_t *object, const struct stats_queue *queue, bool lengths_known)
{
	const struct stats_usage *usage = &queue->usage;

	counters_put_json(object, &queue->counters, lengths_known);
	stats_put_integer(object, "kernel_dropped", queue->kernel_known, queue->kernel_dropped);
	stats_put_integer(object, "kernel_user_dropped", queue->kernel_known, queue->kernel_user_dropped);
	stats_put_real(object, "user_s", usage->known, usage->user_s);
	stats_put_real(object, "system_s", usage->known, usage->system_s);
	stats_put_integer(object, "minor_faults", usage->known, usage->minor_faults);
	stats_put_integer(object, "voluntary_switches", usage->known, usage->voluntary_switches);
	stats_put_integer(object, "involuntary_switches", usage->known, usage->involuntary_switches);
	json_object_set_new(object, "latency_us", stats_json_latency(queue));
	json_object_set_new(object, "ledger", stats_json_ledger(queue));
}

static json_t *stats_json_queues(const struct stats *stats, bool lengths_known)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < stats->count; i++) {
		const struct stats_queue *queue = &stats->queues[i];
		json_t *object = json_object();
		stats_put_integer(object, "queue", true, queue->queue);
		stats_put_integer(object, "cpu", queue->cpu != RT_CPU_ANY, (uint64_t)queue->cpu);
		stats_put_integer(object, "maxlen", true, queue->maxlen);
		stats_put_integer(object, "rcvbuf_bytes", true, queue->rcvbuf_bytes);
		stats_put_counters(object, queue, lengths_known);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *stats_json_sched(const struct stats *stats)
{
	if (!stats->sched_known)
		return json_null();
	return json_pack("{s:s?, s:i}", "policy", rt_policy_name(stats->sched.policy), "priority",
			 stats->sched.priority);
}

static json_t *stats_json(const struct stats *stats)
{
	const struct options *options = stats->options;
	bool lengths_known = options->config.copy_bytes != NQ_COPY_META;
	struct stats_queue sum = stats_total(stats);
	json_t *root = json_object();
	json_t *total = json_object();

	stats_put_integer(root, "schema", true, STATS_SCHEMA);
	json_object_set_new(root, "version", json_string(NQ_VERSION));
	stats_put_real(root, "uptime_s", true, stats->uptime_s);
	stats_put_integer(root, "restarts", true, stats->restarts);
	json_object_set_new(root, "gso", json_boolean(options->config.flags & NQ_F_GSO));
	json_object_set_new(root, "copy", json_string(options->copy));
	json_object_set_new(root, "sched", stats_json_sched(stats));
	stats_put_integer(root, "spin_us", true, options->config.spin_us);
	json_object_set_new(root, "memory_locked", json_boolean(stats->memory_locked));
	stats_put_integer(root, "lost", sum.kernel_known, stats_queue_lost(&sum));
	json_object_set_new(root, "queues", stats_json_queues(stats, lengths_known));
	stats_put_counters(total, &sum, lengths_known);
	json_object_set_new(root, "total", total);
	return root;
}

int stats_write_json(const struct stats *stats, FILE *file)
{
	json_t *root = stats_json(stats);
	char *text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9));

	json_decref(root);
	if (!text)
		return -ENOMEM;
	errno = 0;
	bool written = fprintf(file, "%s\n", text) > 0 && fflush(file) == 0;
	int error = errno ? -errno : -EIO;
	free(text);
	return written ? 0 : error;
}

/* ---- text ---- */

const char *stats_describe_sched(const struct stats *stats, char text[STATS_SCHED_BYTES])
{
	const char *name = rt_policy_name(stats->sched.policy);

	if (!stats->sched_known || !name)
		return "unknown";
	if (!rt_policy_is_realtime(&stats->sched))
		return name;
	snprintf(text, STATS_SCHED_BYTES, "%s:%d", name, stats->sched.priority);
	return text;
}

void stats_log_rates(const struct stats *stats, const struct stats *before)
{
	struct stats_queue now = stats_total(stats);
	struct stats_queue then = stats_total(before);
	double seconds = stats->uptime_s - before->uptime_s;
	uint64_t packets = now.counters.packets - then.counters.packets;
	uint64_t bytes = now.counters.bytes - then.counters.bytes;
	char volume[96] = "";
	char sched[STATS_SCHED_BYTES];

	if (seconds <= 0)
		return;
	if (stats->options->config.copy_bytes != NQ_COPY_META)
		snprintf(volume, sizeof(volume), ", %.3f Gbit/s, %.0f bytes a packet",
			 (double)bytes * 8 / seconds / 1e9, packets ? (double)bytes / (double)packets : 0);
	log_line("%.1f s: %.0f packets/s%s, %" PRIu64 " lost, scheduling %s", stats->uptime_s,
		 (double)packets / seconds, volume, stats_queue_lost(&now) - stats_queue_lost(&then),
		 stats_describe_sched(stats, sched));
}

static void stats_log_queue(const struct stats_queue *queue)
{
	const struct nq_counters *counters = &queue->counters;
	char kernel[128] = "the kernel's counters could not be read";

	if (queue->kernel_known)
		snprintf(kernel, sizeof(kernel),
			 "lost %" PRIu64 " (queue full %" PRIu64 ", socket buffer full %" PRIu64 ", flushed %" PRIu64
			 ")",
			 stats_queue_lost(queue), queue->kernel_dropped, queue->kernel_user_dropped, counters->flushed);
	log_line("queue %u: %" PRIu64 " packets, %" PRIu64 " GSO, %" PRIu64 " receives, %" PRIu64
		 " sends; %s; unseen %" PRIu64 ", overruns %" PRIu64 ", verdict errors %" PRIu64 ", malformed %" PRIu64,
		 queue->queue, counters->packets, counters->gso_packets, counters->receive_calls, counters->send_calls,
		 kernel, counters->lost_ids, counters->overruns, counters->verdict_errors, counters->malformed);
}

/* Every packet that the kernel queued, by what became of it. */
static void stats_log_ledger(const struct stats_queue *queue)
{
	const struct nq_ledger *ledger = &queue->ledger;

	if (queue->ledger_known)
		log_line("queue %u: %" PRIu64 " queued = %" PRIu64 " answered + %" PRIu64 " flushed + %" PRIu64
			 " refused + %" PRIu64 " dropped + %" PRIu64 " passed unseen + %" PRIu64
			 " waiting, residue %" PRId64,
			 queue->queue, ledger->queued, ledger->answered, ledger->flushed, ledger->refused,
			 ledger->dropped, ledger->passed, ledger->waiting, ledger->residue);
}

void stats_log_summary(const struct stats *stats)
{
	char sched[STATS_SCHED_BYTES];

	log_line("scheduling %s, spin %u us, memory %s", stats_describe_sched(stats, sched),
		 stats->options->config.spin_us, stats->memory_locked ? "locked" : "not locked");
	for (unsigned int i = 0; i < stats->count; i++) {
		stats_log_queue(&stats->queues[i]);
		stats_log_ledger(&stats->queues[i]);
	}
}
