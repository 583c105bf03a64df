/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue: the way of packets through its socket and its buffers.
 *
 * Theory of operation
 *
 *   Datagram i of a receive lands in buffer i. nq_receive() takes what is there in one recvmmsg() and turns the
 *   datagrams into packets whose payload stays in the buffers; nq_reply() lays the verdicts one behind the other and
 *   sends them in one sendto(). Each receive begins with buffer 0 again: the usual one or two datagrams find it in the
 *   cache, however large a burst may be.
 *
 *   Every message is sent with the kernel's address: then only the sender's capability counts, whoever opened the
 *   socket.
 *
 *   With spin_us the thread asks again and again for that long before it sleeps. That saves the wake-up, which the
 *   kernel does while it holds the lock of the queue. It pays only if packets come from another CPU meanwhile: where the
 *   thread keeps its own sender from running, all spinning is in vain. So that a thread that finds nothing a few times
 *   in a row sleeps at once for the next times, ever more of them.
 *
 *   Ids are consecutive, so a gap is the number of packets that the kernel queued and could not hand over.
 *
 *   The end: nq_stop() makes the kernel send no more, and its acknowledgement, which netlink puts behind every packet
 *   sent before, says that there are no more. It also wakes a thread that waits in recvmmsg(). nq_pause() works in the
 *   same way, but for that more packets follow. The kernel answers within the call that asks: if the socket is empty
 *   and no answer came, it found no room, and we ask again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

/* After so many spins in vain the next are left out: 1, 2, 4, ... */
#define QUEUE_SPINS_IN_VAIN	 4u
#define QUEUE_SPINS_LEFT_OUT_MAX 64u

static const struct sockaddr_nl queue_kernel_address = { .nl_family = AF_NETLINK };

int nq_send(const struct nq_queue *queue, const void *message, size_t bytes)
{
	ssize_t sent;

	do {
		sent = sendto(queue->fd, message, bytes, 0, (const struct sockaddr *)&queue_kernel_address,
			      sizeof(queue_kernel_address));
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

/* ---- receive ---- */

/*
 * Lets go what the last owner had read and nobody will see again: all that waits up to this id. The account begins
 * behind it.
 */
static void queue_release_orphans(struct nq_queue *queue, uint32_t id)
{
	struct nq_verdict verdict;

	queue->orphans = false;
	nq_verdict_release(&verdict, queue->number, id);
	if (nq_send(queue, &verdict, sizeof(verdict)) < 0)
		return;
	__atomic_store_n(&queue->last_id, id, __ATOMIC_RELAXED);
	nq_ledger_begin(queue);
}

static int queue_end(uint32_t sequence)
{
	return sequence == NQ_SEQUENCE_STOP ? -ESHUTDOWN : -ECANCELED;
}

static void queue_count_packets(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count)
{
	struct nq_counters *counters = &queue->counters;
	uint64_t bytes = 0;
	uint64_t gso = 0;
	uint64_t truncated = 0;
	uint64_t greatest = counters->max_packet_bytes;

	if (count == 0)
		return;
	for (unsigned int i = 0; i < count; i++) {
		const struct nq_packet *packet = &packets[i];
		bytes += packet->length_bytes;
		gso += (packet->skb_info & NFQA_SKB_GSO) != 0;
		truncated += packet->length_bytes > packet->payload_bytes;
		if (packet->length_bytes > greatest)
			greatest = packet->length_bytes;
	}
	if (queue->orphans)
		queue_release_orphans(queue, packets[0].id - 1);
	uint32_t missing = packets[count - 1].id - queue->last_id - count;
	__atomic_store_n(&queue->last_id, packets[count - 1].id, __ATOMIC_RELAXED);
	if (missing <= INT32_MAX) /* ids only grow: a larger difference would be a step back */
		nq_count(&counters->lost_ids, missing);
	nq_count(&counters->packets, count);
	nq_count(&counters->bytes, bytes);
	nq_count(&counters->gso_packets, gso);
	nq_count(&counters->truncated_packets, truncated);
	nq_count(&counters->max_packet_bytes, greatest - counters->max_packet_bytes);
}

/* A verdict of ours that the kernel refused. */
static void queue_take_refusal(struct nq_queue *queue, int error)
{
	switch (error) {
	case -ENOENT:
		nq_count(&queue->counters.flushed, 1);
		break;
	case -ENODEV: /* unbound by somebody who holds the socket as well */
		queue->end = error;
		__attribute__((fallthrough));
	default:
		nq_count(&queue->counters.verdict_errors, 1);
	}
}

/* What was there when we adopted the queue comes before this. */
static void queue_take_adoption(struct nq_queue *queue, int error)
{
	if (error)
		queue->end = error;
	else if (queue->orphans && queue->adopt_id)
		queue_release_orphans(queue, queue->adopt_id);
}

static void queue_take_answer(struct nq_queue *queue, const struct nq_answer *answer)
{
	if (answer->sequence == NQ_SEQUENCE_VERDICT)
		queue_take_refusal(queue, answer->error);
	else if (answer->sequence == __atomic_load_n(&queue->asked, __ATOMIC_RELAXED))
		queue->end = answer->error ? answer->error : queue_end(answer->sequence);
	else if (answer->sequence == queue->adopt_sequence)
		queue_take_adoption(queue, answer->error);
	/* else the bind's, overtaken by a packet, a release's, or one to the last owner */
}

static void queue_take_notice(void *context, enum nq_message kind, const struct nq_answer *answer)
{
	struct nq_queue *queue = context;

	if (kind == NQ_MESSAGE_ANSWER)
		queue_take_answer(queue, answer);
	else if (kind == NQ_MESSAGE_MALFORMED)
		nq_count(&queue->counters.malformed, 1);
}

/* An error of the receiving call itself. */
static int queue_take_failure(struct nq_queue *queue, int error)
{
	if (error == EINTR || error == EAGAIN)
		return 0;
	if (error != ENOBUFS)
		return -error;
	nq_count(&queue->counters.overruns, 1);
	return 0;
}

static int queue_ask(struct nq_queue *queue, uint32_t what)
{
	_Alignas(struct nlmsghdr) char message[NQ_CONFIG_BYTES_MAX];
	size_t bytes = what == NQ_SEQUENCE_STOP ? nq_config_put_stop(message, queue->number) :
						  nq_config_put_pause(message, queue->number, queue->maxlen);

	__atomic_store_n(&queue->asked, what, __ATOMIC_RELAXED);
	int error = nq_send(queue, message, bytes);
	if (!error)
		__atomic_store_n(&queue->asked_sent, true, __ATOMIC_RELEASE);
	return error;
}

/* The socket is empty, so that there is room for the answer now. */
static int queue_ask_again(struct nq_queue *queue)
{
	nq_count(&queue->answers_lost, 1);
	return queue_ask(queue, __atomic_load_n(&queue->asked, __ATOMIC_RELAXED));
}

static int64_t queue_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool queue_may_spin(struct nq_queue *queue)
{
	if (!queue->spin_ns)
		return false;
	if (!queue->spins_to_leave_out)
		return true;
	queue->spins_to_leave_out--;
	return false;
}

static void queue_take_spin_in_vain(struct nq_queue *queue)
{
	if (++queue->spins_in_vain < QUEUE_SPINS_IN_VAIN)
		return;
	queue->spins_left_out = queue->spins_left_out ? 2 * queue->spins_left_out : 1;
	if (queue->spins_left_out > QUEUE_SPINS_LEFT_OUT_MAX)
		queue->spins_left_out = QUEUE_SPINS_LEFT_OUT_MAX;
	queue->spins_to_leave_out = queue->spins_left_out;
}

/* Asks until there is something or the time is over. As recvmmsg(); EAGAIN if there was nothing. */
static int queue_spin(struct nq_queue *queue, unsigned int most)
{
	int64_t end_ns = 0;

	for (;;) {
		int received = recvmmsg(queue->fd, queue->messages, most, MSG_DONTWAIT, NULL);
		if (received >= 0) {
			nq_count(&queue->counters.spin_receives, 1);
			queue->spins_in_vain = queue->spins_left_out = 0;
			return received;
		}
		if (errno != EAGAIN)
			return received;
		nq_count(&queue->counters.spin_calls, 1);
		int64_t now_ns = queue_now_ns();
		if (!end_ns)
			end_ns = now_ns + queue->spin_ns;
		if (now_ns >= end_ns)
			break;
	}
	queue_take_spin_in_vain(queue);
	errno = EAGAIN;
	return -1;
}

static int queue_await_datagrams(struct nq_queue *queue, unsigned int most, bool asked)
{
	nq_count(&queue->counters.receive_calls, 1);
	if (asked)
		return recvmmsg(queue->fd, queue->messages, most, MSG_DONTWAIT, NULL);
	if (queue_may_spin(queue)) {
		int received = queue_spin(queue, most);
		if (received >= 0 || errno != EAGAIN)
			return received;
	}
	return recvmmsg(queue->fd, queue->messages, most, MSG_WAITFORONE, NULL);
}

int nq_receive(struct nq_queue *queue, struct nq_packet packets[], unsigned int capacity)
{
	unsigned int most = capacity < queue->burst ? capacity : queue->burst;

	bool asked = __atomic_load_n(&queue->asked_sent, __ATOMIC_ACQUIRE);

	if (queue->end)
		return queue->end;
	int received = queue_await_datagrams(queue, most, asked);
	if (received < 0)
		return asked && errno == EAGAIN ? queue_ask_again(queue) : queue_take_failure(queue, errno);
	unsigned int count = nq_burst_parse(queue->messages, (unsigned int)received, packets, queue_take_notice, queue);
	queue_count_packets(queue, packets, count);
	return count ? (int)count : queue->end;
}

/* ---- reply ---- */

/* Lays out verdicts without marks, and counts them; returns their length, or SIZE_MAX if one of them has a mark. */
static size_t queue_lay_plain(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count,
			      unsigned int *verdicts)
{
	struct nq_verdict *verdict = queue->verdicts;

	nq_verdicts_prepare(queue, count);
	for (unsigned int i = 0; i < count; i++) {
		if (packets[i].verdict == NQ_HOLD)
			continue;
		if (packets[i].set_mark)
			return SIZE_MAX;
		nq_verdict_set(verdict++, &packets[i]);
	}
	*verdicts = (unsigned int)(verdict - queue->verdicts);
	return *verdicts * sizeof(*verdict);
}

static size_t queue_lay_marked(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count,
			       unsigned int *verdicts)
{
	size_t bytes = 0;

	*verdicts = 0;
	for (unsigned int i = 0; i < count; i++) {
		if (packets[i].verdict == NQ_HOLD)
			continue;
		bytes += nq_verdict_put(queue->marked_verdicts + bytes, queue->number, &packets[i]);
		++*verdicts;
	}
	return bytes;
}

static int queue_reply_part(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count)
{
	const void *message = queue->verdicts;
	unsigned int verdicts;
	size_t bytes = queue_lay_plain(queue, packets, count, &verdicts);

	if (bytes == SIZE_MAX) {
		message = queue->marked_verdicts;
		bytes = queue_lay_marked(queue, packets, count, &verdicts);
	}
	if (bytes == 0)
		return 0;
	nq_count(&queue->counters.send_calls, 1);
	int error = nq_send(queue, message, bytes);
	if (!error)
		nq_count(&queue->counters.verdicts, verdicts);
	return error;
}

int nq_reply(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count)
{
	int error = 0;

	while (count > 0 && !error) {
		unsigned int part = count < NQ_BURST_MAX ? count : NQ_BURST_MAX;
		error = queue_reply_part(queue, packets, part);
		packets += part;
		count -= part;
	}
	return error;
}

int nq_run(struct nq_queue *queue, nq_process_fn *process, void *context)
{
	struct nq_packet packets[NQ_BURST_DEFAULT] = { 0 };

	for (;;) {
		int count = nq_receive(queue, packets, NQ_BURST_DEFAULT);
		if (count < 0)
			return count == -ESHUTDOWN ? 0 : count;
		if (count == 0)
			continue;
		process(context, packets, (unsigned int)count);
		int error = nq_reply(queue, packets, (unsigned int)count);
		if (error)
			return error;
	}
}

/* ---- stop and pause, and what other threads may ask ---- */

int nq_stop(struct nq_queue *queue)
{
	return queue_ask(queue, NQ_SEQUENCE_STOP);
}

int nq_pause(struct nq_queue *queue)
{
	return queue_ask(queue, NQ_SEQUENCE_PAUSE);
}

void nq_resume(struct nq_queue *queue)
{
	if (queue->end != -ECANCELED)
		return;
	queue->end = 0;
	__atomic_store_n(&queue->asked, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&queue->asked_sent, false, __ATOMIC_RELAXED);
}

void nq_counters_read(const struct nq_queue *queue, struct nq_counters *counters)
{
	const struct nq_counters *from = &queue->counters;

	*counters = (struct nq_counters){
		.packets = __atomic_load_n(&from->packets, __ATOMIC_RELAXED),
		.bytes = __atomic_load_n(&from->bytes, __ATOMIC_RELAXED),
		.gso_packets = __atomic_load_n(&from->gso_packets, __ATOMIC_RELAXED),
		.truncated_packets = __atomic_load_n(&from->truncated_packets, __ATOMIC_RELAXED),
		.max_packet_bytes = __atomic_load_n(&from->max_packet_bytes, __ATOMIC_RELAXED),
		.receive_calls = __atomic_load_n(&from->receive_calls, __ATOMIC_RELAXED),
		.spin_calls = __atomic_load_n(&from->spin_calls, __ATOMIC_RELAXED),
		.spin_receives = __atomic_load_n(&from->spin_receives, __ATOMIC_RELAXED),
		.send_calls = __atomic_load_n(&from->send_calls, __ATOMIC_RELAXED),
		.verdicts = __atomic_load_n(&from->verdicts, __ATOMIC_RELAXED),
		.overruns = __atomic_load_n(&from->overruns, __ATOMIC_RELAXED),
		.lost_ids = __atomic_load_n(&from->lost_ids, __ATOMIC_RELAXED),
		.flushed = __atomic_load_n(&from->flushed, __ATOMIC_RELAXED),
		.verdict_errors = __atomic_load_n(&from->verdict_errors, __ATOMIC_RELAXED),
		.malformed = __atomic_load_n(&from->malformed, __ATOMIC_RELAXED),
	};
}

int nq_status_read(const struct nq_queue *queue, struct nq_status *status)
{
	if (queue->status_fd < 0)
		return queue->status_fd;
	return nq_status_find(queue->status_fd, queue->number, status);
}

int nq_socket(const struct nq_queue *queue)
{
	return queue->fd;
}

uint32_t nq_portid(const struct nq_queue *queue)
{
	struct sockaddr_nl address = { 0 };
	socklen_t length = sizeof(address);

	return getsockname(queue->fd, (struct sockaddr *)&address, &length) < 0 ? 0 : address.nl_pid;
}

uint32_t nq_rcvbuf_granted(const struct nq_queue *queue)
{
	return queue->rcvbuf_granted;
}

uint32_t nq_maxlen_granted(const struct nq_queue *queue)
{
	return queue->maxlen;
}
