/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The account of a queue: what became of every packet.
 *
 * Theory of operation
 *
 *   The kernel numbers the packets that it queues. Each is then in one of three places: it waits, a verdict has ended
 *   it, or its message found no room in the socket buffer, whereupon the kernel dropped it, or let it pass with
 *   NQ_F_FAIL_OPEN. Of the last kind the queue counts those that were dropped; the socket counts both, and the kernel's
 *   answers to us that found no room as well.
 *
 *   Who adopts a queue after a crash does not know what was before. His account begins with the packets that wait once
 *   the orphans are gone, all of which he will see.
 */
#include <errno.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include "internal.h"

/* Snapshots that are compared: /proc reads a queue's numbers one after the other while packets come and go. */
#define LEDGER_TRIES 100

/* Messages that found no room in the socket buffer, since the socket was made. 32 bits, as the kernel counts. */
static int ledger_read_socket_drops(const struct nq_queue *queue, uint32_t *drops)
{
	uint32_t memory[SK_MEMINFO_VARS] = { 0 };
	socklen_t length = sizeof(memory);

	if (getsockopt(queue->fd, SOL_SOCKET, SO_MEMINFO, memory, &length) < 0)
		return -errno;
	*drops = memory[SK_MEMINFO_DROPS];
	return 0;
}

void nq_ledger_begin(struct nq_queue *queue)
{
	struct nq_status before = { 0 };
	struct nq_status now;
	uint32_t drops;

	if (ledger_read_socket_drops(queue, &drops) < 0)
		return;
	for (int i = 0; i < LEDGER_TRIES; i++) {
		if (nq_status_read(queue, &now) < 0)
			return;
		if (i && now.id_sequence == before.id_sequence && now.waiting == before.waiting)
			break;
		before = now;
	}
	queue->origin = (struct nq_origin){
		.ids_skipped = (uint32_t)(now.id_sequence - now.waiting - queue->last_id),
		.socket_drops = drops,
		.user_dropped = now.user_dropped,
	};
	__atomic_store_n(&queue->origin_is_known, true, __ATOMIC_RELEASE);
}

/* Of the socket's drops those that were no packets that were dropped: they passed, or were answers to us. */
static void ledger_share_rest(const struct nq_queue *queue, struct nq_ledger *ledger, uint64_t drops)
{
	uint64_t others = ledger->dropped + __atomic_load_n(&queue->answers_lost, __ATOMIC_RELAXED);
	uint64_t rest = drops > others ? drops - others : 0;

	if (queue->flags & NQ_F_FAIL_OPEN) {
		ledger->passed = rest;
		return;
	}
	if (rest > ledger->answered)
		rest = ledger->answered;
	ledger->flushed += rest;
	ledger->answered -= rest;
}

int nq_ledger_read(const struct nq_queue *queue, struct nq_ledger *ledger)
{
	const struct nq_origin *origin = &queue->origin;
	struct nq_counters counters;
	struct nq_status status;
	uint32_t drops = 0;

	if (!__atomic_load_n(&queue->origin_is_known, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	nq_counters_read(queue, &counters);
	uint32_t last_id = __atomic_load_n(&queue->last_id, __ATOMIC_RELAXED);
	int error = nq_status_read(queue, &status);
	if (!error)
		error = ledger_read_socket_drops(queue, &drops);
	if (error)
		return error;

	uint64_t refused = counters.flushed + counters.verdict_errors;
	*ledger = (struct nq_ledger){
		.queued = counters.packets + counters.lost_ids + (uint32_t)(status.id_sequence - last_id) -
			  origin->ids_skipped,
		.answered = counters.verdicts > refused ? counters.verdicts - refused : 0,
		.flushed = counters.flushed,
		.refused = counters.verdict_errors,
		.dropped = status.user_dropped - origin->user_dropped,
		.waiting = status.waiting,
	};
	ledger_share_rest(queue, ledger, drops - origin->socket_drops);
	ledger->residue = (int64_t)(ledger->queued - ledger->answered - ledger->flushed - ledger->refused -
				    ledger->dropped - ledger->passed - ledger->waiting);
	return 0;
}
